//! `linecard model`: scenarios and their mistakes, runs, firmware that fails, captures, traces, sweeps.

use crate::entries;
use crate::folder::Folder;
use linecard::packet::{LinkType, Meta, Packet};
use linecard_testkit::root;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The shortest scenario.
const SHORT: &str = "model = \"transmit\"\n[load]\nmessages = 2\nsize = 14600\n";

/// The scenario, the place and what else the line must have.
const WRONG: [(&str, &str, &[&str]); 22] = [
    ("", "s.toml:", &["does not name its model", "\"transmit\""]),
    ("model = \"engine\"\n", "s.toml:1:", &["`model = \"engine\"`", "\"transmit\""]),
    ("model = 3\n", "s.toml:1:", &["text in quotes"]),
    ("model = \"transmit\"\n[cores]\ncount = 2\n", "s.toml:2:", &["unknown key `cores`", "core"]),
    ("model = \"transmit\"\n[core]\nclock = 2\n", "s.toml:3:", &["core.clock", "core.mhz"]),
    ("model = \"lanes\"\n", "s.toml:1:", &["removed", "model = \"transfer\""]),
    ("model = \"transmit\"\ncore = 2\n", "s.toml:2:", &["core is a section"]),
    ("model = \"transmit\"\n[core]\nmhz = 0\n", "s.toml:3:", &["`mhz = 0`", "choose 0.001"]),
    ("model = \"transmit\"\n[core]\nmhz = -1\n", "s.toml:3:", &["\"-1\" is not a clock"]),
    ("model = \"transmit\"\n[core]\nmhz = 1e9\n", "s.toml:3:", &["out of range"]),
    (
        "model = \"transmit\"\n[core]\nmhz = true\n",
        "s.toml:3:",
        &["`mhz = true`", "a clock in MHz"],
    ),
    ("model = \"transmit\"\n[core]\nmhz = 1\nmhz = 2\n", "s.toml:4:", &["duplicate key"]),
    ("model = \"transmit\"\n[core.mhz]\na = 1\n", "s.toml:2:", &["core.mhz is a value"]),
    ("model = \"transmit\"\n[dma]\nmhz = \"0x\"\n", "s.toml:3:", &["0.001x to 1000x"]),
    ("model = \"transmit\"\n[core]\nmhz = 50000\n[dma]\nmhz = \"9x\"\n", "s.toml:5:", &["100 GHz"]),
    ("model = \"transmit\"\n[bus]\nbits = 0\n", "s.toml:3:", &["choose 32 to 1024"]),
    ("model = \"transmit\"\n[bus]\nbits = 96\n", "s.toml:3:", &["not a power of two"]),
    ("model = \"transmit\"\n[bus]\npolicy = \"share\"\n", "s.toml:3:", &["\"interleave\""]),
    ("model = \"transmit\"\n[line]\nrate = 0\n", "s.toml:3:", &["choose 1K to 100T"]),
    (
        "model = \"transmit\"\n[line]\nsbi = 1000\n",
        "s.toml:3:",
        &["1000 does not fit the other values", "1628"],
    ),
    ("model = \"transmit\"\n[load]\nsize = [1, 70000]\n", "s.toml:3:", &["choose 1 to 65495"]),
    ("model = \"transmit\"\n[firmware]\nimage = \"c.elf\"\n", "s.toml:3:", &["c.elf", "\"best\""]),
];

