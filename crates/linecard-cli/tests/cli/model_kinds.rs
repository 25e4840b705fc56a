//! `linecard model run` for every model but the sending side: scenarios, statistics, mistakes.

use crate::folder::Folder;
use serde_json::Value as Json;

/// Each kind with a value that changes the outcome, and a wrong one with a part of the error.
const KINDS: [(&str, &str, &str, &str); 6] = [
    ("receive", "dma.mhz=5x", "bus.bits=96", "power of two"),
    ("npu", "npu.merge=off", "npu.ring=1000000", "16777216 bytes"),
    ("pci", "server.mhz=400", "adapter.requeue_batch=513", "choose 1 to 512"),
    ("pcie", "link.generation=gen5", "link.lanes=3", "choose 2 or 4"),
    ("adapter", "adapter.kind=store-and-forward", "adapter.wire=unlimited", "is not a rate"),
    ("path", "stage.sleep=published", "stage.dma=5us", "is not a stage"),
];

fn run(folder: &Folder, arguments: &[&str]) -> Json {
    let all = [&["model", "run", "s.toml", "--json"], arguments].concat();
    serde_json::from_str(&folder.succeeds(&all)).unwrap()
}

#[test]
fn every_model_runs_and_a_value_changes_its_outcome() {
    let folder = Folder::new();
    for (kind, set, ..) in KINDS {
        folder.write("s.toml", format!("model = \"{kind}\"\n").as_bytes());
        let whole = run(&folder, &[]);
        let (section, (key, _)) = {
            let (section, rest) = set.split_once('.').unwrap();
            (section, rest.split_once('=').unwrap())
        };
        assert!(!whole["config"][section][key].is_null(), "{kind}: {}", whole["config"]);
        assert_eq!(whole["config"]["model"], kind);
        assert_eq!(whole["job"], "model run", "{kind}");
        let other = run(&folder, &["--set", set]);
        assert_ne!(other["config"], whole["config"], "{kind}: {set}");
        let outcome =
            |mut found: Json| found.as_object_mut().unwrap().remove("config").map(|_| found);
        assert_ne!(outcome(other), outcome(whole), "{kind}: {set}");
        let text = folder.succeeds(&["model", "run", "s.toml", "--report", "s.html"]);
        let (_, limit) = text.split_once("bottleneck").unwrap();
        let limit = limit.lines().next().unwrap().trim();
        let page = String::from_utf8(folder.read("s.html")).unwrap();
        assert!(
            page.contains(&format!("How busy each resource is; bottleneck: {limit}")),
            "{kind}"
        );
        assert!(page.contains("<svg"), "{kind}");
    }
}

#[test]
fn packets_in_are_out_dropped_or_held() {
    let folder = Folder::new();
    for (kind, sets) in [
        ("receive", &[][..]),
        ("receive", &["--set", "line.rate=100G", "--set", "load.protocol=mix"]),
        ("receive", &["--set", "host.buffer=512"]),
        ("npu", &[]),
        ("npu", &["--set", "npu.queue=4", "--set", "client.corrupt_every=100"]),
        ("pci", &[]),
        ("pci", &["--set", "adapter.fifo=1518", "--set", "server.cpus=1"]),
        ("adapter", &[]),
        ("adapter", &["--set", "host.window=100000"]),
        ("adapter", &["--set", "host.window=100000", "--set", "adapter.kind=store-and-forward"]),
        ("path", &[]),
    ] {
        folder.write("s.toml", format!("model = \"{kind}\"\n").as_bytes());
        let found = run(&folder, sets);
        let count = |key: &str| found["account"][key].as_u64().unwrap();
        let gone = count("out") + count("dropped") + count("held");
        assert!(count("in") > 0 && count("in") == gone, "{kind} {sets:?}: {found:#}");
        let is_tight = !sets.is_empty();
        assert_eq!(count("dropped") > 0, is_tight, "{kind} {sets:?}: {found:#}");
    }
}

#[test]
fn a_wrong_value_is_refused_where_it_stands() {
    let folder = Folder::new();
    for (kind, _, wrong, said) in KINDS {
        let (name, value) = wrong.split_once('=').unwrap();
        let (section, key) = name.split_once('.').unwrap();
        let quote = if value.parse::<u64>().is_ok() { "" } else { "\"" };
        let text = format!("model = \"{kind}\"\n[{section}]\n{key} = {quote}{value}{quote}\n");
        folder.write("s.toml", text.as_bytes());
        folder.refuses(2, &["model", "run", "s.toml"], &["s.toml:3:", key, said]);
        folder.write("s.toml", format!("model = \"{kind}\"\n[{section}]\nx = 1\n").as_bytes());
        folder.refuses(2, &["model", "run", "s.toml"], &["s.toml:3:", "unknown key", name]);
        folder.write("s.toml", format!("model = \"{kind}\"\n").as_bytes());
        folder.refuses(2, &["model", "run", "s.toml", "--set", wrong], &[name, said]);
    }
}

#[test]
fn options_and_jobs_of_the_sending_side_are_refused() {
    let folder = Folder::new();
    for (kind, ..) in KINDS {
        folder.write("s.toml", format!("model = \"{kind}\"\n").as_bytes());
        for option in [&["--annotate"][..], &["--phases", "2"], &["--capture", "c.pcap"]] {
            let parts = ["s.toml:1:", option[0], "\"transmit\" only"];
            folder.refuses(2, &[&["model", "run", "s.toml"][..], option].concat(), &parts);
        }
        for job in [
            &["sweep", "s.toml", "--vary", "core.mhz=1,2"][..],
            &["trace", "s.toml", "-o", "t.json"],
            &["bottlenecks", "s.toml"],
        ] {
            let parts = ["s.toml:1:", "\"transmit\"", "`linecard model run`"];
            folder.refuses(2, &[&["model"][..], job].concat(), &parts);
        }
    }
}

/// Answers of the closed form: published sizes, and the fewest lanes that carry each Ethernet.
#[test]
fn a_link_says_what_it_carries() {
    let folder = Folder::new();
    folder.write("s.toml", b"model = \"pcie\"\n");
    let found = run(&folder, &[]);
    let bandwidth = |key: &str| found["bandwidth"][key].as_f64().unwrap();
    assert_eq!((bandwidth("tlp_bits_per_second") / 1e7) as u64, 5_788, "{found:#}");
    let both = bandwidth("nic_bits_per_second");
    assert!(both < bandwidth("write_bits_per_second") && both < bandwidth("read_bits_per_second"));
    let lanes = found["fewest_lanes"].as_array().unwrap();
    let at = |name: &str| &lanes.iter().find(|row| row["label"] == name).unwrap()["value"];
    assert_eq!((&at("10G")["gen3"], &at("800G")["gen1"]), (&2.into(), &Json::Null));
    assert_eq!(lanes.len(), 7);
    // The required load fills the link, and less does not.
    let needed = found["reads"]["needed_in_flight"].as_u64().unwrap();
    for (tags, limit) in [(needed, "link"), (needed - 1, "requests in flight")] {
        let found = run(&folder, &["--set", &format!("reads.tags={tags}")]);
        assert_eq!(found["reads"]["limit"], limit, "{tags}: {found:#}");
    }
}
