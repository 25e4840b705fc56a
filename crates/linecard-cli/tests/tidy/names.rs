//! Names of types that say nothing to an engineer of the field. They were replaced by the field's terms; types with
//! such a name are refused.

use crate::Finding;
use crate::source::{Source, Tree, find_word, is_word};

/// A name that no visible type has, and the words to use instead.
const NAMES: [(&str, &str); 22] = [
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
    ("Seat", "port, or the thread that has the place"),
    ("Outside", "`Bus`"),
    ("Wish", "pending request"),
    ("Ladder", "bottleneck analysis"),
    ("Trail", "segment metadata"),
    ("Cut", "segment"),
];

/// Keywords that can follow `pub` and name a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Visible types (`pub`, `pub(crate)` and the like) with one of those names.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in find_word(&file.code, "pub") {
        let Some(name) = type_name(&file.code[at + "pub".len()..]) else { continue };
        if let Some((_, instead)) = NAMES.iter().find(|(word, _)| *word == name) {
            let what = format!("a type named `{name}` says little: use {instead}");
            findings.push(Finding::new(&file.path, file.line_of(at), what));
        }
    }
    findings
}

/// The name of the type that `code`, which follows `pub`, declares.
fn type_name(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let code = match code.strip_prefix('(') {
        Some(restriction) => restriction.split_once(')')?.1.trim_start(),
        None => code,
    };
    let mut words = code.split(|c| !is_word(c));
    words.next().filter(|word| KEYWORDS.contains(word))?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/linecard-io/src/a.rs", text)])).len()
    }

    #[test]
    fn visible_types_with_such_a_name_are_found() {
        for bad in [
            "pub struct Desk;",
            "pub(crate) enum Trouble { A }",
            "pub(in crate::a) trait Outside {}",
            "pub type Seat<'a> = &'a u8;",
            "#[derive(Debug)]\npub(super) struct Wish<T>(T);",
        ] {
            assert_eq!(count(bad), 1, "{bad}");
        }
    }

    #[test]
    fn other_names_and_private_types_are_not() {
        for good in [
            "struct Desk;",
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
    fn the_line_of_the_type_is_named() {
        let tree = Tree::of(&[("crates/linecard/src/a.rs", "\n\npub struct Watch;")]);
        assert_eq!(check(&tree)[0].line, 3);
    }
}
