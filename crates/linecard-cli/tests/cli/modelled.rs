//! Published figures beside those of the model: no row differs without a reason.

use crate::folder::{CommandOutput, Folder};
use serde_json::Value as Json;

const NAMES: [(&str, &str); 4] = [
    ("gigabit-throughput", "gigabit"),
    ("gigabit-overhead", "gigabit"),
    ("gigabit-bus", "gigabit"),
    ("zero-copy", "zero-copy"),
];

fn paper(name: &str) -> String {
    let path = format!("{}/../../papers/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn reproduce(folder: &Folder, arguments: &[&str]) -> CommandOutput {
    let arguments = [&["reproduce"], arguments].concat();
    let outcome: CommandOutput = folder.command(&arguments).output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

fn json(folder: &Folder, arguments: &[&str]) -> Json {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&reproduce(folder, &arguments).stdout).unwrap()
}

#[test]
fn every_difference_has_its_reason() {
    let folder = Folder::new();
    for (name, file) in NAMES {
        let found = json(&folder, &[name]);
        assert_eq!(found["verdicts"]["unexplained"], 0, "{name}: {found:#}");
        assert!(found["verdicts"]["same"].as_u64().unwrap() >= 5, "{name}: {found:#}");
        let text = reproduce(&folder, &[name]).stdout;
        assert!(!text.lines().any(|line| line.ends_with("DIFFERS")), "{text}");
        assert!(found["config"]["jobs"].is_object(), "{name}: {}", found["config"]);
        // A file of one's own that says the same gives the same.
        folder.write("own.toml", paper(file).as_bytes());
        let mut own = json(&folder, &[name, "--scenario", "own.toml"]);
        assert_eq!(own["config"]["scenario"].take(), "own.toml", "{name}");
        let replaced = own.as_object_mut().and_then(|own| own.remove("replaced")).unwrap();
        assert_eq!(replaced["file"], "own.toml", "{name}");
        assert!(replaced["values"].as_str().unwrap().contains("reproduction"), "{name}");
        assert_eq!(own, found, "{name}");
    }
}

/// Promise (Hardware model): Figures that the paper on the PCI adapter states are met within 1 % or
/// have a reason.
#[test]
fn what_the_paper_states_is_met() {
    let folder = Folder::new();
    let found = json(&folder, &["gigabit-throughput"]);
    let eight = &found["figure_2"][7];
    assert_eq!(
        (eight["label"].as_str(), eight["value"]["paper"].as_f64()),
        (Some("8 clients"), Some(754.0))
    );
    assert!((eight["value"]["ours"].as_f64().unwrap() / 754.0 - 1.0).abs() < 0.01, "{eight}");
    let bus = json(&folder, &["gigabit-bus"]);
    for (place, clocks) in [(0, 7.0), (3, 8.0), (4, 17.0)] {
        assert_eq!(bus["figure_8"][place]["value"]["ours"], clocks, "{bus:#}");
    }
    let servers = bus["servers"].as_array().unwrap();
    for server in servers.iter().map(|server| &server["value"]) {
        let count = |name: &str| server[name].as_u64().unwrap();
        assert_eq!(count("received"), count("delivered") + count("dropped") + count("held"));
    }
}

#[test]
fn a_wrong_scenario_is_refused_where_it_stands() {
    let folder = Folder::new();
    for (name, own, said) in [
        (
            "gigabit-throughput",
            "[job.processors]\nvary = [{ \"server.cpus\" = [1, 17] }]",
            "17 is out of range: choose 1 to 16",
        ),
        (
            "gigabit-throughput",
            "[job.peaks]\nvary = [{ \"load.sessions\" = [] }]",
            "give at least one value",
        ),
        (
            "gigabit-throughput",
            "[job.peaks]\nvary = [{ \"load.sessions\" = [1, 2], \"server.mhz\" = [400] }]",
            "as many values each",
        ),
        ("gigabit-throughput", "[job.base]\nrun.duration = \"1us\"", "choose 1ms to 100s"),
        ("gigabit-bus", "[job.bus]\nadapter.fifo = \"1K\"", "choose 1518 to 16M"),
        ("gigabit-bus", "[job.bus]\nadapter.requeue_batch = 513", "choose 1 to 512"),
        ("gigabit-bus", "[job.middle]\nserver.mhz = \"fast\"", "is not a whole number"),
        ("gigabit-bus", "[job.middle]\nserver.mhzz = 1", "unknown key `server.mhzz`"),
        (
            "zero-copy",
            "[job.zero_copy]\nadapter.mtu = 40",
            "40 is out of range: choose 256 to 9216",
        ),
        ("zero-copy", "[job.zero_copy]\nhost.latency = \"600\"", "is not a time"),
    ] {
        folder.write("wrong.toml", own.as_bytes());
        let key = own.rsplit('\n').next().unwrap();
        let place = format!("wrong.toml:2: `{key}`");
        folder.refuses(2, &["reproduce", name, "--scenario", "wrong.toml"], &[&place, said]);
    }
    for (own, said) in [
        ("[job.middel]", "unknown job `middel`"),
        ("[value]\nfile_byte = \"1\"", "unknown value `file_byte`"),
        ("[jobs.middle]", "unknown key `jobs`"),
    ] {
        folder.write("wrong.toml", own.as_bytes());
        let arguments = ["reproduce", "gigabit-overhead", "--scenario", "wrong.toml"];
        folder.refuses(2, &arguments, &["wrong.toml", said]);
    }
}
