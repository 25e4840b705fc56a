//! `linecard model solve` and `linecard model bottlenecks`: answers that runs confirm, and questions that
//! have none.

use crate::folder::Folder;
use serde_json::Value as Json;

const SHORT: &str = "model = \"transmit\"\n[load]\nmessages = 2\nsize = 14600\n";

fn solve(arguments: &[&str]) -> Json {
    let found = Folder::new().succeeds(&[&["model", "solve", "--json"], arguments].concat());
    serde_json::from_str(&found).expect("JSON")
}

fn number(found: &Json, path: &[&str]) -> f64 {
    let value = path.iter().fold(found, |value, key| &value[*key]);
    value.as_f64().unwrap_or_else(|| panic!("{path:?} of {found}"))
}

#[test]
fn edges_are_confirmed_by_runs_below_and_above() {
    for (arguments, least, most) in [
        // 282 MHz where the clocks' edges meet, 329 wherever they lie.
        (&["--rate", "100G", "--mtu", "512"][..], 282.0, 329.0),
        (&["--rate", "100G", "--firmware", "best"], 57.5, 83.0),
        (&["--rate", "40G", "--protocol", "udp", "--mtu", "1024"], 30.0, 87.0),
        (&["--rate", "100G", "--mix", "tcp:44=3,udp:1=1"], 115.0, 148.0),
        (&["--rate", "100G", "--packets", "3", "--policy", "dual-port"], 80.0, 160.0),
        (&["--rate", "100G", "--policy", "interleave"], 80.0, 170.0),
        (&["--rate", "10G", "--header", "bus", "--overhead", "38"], 5.0, 20.0),
        // Core and DMA of nearly one frequency: how their edges lie beside each other decides.
        (&["--rate", "1600G", "--bus", "1024"], 2_000.0, 2_800.0),
    ] {
        let found = solve(arguments);
        let from = number(&found, &["core_clock", "from_mhz"]);
        let smallest = number(&found, &["core_clock", "smallest_mhz"]);
        assert!(least <= smallest && smallest <= from && from <= most, "{arguments:?}: {found}");
        for side in ["below", "above"] {
            assert_eq!(
                found["confirmed"][side]["as_computed"], true,
                "{arguments:?} {side}: {found}"
            );
        }
    }
}

/// Widths and numbers around the given ones, each with a clock or with the reason why there is
/// none.
#[test]
fn other_designs_are_those_around_the_one_asked_for() {
    let found = solve(&["--rate", "1600G", "--bus", "1024"]);
    let rows = found["alternatives"].as_array().expect("a list");
    let design = |row: &Json| {
        (row["value"]["cores"].as_u64().unwrap(), row["value"]["bus_bits"].as_u64().unwrap())
    };
    let designs: Vec<_> = rows.iter().map(design).collect();
    assert_eq!(designs, [(1, 512), (1, 2048), (1, 4096), (2, 1024), (4, 1024), (8, 1024)]);
    for row in &rows[3..] {
        assert!(number(row, &["value", "from_mhz"]) < 1_500.0, "{row}");
    }
    let text = Folder::new().succeeds(&["model", "solve", "--rate", "1600G", "--bus", "1024"]);
    assert!(text.contains("no such bus: 32 to 1024 bits"), "{text}");
}

#[test]
fn what_is_given_is_fixed_and_the_rest_is_found() {
    let dma = solve(&["--rate", "100G", "--core", "150"]);
    assert!((1_900.0..2_100.0).contains(&number(&dma, &["dma_clock", "smallest_mhz"])), "{dma}");
    assert_eq!(dma["confirmed"]["above"]["as_computed"], true);
    let both = solve(&["--rate", "400G", "--core", "400", "--dma", "2115"]);
    assert_eq!(both["carried"]["enough"], false);
    let (computed, run) =
        (number(&both, &["carried", "computed"]), number(&both, &["carried", "by_run"]));
    assert!((computed / run - 1.0).abs() < 0.01, "{both}");
    assert!(number(&both, &["smallest", "cores"]) >= 3.0, "{both}");
    assert!(both["host_link"]["gen6"]["lanes"].is_u64(), "{both}");
}

