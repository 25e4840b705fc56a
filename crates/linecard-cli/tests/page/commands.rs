//! Pages that commands write.

use crate::browser::{self, DESK, View};
use crate::support::linecard;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Runs a command with `--report`, and looks at what it has written: its JSON, and how many charts of
/// points and steps, and of bars, there are. Without `charts` the browser is spared: the same kinds of
/// charts are in another page.
#[track_caller]
fn written(arguments: &[&str], charts: Option<[usize; 2]>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("found.html");
    let named = page.with_extension("");
    let output =
        linecard().args(arguments).arg("--json").arg("--report").arg(&named).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let beside: Value =
        serde_json::from_slice(&fs::read(page.with_extension("json")).unwrap()).unwrap();
    let printed: Value = serde_json::from_slice(&last_document(&output.stdout)).unwrap();
    let same = |key: &str| beside["reports"][0][key] == printed[key];
    assert!(printed.as_object().unwrap().keys().filter(|key| *key != "type").all(|key| same(key)));
    if let Some(charts) = charts.filter(|_| browser::is_installed()) {
        let found = browser::probe(&page, DESK);
        found.expect_good();
        for width in [1_400, 420] {
            browser::probe(&page, View { width, is_dark: false }).expect_good();
        }
        let count = |key: &str| found.0[key].as_array().unwrap().len();
        assert_eq!([count("plots"), count("drawings")], charts, "{arguments:?}");
    }
    beside
}

/// Of lines of JSON, or of one document over several lines.
fn last_document(stdout: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(stdout);
    let last = text.lines().last().unwrap_or_default();
    if last.starts_with('{') { last.as_bytes().to_vec() } else { stdout.to_vec() }
}

fn of_workspace(path: &str) -> String {
    linecard_testkit::root().join(path).display().to_string()
}

fn new_file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn of_a_run() {
    let beside = written(&["run", "--seconds", "0.05", "--loss", "1%"], Some([2, 3]));
    assert_eq!(beside["charts"][1]["key"], "segments");
    let sums = beside["charts"][1]["distributions"][0]["buckets"].as_array().unwrap();
    let sum: u64 = sums.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
    assert!(sum > 0 && sum <= beside["reports"][0]["merging"]["packets_out"].as_u64().unwrap());
}

#[test]
fn of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let input = of_workspace("testdata/captures/tcp4-bulk.pcap");
    let output = new_file(&folder, "out.pcapng");
    let beside = written(&["coalesce", &input, &output], None);
    assert_eq!(beside["charts"].as_array().unwrap().len(), 4);
    assert!(beside["title"].as_str().unwrap().contains(&input));
    assert!(Path::new(&output).exists());
}

