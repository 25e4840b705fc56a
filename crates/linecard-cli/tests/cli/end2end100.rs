//! The published experiment over eight lanes of 10 GbE, in virtual time: `linecard reproduce end2end100`
//! and `linecard run --lanes sim`.

use crate::folder::Folder;
use serde_json::Value as Json;

/// Output of `linecard reproduce end2end100`: it changes only with the transfer.
const GOLDEN: &str = include_str!("end2end100.txt");

/// The command of the experiment.
const RUN: [&str; 7] = ["run", "--lanes", "sim", "--rate", "10G", "--lanes", "8"];

fn run(more: &[&str]) -> Json {
    let arguments = [&RUN[..], more, &["--json"]].concat();
    serde_json::from_str(&Folder::new().succeeds(&arguments)).unwrap()
}

fn number(json: &Json, section: &str, key: &str) -> f64 {
    json[section][key].as_f64().unwrap_or_else(|| panic!("no {section}.{key} in {json}"))
}

#[test]
fn the_reproduction_is_the_same_everywhere() {
    let text = Folder::new().succeeds(&["reproduce", "end2end100", "--modelled"]);
    for (line, (ours, golden)) in text.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(ours, golden, "line {} of tests/cli/end2end100.txt", line + 1);
    }
    assert_eq!(text.len(), GOLDEN.len(), "{text}");
}

/// Promise (Transfer): Every difference from the figures of the published end-to-end system has a
/// reason, and none is beyond the limit of its reason.
#[test]
fn every_difference_has_its_reason() {
    let folder = Folder::new();
    let found: Json = serde_json::from_str(&folder.succeeds(&[
        "reproduce",
        "end2end100",
        "--modelled",
        "--json",
    ]))
    .unwrap();
    assert_eq!(found["verdicts"]["unexplained"], 0, "{found:#}");
    let rate = |key: &str, lanes: usize| {
        let value = &found[key][lanes - 1]["value"];
        assert_eq!(value["lanes"], lanes, "{found:#}");
        value["goodput_bits_per_second"].as_f64().unwrap() / 1e9
    };
    assert!((78.2..=78.4).contains(&rate("stable", 8)));
    assert!((76.7..=77.1).contains(&rate("low_latency", 8)));
    let latency = |lanes: usize| {
        found["low_latency"][lanes - 1]["value"]["chunk_latency_p50_ns"].as_f64().unwrap() / 1e6
    };
    assert!((1.742..=1.748).contains(&latency(8)), "{found:#}");
    assert!((latency(1) - 13.714).abs() < 0.01, "{found:#}");
    for lanes in 1..=8 {
        // Each lane more carries more, in both modes, with devices and without.
        for key in ["stable", "low_latency", "stable_offloaded", "low_latency_offloaded"] {
            assert!(lanes == 1 || rate(key, lanes) > rate(key, lanes - 1), "{key}: {found:#}");
        }
        assert!(rate("stable_offloaded", lanes) < rate("stable", lanes));
        assert_eq!(found["stable"][lanes - 1]["value"]["resent"], 0);
    }
}

/// A changed scenario gives other values than the paper's.
#[test]
fn another_experiment_is_not_the_papers() {
    let folder = Folder::new();
    let with = |text: &str| {
        folder.write("own.toml", text.as_bytes());
        ["reproduce", "end2end100", "--modelled", "--scenario", "own.toml"]
    };
    let outcome = folder.run(&with("[job.lanes]\nchunk.begin = \"500us\"\n"));
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    for (text, says) in [
        ("[job.stable_offloaded]\ntransfer.fec = \"xor\"", "'xor' is not a repair scheme"),
        ("[job.lanes]\nlanes.rate = \"10\"", "10 is out of range"),
        ("[job.lanes]\nchunk.bytes = \"2G\"", "is out of range"),
        ("[job.low_latency]\nchunk.count = 0", "0 is out of range: choose 1 to 100000"),
        ("[job.lanes]\nrun.sead = 1", "sead"),
    ] {
        folder.refuses(2, &with(text), &["own.toml:2", says]);
    }
}

