//! `linecard plan` and `linecard calibrate`: answers, refusals, files.

use crate::around::is_there;
use crate::folder::{CommandOutput, Folder, one_line};
use crate::support::linecard;
use linecard_testkit::root;
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Two stages on a modelled core.
const SMALL: &str = "[demand]\ngoodput = \"10G\"\npayload = 1000\n\
    [machine]\ncores = 2\n\
    [[stage]]\nname = \"seal\"\nfixed = \"200ns\"\neach = \"300ns\"\n\
    [[stage]]\nname = \"send\"\nfixed = \"500ns\"\neach = \"100ns\"\n";

fn number(json: &Json, path: &[&str]) -> f64 {
    let found = path.iter().fold(json, |json, key| &json[key]);
    found.as_f64().unwrap_or_else(|| panic!("no {path:?} in {json}"))
}

/// 1.25 million packets a second; sealing takes 300 + 200/64 ns of each.
#[test]
fn a_plan_has_the_figures_of_the_formulae() {
    let folder = Folder::new();
    folder.write("s.toml", SMALL.as_bytes());
    let text = folder.succeeds(&["plan", "s.toml"]);
    assert!(text.starts_with("How long it takes"), "{text}");
    for part in ["Stages", "seal", "Cores", "Rings between cores", "To be expected", "latency"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let json: Json = serde_json::from_str(&folder.succeeds(&["plan", "s.toml", "--json"])).unwrap();
    assert!((number(&json, &["stages", "seal", "rate"]) - 1.25e6).abs() < 1.0);
    let used = 1.25e6 * (300.0 + 200.0 / 64.0) * 1e-9;
    assert!((number(&json, &["stages", "seal", "used"]) / used - 1.0).abs() < 1e-9, "{json}");
    assert_eq!(json["rings"].as_array().map(Vec::len), Some(1));
    let slots = json["rings"][0]["value"]["slots"].as_u64().unwrap();
    assert!(slots.is_power_of_two());
    let most = number(&json, &["prediction", "most_goodput"]);
    assert!(most >= 10e9);
    // A terabyte at 10 Gbit/s.
    assert!((number(&json, &["time", "asked_ns"]) - 800e9).abs() < 1.0, "{json}");
    assert!((number(&json, &["time", "least_ns"]) - 8e21 / most).abs() < 1e3, "{json}");
    let config = &json["config"];
    assert_eq!(
        (&config["demand"]["goodput"], &config["measure"]),
        (&10_000_000_000_u64.into(), &false.into())
    );
    assert_eq!(config["stage"][1]["fixed"], "500ns", "{config}");
}

#[test]
fn what_does_not_fit_says_why_and_what_helps() {
    let folder = Folder::new();
    let text = SMALL.replace("10G", "40G").replace("cores = 2", "cores = 1");
    folder.write("s.toml", text.as_bytes());
    let outcome = folder.run(&["plan", "s.toml"]);
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
    one_line(&outcome.stderr, &["need", "cores", "what helps", "at most", "Gbit/s", "3 cores"]);
    assert!(outcome.stdout.contains("Infeasible"), "{outcome:?}");
    for part in ["faster with", "3 cores, as fast as asked for"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    let json: Json =
        serde_json::from_str(&folder.run(&["plan", "s.toml", "--json"]).stdout).unwrap();
    assert!(json["time"]["asked_ns"].is_null() && json["time"]["least_ns"].is_number(), "{json}");
    // Values that are set take precedence, also where the scenario has none.
    let set = ["plan", "s.toml", "--set", "demand.goodput=10G", "--set", "machine.cores=2"];
    assert!(folder.succeeds(&set).contains("To be expected"));
    for set in ["stage.takes=2", "stage.foo=1"] {
        folder.refuses(
            2,
            &["plan", "s.toml", "--set", set],
            &[&format!("--set {set}: `stage` is a list")],
        );
    }
    // The first advice is true.
    let most = outcome.stderr.split("at most ").nth(1).unwrap();
    let most: f64 = most.split(' ').next().unwrap().parse().unwrap();
    let text = text.replace("40G", &format!("{:.2}G", most - 0.01));
    folder.write("less.toml", text.as_bytes());
    folder.succeeds(&["plan", "less.toml"]);
}

#[test]
fn a_page_is_written_for_what_does_not_fit_too() {
    let folder = Folder::new();
    folder.write("s.toml", SMALL.replace("10G", "400G").as_bytes());
    let outcome = folder.run(&["plan", "s.toml", "--report", "out.html"]);
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
    assert!(folder.names().contains(&"out.html".to_owned()));
}

/// The scenario's end, the line and what else the refusal must have.
const WRONG: [(&str, &str, &[&str]); 17] = [
    (
        "[[stage]]\nname = \"x\"\neach = \"1ns\"\nfoo = 1\n",
        ":17:",
        &["`foo = 1`", "unknown key `stage[].foo`"],
    ),
    ("[[stage]]\nname = \"x\"\neach = \"5\"\n", ":16:", &["50us, 1ms or 2s"]),
    (
        "[[stage]]\nname = \"x\"\neach = \"1ns\"\ntakes = 0\n",
        ":17:",
        &["`takes = 0`", "choose 1 to"],
    ),
    (
        "[[stage]]\nname = \"x\"\neach = \"1ns\"\nunit = \"byte\"\n",
        ":17:",
        &["\"byte\" is not a choice", "\"chunk\""],
    ),
    (
        "[[stage]]\nname = \"x\"\neach = \"1ns\"\nstate = \"some\"\n",
        ":17:",
        &["\"some\" is not a choice", "\"lane\""],
    ),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nafter = [\"y\"]\n", ":17:", &["no stage \"y\""]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nbeside = [\"y\"]\n", ":17:", &["no stage \"y\""]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nafter = []\n", ":15:", &["x is not connected"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nafter = [\"x\"]\n", ":15:", &["cycle"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\ninput = \"chunk\"\n", ":15:", &["x takes chunk"]),
    ("[[stage]]\nname = \"x\"\neach_cycles = 3.0\n", ":15:", &["clock_mhz"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\neach_cycles = 3.0\n", ":15:", &["one of them"]),
    ("[[stage]]\nname = \"x\"\neach = \"0ns\"\n", ":15:", &["a cost is"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nmiss = 0.9\n", ":15:", &["0 to 0.5"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nbatch = [9, 3]\n", ":15:", &["the least first"]),
    ("[[stage]]\nname = \"seal\"\neach = \"1ns\"\n", ":15:", &["two stages are named seal"]),
    ("[[stage]]\nname = \"x\"\neach = \"1ns\"\nspread = []\n", ":17:", &["spread has 1 to"]),
];

#[test]
fn a_wrong_scenario_is_refused_where_it_is_wrong() {
    let folder = Folder::new();
    for (end, place, parts) in WRONG {
        folder.write("s.toml", format!("{SMALL}{end}").as_bytes());
        folder.refuses(2, &["plan", "s.toml"], &[&[place][..], parts].concat());
    }
    let changed = [
        ("goodput = \"10G\"", "", &["goodput, or packets"][..]),
        ("goodput = \"10G\"", "goodput = \"much\"", &[":2:", "not a rate"]),
        ("goodput = \"10G\"", "goodput = 0", &[":2:", "choose 1 to"]),
        ("payload = 1000", "payload = 0", &[":3:", "choose 1 to"]),
        ("payload = 1000", "payload = 1000\nloss = 1", &["loss is 0 to less than 1"]),
        ("payload = 1000", "payload = 1000\nfec = [0, 3]", &[":4:", "choose 1 to 256"]),
        ("payload = 1000", "payload = 1000\nstage = \"y\"", &[":4:", "no stage \"y\""]),
        ("cores = 2", "cores = 257", &[":5:", "choose 1 to 256"]),
        ("cores = 2", "prefer = \"speed\"", &[":5:", "few-cores"]),
        ("cores = 2", "used = 0", &["share of a core is above 0"]),
    ];
    for (from, to, parts) in changed {
        folder.write("s.toml", SMALL.replace(from, to).as_bytes());
        folder.refuses(2, &["plan", "s.toml"], parts);
    }
}

#[test]
fn the_scenarios_of_the_project_are_plans() {
    let path = root().join("scenarios/plan-transfer.toml");
    let text = Folder::new().succeeds(&["plan", path.to_str().unwrap()]);
    assert!(text.contains("encode") && text.contains("36"), "{text}");
}

#[test]
fn costs_are_measured_kept_and_used_and_another_machines_are_refused() {
    let folder = Folder::new();
    let offload = root().join("scenarios/plan-offload.toml");
    let plan = ["plan", offload.to_str().unwrap(), "--calibration", "c.json"];
    folder.refuses(2, &plan, &["c.json", "linecard calibrate"]);
    let json = folder.succeeds(&[
        "calibrate",
        "--quick",
        "--only",
        "offload",
        "--file",
        "c.json",
        "--json",
    ]);
    let json: Json = serde_json::from_str(&json).unwrap();
    for stage in ["segment@1500", "coalesce@576", "checksum@9000", "parse@1500", "verify@1500"] {
        assert!(number(&json, &["stages", stage, "each_ns"]) >= 0.0);
    }
    assert!(number(&json, &["stages", "segment@9000", "each_ns"]) > 1.0, "{json}");
    let outcome = folder.run(&plan);
    assert!(matches!(outcome.code, Some(0 | 13)), "{outcome:?}");
    assert!(outcome.stdout.contains("coalesce"), "{outcome:?}");
    // A size that was not measured.
    let other = fs::read_to_string(&offload).unwrap().replace("payload = 1448", "payload = 1348");
    folder.write("other.toml", other.as_bytes());
    let other = ["plan", "other.toml", "--calibration", "c.json"];
    folder.refuses(2, &other, &["other.toml:", "neither application@1400 nor application"]);
    let kept = String::from_utf8(folder.read("c.json")).unwrap();
    let mut kept: Json = serde_json::from_str(&kept).unwrap();
    kept["identity"]["model"] = "Another Processor".into();
    folder.write("c.json", kept.to_string().as_bytes());
    folder.refuses(2, &plan, &["c.json", "another machine", "Another Processor"]);
    kept["version"] = 99.into();
    folder.write("c.json", kept.to_string().as_bytes());
    folder.refuses(2, &plan, &["version is 99"]);
    folder.write("c.json", b"{}");
    folder.refuses(2, &plan, &["is not a calibration"]);
    let same = ["calibrate", "--core", "0", "--other-core", "0", "--file", "d.json"];
    folder.refuses(2, &same, &["--other-core 0"]);
}

#[test]
fn without_a_file_costs_are_kept_with_the_users_state() {
    let folder = Folder::new();
    let state = folder.path("state");
    let mut command = folder.command(&["calibrate", "--quick", "--only", "offload", "--json"]);
    let output = command.env("XDG_STATE_HOME", &state).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let config = serde_json::from_slice::<Json>(&output.stdout).unwrap()["config"].take();
    assert_eq!((&config["only"], &config["quick"]), (&"offload".into(), &true.into()));
    assert!(state.join("linecard/calibration.json").is_file());
}

/// The engine runs the plan, every byte verified. How near that is to the prediction is measured
/// by `plan --verify`, not tested: other programs have the cores too.
#[test]
fn a_plan_is_measured_on_the_engine() {
    let folder = Folder::new();
    folder.succeeds(&["calibrate", "--quick", "--only", "offload", "--file", "c.json"]);
    let offload = fs::read_to_string(root().join("scenarios/plan-offload.toml")).unwrap();
    folder.write("s.toml", offload.replace("8G", "200M").as_bytes());
    let plan = ["plan", "s.toml", "--calibration", "c.json", "--measure", "--json"];
    let json: Json = serde_json::from_str(&folder.succeeds(&plan)).unwrap();
    assert!(number(&json, &["measured", "predicted"]) > 2e8, "{json}");
    assert!(number(&json, &["measured", "most_goodput"]) > 1e8, "{json}");
    // Far more than any core does is missed for real, whatever else runs here.
    folder.write("much.toml", offload.replace("8G", "900G").as_bytes());
    let much = ["plan", "much.toml", "--calibration", "c.json", "--measure", "--json"];
    let outcome = folder.run(&much);
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
    let json: Json = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["measured"]["misses"], true, "{json}");
    // Stages that the engine does not have are not measured.
    folder.write("small.toml", SMALL.as_bytes());
    folder.refuses(2, &["plan", "small.toml", "--measure"], &["--measure", "segment"]);
}

/// Stages of transfers are measured beside those of offloads, and a scenario that needs them says so.
#[test]
fn a_transfer_is_planned_with_what_its_stages_cost() {
    let folder = Folder::new();
    let lanes = root().join("scenarios/plan-lanes.toml");
    let plan = |more: &[&str]| {
        let mut all = vec!["plan", lanes.to_str().unwrap(), "--calibration", "c.json"];
        all.extend(more);
        folder.run(&all)
    };
    folder.succeeds(&["calibrate", "--quick", "--only", "offload", "--file", "c.json"]);
    let outcome = plan(&[]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    one_line(&outcome.stderr, &["read@8896", "calibrate again"]);
    let text = folder.succeeds(&["calibrate", "--quick", "--only", "transfer", "--file", "c.json"]);
    // Existing content is kept.
    for name in ["segment@1500", "read@1408", "seal@8896", "ack-rx@4096"] {
        assert!(text.contains(name), "no {name} in {text}");
    }
    let outcome = plan(&["--json"]);
    assert!(matches!(outcome.code, Some(0 | 13)), "{outcome:?}");
    let json: Json = serde_json::from_str(&outcome.stdout).unwrap();
    let rate = |stage| number(&json, &["stages", stage, "rate"]);
    assert!((rate("seal") / rate("read") / 472.0 - 1.0).abs() < 1e-6, "{json}");
    assert!((rate("write") / rate("read") - 1.0).abs() < 1e-6, "{json}");
    folder.refuses(2, &["plan", "--verify", "transfer", "--payload", "1500"], &["choose 1408"]);
}

/// Without a core of its own, the measurement is pinned to one, which must not be taken for the
/// whole machine.
#[test]
fn a_calibration_without_rights_knows_all_cores() {
    if !is_there("setpriv", "a calibration without rights") {
        return;
    }
    // Where this was built, nobody may be unable to look.
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(linecard().get_program(), folder.path("linecard")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./linecard"]);
    command.args(["calibrate", "--quick", "--only", "offload", "--file", "c.json"]);
    let outcome: CommandOutput = command.current_dir(folder.path(".")).output().unwrap().into();
    if outcome.code != Some(0) {
        return linecard_testkit::skip("a calibration without rights", outcome.stderr);
    }
    let found: Json = serde_json::from_slice(&folder.read("c.json")).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(found["identity"]["cores"], cores, "{found}");
}
