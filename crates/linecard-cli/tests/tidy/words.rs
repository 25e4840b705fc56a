//! Phrases that are not plain technical English. They were replaced everywhere; new text with one of them is refused.

use std::path::Path;

use crate::Finding;
use crate::links::documents;
use crate::source::{Tree, find_word};

/// A phrase in lower case, and the words to use instead.
const PHRASES: [(&str, &str); 21] = [
    ("let go", "flushed, sent on, released"),
    ("lets go", "flushes, sends on, releases"),
    ("letting go", "flushing, sending on, releasing"),
    ("whoever", "the role: the sender, the caller, an attacker"),
    ("for ever", "forever, without limit"),
    ("anew", "again, or a verb with re-"),
    ("gone on with", "resumed, continued"),
    ("go on with it", "resume"),
    ("to speak of", "a quantity"),
    ("after so many", "after this many, or the number"),
    ("what it is that", "the noun"),
    ("who is who", "the roles"),
    ("who may send", "authorized senders"),
    ("who is to blame", "the cause"),
    ("nothing of it is left", "it is removed"),
    ("is no error", "is not an error"),
    ("are no error", "are not errors"),
    ("is no matter", "does not matter"),
    ("no matter of", "not a matter of"),
    ("cut into packets", "segmented, divided into packets"),
    ("cut into segments", "segmented, divided into segments"),
];

/// How a comment must not begin: such a clause stands for a noun that exists.
const CLAUSES: [&str; 2] = ["What ", "Who "];

/// Measurement history, which quotes names of benchmarks.
const HISTORY: &str = "docs/results/offload.md";

/// Phrases in source and documents, and comments that begin with a clause.
pub(crate) fn check(root: &Path, tree: &Tree) -> Vec<Finding> {
    let sources = tree.files.iter().map(|file| (file.path.clone(), file.text.clone()));
    let texts = documents(root).into_iter().map(|name| {
        let text = std::fs::read_to_string(root.join(&name)).unwrap_or_default();
        (name, text)
    });
    let texts = sources.chain(texts);
    texts
        .filter(|(name, _)| name != HISTORY)
        .flat_map(|(name, text)| check_text(&name, &text))
        .collect()
}

fn check_text(name: &str, text: &str) -> Vec<Finding> {
    let joined = Joined::new(text);
    let mut findings: Vec<Finding> = PHRASES
        .iter()
        .flat_map(|(phrase, instead)| {
            let what = format!("\"{phrase}\" is not plain English: write {instead}");
            // `let go = …` is code.
            let is_text = |at: &usize| !joined.text[at + phrase.len()..].starts_with(" =");
            let places = find_word(&joined.text, phrase).filter(is_text);
            let places = places.map(|at| joined.line_of(at));
            places.map(|line| Finding::new(name, line, what.clone())).collect::<Vec<_>>()
        })
        .collect();
    if name.ends_with(".rs") {
        findings.extend(clauses(name, text));
    }
    findings
}

/// Comments that begin with a clause and are not questions.
fn clauses(name: &str, text: &str) -> Vec<Finding> {
    let is_clause = |line: &str| {
        let comment = line.trim_start().strip_prefix("//");
        let comment = comment.map(|text| text.trim_start_matches(['/', '!']).trim_start());
        comment.is_some_and(|text| {
            CLAUSES.iter().any(|clause| text.starts_with(clause)) && !text.contains('?')
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| is_clause(line));
    let what = "a comment begins with \"What\" or \"Who\": begin with the noun";
    lines.map(|(at, _)| Finding::new(name, at + 1, what)).collect()
}

/// A text in lower case whose lines are joined by one space, without comment markers and the ends of continued
/// strings, so that a phrase is found across a line break.
struct Joined {
    text: String,
    /// Where each line starts in `text`.
    starts: Vec<usize>,
}

impl Joined {
    fn new(text: &str) -> Self {
        let mut joined = Self { text: String::with_capacity(text.len()), starts: Vec::new() };
        for line in text.lines() {
            joined.starts.push(joined.text.len());
            let line = line.trim().trim_start_matches(['/', '!', '#', '>']).trim_start();
            joined.text.push_str(&line.trim_end_matches('\\').trim_end().to_ascii_lowercase());
            joined.text.push(' ');
        }
        joined
    }

    /// 1-based line of an offset.
    fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<usize> {
        check_text(name, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn phrases_are_found_across_lines_comments_and_strings() {
        assert_eq!(lines("docs/a.md", "Held packets are let\ngo at the end."), [1]);
        assert_eq!(lines("crates/a/src/a.rs", "\n    // It waits for\n    // ever.\n"), [2]);
        assert_eq!(lines("crates/a/src/a.rs", "f(\"that is no \\\n   error\")"), [1]);
        assert_eq!(lines("docs/a.md", "Whoever reads this"), [1]);
    }

    #[test]
    fn words_that_contain_a_phrase_are_not() {
        assert_eq!(lines("crates/a/src/a.rs", "let good = 1; let gone = 2; // for every one"), []);
    }

    #[test]
    fn comments_that_begin_with_a_clause_are_found() {
        for bad in ["/// What is sent.", "    //! Who sends.", "// What is lost"] {
            assert_eq!(lines("crates/linecard/src/a.rs", bad), [1], "{bad}");
        }
        for good in ["// What is lost?", "/// Whatever is sent.", "let a = \"What is sent\";"] {
            assert_eq!(lines("crates/linecard/src/a.rs", good), [], "{good}");
        }
    }
}
