//! Wrong arguments: one line that names the value and what to do, exit code 2, nothing touched.

use crate::folder::Folder;

/// Arguments behind `coalesce in.pcap out.pcapng`, and text that the error must contain.
const COALESCE: [(&[&str], &[&str]); 14] = [
    (&["--hold", "0ms"], &["--hold 0ms", "0ns is out of range: choose 1ns to 10s"]),
    (&["--hold", "5"], &["--hold", "\"5\" is not a time", "50us, 1ms or 2s"]),
    (&["--hold", "11s"], &["--hold 11s", "choose 1ns to 10s"]),
    (&["--hold", "-1ms"], &["--hold", "\"-1ms\" is not a time"]),
    (&["--hold", ""], &["--hold"]),
    (&["--max-flows", "1"], &["--max-flows 1", "choose 8 to 4194304"]),
    (&["--max-flows", "4194305"], &["--max-flows 4194305", "choose 8 to 4194304"]),
    (&["--max-flows", "many"], &["--max-flows many", "is not a whole number"]),
    (&["--max-size", "100"], &["--max-size 100", "choose 576 to 512K"]),
    (&["--max-size", "1M"], &["--max-size 1M", "choose 576 to 512K"]),
    (&["--max-size", "-1"], &["--max-size", "\"-1\" is not a size"]),
    (&["--checksum", "maybe"], &["'maybe'", "--checksum", "verify, trust"]),
    (&["--explain-flow", "10.0.0.1"], &["--explain-flow 10.0.0.1:", "10.0.0.1:5000-10.0.0.2:80"]),
    (&["--holt", "1ms"], &["'--holt'", "'--hold'"]),
];

const SEGMENT: [(&[&str], &[&str]); 10] = [
    (&["--mss", "0"], &["--mss 0", "choose 1 to 65535"]),
    (&["--mss", "70000"], &["--mss 70000", "choose 1 to 65535"]),
    (&["--mss", "x"], &["--mss x", "\"x\" is not a size", "1500, 64K or 1M"]),
    (&["--mss", "-1"], &["--mss", "\"-1\" is not a size"]),
    (&["--mss", "99999999999999999999"], &["--mss 99999999999999999999", "too large"]),
    (&["--mtu", "0"], &["--mtu 0", "choose 68", "to 65535"]),
    (&["--mtu", "20"], &["--mtu 20", "choose 68", "to 65535"]),
    (&["--mtu", "65536"], &["--mtu 65536", "choose 68", "to 65535"]),
    (&["--mss", "1000", "--mtu", "1500"], &["--mss 1000", "cannot be used with", "mtu"]),
    (&["more"], &["'more'"]),
];

const RUN: [(&[&str], &[&str]); 23] = [
    (&["--flows", "0"], &["--flows", "0 is out of range", "1 to 1000000"]),
    (&["--flows", "1000001"], &["--flows", "1000001 is out of range", "1 to 1000000"]),
    (&["--flows", "-1"], &["--flows", "-1 is out of range"]),
    (&["--flows", "some"], &["--flows some", "is not a whole number"]),
    (&["--lanes", "0"], &["--lanes", "0 is out of range", "1 to 64"]),
    (&["--lanes", "65"], &["--lanes", "65 is out of range", "1 to 64"]),
    (&["--lanes", "4", "--flows", "2"], &["4 lanes for 2 flows", "at least as many flows"]),
    (&["--mtu", "100"], &["--mtu", "100 is out of range", "576 to 65535"]),
    (&["--mtu", "1.5e"], &["--mtu 1.5e", "\"1.5e\" is not a size"]),
    (&["--size", "0"], &["--size", "0 is out of range", "1 to 16M"]),
    (&["--size", "17M"], &["--size", "17M is out of range", "1 to 16M"]),
    (&["--loss", "2"], &["--loss 2", "is not a probability", "0% to 100%"]),
    (&["--loss", "-0.1"], &["--loss -0.1", "is not a probability"]),
    (&["--loss", "-1%"], &["--loss -1%", "is not a probability"]),
    (&["--loss", "NaN"], &["--loss", "\"NaN\" is not a probability"]),
    (&["--reorder", "101%"], &["--reorder", "\"101%\" is not a probability"]),
    (&["--seconds", "0"], &["--seconds", "0 is out of range", "0.01 to 3600"]),
    (&["--seconds", "nan"], &["--seconds nan", "not a number"]),
    (&["--seconds", "1e9"], &["--seconds", "is out of range", "0.01 to 3600"]),
    (&["--seconds", "2s"], &["--seconds 2s", "is not a number"]),
    (&["--seed", "-1"], &["--seed", "-1 is out of range"]),
    (&["--sead", "1"], &["'--sead'", "'--seed'"]),
    (&["--flows"], &["--flows", "value is required"]),
];

#[test]
fn coalesce_refuses_wrong_arguments() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    for (arguments, parts) in COALESCE {
        folder.refuses(2, &[&["coalesce", "in.pcap", "out.pcapng"], arguments].concat(), parts);
    }
}

#[test]
fn segment_refuses_wrong_arguments() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    for (arguments, parts) in SEGMENT {
        folder.refuses(2, &[&["segment", "in.pcap", "out.pcapng"], arguments].concat(), parts);
    }
}

#[test]
fn run_refuses_wrong_arguments() {
    for (arguments, parts) in RUN {
        // Should it not refuse, it ends soon.
        let short: &[&str] =
            if arguments.contains(&"--seconds") { &[] } else { &["--seconds", "0.05"] };
        Folder::new().refuses(2, &[&["run"], short, arguments].concat(), parts);
    }
}

/// They are values and not options, and are shown as they were given.
#[test]
fn values_of_lanes_and_models_that_are_negative_or_too_large() {
    let folder = Folder::new();
    folder.refuses(
        2,
        &["run", "--lanes", "sim", "--rate", "-5G"],
        &["--rate -5G", "is not a rate"],
    );
    folder.refuses(2, &["run", "--lanes", "sim:99"], &["--lanes sim:99", "99 is out of range"]);
    folder.refuses(2, &["model", "solve", "--rate", "100G", "--mtu", "-1"], &["--mtu -1"]);
}

/// An existing output survives them too.
#[test]
fn wrong_arguments_leave_an_existing_output() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("out.pcapng", b"precious");
    folder.refuses(2, &["coalesce", "in.pcap", "out.pcapng", "--hold", "0s"], &["--hold"]);
    folder.refuses(2, &["segment", "in.pcap", "out.pcapng", "--mtu", "67"], &["--mtu 67"]);
}

#[test]
fn what_is_missing_is_named() {
    let folder = Folder::new();
    folder.refuses(2, &["coalesce"], &["<INPUT> <OUTPUT>", "--help"]);
    folder.refuses(2, &["segment", "in.pcap"], &["<OUTPUT>", "--help"]);
    folder.refuses(2, &["coalescence"], &["'coalescence'"]);
}

#[test]
fn help_documents_commands_and_exit_codes() {
    let folder = Folder::new();
    let help = folder.succeeds(&["--help"]);
    for part in ["run", "coalesce", "segment", "ports", "Exit codes:"] {
        assert!(help.contains(part), "no \"{part}\" in {help}");
    }
    for code in 0..=5 {
        assert!(
            help.lines().any(|line| line.starts_with(&format!("  {code}  "))),
            "{code}: {help}"
        );
    }
    let outcome = folder.run(&[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""));
    assert!(outcome.stderr.contains("Usage: linecard <COMMAND>"));
    let version = folder.succeeds(&["--version"]);
    assert_eq!(version.trim(), format!("linecard {}", env!("CARGO_PKG_VERSION")));
}
