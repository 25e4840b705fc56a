//! Published figures beside ours: measurements, and their text.

use crate::around::is_there;
use crate::folder::{CommandOutput, Folder};
use linecard_testkit::root;
use serde_json::Value as Json;

/// Settings that make `papers/lro-npu.toml` as short as possible.
const SHORT: &str = r#"
[live.cable]
port = "packet"
[live.throughput]
connections = [2]
seconds = 1
rounds = 1
[live.starvation]
workers = 2
cores = [0]
ring = 256
flows = 1
attempts = 2
timeout = "1s"
orders = ["round-robin", "stack"]
[live.active_ack]
hold = "50ms"
block = "30K"
transfers = 2
[value]
loads = "list(400)"
[job.merged]
vary = [{ "client.connections" = [1, 32, 64] }, { "run.seed" = [0, 1] }]
[job.more]
vary = [{ "client.connections" = [128, 256] }, { "run.seed" = [0] }]
[job.plain]
vary = [{ "client.connections" = [1, 32, 64] }]
[job.sharing]
vary = [{ "npu.threads_per_core" = [1, 4] }]
[job.widening]
vary = [{ "npu.cores" = [1] }]
[job.stack]
run.duration = "446ms"
client.idle_connections = 20
vary = [{ "dma.request_ns" = [42666] }, { "run.seed" = [0, 1] }]
"#;

fn is_possible() -> bool {
    let is_root = std::fs::read_to_string("/proc/thread-self/status")
        .is_ok_and(|status| status.contains("\nUid:\t0\t0\t"));
    if !is_root {
        linecard_testkit::skip("reproductions on live interfaces", "not root");
    }
    // All of them, so that each that is missing is named.
    let programs = ["iperf3", "ethtool"].map(|program| is_there(program, "no live reproduction"));
    is_root && programs == [true; 2]
}

#[test]
fn lro_npu_measures_all_that_its_scenario_names() {
    if !is_possible() {
        return;
    }
    let folder = Folder::new();
    folder.write("short.toml", SHORT.as_bytes());
    let arguments = ["reproduce", "lro-npu", "--scenario", "short.toml", "--json"];
    let piped = || std::process::Stdio::piped();
    let process = folder.command(&arguments).stdout(piped()).stderr(piped()).spawn().unwrap();
    let ours = format!("linecard-{}-", process.id());
    let outcome: CommandOutput = process.wait_with_output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found: Json = serde_json::from_str(&outcome.stdout).unwrap();
    let figure = &found["throughput"][0]["value"];
    assert_eq!(figure["connections"], 2);
    assert!(figure["merged_bits_per_second"].as_f64().unwrap() > 1e6, "{figure}");
    assert!(figure["apart_bits_per_second"].as_f64().unwrap() > 1e6, "{figure}");
    assert!(figure["mean_aggregate"].as_f64().unwrap() > 1.0, "{figure}");
    for order in 0..2 {
        assert_eq!(found["starvation"][order]["value"]["tried"], 2, "{found}");
    }
    // The paper's window overruns receivers: only the honest one has to come through.
    for mode in [0, 1] {
        assert_eq!(found["active_ack"][mode]["value"]["done"], 2, "{found}");
    }
    assert!(found["active_ack"][1]["value"]["answered"].as_u64().unwrap() > 0, "{found}");
    let left = std::fs::read_dir("/run/netns").unwrap();
    let left = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&ours));
    assert_eq!(left.count(), 0, "namespaces are left");
}

/// The model needs no rights: figure 13's plateau, starvation, active acknowledgment.
#[test]
fn lro_npu_is_modelled_without_rights() {
    let folder = Folder::new();
    folder.write("short.toml", SHORT.as_bytes());
    let arguments = ["reproduce", "lro-npu", "--modelled", "--scenario", "short.toml", "--json"];
    let outcome = folder.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(!outcome.stderr.contains("left out"), "it was asked for: {outcome:?}");
    let found: Json = serde_json::from_str(&outcome.stdout).unwrap();
    let points = |curve: &str| [0, 2].map(|index| found[curve][index]["value"].clone());
    let rate = |point: &Json, name: &str| point[name].as_f64().unwrap();
    let [one, all] = points("constant_throughput");
    assert!((rate(&all, "bits_per_second") / 4.75e9 - 1.0).abs() < 0.02, "{all}");
    assert!((rate(&one, "share") - rate(&one, "expected_share")).abs() < 0.002, "{one}");
    // With steps that were counted, the link is full.
    let counted = points("model_throughput");
    assert!(rate(&counted[1], "bits_per_second") > 9.2e9, "{counted:?}");
    let without = counted.map(|point| rate(&point, "bits_per_second_without_lro"));
    assert!((without[0] / without[1] - 1.0).abs() < 0.02, "{without:?}");
    let overload = &found["model_overload"][0]["value"];
    assert!((overload["stack"].as_f64().unwrap() - 0.25).abs() < 0.01, "{overload}");
    let made = |index: usize| found["model_starvation"][index]["value"]["made"].as_u64().unwrap();
    assert!(made(0) < made(2), "{}", found["model_starvation"]);
    let transfer = |index: usize| &found["model_active_ack"][index]["value"];
    assert_eq!((&transfer(0)["done"], &transfer(2)["done"]), (&Json::from(false), &true.into()));
    assert_eq!(transfer(0)["duplicates"], transfer(0)["retransmitted"]);
    assert!(transfer(4)["overrun_bytes"].as_u64() > Some(0) && transfer(5)["overrun_bytes"] == 0);
    assert_eq!(found["verdicts"]["unexplained"], 0, "{found}");
    assert!(found.get("throughput").is_none(), "nothing live was asked for");
}

