//! The tidy test: rules about the source tree that the compiler does not know.
//!
//! Each check is a function from text to [`Finding`]s, so that it can be fed a bad snippet and
//! shown to fail; the tests in this file run the checks over the real tree. A finding names the
//! file, the line, the limit and what to do.

mod bans;
mod directions;
mod documents;
mod links;
mod manifests;
mod names;
mod promises;
mod ratchet;
mod scripts;
mod sizes;
mod source;
mod unsafe_code;
mod versions;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use source::Tree;

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Path from the root of the repository.
    file: String,
    /// 1-based; 0 when the rule is about the file as a whole.
    line: usize,
    /// The error, the limit, and the remedy.
    what: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn expect_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} broken rules:\n{}", lines.len(), lines.join("\n"));
}

/// Promise (Repository): No file has more than 600 lines of code and no function more than 70,
/// tests aside.
#[test]
fn files_and_functions_are_small() {
    let exceptions = ratchet::parse(include_str!("ratchet.txt"));
    expect_none(&sizes::check(&Tree::read(&root()), &exceptions));
}

/// Promise (Repository): Each pure crate stays below 15,000 lines of code, and the command's below 3,500.
#[test]
fn pure_crates_and_the_command_stay_small() {
    expect_none(&sizes::check_crates(&Tree::read(&root())));
}

#[test]
fn modules_of_the_pure_crate_point_one_way() {
    expect_none(&directions::check(&Tree::read(&root())));
}

/// Promise (Repository): The pure crates call no clock, no random source and no I/O.
#[test]
fn nothing_banned_is_called() {
    expect_none(&bans::check(&Tree::read(&root())));
}

#[test]
fn types_are_named_for_what_they_are() {
    expect_none(&names::check(&Tree::read(&root())));
}

#[test]
fn text_is_plain_english() {
    expect_none(&words::check(&root(), &Tree::read(&root())));
}

#[test]
fn scripts_name_their_interpreter() {
    expect_none(&scripts::check(&root()));
}

/// Promise (Repository): Unsafe code stands only in the files that the tidy test lists, each block
/// with its reason.
#[test]
fn unsafe_code_is_explained_and_in_named_files() {
    expect_none(&unsafe_code::check(&Tree::read(&root())));
}

/// Promise (Repository): Crates depend in one direction.
#[test]
fn crates_depend_one_way_and_share_the_lints() {
    expect_none(&manifests::check(&manifests::read(&root())));
}

#[test]
fn the_table_of_dependencies_is_that_of_the_manifests() {
    let path = root().join("docs/design/dependencies.md");
    let table = std::fs::read_to_string(path).expect("the document is readable");
    expect_none(&manifests::check_table(&manifests::read(&root()), &table));
}

#[test]
fn versions_are_in_step() {
    expect_none(&versions::check(&versions::read(&root())));
}

#[test]
fn the_required_documents_exist() {
    expect_none(&links::check_required(&root()));
}

#[test]
fn links_between_documents_lead_somewhere() {
    expect_none(&links::check(&root(), &links::documents(&root())));
}

#[test]
fn first_documents_stay_short() {
    expect_none(&documents::check_sizes(&root()));
}

#[test]
fn lists_in_documents_are_complete() {
    expect_none(&documents::check_lists(&root()));
}

#[test]
fn documents_are_wrapped() {
    expect_none(&documents::check_lines(&root()));
}

#[test]
fn the_index_of_decisions_is_that_of_their_files() {
    compare(documents::INDEX, documents::index(&root()));
}

#[test]
fn promises_are_those_of_the_tests() {
    compare("PROMISES.md", promises::page(&root()));
}

/// Compares a generated document with its file; with `LINECARD_WRITE=1`, writes it.
#[track_caller]
fn compare(name: &str, generated: Result<String, Vec<Finding>>) {
    let wanted = generated.unwrap_or_else(|findings| {
        expect_none(&findings);
        String::new()
    });
    let path = root().join(name);
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &wanted).expect("the document can be written");
    } else {
        let written = std::fs::read_to_string(&path).expect("the document is there");
        assert!(written == wanted, "{name} is not up to date: set LINECARD_WRITE=1 to write it");
    }
}