#[test]
fn a_wrong_scenario_is_refused_where_it_is_wrong() {
    for (text, place, parts) in WRONG {
        let folder = Folder::new();
        folder.write("s.toml", text.as_bytes());
        folder.refuses(2, &["model", "run", "s.toml"], &[&[place][..], parts].concat());
    }
    Folder::new().refuses(1, &["model", "run", "s.toml"], &["s.toml: no such file"]);
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::new();
    folder.write("s.toml", SHORT.as_bytes());
    for (arguments, parts) in [
        (&["run", "s.toml", "--set", "core.mhz"][..], &["--set core.mhz", "KEY=VALUE"][..]),
        (&["run", "s.toml", "--set", "core.mhz=0"], &["--set core.mhz=0", "out of range"]),
        (&["run", "s.toml", "--set", "core.hz=1"], &["core.hz", "core.mhz"]),
        (&["run", "s.toml", "--set", "line.sbi=1000"], &["--set line.sbi", "does not fit"]),
        (&["run", "s.toml", "--phases", "0"], &["--phases 0", "1 to 1000"]),
        (&["run", "s.toml", "--capture", "s.toml"], &["s.toml", "choose another name"]),
        (&["trace", "s.toml"], &["--output"]),
        (&["trace", "s.toml", "-o", "t", "--packets", "0"], &["--packets 0", "1 to 100000"]),
        (&["trace", "s.toml", "-o", "t", "--format", "svg"], &["'svg'", "chrome, vcd"]),
        (&["sweep", "s.toml"], &["--vary"]),
        (&["sweep", "s.toml", "--vary", "core.mhz"], &["--vary core.mhz", "FROM..TO:STEP"]),
        (&["sweep", "s.toml", "--vary", "core.mhz=0..9"], &["0 is out of range"]),
        (&["sweep", "s.toml", "--vary", "core.mhz=9..1"], &["FROM must be at most TO"]),
        (&["sweep", "s.toml", "--vary", "core.mhz=1..99999:0.001"], &["larger STEP"]),
        (&["sweep", "s.toml", "--vary", "firmware.image=a,b"], &["firmware.image", "\"best\""]),
        (&["sweep", "s.toml", "--vary", "load.mtu=512", "--threads", "0"], &["--threads 0"]),
        (&["sweep", "s.toml", "--vary", "load.mtu=512", "-o", "x.parquet"], &["x.parquet", "CSV"]),
    ] {
        folder.refuses(2, &[&["model"], arguments].concat(), parts);
    }
    folder.write("other.toml", b"model = \"transfer\"\n");
    let of_transmit = ["model", "run", "other.toml", "--phases", "2"];
    folder.refuses(2, &of_transmit, &["--phases 2: for scenarios of \"transmit\" only"]);
    let twice = ["--vary", "load.mtu=512,600", "--vary", "load.mtu=700"];
    folder.refuses(2, &[&["model", "sweep", "s.toml"][..], &twice].concat(), &["varied twice"]);
}

#[test]
fn former_names_of_keys_are_read_with_a_warning() {
    let folder = Folder::new();
    folder.write("s.toml", b"model = \"transfer\"\n[chunk]\ncount = 1\nunder_way = 1\n");
    let report = run(&folder, &[]);
    let warning = "s.toml:4: `under_way = 1`: `chunk.under_way` is now called `chunk.max_inflight`";
    assert_eq!(report["notes"].as_array().and_then(|notes| notes.last()), Some(&warning.into()));
}

#[test]
fn help_tells_every_key() {
    let help = Folder::new().succeeds(&["model", "run", "--help"]);
    for part in ["core.mhz", "bus.policy", "firmware.image", "--set", "--capture", "Exit codes:"] {
        assert!(help.contains(part), "no \"{part}\" in {help}");
    }
}

fn run(folder: &Folder, arguments: &[&str]) -> Json {
    let all = [&["model", "run", "s.toml", "--json"], arguments].concat();
    serde_json::from_str(&folder.succeeds(&all)).unwrap()
}

fn short() -> Folder {
    let folder = Folder::new();
    folder.write("s.toml", SHORT.as_bytes());
    folder
}