/// Where a program is missing, only the model runs, and that is not a failure.
#[test]
fn live_interfaces_are_left_out_where_they_cannot_be_had() {
    let folder = Folder::new();
    folder.write("short.toml", SHORT.as_bytes());
    let arguments = ["reproduce", "lro-npu", "--scenario", "short.toml"];
    let outcome: CommandOutput =
        folder.command(&arguments).env("PATH", "/nowhere").output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("live interfaces are left out: `iperf3`"), "{outcome:?}");
    assert!(outcome.stdout.contains("Live interfaces were left out"), "{outcome:?}");
    assert!(outcome.stdout.contains("Figure 13 in the model"), "{outcome:?}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = Folder::new();
    folder.write("wrong.toml", SHORT.replace("[2]", "[2000]").as_bytes());
    let arguments = ["reproduce", "lro-npu", "--scenario", "wrong.toml"];
    folder.refuses(2, &arguments, &["wrong.toml:5", "2000 is out of range: choose 1 to 128"]);
    let model = format!("{SHORT}[job.npu]\nnpu.ring = 30_000\n");
    folder.write("wrong.toml", model.as_bytes());
    folder.refuses(2, &arguments, &["npu.ring = 30_000", "shared memory has 16777216 bytes"]);
    folder.refuses(2, &["reproduce", "nothing"], &["nothing", "lro-npu"]);
}

/// Without a name the names are listed, a line each.
#[test]
fn names_are_listed() {
    let outcome = Folder::new().run(&["reproduce"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome.stderr.contains("a file (.toml), or --all") && outcome.stderr.lines().count() == 1
    );
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines.len() >= 11 && lines.iter().all(|line| line.len() <= 170), "{lines:?}");
    assert!(lines[0].starts_with("lso-table1  ") && lines[0].contains("(table 1)"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("end2end100  ")), "{lines:?}");
}

/// With eight clients in place of seven, bursts are long: nothing explains that.
#[test]
fn a_difference_beyond_its_reason_fails() {
    let folder = Folder::new();
    folder.write("eight.toml", b"[job.middle]\nload.clients = 8\n");
    let outcome = folder.run(&["reproduce", "gigabit-bus", "--scenario", "eight.toml"]);
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    let row = outcome.stdout.lines().find(|line| line.trim_start().starts_with("550 MHz"));
    assert!(row.unwrap().contains("DIFFERS beyond what was recorded (2 to 6 frames)"), "{row:?}");
    // Text and page say that this is not the paper's, and which values are not.
    let head = "Not the paper's configuration\n  with --scenario          eight.toml\n  \
                in place of the paper's  job.middle.load.clients = 8\n";
    assert!(outcome.stdout.starts_with(head), "{}", outcome.stdout);
    let page = ["reproduce", "gigabit-bus", "--scenario", "eight.toml", "--report", "eight.html"];
    assert_eq!(folder.run(&page).code, Some(10));
    let page = String::from_utf8(folder.read("eight.html")).unwrap();
    let headline = "With --scenario eight.toml: not the paper's configuration.";
    assert!(page.contains(headline), "{page}");
    assert!(page.contains("job.middle.load.clients = 8"), "{page}");
    let all = folder.run(&["reproduce", "gigabit-bus"]);
    assert_eq!(all.code, Some(0), "{all:?}");
    assert!(!all.stdout.contains("Not the paper's configuration"), "{}", all.stdout);
}