/// Charts of a stream, and of two captures of one.
#[test]
fn of_streams() {
    let [wire, host] =
        ["wire", "host"].map(|name| of_workspace(&format!("testdata/streams/{name}.pcap")));
    let beside = written(&["jitter", "analyze", &wire, &host], Some([3, 0]));
    let charts = beside["charts"].as_array().unwrap();
    let keys: Vec<_> = charts.iter().map(|chart| chart["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["gaps", "gap_histogram", "lateness_histogram"]);
    let series = charts[0]["series"].as_array().unwrap();
    let names: Vec<_> = series.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    let headline = beside["headline"].as_str().unwrap();
    assert!(headline.contains("audio") && headline.contains("packets are at most"), "{headline}");
    // The first has no late packet; the host had stopped three times.
    assert!(
        headline.ends_with("added 2.00 µs to half of them, and 2.30 ms at most."),
        "{headline}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn of_a_loop_and_of_settings() {
    let beside = written(&["jitter", "dummy", "--count", "2000"], None);
    let keys = |beside: &Value| {
        let charts = beside["charts"].as_array().unwrap().iter();
        charts.map(|chart| chart["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&beside), ["gap_histogram", "lateness_histogram"]);
    let sent = written(&["jitter", "send", "127.0.0.1:9", "--count", "200", "--sleep"], None);
    assert_eq!(keys(&sent), ["gap_histogram", "lateness_histogram"]);
    let host = &sent["origin"]["host"];
    assert!(host.as_str().is_some_and(|host| host.contains(", Linux ")), "{host}");
    let settings = written(&["jitter", "audit"], None);
    assert!(keys(&settings).is_empty() && settings["title"] == "Settings of this host");
}

#[test]
fn of_models() {
    let transmit = of_workspace("scenarios/model-lso.toml");
    let beside = written(&["model", "run", &transmit, "--phases", "1"], Some([0, 4]));
    assert_eq!(beside["charts"][0]["key"], "core_time");
    let headline = |beside: &Value| beside["headline"].as_str().unwrap_or_default().to_owned();
    assert!(headline(&beside).contains("Gbit/s of payload"), "{beside}");
    let solved = written(&["model", "solve", "--rate", "10G"], None);
    assert!(headline(&solved).contains("MHz carries 10.00 Gbit/s, and every clock"), "{solved}");
    for (model, says) in [
        ("transfer", "a chunk takes"),
        ("path", "Packets reach the application"),
        ("npu", "bit/s; bottleneck: "),
        ("pci", "bit/s; bottleneck: "),
    ] {
        let scenario = of_workspace(&format!("scenarios/model-{model}.toml"));
        let beside = written(&["model", "run", &scenario], None);
        assert!(headline(&beside).contains(says), "{beside}");
    }
    let steps =
        written(&["model", "bottlenecks", &transmit, "--rate", "400G", "--steps", "2"], None);
    assert_eq!(steps["charts"][0]["causes"].as_array().map(Vec::len), Some(2));
}

/// The JSON beside the page of a sweep, which is good also where the window is small and dark.
fn of_sweep(axes: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("found.html");
    let transmit = of_workspace("scenarios/model-lso.toml");
    let mut command = linecard();
    command.args(["model", "sweep", &transmit, "--predict"]).arg("--report").arg(&page);
    let output = command.args(axes.iter().flat_map(|axis| ["--vary", axis])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if browser::is_installed() {
        browser::probe(&page, View { width: 420, is_dark: true }).expect_good();
    }
    serde_json::from_slice(&fs::read(page.with_extension("json")).unwrap()).unwrap()
}

/// A curve for each value of the key that has fewer.
#[test]
fn of_a_sweep() {
    let beside = of_sweep(&["load.mtu=512,1500", "core.mhz=100..200:50"]);
    let curves = beside["charts"][0]["curves"].as_array().unwrap();
    let names: Vec<_> = curves.iter().map(|curve| curve["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load.mtu=512", "load.mtu=1500"]);
    assert!(curves.iter().all(|curve| curve["points"].as_array().unwrap().len() == 3));
    assert!(
        beside["headline"].as_str().unwrap().contains("first with load.mtu=1500, core.mhz=150"),
        "{beside}"
    );
}

#[test]
fn of_a_sweep_over_names() {
    let beside = of_sweep(&["bus.policy=hold,dual-port"]);
    assert_eq!(beside["charts"][0]["x"]["names"][1], "dual-port", "{beside}");
    assert_eq!(beside["charts"][0]["curves"][0]["points"].as_array().unwrap().len(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn of_ports() {
    let folder = tempfile::tempdir().unwrap();
    let near = format!("file:{}", of_workspace("testdata/captures/tcp4-bulk.pcap"));
    let far = format!("file:{}", new_file(&folder, "far.pcapng"));
    let beside = written(&["attach", &near, &far], None);
    let keys =
        beside["charts"].as_array().unwrap().iter().map(|chart| chart["key"].as_str().unwrap());
    assert_eq!(keys.take(3).collect::<Vec<_>>(), ["bit_rates", "packet_rates", "segments"]);
}
