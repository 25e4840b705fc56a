//! Wrong scenarios: the line names file, line and key.

use crate::folder::Folder;

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
    folder.refuses(2, &["run", "s.toml"], &["s.toml:3:", "UTF-8"]);
}

/// Exit code 1, as for any file that cannot be read.
#[test]
fn a_scenario_that_is_not_there() {
    let folder = Folder::new();
    folder.refuses(1, &["run", "s.toml"], &["s.toml", "No such file"]);
    std::fs::create_dir(folder.path("d.toml")).unwrap();
    folder.refuses(1, &["run", "d.toml"], &["d.toml", "directory"]);
}

/// What the command line overrules is not blamed on the file.
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
