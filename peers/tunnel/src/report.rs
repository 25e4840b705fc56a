//! The table.

use crate::measure::{Figures, percentile};
use crate::options::Options;
use crate::programs::{CRATES, Program};
use crate::{Result, lines};
use std::fs;
use std::process::Command;

const LOCK: &str = include_str!("../../Cargo.lock");
const SHARED: &str = include_str!("lib.rs");
/// The common part of the programs with smoltcp.
const SHARED_TCP: &str = include_str!("tcp.rs");

/// Under which it was measured.
pub struct Conditions {
    rounds: u32,
    seconds: u32,
    round_trips: u32,
    congestion: String,
    load_at_start: String,
}

impl Conditions {
    /// At the start.
    pub fn new(options: &Options) -> Self {
        let Options { rounds, seconds, round_trips, congestion, .. } = options.clone();
        Self { rounds, seconds, round_trips, congestion, load_at_start: load() }
    }
}

/// Prints conditions and table in Markdown.
pub fn print(conditions: &Conditions, programs: &[Program], rounds: &[Vec<Figures>]) -> Result<()> {
    let versions = CRATES.map(|name| format!("{name} {}", version(name).unwrap_or("?")));
    println!(
        "{}, 2 cores; Linux {}; {}; {}.",
        processor(),
        read("/proc/sys/kernel/osrelease"),
        iperf(),
        versions.join(", ")
    );
    println!(
        "Medians of {} rounds (lowest to highest): {} s of one TCP stream (the kernel sends by {}), {} round trips of 64 bytes.",
        conditions.rounds, conditions.seconds, conditions.congestion, conditions.round_trips
    );
    println!("Load average {} at the start, {} at the end.", conditions.load_at_start, load());
    println!(
        "Lines without blank ones and comments; tunnels share {} more, programs with smoltcp {}.\n",
        lines::count(SHARED),
        lines::count(SHARED_TCP)
    );
    println!("| program | Gbit/s | CPU s/GB | round trip, µs | 99 %, µs | lines |");
    println!("|---|---|---|---|---|---|");
    for (program, figures) in programs.iter().zip(rounds) {
        let column = |digits, value: fn(&Figures) -> Option<f64>| {
            spread(figures.iter().filter_map(value).collect(), digits)
        };
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            program.name,
            column(2, |figures| Some(figures.gbit_per_second)),
            column(2, |figures| Some(figures.cpu_seconds_per_gb)),
            column(0, |figures| figures.round_trip_us.map(|times| times[0])),
            column(0, |figures| figures.round_trip_us.map(|times| times[1])),
            lines::count(&fs::read_to_string(program.source())?),
        );
    }
    Ok(())
}

/// The median, and the range in brackets.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_unstable_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return "-".to_owned() };
    format!("{:.digits$} ({first:.digits$} to {last:.digits$})", percentile(&values, 50))
}

/// The version of a crate in the lock file: the newest, which the programs use.
fn version(name: &str) -> Option<&'static str> {
    let (_, rest) = LOCK.rsplit_once(&format!("name = \"{name}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}

fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("unknown processor", |(_, model)| model.trim()).to_owned()
}

fn iperf() -> String {
    let output = Command::new("iperf3").arg("--version").output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let words = output.unwrap_or_default();
    words.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// The load average of the last minute.
fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{CRATES, spread, version};

    #[test]
    fn every_crate_has_a_version() {
        assert!(CRATES.iter().all(|name| version(name).is_some()));
    }

    #[test]
    fn medians_and_ranges() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0], 1), "2.0 (1.0 to 3.0)");
        assert_eq!(spread(Vec::new(), 1), "-");
    }
}
