//! The senders authorized at this end.

use super::{Fingerprint, KeyError, private};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A list of fingerprints, or everybody.
///
/// A file has one fingerprint a line, and behind it whatever its owner wants to remember. Empty lines
/// and those that begin with `#` are skipped.
#[derive(Debug, Clone)]
pub enum Authorized {
    /// Only these.
    Only(Vec<Fingerprint>),
    /// Those that this file names whenever somebody comes; nobody while there is no such file.
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
    ///
    /// # Errors
    ///
    /// A file that is there and is not as it should be: nobody may send then.
    pub fn allows(&self, fingerprint: Fingerprint) -> Result<bool, KeyError> {
        match self {
            Self::Only(list) => Ok(list.contains(&fingerprint)),
            Self::Listed(path) => match Self::load(path) {
                Err(KeyError::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    Ok(false)
                }
                list => list?.allows(fingerprint),
            },
            Self::Anybody => Ok(true),
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
        assert!(!list.allows(a).unwrap(), "nobody is on a list that is not there");
        fs::write(&path, a.to_string()).unwrap();
        assert!(list.allows(a).unwrap());
        fs::write(&path, format!("{a}\nnobody\n")).unwrap();
        let refused = list.allows(a);
        assert!(matches!(refused, Err(KeyError::Line { line: 2, .. })), "{refused:?}");
    }

    #[test]
    fn only_who_is_listed_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized");
        let [a, b] = [Fingerprint::of(b"a"), Fingerprint::of(b"b")];
        fs::write(&path, format!("# senders\n{a} the lab's recorder\n\n")).unwrap();
        let list = Authorized::load(&path).unwrap();
        assert!(list.allows(a).unwrap() && !list.allows(b).unwrap());
        assert!(Authorized::Anybody.allows(b).unwrap());
        fs::write(&path, "").unwrap();
        assert!(
            !Authorized::load(&path).unwrap().allows(a).unwrap(),
            "an empty list allows nobody"
        );
        fs::write(&path, format!("{a}\nrecorder {b}\n")).unwrap();
        assert!(matches!(Authorized::load(&path), Err(KeyError::Line { line: 2, .. })));
        assert!(matches!(Authorized::load(folder.path()), Err(KeyError::NotAFile { .. })));
    }
}
