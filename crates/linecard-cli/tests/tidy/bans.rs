//! Banned names: time, randomness and I/O in the pure crate; unfinished code and bare `allow`s
//! everywhere. (Clippy finds some of these too, where it can see them; this also finds them
//! behind a feature or in a macro.)

use crate::Finding;
use crate::source::{Source, Tree, find_word};

/// In shipped code of the pure crate: what, and what to do.
const PURE: [(&str, &str); 13] = [
    ("Instant::now", "take `now` as an argument"),
    ("std::time::Instant", "take `now` as an argument"),
    ("SystemTime", "take `now` as an argument"),
    ("thread::sleep", "return the time of the next wake-up"),
    ("std::fs", "files belong to linecard-io"),
    ("std::net", "sockets belong to linecard-io"),
    ("std::io", "input and output belong to linecard-io"),
    ("std::thread", "threads belong to linecard-io"),
    ("std::env", "the environment belongs to linecard-cli"),
    ("print!(", "return a value: only linecard-cli prints"),
    ("println!(", "return a value: only linecard-cli prints"),
    ("eprint!(", "return a value: only linecard-cli prints"),
    ("eprintln!(", "return a value: only linecard-cli prints"),
];

/// Modules of std that the pure crate must not name in a group either: `use std::{fs, …}`.
const PURE_STD: [&str; 5] = ["fs", "net", "io", "thread", "env"];

/// In every crate, tests included.
const EVERYWHERE: [(&str, &str); 5] = [
    ("todo!(", "finish it, or open an issue and leave it out"),
    ("unimplemented!(", "finish it, or open an issue and leave it out"),
    ("dbg!(", "remove it"),
    ("#[allow(", "write #[expect(lint, reason = \"…\")]"),
    ("#![allow(", "write #![expect(lint, reason = \"…\")]"),
];

/// How a skipped test is reported, which only the function that also lists it may do.
const SKIP: &str = "\"SKIPPED: ";

/// No clock, no chance, no I/O.
pub(crate) const PURE_CRATES: [&str; 5] =
    ["linecard", "linecard-plan", "linecard-model", "linecard-jitter", "linecard-transfer"];

/// Folders of pure crates that are built behind a feature only, and are not pure.
const BEHIND_FEATURES: [&str; 2] =
    ["crates/linecard-jitter/src/linux/", "crates/linecard-model/src/elf/"];

/// The files of a pure crate that must be pure.
pub(crate) fn pure_files<'t>(tree: &'t Tree, name: &str) -> impl Iterator<Item = &'t Source> {
    let is_pure = |file: &&Source| !BEHIND_FEATURES.iter().any(|path| file.path.starts_with(path));
    tree.of_crate(name).filter(is_pure)
}

/// Uses of banned names.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        look_for(&EVERYWHERE, file, &file.code, &mut findings);
        look_for_skips(file, &mut findings);
    }
    for file in PURE_CRATES.iter().flat_map(|name| pure_files(tree, name)) {
        look_for(&PURE, file, &file.shipped, &mut findings);
        look_in_groups(file, &mut findings);
    }
    findings
}

fn look_for(bans: &[(&str, &str)], file: &Source, code: &str, findings: &mut Vec<Finding>) {
    for (name, advice) in bans {
        for at in find_word(code, name) {
            let what = format!("`{}` is banned here: {advice}", name.trim_end_matches('('));
            findings.push(Finding::new(&file.path, file.line_of(at), what));
        }
    }
}

fn look_for_skips(file: &Source, findings: &mut Vec<Finding>) {
    if file.path.starts_with("crates/linecard-testkit/")
        || file.path.ends_with("tests/tidy/bans.rs")
    {
        return;
    }
    for (at, _) in file.text.match_indices(SKIP) {
        let what = "a skip that `./test` does not list: call linecard_testkit::skip(what, why)";
        findings.push(Finding::new(&file.path, file.line_of(at), what));
    }
}

fn look_in_groups(file: &Source, findings: &mut Vec<Finding>) {
    for at in find_word(&file.shipped, "std::{") {
        let group = &file.shipped[at..];
        let group = &group[..group.find(';').unwrap_or(group.len())];
        for name in PURE_STD.iter().filter(|name| find_word(group, name).next().is_some()) {
            let what = format!("`std::{name}` is banned here: it belongs to linecard-io");
            findings.push(Finding::new(&file.path, file.line_of(at), what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn the_pure_crate_has_no_clock_and_no_io() {
        for bad in [
            "let t = Instant::now();",
            "use std::time::SystemTime;",
            "thread::sleep(d);",
            "use std::fs::File;",
            "use std::{fmt, io::Read};",
            "fn f() -> std::io::Result<()> {}",
            "std::net::TcpStream::connect(a);",
            "println!(\"x\");",
            "eprintln!(\"x\");",
        ] {
            assert_eq!(count("crates/linecard/src/a.rs", bad), 1, "{bad}");
            assert_eq!(count("crates/linecard-io/src/a.rs", bad), 0, "{bad}");
            assert_eq!(count("crates/linecard-jitter/src/linux/a.rs", bad), 0, "{bad}");
            let tested = format!("#[cfg(test)]\nmod tests {{ {bad} }}");
            assert_eq!(count("crates/linecard/src/a.rs", &tested), 0, "{bad}");
        }
    }

    #[test]
    fn names_in_comments_and_strings_are_no_calls() {
        assert_eq!(
            count("crates/linecard/src/a.rs", "// println!(\"x\")\nlet a = \"todo!()\";"),
            0
        );
        assert_eq!(
            count("crates/linecard/src/a.rs", "use core::time::Duration; my_println!(1);"),
            0
        );
    }

    #[test]
    fn skips_are_listed() {
        let bad = "eprintln!(\"SKIPPED: no root\");";
        assert_eq!(count("crates/linecard-cli/tests/a.rs", bad), 1);
        assert_eq!(count("crates/linecard-testkit/src/lib.rs", bad), 0);
        assert_eq!(count("crates/linecard-cli/tests/a.rs", "linecard_testkit::skip(\"x\", y);"), 0);
    }

    #[test]
    fn unfinished_code_is_found_everywhere() {
        for bad in
            ["todo!()", "unimplemented!(\"x\")", "dbg!(1)", "#[allow(dead_code)]", "#![allow(x)]"]
        {
            assert_eq!(count("crates/linecard-cli/src/a.rs", bad), 1, "{bad}");
        }
        assert_eq!(count("crates/linecard-cli/src/a.rs", "#[expect(x, reason = \"y\")]"), 0);
    }
}