/// The same in debug and release, on every machine: times and bytes of all that left.
#[test]
fn a_run_is_the_same_everywhere() {
    let folder = short();
    let found = run(&folder, &[]);
    let account = &found["account"];
    assert_eq!(account["hash"], GOLDEN, "{found}");
    assert_eq!((&account["payload_in"], &account["payload_out"]), (&29_200.into(), &29_200.into()));
    assert_eq!((&account["packets_right"], &account["packets_wrong"]), (&20.into(), &0.into()));
    // Table 1 of the paper: a line that takes everything, DMA five times as fast.
    let found = run(&folder, &["--set", "line.rate=unlimited", "--set", "dma.mhz=5x"]);
    let com = found["classes"].as_array().unwrap().iter().find(|row| row["label"] == "COM");
    let com = &com.unwrap()["value"];
    assert_eq!((&com["total_least"], &com["total_most"]), (&41.into(), &41.into()), "{com}");
    assert!(found["phases"].as_array().unwrap().len() >= 4);
}

const GOLDEN: &str = "44c9ff6c5de81fed";

#[test]
fn every_value_can_be_set() {
    let folder = short();
    folder.write("s.toml", b"model = \"transmit\"\n");
    // A line that is not a limit: what changes before it shows.
    let fast = "line.rate=1T";
    let whole = run(&folder, &["--phases", "1", "--set", fast]);
    for set in [
        "core.count=2",
        "core.phase=0.5",
        "dma.cycles_per_word=2",
        "dma.phase=0.25",
        "bus.bits=128",
        "bus.policy=dual-port",
        "bus.header=bus",
        "line.rate=10G",
        "line.overhead=38",
        "host.interrupt=1us",
        "load.protocol=mix",
        "load.size=100,20000",
        "load.mtu=576",
        "firmware.image=approach-1",
    ] {
        let found = run(&folder, &["--phases", "1", "--set", fast, "--set", set]);
        assert_eq!(found["account"]["packets_wrong"], 0, "{set}");
        assert_ne!(found["account"]["hash"], whole["account"]["hash"], "{set}");
    }
    // Beside a long transfer a bubble costs nothing.
    let bubbles = |set| {
        let small = ["--set", "core.mhz=100", "--set", "load.mtu=256", "--set", set];
        run(&folder, &small)["rates"]["cycles_per_packet"].as_f64().unwrap()
    };
    assert!(bubbles("core.bubbles=2") > bubbles("core.bubbles=0") + 1.0);
    // Each of its instructions takes three cycles or more.
    assert!(bubbles("core.kind=picorv32") > 3.0 * bubbles("core.bubbles=0"));
    let refused = ["model", "run", "s.toml", "--set", "core.kind=two-stage"];
    folder.refuses(2, &refused, &["core.kind", "three-stage", "picorv32"]);
}

/// A firmware of the project with its first instruction replaced.
fn firmware(folder: &Folder, instruction: u32) {
    replaced(folder, "best.elf", instruction);
    let own = format!("{SHORT}[firmware]\nimage = \"own.elf\"\npatience = 2000\n");
    folder.write("s.toml", own.as_bytes());
}

fn replaced(folder: &Folder, image: &str, instruction: u32) {
    let mut elf = std::fs::read(root().join("firmware/images").join(image)).unwrap();
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
    // The first program header's offset in the file.
    let code = word(word(28) + 4);
    elf[code..code + 4].copy_from_slice(&instruction.to_le_bytes());
    folder.write("own.elf", &elf);
}

