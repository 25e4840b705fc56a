//! Wrong scenarios: the line names file, line and key.

use crate::folder::Folder;
use linecard_config::{Bytes, Duration, Frequency, Probability, Rate};
use serde_json::Value as Json;
use std::process::Command;
use std::str::FromStr;

/// The scenario, the place and what else the line must have.
const WRONG: [(&str, &str, &[&str]); 21] = [
    (
        "[load]\nflowz = 2\n",
        "s.toml:2:",
        &["`flowz = 2`", "unknown key `load.flowz`", "load.flows"],
    ),
    ("[loads]\nflows = 2\n", "s.toml:1:", &["`[loads]`", "unknown key `loads`", "load,"]),
    ("\n\nflows = 2\n", "s.toml:3:", &["`flows = 2`", "unknown key `flows`"]),
    ("[load]\nflows = \"x\"\n", "s.toml:2:", &["`flows = \"x\"`", "is not a whole number"]),
    ("[load]\nflows = \"\\u001b[31m\"\n", "s.toml:2:", &["\\u{1b}[31m", "is not a whole number"]),
    ("[load]\nflows = 1.5\n", "s.toml:2:", &["`flows = 1.5`", "is not a whole number"]),
    ("[load]\nflows = 0\n", "s.toml:2:", &["`flows = 0`", "choose 1 to 1000000"]),
    ("[load]\nflows = -3\n", "s.toml:2:", &["`flows = -3`", "-3 is out of range"]),
    ("[load]\n# so\nmtu = 100\n", "s.toml:3:", &["`mtu = 100`", "choose 576 to 65535"]),
    ("[load]\nsize = true\n", "s.toml:2:", &["`size = true`", "a size in bytes"]),
    ("[load]\nfamily = \"ipx\"\n", "s.toml:2:", &["\"ipx\" is not a choice", "\"ipv6\""]),
    ("[load]\nfamily = \"ipv6\"\nmtu = 1000\n", "s.toml:3:", &["`mtu = 1000`", "at least 1280"]),
    ("[lanes]\nloss = 2\n", "s.toml:2:", &["`loss = 2`", "0% to 100%"]),
    ("[lanes]\ncount = 65\n", "s.toml:2:", &["`count = 65`", "choose 1 to 64"]),
    ("[load]\nflows = 2\n[lanes]\ncount = 4\n", "s.toml:4:", &["`count = 4`", "for 2 flows"]),
    (
        "[lanes]\ncorrupt = 0.1\n[coalesce]\nchecksum = \"trust\"\n",
        "s.toml:2:",
        &["`corrupt = 0.1`", "checksum = \"verify\""],
    ),
    ("[coalesce]\nhold = \"5\"\n", "s.toml:2:", &["`hold = \"5\"`", "50us, 1ms or 2s"]),
    ("[coalesce]\nhold = \"2s\"\n", "s.toml:2:", &["`hold = \"2s\"`", "choose 1ns to 1s"]),
    ("[run]\nseconds = 0\n", "s.toml:2:", &["`seconds = 0`", "choose 0.01 to 3600"]),
    ("[run]\nseed = 1\nseed = 2\n", "s.toml:3:", &["`seed = 2`", "duplicate key"]),
    ("[run\nseed = 1\n", "s.toml:1:", &["`[run`"]),
];

#[test]
fn a_wrong_scenario_is_refused_where_it_is_wrong() {
    for (text, place, parts) in WRONG {
        let folder = Folder::new();
        folder.write("s.toml", text.as_bytes());
        folder.refuses(2, &["run", "s.toml"], &[&[place][..], parts].concat());
    }
}

#[test]
fn a_scenario_is_text() {
    let folder = Folder::new();
    folder.write("s.toml", b"[run]\nseed = 1\n\xff\xfe\n");
    folder.refuses(2, &["run", "s.toml"], &["s.toml:3: the file is not UTF-8"]);
}

/// Exit code 1, as for any file that cannot be read.
#[test]
fn a_scenario_that_is_not_there() {
    let folder = Folder::new();
    folder.refuses(1, &["run", "s.toml"], &["cannot open s.toml: no such file"]);
    std::fs::create_dir(folder.path("d.toml")).unwrap();
    folder.refuses(1, &["run", "d.toml"], &["cannot open d.toml: it is a folder", "a file in it"]);
}

/// The line says which command takes it.
#[test]
fn a_scenario_of_another_command() {
    let folder = Folder::new();
    folder.write("s.toml", b"# so\nmodel = \"transmit\"\n[bus]\nbits = 64\n");
    for command in ["run", "plan"] {
        let parts = ["s.toml:2: `model = \"transmit\"`", "`linecard model run`", command];
        folder.refuses(2, &[command, "s.toml"], &parts);
    }
    folder.write("empty.toml", b"");
    folder.refuses(
        2,
        &["model", "run", "empty.toml"],
        &["does not name its model", "`linecard run`"],
    );
    folder.refuses(2, &["plan", "empty.toml"], &["empty.toml: demand.payload: missing"]);
    folder.write("stages.toml", b"[demand]\npayload = 1448\n");
    folder.refuses(2, &["plan", "stages.toml"], &["stages.toml: stage: 0 stages"]);
}

