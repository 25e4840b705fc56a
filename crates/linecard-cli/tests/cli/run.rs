//! `linecard run`: the main job.

use crate::folder::Folder;
use linecard_testkit::root;
use serde_json::Value as Json;

const SHORT: [&str; 3] = ["run", "--seconds", "0.05"];
const PROMISE: &str = "Every byte sent arrived where it belongs";

fn json(more: &[&str]) -> Json {
    let arguments = [&SHORT[..], more, &["--json"]].concat();
    serde_json::from_str(&Folder::new().succeeds(&arguments)).unwrap()
}

fn number(json: &Json, section: &str, key: &str) -> u64 {
    json[section][key].as_u64().unwrap_or_else(|| panic!("no {section}.{key} in {json}"))
}

/// Invariants of any run: nothing appears, nothing vanishes unaccounted.
fn balanced(json: &Json) {
    let lanes = json["lanes"].as_object().unwrap();
    let of_lane = |key: &str| key.starts_with("lane_");
    let received: u64 =
        lanes.iter().filter(|(k, _)| of_lane(k)).map(|(_, n)| n.as_u64().unwrap()).sum();
    let lost = json["lanes"]["lost"].as_u64().unwrap_or(0);
    assert_eq!(received + lost, number(json, "segmenting", "segments_out"), "{json}");
    assert_eq!(received, number(json, "merging", "packets_in"), "{json}");
    let [sent, verified, lost] =
        ["sent_bytes", "verified_bytes", "lost_bytes"].map(|key| number(json, "summary", key));
    assert!(sent > 0);
    assert_eq!(sent, verified + lost, "{json}");
    assert!(json["notes"][0].as_str().unwrap().starts_with(PROMISE), "{json}");
}

/// Promise (Command): Every byte of `linecard run` is verified, and lost ones are counted.
#[test]
fn the_default_ends_with_an_account() {
    let text = Folder::new().succeeds(&SHORT);
    for part in [
        "16 flows, sends of 65536 bytes, MTU 1500, 1 lane, one core, seed 1",
        "bit/s",
        "Time per packet on the lanes, by stage",
        "mean aggregate",
        "Why held packets were flushed",
        PROMISE,
    ] {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
    balanced(&json(&[]));
}

/// Without their inputs, statistics cannot be compared with others.
#[test]
fn the_account_has_its_inputs() {
    let config = json(&["--seed", "7", "--mtu", "1400"])["config"].clone();
    assert_eq!((&config["run"]["seed"], &config["load"]["mtu"]), (&7.into(), &1400.into()));
    let sim =
        ["run", "--lanes", "sim:2", "--chunks", "2", "--chunk", "64K", "--mode", "auto", "--json"];
    let found: Json = serde_json::from_str(&Folder::new().succeeds(&sim)).unwrap();
    let config = &found["config"];
    assert_eq!(
        (&config["lanes"]["count"], &config["transfer"]["mode"]),
        (&2.into(), &"auto".into())
    );
    assert_eq!(found["job"], "run");
}

#[test]
fn losses_are_seen_and_accounted() {
    let json = json(&["--loss", "2%", "--flows", "3"]);
    balanced(&json);
    assert!(number(&json, "lanes", "lost") > 0);
    assert!(number(&json, "summary", "lost_bytes") > 0);
    assert!(number(&json, "refused", "sequence-gap") > 0);
}

#[test]
fn reordering_is_seen_and_loses_nothing() {
    let json = json(&["--reorder", "0.05"]);
    balanced(&json);
    assert!(number(&json, "lanes", "reordered") > 0);
    assert!(number(&json, "refused", "sequence-gap") > 0);
    assert_eq!(number(&json, "summary", "lost_bytes"), 0);
}

#[test]
fn flows_spread_over_lanes() {
    let json = json(&["--lanes", "3", "--flows", "9", "--size", "20K"]);
    balanced(&json);
    for lane in 0..3 {
        assert!(number(&json, "lanes", &format!("lane_{lane}_received")) > 0, "{json}");
    }
}

/// A larger MTU gives fewer, larger segments for each send.
#[test]
fn the_mtu_decides_the_segments() {
    let segments_per_send = |mtu| {
        let json = json(&["--mtu", mtu, "--size", "60000"]);
        balanced(&json);
        number(&json, "segmenting", "segments_out") / number(&json, "segmenting", "packets_in")
    };
    assert_eq!((segments_per_send("1500"), segments_per_send("9000")), (42, 7));
}

#[test]
fn a_scenario_decides_and_the_command_line_overrules() {
    let folder = Folder::new();
    let text = b"[load]\nfamily = \"ipv6\"\nflows = 5\nsize = \"8K\"\nmtu = 1280\n\
                 [lanes]\ncount = 2\n[run]\nseconds = 0.05\nseed = 7\n";
    folder.write("six.toml", text);
    let summary = |arguments: &[&str]| {
        let text = folder.succeeds(arguments);
        assert!(text.contains(PROMISE), "{text}");
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        summary(&["run", "six.toml"]),
        "5 flows, sends of 8192 bytes, MTU 1280, 2 lanes, one core, seed 7"
    );
    assert_eq!(
        summary(&["run", "six.toml", "--flows", "4", "--mtu", "1500", "--seed", "8"]),
        "4 flows, sends of 8192 bytes, MTU 1500, 2 lanes, one core, seed 8"
    );
}

/// IPv6 headers are 20 bytes longer, so segments of the same MTU hold 20 bytes less.
#[test]
fn ipv6_is_really_ipv6() {
    let folder = Folder::new();
    folder.write("six.toml", b"[load]\nfamily = \"ipv6\"\nsize = 60000\n");
    let arguments = ["run", "six.toml", "--seconds", "0.05", "--json"];
    let json: Json = serde_json::from_str(&folder.succeeds(&arguments)).unwrap();
    balanced(&json);
    let sends = number(&json, "segmenting", "packets_in");
    let headers = number(&json, "segmenting", "bytes_out") - number(&json, "summary", "sent_bytes");
    let segments = number(&json, "segmenting", "segments_out");
    assert!(sends > 0 && headers / segments >= 14 + 40 + 20, "{json}");
}

#[test]
fn the_scenario_that_ships_has_the_values_of_options() {
    let path = root().join("scenarios/run-loss.toml");
    let options = ["--loss=1%", "--reorder=1%", "--lanes=4", "--mtu=9000"];
    let mut scenario = json(&[path.to_str().unwrap()]);
    assert_eq!(scenario["config"].take(), json(&options)["config"].take());
}