#[test]
fn the_command_of_the_experiment_gives_its_figures() {
    let found = run(&[]);
    let [goodput, bound] = ["goodput_bits_per_second", "framing_bound_bits_per_second"]
        .map(|key| number(&found, "summary", key));
    assert!((78.2e9..=78.4e9).contains(&goodput), "{found:#}");
    assert!((bound - 80e9 * 4_096.0 / 4_174.0).abs() < 1.0, "{found:#}");
    let overhead = number(&found, "summary", "management_overhead_percent");
    assert!((overhead - (1.0 - goodput / bound) * 100.0).abs() < 1e-9, "{found:#}");
    assert_eq!(found["summary"]["bytes"], 32_u64 << 24);
    assert_eq!(found["packets"]["sent"], 32 * 4_096);
    let [least, median, most] =
        ["min_ns", "p50_ns", "max_ns"].map(|key| number(&found, "chunk_latency", key));
    assert!(13.6e6 < least && least <= median && median <= most && most < 13.8e6, "{found:#}");
    assert_eq!(run(&["--mode", "stable", "--fec", "none", "--chunk", "16M"]), found);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = Folder::new();
    let run = |seed: &str| {
        let more = ["--loss", "1%", "--reorder", "0.1%", "--chunks", "8", "--seed", seed];
        folder.succeeds(&[&RUN[..], &["--mode", "low-latency"], &more].concat())
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

/// Lost packets are retransmitted, or repaired; nothing is, where nothing is lost.
#[test]
fn losses_are_repaired_or_sent_again() {
    let count = |found: &Json, key: &str| found["packets"][key].as_u64().unwrap();
    // Over a millisecond a retransmission arrives two later; beside each other it is there sooner than repair.
    let short = ["--chunks", "8", "--mode", "low-latency", "--delay", "1ms"];
    let clean = run(&short);
    for key in ["lost", "resent", "groups_repaired", "repeated"] {
        assert_eq!(count(&clean, key), 0, "{key}: {clean:#}");
    }
    let lossy = [&short[..], &["--loss", "0.5%"]].concat();
    let resent = run(&lossy);
    assert!(count(&resent, "lost") > 100 && count(&resent, "resent") > 100, "{resent:#}");
    let repaired = run(&[&lossy[..], &["--fec", "rs:28,4"]].concat());
    assert!(count(&repaired, "groups_repaired") > 100, "{repaired:#}");
    assert!(count(&repaired, "resent") < count(&resent, "resent") / 10, "{repaired:#}");
    let [lossy_ns, repaired_ns] =
        [&resent, &repaired].map(|found| number(found, "chunk_latency", "max_ns"));
    assert!(repaired_ns < lossy_ns, "{repaired_ns} {lossy_ns}");
}

#[test]
fn low_latency_is_another_way_to_spread() {
    let latency_ms =
        |mode, key| number(&run(&["--mode", mode, "--chunks", "16"]), "chunk_latency", key) / 1e6;
    let (alone, together) = (13.6..13.8, 1.7..1.8);
    // A chunk for each lane at all times: each stays on its own.
    assert!(
        ["min_ns", "max_ns"]
            .map(|key| latency_ms("stable", key))
            .iter()
            .all(|ms| alone.contains(ms))
    );
    assert!(
        ["min_ns", "max_ns"]
            .map(|key| latency_ms("low-latency", key))
            .iter()
            .all(|ms| together.contains(ms))
    );
    // Until there are fewer chunks than lanes: the last ones have all lanes.
    assert!(alone.contains(&latency_ms("auto", "max_ns")));
    assert!(together.contains(&latency_ms("auto", "min_ns")));
}

#[test]
fn a_page_has_the_latencies() {
    let folder = Folder::new();
    folder.succeeds(&[&RUN[..], &["--chunks", "8", "--report", "page.html"]].concat());
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(page.contains("How long chunks took"), "{page}");
}

#[test]
fn a_chunk_may_have_more_packets_than_sixteen_bits_count() {
    let arguments =
        ["run", "--lanes", "sim", "--chunks", "1", "--chunk", "4200000", "--payload", "64"];
    let report = Folder::new().succeeds(&arguments);
    assert!(report.starts_with("1 chunk of 4200000 bytes"), "{report}");
}

#[test]
fn what_lanes_in_virtual_time_do_not_have_is_refused() {
    let folder = Folder::new();
    let sim = |more: &[&'static str]| [&["run", "--lanes", "sim"], more].concat();
    for (arguments, says) in [
        (sim(&["--flows", "3"]), "--flows is for lanes in memory"),
        (sim(&["--mtu", "9000"]), "--mtu is for lanes in memory"),
        (sim(&["s.toml"]), "a scenario is for lanes in memory"),
        (sim(&["--lanes", "65"]), "--lanes 65: 65 is out of range: choose 1 to 64"),
        (sim(&["--lanes", "4", "--lanes", "8"]), "--lanes: given more than once"),
        (sim(&["--rate", "fast"]), "\"fast\" is not a rate"),
        (sim(&["--rate", "10"]), "--rate 10: 10 is out of range: choose 1M"),
        (sim(&["--fec", "rs:0,1"]), "--fec"),
        (sim(&["--payload", "10"]), "--payload 10: 10 is out of range: choose 64 to 65000"),
        (sim(&["--chunk-overhead", "2s"]), "--chunk-overhead 2s: 2s is out of range"),
        (sim(&["--chunk", "1G", "--payload", "64"]), "take smaller chunks"),
        (sim(&["--chunks", "100000"]), "choose up to 10000000"),
        (vec!["run", "--mode", "auto"], "--mode is for lanes in virtual time: add --lanes sim"),
        (vec!["run", "--lanes", "udp"], "is not a number of lanes"),
    ] {
        folder.refuses(2, &arguments, &[says]);
    }
}

/// Lanes that lose all they are given: the run ends, and says so.
#[test]
fn a_transfer_that_stalls_is_given_up() {
    let arguments = [&RUN[..], &["--loss", "1", "--chunks", "1"]].concat();
    let outcome = Folder::new().run(&arguments);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(outcome.stderr.contains("0 of 1 chunks are complete (seed 1)"), "{outcome:?}");
}

/// Promise (Transfer): Transfers over eight real veth lanes complete, with a lane that fails and
/// returns, where network namespaces are allowed.
///
/// Real lanes, where this process may make them. Their figures depend on the machine's load, so this test only checks
/// that they work; docs/results/end2end100.md has the figures.
#[test]
fn real_lanes_carry_what_they_can_and_survive_a_cut() {
    let json = Folder::new().succeeds(&["reproduce", "end2end100", "--json"]);
    let found: Json = serde_json::from_str(&json).unwrap();
    if found.get("live_stable").is_none() {
        linecard_testkit::skip("real lanes", "they need root, iproute2 and ethtool");
        return;
    }
    let share = number(&found, "live_stable", "of_bound");
    assert!(share > 0.0 && share <= 1.001, "{found:#}");
    for key in ["live_equal", "live_unequal"] {
        assert!(number(&found, key, "over_ideal") >= 0.99, "{found:#}");
    }
    for key in ["live_death_repaired", "live_death"] {
        assert!(number(&found, key, "deaths") >= 1.0, "{found:#}");
        assert!(number(&found, key, "rejoins") >= 1.0, "{found:#}");
        // How soon depends on the load.
        assert!(number(&found, key, "back_ns") > 0.0, "{found:#}");
    }
}