#[test]
fn the_papers_contradictions_are_printed_where_they_are_met() {
    let text = Folder::new().succeeds(&["model", "solve", "--rate", "100G", "--mtu", "1500"]);
    assert!(text.contains("148 MHz") && text.contains("1.42"), "{text}");
    let text = Folder::new().succeeds(&["model", "solve", "--rate", "100G", "--mtu", "9000"]);
    assert!(!text.contains("148 MHz"), "{text}");
}

#[test]
fn questions_without_an_answer_say_why() {
    let ends = |code, arguments: &[&str], parts: &[&str]| {
        Folder::new().refuses(code, &[&["model", "solve"], arguments].concat(), parts);
    };
    ends(13, &["--rate", "100G", "--cycles-per-word", "2"], &["DMA", "1.423", "below 1"]);
    ends(13, &["--rate", "100G", "--core", "50"], &["50.0 MHz", "raise"]);
    let refuses = |arguments: &[&str], parts: &[&str]| ends(2, arguments, parts);
    refuses(&["--rate", "100G", "--bus", "0"], &["--bus 0", "32 to 1024"]);
    refuses(&["--rate", "100G", "--core", "0"], &["out of range"]);
    refuses(&["--rate", "unlimited"], &["not a rate"]);
    refuses(&["--rate", "100G", "--mix", "sctp:1"], &["\"sctp:1\"", "KIND:PACKETS=WEIGHT"]);
    refuses(&["--rate", "100G", "--firmware", "none"], &["none", "approach-1"]);
}

/// A link has to carry more than is just needed, and has a width that is built.
#[test]
fn links_to_the_host_have_a_margin() {
    let link = |rate: &str, generation: &str, margin: &str| {
        let found = solve(&["--rate", rate, "--bus", "512", "--cores", "4", "--margin", margin]);
        found["host_link"][generation].clone()
    };
    let two = link("400G", "gen5", "10");
    assert_eq!((&two["slots"], &two["lanes"]), (&2.into(), &16.into()), "{two}");
    let headroom = number(&two, &["headroom"]);
    assert!((0.90..0.94).contains(&headroom), "x16 carries 379.5 of 394.8 Gbit/s: {two}");
    let short = link("400G", "gen1", "10");
    assert!(short["lanes"].is_null() && short["slots"] == 4, "{short}");
    let wide = link("400G", "gen6", "10");
    assert!(wide["lanes"].as_u64() <= Some(16) && number(&wide, &["headroom"]) >= 0.1, "{wide}");
    // Enough without a margin, too little with one.
    let [without, with] = ["0", "60"].map(|margin| link("400G", "gen6", margin));
    assert!(without["lanes"].as_u64() < with["lanes"].as_u64(), "{without} {with}");
    let slots = ["0", "10"].map(|margin| link("1600G", "gen7", margin)["slots"].as_u64());
    assert_eq!(slots, [Some(1), Some(2)], "x16 has 1657 Gbit/s");
    let text = Folder::new().succeeds(&["model", "solve", "--rate", "1600G", "--bus", "1024"]);
    assert!(text.contains("2 × x16 carry ") && text.contains(" one has "), "{text}");
}

