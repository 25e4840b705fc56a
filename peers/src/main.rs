//! Linecard beside tun-rs and DPDK, on the same packets in one run; see README.md.

mod buffers;
mod chance;
mod check;
#[cfg(dpdk)]
mod dpdk;
mod floors;
mod inputs;
mod measure;
mod options;
mod ours;
mod packet;
mod receive;
mod report;
mod send;
mod trace;
mod traffic;
mod tun;

use options::Options;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        list(&options);
        return ExitCode::SUCCESS;
    }
    if inputs::all(&options).is_empty() && inputs::loads(&options).is_empty() {
        eprintln!("no input is called {}: see --list", options.only.join(","));
        return ExitCode::from(2);
    }
    floors::self_test();
    let conditions = conditions();
    conditions.iter().for_each(|(name, value)| println!("{name}: {value}"));
    let reports = run(&options);
    print!("{}", report::summary(&reports));
    if let Some(path) = &options.json
        && let Err(error) = std::fs::write(path, report::json(&conditions, &reports))
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if reports.iter().any(Report::wrong) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn list(options: &Options) {
    for input in inputs::all(options) {
        println!("{:<11} receive  {}", input.name, input.what);
    }
    for load in inputs::loads(options) {
        println!("{:<11} send     {}", load.name, load.what);
    }
}

fn run(options: &Options) -> Vec<Report> {
    let mut reports = Vec::new();
    for input in inputs::all(options) {
        match input.ready(options) {
            Ok(ready) => {
                let report = receive::time(&input, &ready, options);
                print!("{}", report.table());
                reports.push(report);
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
    for load in inputs::loads(options) {
        let report = send::time(&load, options);
        print!("{}", report.table());
        reports.push(report);
    }
    reports
}

/// The conditions of the figures.
fn conditions() -> Vec<(&'static str, String)> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = file("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let processor = processor.map_or("", |name| name.trim_start_matches([' ', '\t', ':']));
    vec![
        ("processor", processor.into()),
        ("kernel", file("/proc/sys/kernel/osrelease").trim().into()),
        ("load average", file("/proc/loadavg").trim().into()),
        ("tun-rs", "2.8.16".into()),
        ("dpdk", dpdk_version()),
    ]
}

#[cfg(dpdk)]
fn dpdk_version() -> String {
    dpdk::version().map_or_else(|error| format!("skipped: {error}"), String::from)
}

#[cfg(not(dpdk))]
fn dpdk_version() -> String {
    "skipped, not installed (apt-get install libdpdk-dev pkg-config)".into()
}
