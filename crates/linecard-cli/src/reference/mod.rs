//! The manual's reference, generated from the code.
//!
//! `LINECARD_WRITE=1 cargo test -p linecard-cli --lib reference` rewrites its pages.

mod commands;
mod metrics;
mod python;
mod reasons;
mod scenarios;

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The note at the top of every page.
const MADE: &str = "This page is generated from the code, and a test compares them.";

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a page with its file, or writes it.
#[track_caller]
fn compare(page: &str, title: &str, text: &str) {
    let wanted = format!("# {title}\n\n{MADE}\n\n{}\n", text.trim_end());
    compare_file(&format!("docs/reference/{page}"), &wanted);
}

/// Compares a text with its file, or writes it.
#[track_caller]
fn compare_file(name: &str, wanted: &str) {
    let path = root().join(name);
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        std::fs::write(&path, wanted).expect("the file can be written");
    } else {
        let written = std::fs::read_to_string(&path).expect("the file is there");
        assert!(written == wanted, "{name} is not up to date: set LINECARD_WRITE=1 to write it");
    }
}

/// A table of Markdown: its head, and rows.
fn table<C: Display>(head: &[&str], rows: impl IntoIterator<Item = Vec<C>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.iter().map(ToString::to_string).collect());
    text += &line(vec!["---".to_owned(); head.len()]);
    for row in rows {
        text += &line(row.iter().map(|cell| cell.to_string().replace('|', "\\|")).collect());
    }
    text + "\n"
}

/// Code in a line.
fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A meaning, and the default that it has in brackets at its end.
fn default_of(what: &str) -> (&str, String) {
    // The last "[" that has a space before it: a default may be a list.
    match what.strip_suffix(']').and_then(|left| left.rsplit_once(" [")) {
        Some((what, default)) => (what, default.to_owned()),
        None => (what, String::new()),
    }
}

#[test]
fn defaults_are_what_brackets_at_the_end_hold() {
    assert_eq!(default_of("cores, 1 to 8 [1]"), ("cores, 1 to 8", "1".to_owned()));
    assert_eq!(default_of("[k, m]: numbers [none]"), ("[k, m]: numbers", "none".to_owned()));
    assert_eq!(default_of("a clock"), ("a clock", String::new()));
}

#[test]
fn bars_do_not_end_a_cell() {
    assert_eq!(table(&["a"], [vec!["x|y"]]), "| a |\n| --- |\n| x\\|y |\n\n");
}