/// With the line of the source and the function.
#[test]
fn firmware_that_fails_is_said_in_one_line() {
    for (instruction, parts) in [
        (
            0x0000_006F,
            &[
                "own.elf: firmware/best.s:21, in _start: core 0",
                "pc 0x0",
                "2000 cycles",
                "loops",
                "firmware.patience",
            ][..],
        ),
        (
            0xFFC0_2003,
            &["best.s:21, in _start: core 0: cycle 0, pc 0x00000000", "0xfffffffc", "refused"],
        ),
        (0x0010_0073, &["best.s:21, in _start", "cycle 0", "ebreak"]),
        (0x0000_0000, &["best.s:21, in _start", "illegal instruction", "rv32i"]),
    ] {
        let folder = Folder::new();
        firmware(&folder, instruction);
        let run = ["model", "run", "s.toml", "--capture", "out.pcap"];
        folder.refuses(9, &run, parts);
        folder.refuses(9, &["model", "trace", "s.toml", "-o", "t.json"], parts);
        let sweep = ["model", "sweep", "s.toml", "--vary", "load.mtu=512,1500", "-o", "rows.csv"];
        let outcome = folder.run(&sweep);
        assert_eq!(outcome.code, Some(9), "{outcome:?}");
        assert!(outcome.stderr.contains("2 of 2 points"), "{outcome:?}");
        let rows = String::from_utf8(folder.read("rows.csv")).unwrap();
        assert!(rows.lines().nth(1).unwrap().contains(parts[0]));
        // Costs are measured on a design of the solver's own, with its patience.
        let parts: Vec<String> =
            parts.iter().map(|part| part.replace("2000 cycles", "1000000 cycles")).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        folder.refuses(9, &["model", "bottlenecks", "s.toml"], &parts);
        let solve = ["model", "solve", "--rate", "10G", "--firmware", "own.elf"];
        folder.refuses(9, &solve, &parts);
    }
    let folder = Folder::new();
    replaced(&folder, "receive.elf", 0xFFC0_2003);
    folder.write("r.toml", b"model = \"receive\"\n[firmware]\nimage = \"own.elf\"\n");
    let place = ["own.elf: firmware/receive.s:", ", in _start: cycle 0, pc 0x00000000: a load"];
    folder.refuses(9, &["model", "run", "r.toml"], &place);
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let folder = Folder::new();
    firmware(&folder, 0x0000_006F);
    let mut elf = folder.read("own.elf");
    // e_machine: ARM.
    elf[18] = 40;
    folder.write("own.elf", &elf);
    folder.refuses(2, &["model", "run", "s.toml"], &["s.toml:6:", "own.elf", "riscv32"]);
    folder.write("own.elf", b"#!/bin/sh\n");
    folder.refuses(2, &["model", "run", "s.toml"], &["not an ELF file"]);
}