/// As testers count: 64 bytes with the check sequence are 84 on the line, 148.8 million frames at 100 Gbit/s (RFC 2544,
/// RFC 1242).
#[test]
fn frames_are_counted_as_testers_do() {
    let best = ["--rate", "100G", "--firmware", "best"];
    let found = solve(&[&best[..], &["--frame", "64"]].concat());
    assert_eq!(found["demand"]["wire_bytes"], 84, "{found}");
    assert_eq!(number(&found, &["demand", "packets_per_second"]).floor(), 148_809_523.0, "{found}");
    let by_mtu = solve(&[&best[..], &["--mtu", "46", "--overhead", "38"]].concat());
    for part in ["demand", "core_clock", "confirmed", "alternatives", "host_link"] {
        assert_eq!(found[part], by_mtu[part]);
    }
    let published = solve(&[&best[..], &["--frame", "64", "--overhead", "20"]].concat());
    assert_eq!(published["demand"]["wire_bytes"], 66, "{published}");
    for arguments in [&["--mtu", "64"][..], &["--mtu", "46"], &["--frame", "64"]] {
        for protocol in ["tcp", "udp"] {
            let found = solve(&[&best[..], arguments, &["--protocol", protocol]].concat());
            for side in ["below", "above"] {
                assert_eq!(found["confirmed"][side]["as_computed"], true, "{arguments:?}: {found}");
            }
        }
    }
    let refuses = |arguments: &[&str], parts: &[&str]| {
        let all = [&["model", "solve", "--rate", "100G"], arguments].concat();
        Folder::new().refuses(2, &all, parts);
    };
    refuses(&["--mtu", "45"], &["--mtu 45", "46 to 65535"]);
    refuses(&["--frame", "63"], &["--frame 63", "64 to 65553"]);
    refuses(&["--frame", "64", "--mtu", "64"], &["--frame 64", "excludes", "--mtu 64"]);
}

/// The same in scenarios of both sides.
#[test]
fn loads_of_frames_are_run() {
    let folder = Folder::new();
    for (model, protocol) in
        [("transmit", "tcp"), ("transmit", "udp"), ("receive", "tcp"), ("receive", "udp")]
    {
        let load = "[load]\nframe = 64\nmessages = 4\nsize = [300, 1, 6, 7]\n";
        folder.write(
            "s.toml",
            format!("model = \"{model}\"\n{load}protocol = \"{protocol}\"\n").as_bytes(),
        );
        folder.succeeds(&["model", "run", "s.toml"]);
        let found = folder.succeeds(&["model", "run", "s.toml", "--json"]);
        folder.write(
            "s.toml",
            format!("model = \"{model}\"\n{load}protocol = \"{protocol}\"\n")
                .replace("frame = 64", "mtu = 46")
                .as_bytes(),
        );
        let by_mtu = folder.succeeds(&["model", "run", "s.toml", "--json"]);
        let account =
            |text: &str| serde_json::from_str::<Json>(text).expect("JSON")["account"].clone();
        assert_eq!(account(&found), account(&by_mtu), "{model} {protocol}");
        let both = ["model", "run", "s.toml", "--set", "load.frame=64"];
        folder.refuses(2, &both, &["load.frame", "excludes", "load.mtu"]);
    }
}

/// Clocks have limits; beyond them buses are wider and cores more, or there is no answer.
#[test]
fn no_answer_has_a_clock_that_nobody_builds() {
    let folder = Folder::new();
    folder.write("s.toml", SHORT.as_bytes());
    for (rate, gbps) in [("100G", 100e9), ("400G", 400e9), ("800G", 800e9), ("1600G", 1600e9)] {
        let analysis = ["model", "bottlenecks", "s.toml", "--rate", rate, "--json"];
        let found: Json = serde_json::from_str(&folder.succeeds(&analysis)).expect("JSON");
        let steps = found["steps"].as_array().expect("steps");
        for step in steps {
            for clock in ["core_mhz", "dma_mhz"] {
                assert!(number(step, &["value", clock]) <= 3000.0, "{rate}: {step}");
            }
        }
        let last = &steps[steps.len() - 1]["value"];
        assert!(number(last, &["carried_by_run"]) >= 0.99 * gbps, "{rate}: {last}");
    }
    let slow =
        ["--max-core", "10", "--max-dma", "10", "--set", "core.mhz=10", "--set", "dma.mhz=10"];
    let analysis = ["model", "bottlenecks", "s.toml", "--rate", "90T", "--steps", "100"];
    folder.refuses(
        13,
        &[&analysis[..], &slow].concat(),
        &["cannot be carried within the limits", "256 cores", "--max-"],
    );
    // A step made the line faster than one may be, and the policy of the bus was blamed.
    let fast = ["model", "bottlenecks", "s.toml", "--rate", "100T", "--steps", "100"];
    let climbed = folder.succeeds(&fast);
    assert!(climbed.contains("line 100000.0 Gbit/s: carries 100000.00 Gbit/s"), "{climbed}");
    let slow = ["model", "solve", "--rate", "100G", "--max-core", "50"];
    folder.refuses(13, &slow, &["the core's clock would need", "limit 50.0 MHz", "--max-core"]);
    let slow = ["model", "solve", "--rate", "1600G", "--core", "3000"];
    folder.refuses(13, &slow, &["the DMA's clock would need", "limit 3000.0 MHz", "--bus "]);
    let wide = ["model", "solve", "--rate", "1600G"];
    folder.refuses(13, &wide, &["the DMA would be moving", "--bus"]);
}

