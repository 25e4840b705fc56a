//! Keys of scenarios: what a kind of scenario has of them, and how they are found and told.
//!
//! Files, `--set` and `--vary` all go through such a table, so that each value has one reader.

use std::fmt::Write as _;

/// Columns beside the names, so that the lines of `--help` have fewer than 80.
const HELP_WIDTH: usize = 56;
/// Columns of the names; a longer one has a line of its own.
const NAME_WIDTH: usize = 20;

/// A key of settings.
pub(crate) struct Key<S> {
    /// Section and name: `core.mhz`.
    pub(crate) name: &'static str,
    /// What it means, with its range and its default.
    pub(super) what: &'static str,
    /// Reads a value.
    pub(crate) set: fn(&mut S, &str) -> Result<(), String>,
}

/// A kind of scenario: settings with keys.
pub(crate) trait Kind: Clone + Default + 'static {
    /// As the file says `model = "…"`.
    const NAME: &'static str;
    /// All keys.
    const KEYS: &'static [Key<Self>];
}

/// The key of this name.
pub(crate) fn find<S: Kind>(name: &str) -> Result<&'static Key<S>, String> {
    S::KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown::<S>(name))
}

/// What else there would be.
pub(super) fn unknown<S: Kind>(name: &str) -> String {
    let section = name.split_once('.').map_or(name, |(section, _)| section);
    let prefix = format!("{section}.");
    let in_section = S::KEYS.iter().filter(|key| key.name.starts_with(&prefix));
    let mut names: Vec<&str> = in_section.map(|key| key.name).collect();
    if names.is_empty() {
        names = S::KEYS.iter().map(|key| key.name).collect();
    }
    format!("unknown key `{name}`: known are {}", names.join(", "))
}

/// What a kind says of its keys.
pub(crate) struct Told {
    /// As the file says `model = "…"`.
    pub(crate) kind: &'static str,
    /// Name of each key, and what it means, with its range and its default.
    pub(crate) keys: Vec<(String, String)>,
}

/// All keys of a kind.
pub(super) fn told<S: Kind>() -> Told {
    Told {
        kind: S::NAME,
        keys: S::KEYS.iter().map(|key| (key.name.to_owned(), key.what.to_owned())).collect(),
    }
}

/// The same for `--help`.
pub(super) fn help(told: &Told) -> String {
    let mut text = format!("model = \"{}\"\n", told.kind);
    for (name, what) in &told.keys {
        let mut left = name.as_str();
        if left.len() > NAME_WIDTH {
            let _ = writeln!(text, "  {left}");
            left = "";
        }
        for line in lines(what) {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "  {left:NAME_WIDTH$} {line}");
            left = "";
        }
    }
    text + "\n"
}

/// A text in lines that fit beside the names.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < HELP_WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Every default that is told is the default, and every key has another name.
#[cfg(test)]
pub(super) fn check_defaults<S: Kind + std::fmt::Debug>() {
    for (at, key) in S::KEYS.iter().enumerate() {
        let told = key.what.rsplit_once('[').expect("a default").1.trim_end_matches(']');
        let mut settings = S::default();
        (key.set)(&mut settings, told).unwrap_or_else(|what| panic!("{}: {what}", key.name));
        assert_eq!(format!("{settings:?}"), format!("{:?}", S::default()), "{}", key.name);
        assert!(S::KEYS[..at].iter().all(|other| other.name != key.name), "{}", key.name);
    }
}
