//! Names of types that say nothing to an engineer of the field. They were replaced by the field's terms; types with
//! such a name are refused.

use crate::Finding;
use crate::source::{Source, Tree, find_word, is_word};

/// A name that no type has, and the words to use instead.
const NAMES: [(&str, &str); 24] = [
    ("Conductor", "endpoint driver"),
    ("Desk", "read queue"),
    ("Carrier", "sealed socket"),
    ("Departure", "`Transmit`"),
    ("Trouble", "an error named after its source, such as `LaneError`"),
    ("Stranger", "`Unauthenticated`, `Unknown`"),
    ("Away", "`Unreachable`"),
    ("Ways", "task set"),
    ("Bell", "wakeup"),
    ("Outlook", "poll hint"),
    ("Watch", "progress, or a target"),
    ("Pulse", "ticker"),
    ("Told", "the thing that was said: an event, a message"),
    ("Asked", "the thing that was asked for: a query, a configuration"),
    ("Ran", "outcome"),
    ("Got", "the thing that arrived: a read, a frame"),
    ("Found", "the thing that was found: findings, a match"),
    ("Body", "task, or content"),
    ("Seat", "port, or the thread that has the place"),
    ("Outside", "`Bus`"),
    ("Wish", "pending request"),
    ("Ladder", "bottleneck analysis"),
    ("Trail", "segment metadata"),
    ("Cut", "segment"),
];

/// A name with one meaning: the folder in which a type may have it, and the words to use elsewhere.
const OF_FOLDER: [(&str, &str, &str); 2] = [
    (
        "Outcome",
        "crates/linecard-report/",
        "`Results`, or a name before it, such as `SessionOutcome`",
    ),
    (
        "Place",
        "crates/linecard/src/offload/coalesce/",
        "`Position`, `Folder`, `LocalEnd`, the thing at the place",
    ),
];

/// Suffixes of units that have another one.
const UNITS: [(&str, &str); 10] = [
    ("_s", "_seconds"),
    ("_sec", "_seconds"),
    ("_secs", "_seconds"),
    ("_msec", "_ns"),
    ("_usec", "_ns"),
    ("_bps", "_bits_per_second"),
    ("_kbps", "_bits_per_second"),
    ("_mbps", "_bits_per_second"),
    ("_gbps", "_bits_per_second"),
    ("_ghz", "_hz"),
];

/// Names of others.
const FOREIGN: [&str; 4] = ["tv_sec", "tp_sec", "from_secs", "as_secs"];

/// Keywords that name a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Types with one of those names, of which associated types of a trait are none, and suffixes of units.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .flat_map(|file| check_file(file).into_iter().chain(check_units(file)))
        .collect()
}

/// Names whose unit has another suffix.
fn check_units(file: &Source) -> Vec<Finding> {
    let words = file.code.split(|c| !is_word(c)).filter(|word| !FOREIGN.contains(word));
    let finding = |word: &str| {
        let (suffix, instead) = UNITS.iter().find(|(suffix, _)| word.ends_with(suffix))?;
        let at = word.as_ptr().addr() - file.code.as_ptr().addr();
        let what = format!("`{word}`: write `{instead}` instead of `{suffix}`");
        Some(Finding::new(&file.path, file.line_of(at), what))
    };
    words.filter_map(finding).collect()
}

fn check_file(file: &Source) -> Vec<Finding> {
    let is_elsewhere = |folder: &str| !file.path.starts_with(folder);
    let of_folder = OF_FOLDER.iter().filter(|(_, folder, _)| is_elsewhere(folder));
    let names = NAMES.iter().copied().chain(of_folder.map(|(name, _, instead)| (*name, *instead)));
    let names: Vec<(&str, &str)> = names.collect();
    let mut findings = Vec::new();
    for keyword in KEYWORDS {
        for at in find_word(&file.code, keyword) {
            // An associated type is indented.
            let is_associated = keyword == "type" && file.code[..at].ends_with("    ");
            let name = type_name(&file.code[at + keyword.len()..]).filter(|_| !is_associated);
            let found = names.iter().find(|(word, _)| Some(*word) == name);
            findings.extend(found.map(|(name, instead)| {
                let what = format!("a type named `{name}` says little: use {instead}");
                Finding::new(&file.path, file.line_of(at), what)
            }));
        }
    }
    findings
}

/// The name behind a keyword that declares a type.
fn type_name(code: &str) -> Option<&str> {
    let code = code.strip_prefix(char::is_whitespace)?.trim_start();
    code.split(|c| !is_word(c)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/linecard-io/src/a.rs", text)])).len()
    }

    #[test]
    fn types_with_such_a_name_are_found() {
        for bad in [
            "pub struct Desk;",
            "pub(crate) enum Trouble { A }",
            "pub(in crate::a) trait Outside {}",
            "pub type Seat<'a> = &'a u8;",
            "#[derive(Debug)]\npub(super) struct Wish<T>(T);",
            "struct Desk;",
            "pub struct Outcome {}",
            "type Outcome<T> = Result<T, Error>;",
        ] {
            assert_eq!(count(bad), 1, "{bad}");
        }
    }

    #[test]
    fn other_names_and_associated_types_are_not() {
        for good in [
            "impl Job for A {\n    type Outcome = B;\n}",
            "pub struct Desktop;",
            "pub struct ReadQueue { desk: u8 }",
            "pub fn seat(seat: Seat) {}",
            "pub use other::Watch;",
            "pub struct A(pub Watch);",
            "// pub struct Desk;",
        ] {
            assert_eq!(count(good), 0, "{good}");
        }
    }

    #[test]
    fn each_unit_has_one_suffix() {
        for bad in ["let at_s = 1;", "pub rate_bps: u64,", "f(x.wait_secs)"] {
            assert_eq!(count(bad), 1, "{bad}");
        }
        let good =
            "let s = time.tv_sec; bits_per_second(hosts, Duration::from_secs(1), its, \"a_s\")";
        assert_eq!(count(good), 0);
        let tree = Tree::of(&[("crates/linecard/src/a.rs", "\nfn f() {\n    let a_ghz = 1;\n}")]);
        assert_eq!(check(&tree)[0].line, 3);
    }

    #[test]
    fn the_line_of_the_type_is_named() {
        let tree = Tree::of(&[("crates/linecard/src/a.rs", "\n\npub struct Watch;")]);
        assert_eq!(check(&tree)[0].line, 3);
    }
}
