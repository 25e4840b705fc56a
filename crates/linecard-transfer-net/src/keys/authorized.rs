//! Who may send to this end.

use super::{Fingerprint, KeyError, private};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A list of fingerprints, or everybody.
///
/// A file has one fingerprint a line, and behind it whatever its owner wants to remember. Empty lines
/// and those that begin with `#` are skipped.
#[derive(Debug, Clone)]
pub enum Authorized {
    /// Only these.
    Only(Vec<Fingerprint>),
    /// Those that this file names whenever somebody comes; nobody while there is no such file, or one
    /// that is not as it should be.
    Listed(PathBuf),
    /// Everybody who shows any key: for a network that one trusts.
    Anybody,
}

impl Authorized {
    /// Those that the file at `path` names.
    ///
    /// # Errors
    ///
    /// No file, one that others can change, or a line that is not as it should be.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = File::open(path).map_err(|cause| KeyError::file(path, cause))?;
        let mut list = Vec::new();
        for (index, line) in private::read_open(path, &file)?.lines().enumerate() {
            let word = line.split_whitespace().next();
            let Some(word) = word.filter(|word| !word.starts_with('#')) else { continue };
            let what = "a line begins with a fingerprint (lc1…)";
            let refused = |_| KeyError::Line { path: path.to_owned(), line: index + 1, what };
            list.push(word.parse().map_err(refused)?);
        }
        Ok(Self::Only(list))
    }

    /// Whether this one may send.
    #[must_use]
    pub fn allows(&self, fingerprint: Fingerprint) -> bool {
        match self {
            Self::Only(list) => list.contains(&fingerprint),
            Self::Listed(path) => Self::load(path).is_ok_and(|list| list.allows(fingerprint)),
            Self::Anybody => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_list_may_grow_while_others_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized");
        let (list, a) = (Authorized::Listed(path.clone()), Fingerprint::of(b"a"));
        assert!(!list.allows(a), "nobody is on a list that is not there");
        fs::write(&path, a.to_string()).unwrap();
        assert!(list.allows(a));
        fs::write(&path, format!("{a}\nnobody\n")).unwrap();
        assert!(!list.allows(a), "a list that is not as it should be allows nobody");
    }

    #[test]
    fn only_who_is_listed_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized");
        let [a, b] = [Fingerprint::of(b"a"), Fingerprint::of(b"b")];
        fs::write(&path, format!("# senders\n{a} the lab's recorder\n\n")).unwrap();
        let list = Authorized::load(&path).unwrap();
        assert!(list.allows(a) && !list.allows(b));
        assert!(Authorized::Anybody.allows(b));
        fs::write(&path, "").unwrap();
        assert!(!Authorized::load(&path).unwrap().allows(a), "an empty list allows nobody");
        fs::write(&path, format!("{a}\nrecorder {b}\n")).unwrap();
        assert!(matches!(Authorized::load(&path), Err(KeyError::Line { line: 2, .. })));
        assert!(matches!(Authorized::load(folder.path()), Err(KeyError::NotAFile { .. })));
    }
}