#[test]
fn bottlenecks_are_relieved_and_runs_agree() {
    let folder = Folder::new();
    folder.write("s.toml", SHORT.as_bytes());
    let analysis = ["model", "bottlenecks", "s.toml", "--rate", "300G", "--steps", "6", "--json"];
    let found: Json = serde_json::from_str(&folder.succeeds(&analysis)).expect("JSON");
    let steps = found["steps"].as_array().expect("steps");
    let carried = |step: &Json| number(step, &["value", "carried"]);
    assert!(steps.len() == 6 && carried(&steps[5]) > 1.2 * carried(&steps[0]), "{found}");
    for step in steps {
        let run = number(step, &["value", "carried_by_run"]);
        assert!((carried(step) / run - 1.0).abs() < 0.01, "{step}");
    }
    folder.refuses(2, &["model", "bottlenecks", "s.toml", "--steps", "0"], &["--steps", "1"]);
    folder.refuses(
        2,
        &["model", "bottlenecks", "--rate", "400G"],
        &[
            "<SCENARIO>",
            "for example: linecard model bottlenecks scenarios/model-lso.toml --rate 400G",
        ],
    );
    // A line that takes everything: up to the fastest Ethernet.
    let unlimited = ["model", "bottlenecks", "s.toml", "--set", "line.rate=unlimited", "--json"];
    let found: Json = serde_json::from_str(&folder.succeeds(&unlimited)).expect("JSON");
    let [.., before, last] = found["steps"].as_array().expect("steps").as_slice() else { panic!() };
    assert!(carried(before) < 1.6e12 && carried(last) >= 1.6e12, "{found}");
    // An analysis that ends early says so.
    let cut =
        folder.succeeds(&["model", "bottlenecks", "s.toml", "--rate", "1600G", "--steps", "2"]);
    assert!(cut.contains("2 steps end at") && cut.contains("choose more with --steps"), "{cut}");
    let refused = ["model", "bottlenecks", "s.toml", "--set", "bus.policy=interleave"];
    folder.refuses(2, &refused, &["bus.policy", "run the firmware"]);
}

/// Computed sweeps beside those that run: the same points, the same rates.
#[test]
fn a_computed_sweep_is_what_a_run_gives() {
    let folder = Folder::new();
    // As many messages as it takes for the first and the last not to count.
    folder.write("s.toml", SHORT.replace("messages = 2", "messages = 40").as_bytes());
    let sweep = ["model", "sweep", "s.toml", "--vary", "core.mhz=60..480:60", "--json"];
    let rows = |arguments: &[&str]| -> Vec<Json> {
        serde_json::from_str(&folder.succeeds(arguments)).expect("JSON")
    };
    let (run, computed) = (rows(&sweep), rows(&[&sweep[..], &["--predict"]].concat()));
    assert_eq!((run.len(), computed.len()), (8, 8));
    for (run, computed) in run.iter().zip(&computed) {
        assert_eq!(run["core.mhz"], computed["core.mhz"]);
        let rate = |row: &Json| number(row, &["wire_bits_per_second"]);
        assert!((rate(computed) / rate(run) - 1.0).abs() < 0.01, "{run} {computed}");
        assert!(computed["from_core_mhz"].as_f64() >= computed["smallest_core_mhz"].as_f64());
        assert!(["core clock", "DMA", "line"].contains(&computed["limit"].as_str().unwrap()));
    }
}