/// A file of one's own in the form of those that come with the project.
#[test]
fn a_file_of_ones_own_is_reproduced() {
    let folder = Folder::new();
    let example = std::fs::read_to_string(root().join("scenarios/paper.toml")).unwrap();
    folder.write("mine.toml", example.as_bytes());
    let arguments =
        ["reproduce", "mine.toml", "--json", "--figures", "figures", "--report", "mine.html"];
    let found: Json = serde_json::from_str(&folder.succeeds(&arguments)).unwrap();
    let found = &found["my-server"];
    let verdicts = [0, 1, 2].map(|row| &found["throughput"][row]["value"]["verdict"]);
    assert_eq!(verdicts, ["same", "same", "explained"], "{found}");
    assert_eq!(found["agreement"]["predicted"]["agree"], 2, "{found}");
    assert!(folder.path("figures/my-server-throughput.svg").is_file());
    assert!(folder.read("mine.html").starts_with(b"<!"));
    // Several are summed up.
    let (head, reproduction) = example.split_once("[[reproduction]]").unwrap();
    let other = reproduction.replace("\"my-server\"", "\"its-twin\"");
    let both = format!("{head}[[reproduction]]{reproduction}[[reproduction]]{other}");
    folder.write("both.toml", both.as_bytes());
    let text = folder.succeeds(&["reproduce", "both.toml", "--report", "both.html"]);
    let page = String::from_utf8(folder.read("both.html")).unwrap();
    assert!(page.contains("Together, by class") && page.contains("4 of 6, 66.7 %"), "{page}");
    let (_, total) = text.split_once("Together, by reproduction\n").unwrap();
    let both = "its-twin   2 of 3 agree, 1 differ within a limit, 0 with no limit known; not counted: 0 fitted, ";
    assert!(total.contains(both), "{total}");
    assert!(text.contains("2 of 3; 1 differ within a limit, 0 with no limit known"), "{text}");
    let headline = "4 of 6 values that the models were not given agree; 2 differ within a limit that was known before, \
                    0 with no limit known.";
    assert!(page.contains(headline), "{page}");
    let (_, by_class) = total.split_once("Together, by class\n").unwrap();
    let words: Vec<&str> = by_class.split_whitespace().collect();
    assert_eq!(words[..4], ["exact", "0", "predicted", "4"], "{total}");
    assert!(words.ends_with(&["agree,", "of", "all", "4", "of", "6,", "66.7", "%"]), "{total}");
    // Beyond the limit of a reason, and what cannot be run.
    folder.write("mine.toml", example.replace("to = 380", "to = 360").as_bytes());
    let outcome = folder.run(&["reproduce", "mine.toml"]);
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    assert!(
        outcome.stdout.contains("DIFFERS beyond its reason (explains 349 to 360"),
        "{outcome:?}"
    );
    let limits = example.replace("to = 380", "to = 340");
    folder.write("mine.toml", limits.as_bytes());
    let says = ["mine.toml:25: `reason.from`", "349 is more than `to`, 340"];
    folder.refuses(2, &["reproduce", "mine.toml"], &says);
    let exact =
        example.replace("within = 1.0, class = \"predicted\"", "within = 90, class = \"exact\"");
    folder.write("mine.toml", exact.as_bytes());
    folder.refuses(2, &["reproduce", "mine.toml"], &["mine.toml:22: `within`", "printed digits"]);
    // An error that appears only after the run has its line, too.
    let longer = example.replace("x = \"clients.config.load.clients\"", "x = \"list(1, 2)\"");
    folder.write("mine.toml", longer.as_bytes());
    folder.refuses(2, &["reproduce", "mine.toml"], &["mine.toml:34: `curves[0].y`: 4 values of y"]);
    folder.write("mine.toml", example.replace("\nvary", "\nserver.mhzz = 1\nvary").as_bytes());
    folder.refuses(2, &["reproduce", "mine.toml"], &["mine.toml:8", "unknown key `server.mhzz`"]);
    // The names of a file from elsewhere do not lead out of the folder.
    folder.write("mine.toml", example.replace("\"my-server\"", "\"../my-server\"").as_bytes());
    let outcome = folder.run(&["reproduce", "mine.toml", "--figures", "figures"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("../my-server") && outcome.stderr.contains("no `/`"));
    assert!(!folder.path("my-server-throughput.svg").exists());
    folder.write("mine.toml", b"source = \"nothing yet\"\n");
    folder.refuses(2, &["reproduce", "mine.toml"], &["mine.toml", "give a [[reproduction]]"]);
    let both = ["reproduce", "mine.toml", "--scenario", "mine.toml"];
    folder.refuses(2, &both, &["mine.toml", "leave out --scenario"]);
    folder.refuses(1, &["reproduce", "other.toml"], &["other.toml"]);
}
