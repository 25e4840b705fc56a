//! The key of each address from earlier connections.

use super::{Fingerprint, KeyError, ListFile, private};
use std::path::{Path, PathBuf};

/// A file of lines `name fingerprint`, as SSH's `known_hosts`. Empty lines and those that begin
/// with `#` are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeers {
    path: PathBuf,
    entries: Vec<(String, Fingerprint)>,
}

/// Classification of a name's key, by the known keys of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The one that it has always had.
    Known,
    /// Nothing is known of this name.
    New,
    /// Another than this one: an attacker may be in between.
    Changed {
        /// The one that was known first.
        known: Fingerprint,
    },
}

impl KnownPeers {
    /// Contents of the file at `path`; without a file, nothing is known.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or that others can change, or a line that is not as it should be: nobody is
    /// to be forgotten.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = private::read_trusted(path)?;
        if text.is_none() {
            private::check_folder(path)?;
        }
        Self::of_text(path, &text.unwrap_or_default())
    }

    /// Takes `text` as the contents of the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// A line that is not as it should be.
    #[doc(hidden)]
    pub fn of_text(path: &Path, text: &str) -> Result<Self, KeyError> {
        Ok(Self { path: path.to_owned(), entries: lines(path, text)? })
    }

    /// Classification of `fingerprint` for `name`. A name may have several keys; any of them is
    /// known.
    #[must_use]
    pub fn standing(&self, name: &str, fingerprint: Fingerprint) -> Standing {
        let mut of_name = self.entries.iter().filter(|(other, _)| other == name);
        match of_name.next() {
            None => Standing::New,
            Some((_, first)) if *first == fingerprint => Standing::Known,
            Some(_) if of_name.any(|(_, other)| *other == fingerprint) => Standing::Known,
            Some((_, known)) => Standing::Changed { known: *known },
        }
    }

    /// Writes down that `name` has this key, unless something is known of it by now: what that makes
    /// of the key. The file is looked at again, as another process may have been here first.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a name that no line can hold.
    pub fn remember(&mut self, name: &str, fingerprint: Fingerprint) -> Result<Standing, KeyError> {
        if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
            let what = "a name without spaces that does not begin with # is needed";
            return Err(KeyError::content(&self.path, what));
        }
        *self = Self::load(&self.path)?;
        let standing = self.standing(name, fingerprint);
        if standing != Standing::New {
            return Ok(standing);
        }
        ListFile::open(self.path.clone())?.add(|text| {
            *self = Self::of_text(&self.path, text)?;
            let standing = self.standing(name, fingerprint);
            let line = (standing == Standing::New).then(|| {
                self.entries.push((name.to_owned(), fingerprint));
                format!("{name} {fingerprint}")
            });
            Ok((line, standing))
        })
    }

    /// The names that have this key.
    pub fn names(&self, fingerprint: Fingerprint) -> impl Iterator<Item = &str> {
        let of_key = self.entries.iter().filter(move |(_, key)| *key == fingerprint);
        of_key.map(|(name, _)| name.as_str())
    }

    /// Whether a key of this name is known.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.entries.iter().any(|(other, _)| other == name)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn lines(path: &Path, text: &str) -> Result<Vec<(String, Fingerprint)>, KeyError> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
        let fingerprint = words.next().and_then(|word| word.parse().ok());
        let Some(fingerprint) = fingerprint.filter(|_| words.next().is_none()) else {
            let what = "a line is a name and a fingerprint (lc1…)";
            return Err(KeyError::Line { path: path.to_owned(), line: index + 1, what });
        };
        entries.push((name.to_owned(), fingerprint));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn key(name: &str) -> Fingerprint {
        Fingerprint::of(name.as_bytes())
    }

    #[test]
    fn a_name_is_remembered_once_and_its_change_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config/known_peers");
        let mut known = KnownPeers::load(&path).unwrap();
        assert_eq!(known.standing("host:4100", key("a")), Standing::New);
        assert_eq!(known.remember("host:4100", key("a")).unwrap(), Standing::New);
        assert_eq!(known.remember("host:4100", key("a")).unwrap(), Standing::Known);
        let changed = Standing::Changed { known: key("a") };
        assert_eq!(known.remember("host:4100", key("b")).unwrap(), changed);
        assert_eq!(known.standing("other:4100", key("a")), Standing::New);

        let again = KnownPeers::load(&path).unwrap();
        assert_eq!(again.standing("host:4100", key("a")), Standing::Known);
        assert_eq!(again.standing("host:4100", key("b")), changed);
        assert_eq!(fs::read_to_string(&path).unwrap().matches("lc1").count(), 1);

        assert!(again.knows("host:4100") && !again.knows("host"));
        assert_eq!(again.names(key("a")).collect::<Vec<_>>(), ["host:4100"]);
        assert_eq!(fs::read_to_string(&path).unwrap().matches("lc1").count(), 1);
    }

    #[test]
    fn another_process_that_was_first_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_peers");
        let mut slow = KnownPeers::load(&path).unwrap();
        let mut fast = KnownPeers::load(&path).unwrap();
        assert_eq!(fast.remember("host", key("a")).unwrap(), Standing::New);
        let changed = Standing::Changed { known: key("a") };
        assert_eq!(slow.remember("host", key("b")).unwrap(), changed);
    }

    #[test]
    fn comments_are_skipped_and_broken_lines_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_peers");
        fs::write(&path, format!("# mine\n\n host {}", key("a"))).unwrap();
        let mut known = KnownPeers::load(&path).unwrap();
        assert_eq!(known.standing("host", key("a")), Standing::Known);
        known.remember("next", key("b")).unwrap();
        let known = KnownPeers::load(&path).unwrap();
        assert_eq!(known.standing("next", key("b")), Standing::Known);
        for broken in ["host", "host lc1short", &format!("host {} more", key("a"))] {
            fs::write(&path, format!("#\n{broken}\n")).unwrap();
            let refused = KnownPeers::load(&path).unwrap_err();
            assert!(matches!(refused, KeyError::Line { line: 2, .. }), "{refused}");
        }
    }

    #[test]
    fn a_name_cannot_write_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = KnownPeers::load(&folder.path().join("known_peers")).unwrap();
        for name in ["", "a b", "a\nhost", "#a"] {
            assert!(known.remember(name, key("a")).is_err(), "{name}");
        }
        assert!(!known.path().exists());
    }
}