/// Values that the command line overrides are not reported as errors of the file.
#[test]
fn the_one_who_said_it_is_blamed() {
    let folder = Folder::new();
    folder.write("s.toml", b"[load]\nfamily = \"ipv6\"\nmtu = 1500\n[lanes]\ncount = 2\n");
    for arguments in [["--mtu", "1000"], ["--lanes", "40"]] {
        let outcome = folder.run(&[&["run", "s.toml"], &arguments[..]].concat());
        assert_eq!(outcome.code, Some(2));
        assert!(!outcome.stderr.contains("s.toml:"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(arguments[1]), "{}", outcome.stderr);
    }
}

fn schema(kind: &str) -> Json {
    serde_json::from_str(&Folder::new().succeeds(&["schema", kind])).unwrap()
}

/// An editor asks for the key that a file needs, and knows scenarios of `run` too.
#[test]
fn schemas_require_what_documents_need() {
    let npu = schema("npu");
    assert_eq!(npu["required"], serde_json::json!(["model"]));
    assert_eq!(npu["properties"]["model"]["const"], "npu");
    let run = schema("run");
    assert_eq!((&run["title"], run.get("required")), (&"linecard run".into(), None));
    assert_eq!(run["properties"]["load"]["properties"]["flows"]["minimum"], 1);
    let plan = schema("plan");
    assert_eq!(plan["title"], "linecard plan");
    assert_eq!(plan["properties"]["stage"]["items"]["properties"]["takes"]["minimum"], 1);
    Folder::new().refuses(2, &["schema", "lanes"], &["'lanes'", "run"]);
}

/// Texts, and whether a parser takes them.
fn parsed<T: FromStr>(texts: &[&str]) -> Vec<bool> {
    texts.iter().map(|text| text.parse::<T>().is_ok()).collect()
}

/// Which of these texts a pattern takes, as Python reads it.
fn matched(pattern: &str, texts: &[&str]) -> Option<Vec<bool>> {
    let ask = "import json, re, sys\n\
               pattern, texts = json.load(sys.stdin)\n\
               print(json.dumps([re.search(pattern, text) is not None for text in texts]))";
    let folder = Folder::new();
    folder.write("question", serde_json::json!([pattern, texts]).to_string().as_bytes());
    let input = std::fs::File::open(folder.path("question")).unwrap();
    let output = Command::new("python3").args(["-c", ask]).stdin(input).output().ok()?;
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Patterns of schemas take the texts that the parsers take, and no others.
#[test]
fn patterns_are_those_of_the_parsers() {
    let texts = [
        "1",
        "0",
        "10G",
        "2.5G",
        "5.",
        ".5",
        "1.5",
        "1.50",
        "200M",
        "1k",
        "1K",
        "1T",
        "1 G",
        " 7 ",
        "1bit/s",
        "9 G bit/s",
        "64KiB",
        "64kib",
        "64KB",
        "1B",
        "1ib",
        "50us",
        "50 µs",
        "1ms",
        "2s",
        "3 ns",
        "1ps",
        "0.5ps",
        "7419.761ns",
        "0.0001ns",
        "1MHz",
        "1.5GHz",
        "800kHz",
        "1Hz",
        "1%",
        "-1",
        "",
        "x1",
    ];
    let shares =
        ["1", "0", "0.", ".5", "0.01", "1e-3", "+0.5", "1%", "100 %", " 5% ", "", "x", "1G", "%"];
    let (pcie, transfer, model) = (schema("pcie"), schema("transfer"), schema("transmit"));
    let of = |schema: &Json, section: &str, key: &str| {
        let value = &schema["properties"][section]["properties"][key];
        value["pattern"].as_str().unwrap_or_default().to_owned()
    };
    let cases = [
        (of(&transfer, "lanes", "rate"), &texts[..], parsed::<Rate>(&texts)),
        (of(&transfer, "chunk", "bytes"), &texts, parsed::<Bytes>(&texts)),
        (of(&transfer, "lanes", "loss"), &shares, parsed::<Probability>(&shares)),
        (of(&pcie, "reads", "latency"), &texts, parsed::<Duration>(&texts)),
        (of(&model, "core", "mhz"), &texts, parsed::<Frequency>(&texts)),
    ];
    for (pattern, texts, expected) in cases {
        let Some(found) = matched(&pattern, texts) else {
            return linecard_testkit::skip("patterns of schemas", "there is no python3");
        };
        for ((text, found), expected) in texts.iter().zip(found).zip(expected) {
            assert_eq!(found, expected, "{pattern} and {text:?}");
        }
    }
    assert!(of(&model, "line", "rate").ends_with("|^unlimited$"), "{model}");
}