/// The project's own firmware from a file: the same as by its name, and its lines have cycles.
#[test]
fn an_elf_file_runs_and_its_lines_have_cycles() {
    let folder = short();
    let by_name = run(&folder, &["--set", "firmware.image=best", "--annotate"]);
    std::fs::copy(root().join("firmware/images/best.elf"), folder.path("own.elf")).unwrap();
    let by_file = run(&folder, &["--set", "firmware.image=own.elf", "--annotate"]);
    assert_eq!(by_name["account"]["hash"], by_file["account"]["hash"]);
    let lines = by_name["lines"].as_array().unwrap();
    let of = |line: &Json, key: &str| line["value"][key].as_u64().unwrap();
    let busy: u64 = lines.iter().map(|line| of(line, "busy")).sum();
    assert!(busy > 100, "{lines:?}");
    let start = lines.iter().find(|line| {
        of(line, "busy") == 16 && line["value"]["source"].as_str().unwrap().contains("START")
    });
    // Eight continuation packets in each of two messages, which wait for the DMA.
    assert!(start.is_some(), "{lines:?}");
    assert!(lines.iter().all(|line| line["label"].as_str().unwrap().contains("best.s:")));
    assert_eq!(start.unwrap()["value"]["function"], "atomic_com");
    let functions = by_name["functions"].as_array().unwrap();
    let names: Vec<&str> = functions.iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert_eq!(names[0], "atomic_com", "{names:?}");
    let cycles =
        |row: &Json| ["busy", "stalled", "bubbles"].iter().map(|key| of(row, key)).sum::<u64>();
    assert!(functions.is_sorted_by_key(|row| std::cmp::Reverse(cycles(row))), "{functions:?}");
    for rows in [lines, functions] {
        let shares: f64 = rows.iter().map(|row| row["value"]["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{rows:?}");
        let all: u64 = rows.iter().map(cycles).sum();
        assert_eq!(all, lines.iter().map(cycles).sum::<u64>());
    }
    let text = folder.succeeds(&["model", "run", "s.toml", "--annotate"]);
    let table = text.split("Cycles by function of the firmware").nth(1).unwrap();
    assert!(table.contains("  tcp_com ") && table.contains(" %  tcp_com "), "{text}");
}

#[test]
fn what_left_is_captured_with_its_time() {
    let folder = short();
    let set = ["--set", "load.protocol=mix", "--set", "load.size=100,9000"];
    for name in ["out.pcap", "out.pcapng"] {
        let found = run(&folder, &[&set[..], &["--capture", name]].concat());
        let packets = entries::packets(&folder.read(name));
        assert_eq!(packets.len() as u64, found["account"]["packets_right"].as_u64().unwrap());
        for entry in &packets {
            let len = entry.data.len();
            let packet = Packet::new(entry.data.clone(), LinkType::Raw, Meta::default());
            assert_eq!(packet.layout().end(), len);
            assert!(len <= 1500);
        }
        assert!(packets.is_sorted_by_key(|entry| entry.timestamp_ns));
        let last = packets.last().unwrap().timestamp_ns;
        assert_eq!(last, found["account"]["ns"].as_f64().unwrap() as u64);
    }
    // Other parts of the command find every checksum right: a wrong packet passes unmerged.
    let merged = ["coalesce", "out.pcap", "merged.pcapng", "--checksum", "verify", "--json"];
    let merged: Json = serde_json::from_str(&folder.succeeds(&merged)).unwrap();
    assert_eq!(merged["refused"]["checksum"], Json::Null, "{merged}");
}

#[test]
fn a_trace_has_all_tracks_and_no_overlap() {
    let folder = short();
    folder.succeeds(&["model", "trace", "s.toml", "-o", "t.json", "--set", "bus.header=bus"]);
    let found: Json = serde_json::from_slice(&folder.read("t.json")).unwrap();
    let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let (mut numbers, mut starts) = (BTreeSet::new(), BTreeSet::new());
    for event in found["traceEvents"].as_array().unwrap() {
        if event["ph"] == "M" {
            continue;
        }
        assert_eq!(event["ph"], "X");
        let number = |key: &str| event[key].as_f64().unwrap();
        let arguments = &event["args"];
        numbers.insert(arguments["packet"].as_u64().unwrap());
        assert_eq!(arguments["message"], arguments["packet"].as_u64().unwrap() / 10);
        let is_line = event["name"] == arguments["class"];
        for key in ["pc", "line", "function"] {
            assert_eq!(arguments[key].is_string(), !is_line, "{event}");
        }
        if event["name"] == "payload" {
            starts.insert(arguments["line"].as_str().unwrap().to_owned());
        }
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
        *names.entry(event["name"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(tracks.len(), 3, "core, DMA and line");
    assert_eq!(numbers, (0..20).collect());
    // BOM, COM and EOM have a START each.
    let source = std::fs::read_to_string(root().join("firmware/approach2.s")).unwrap();
    let line = |at: &String| at.rsplit(':').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(starts.len(), 3, "{starts:?}");
    let texts = starts.iter().map(|at| source.lines().nth(line(at) - 1).unwrap());
    assert!(texts.clone().all(|text| text.contains("START(s2)")), "{starts:?}");
    for (track, mut spans) in tracks {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let apart = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9);
        assert!(apart, "{track:?}: {spans:?}");
    }
    for (name, count) in [("header", 20), ("payload", 20), ("BOM", 2), ("COM", 16), ("EOM", 2)] {
        assert_eq!(names[name], count, "{names:?}");
    }
    assert!(["busy", "stalled", "asleep"].iter().all(|name| names.contains_key(*name)));
    let bounded = ["model", "trace", "s.toml", "-o", "t.json", "--packets", "5"];
    folder.succeeds(&bounded);
    let text = String::from_utf8(folder.read("t.json")).unwrap();
    assert_eq!(text.matches("\"payload\"").count(), 5);
    folder.succeeds(&["model", "trace", "s.toml", "-o", "t.json", "--time", "500ns"]);
    let text = String::from_utf8(folder.read("t.json")).unwrap();
    assert!((2..8).contains(&text.matches("\"payload\"").count()), "{text}");
}

#[test]
fn a_wave_file_has_its_changes_in_order() {
    let folder = short();
    let set = ["--set", "core.count=3", "--set", "load.messages=6", "--format", "vcd"];
    folder.succeeds(&[&["model", "trace", "s.toml", "-o", "t.vcd"][..], &set].concat());
    let text = String::from_utf8(folder.read("t.vcd")).unwrap();
    assert!(text.contains("$timescale 1 ps $end") && text.contains("$scope module core2 $end"));
    let times: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .map(|n| n.parse().unwrap())
        .collect();
    assert!(times.len() > 60 && times.is_sorted_by(|a, b| a < b), "{times:?}");
    let declared = text.matches("$var ").count();
    assert_eq!(declared, 13);
    // A program counter at a START, as 32 bits.
    assert!(text.contains("$var wire 32 ") && text.contains("\nb1001000 "), "{text}");
    // The line sends 60 packets without a gap once it has begun, or with some: each rise has a fall.
    assert_eq!(text.matches("\n1!").count() + 1, text.matches("\n0!").count());
}

#[test]
fn a_sweep_is_its_points_one_by_one() {
    let folder = short();
    let vary = ["--vary", "core.mhz=100..200:50", "--vary", "firmware.image=approach-1,best"];
    let sweep =
        |more: &[&str]| folder.succeeds(&[&["model", "sweep", "s.toml"][..], &vary, more].concat());
    let one = sweep(&["--threads", "1"]);
    assert_eq!(sweep(&["--threads", "7", "--csv"]), one);
    let rows: Json = serde_json::from_str(&sweep(&["--json"])).unwrap();
    let rows = rows.as_array().unwrap();
    let mut expected = Vec::new();
    for mhz in ["100", "150", "200"] {
        for image in ["approach-1", "best"] {
            expected.push((mhz, image));
        }
    }
    assert_eq!(rows.len(), expected.len());
    assert_eq!(one.lines().count(), 1 + expected.len());
    let keys: Vec<&str> = one.lines().next().unwrap().split(',').collect();
    for ((row, line), (mhz, image)) in rows.iter().zip(one.lines().skip(1)).zip(expected) {
        let sets = [format!("core.mhz={mhz}"), format!("firmware.image={image}")];
        let single = run(&folder, &["--set", &sets[0], "--set", &sets[1], "--phases", "1"]);
        assert_eq!(row["hash"], single["account"]["hash"]);
        assert_eq!(
            (row["core.mhz"].to_string(), &row["firmware.image"]),
            (mhz.into(), &image.into())
        );
        assert_eq!(row["goodput_bits_per_second"], single["rates"]["goodput_bits_per_second"]);
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!((cells.len(), &cells[..2]), (keys.len(), &[mhz, image][..]));
        assert!(cells.contains(&row["hash"].as_str().unwrap()));
    }
}

/// A design that cannot be is a row with a reason; the others are run.
#[test]
fn a_point_that_cannot_be_has_a_reason() {
    let folder = short();
    let sweep =
        ["model", "sweep", "s.toml", "--vary", "line.sbi=1000,4000", "-o", "rows.json", "--json"];
    let outcome = folder.run(&sweep);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""));
    assert!(outcome.stderr.contains("1 of 2 points could not be run"), "{outcome:?}");
    let rows: Json = serde_json::from_slice(&folder.read("rows.json")).unwrap();
    assert!(rows[0]["error"].as_str().unwrap().contains("1000 does not fit"), "{rows}");
    assert_eq!(rows[1]["packets_right"], 20);
}
