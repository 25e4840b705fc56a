//! The senders authorized at this end.

use super::{Fingerprint, KeyError, private};
use crate::file::Name;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A list of fingerprints, or all senders.
///
/// A file has one fingerprint a line; behind it may stand `folder=NAME`, `quota=SIZE`, `delete=yes` and `links-out=yes` (see
/// [`Entry`]), and then whatever its owner wants to remember. Empty lines and those that begin with `#` are skipped.
#[derive(Debug, Clone)]
pub enum Authorized {
    /// Only these.
    Only(Vec<Entry>),
    /// Those that this file names when a sender connects; none while the file does not exist.
    Listed(PathBuf),
    /// All senders, with any key: for a trusted network.
    Anybody,
}

/// A sender that may send, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Fingerprint,
    /// All that it sends goes into this folder, below the one that receives.
    pub folder: Option<Name>,
    /// How many bytes may be in its folder.
    pub quota_bytes: Option<u64>,
    /// It may remove files that it does not have, in the folders that it sends.
    pub may_delete: bool,
    /// It may send links that lead out of the folders that it sends.
    pub may_link_out: bool,
}

impl From<Fingerprint> for Entry {
    /// Into the folder that receives, without a quota.
    fn from(key: Fingerprint) -> Self {
        Self { key, folder: None, quota_bytes: None, may_delete: false, may_link_out: false }
    }
}

impl FromStr for Entry {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split_whitespace();
        let key = words.next().and_then(|word| word.parse::<Fingerprint>().ok());
        let mut entry = Self::from(key.ok_or("a line begins with a fingerprint (lc1…)")?);
        let mut is_remark = false;
        for word in words {
            match word.split_once('=') {
                Some((name, _)) if is_remark && is_option(name) => {
                    return Err(
                        "folder=, quota=, delete= and links-out= stand directly behind the fingerprint, before remarks",
                    );
                }
                Some(option) if !is_remark => entry.set(option)?,
                _ => is_remark = true,
            }
        }
        Ok(entry)
    }
}

/// Whether it is the name of an option, however it is written.
fn is_option(name: &str) -> bool {
    matches!(&*name.to_ascii_lowercase(), "folder" | "quota" | "delete" | "links-out")
}

impl Entry {
    /// Takes an option of a line, which stands there once.
    fn set(&mut self, option: (&str, &str)) -> Result<(), &'static str> {
        match option {
            ("folder", name) if name.contains(['"', '\'']) => {
                return Err("folder= is followed by a name without spaces and quotes");
            }
            ("folder", name) if self.folder.is_none() => {
                let name = Name::new(name.as_bytes());
                self.folder = Some(name.map_err(|_| {
                    "folder= is followed by a name below the folder that receives, without `..`"
                })?);
            }
            ("quota", size) if self.quota_bytes.is_none() => {
                self.quota_bytes =
                    Some(bytes(size).ok_or("quota= is followed by bytes, as 500M or 2T")?);
            }
            ("delete", "yes") if !self.may_delete => self.may_delete = true,
            ("links-out", "yes") if !self.may_link_out => self.may_link_out = true,
            ("delete", _) if !self.may_delete => {
                return Err("delete= is followed by yes, or left out");
            }
            ("links-out", _) if !self.may_link_out => {
                return Err("links-out= is followed by yes, or left out");
            }
            ("folder" | "quota" | "delete" | "links-out", _) => {
                return Err("folder=, quota=, delete= and links-out= stand once each");
            }
            (name, _) if is_option(name) => {
                return Err("folder=, quota=, delete= and links-out= are written in small letters");
            }
            // Misspelt, it would permit everything.
            _ => {
                return Err(
                    "behind the fingerprint stand folder=, quota=, delete= and links-out=; remarks begin with a word \
                     without `=`",
                );
            }
        }
        Ok(())
    }
}

/// A number of bytes, with K, M, G or T for powers of 1,024 as in options.
fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.chars().last()? {
        'K' => (text.strip_suffix('K')?, 10),
        'M' => (text.strip_suffix('M')?, 20),
        'G' => (text.strip_suffix('G')?, 30),
        'T' => (text.strip_suffix('T')?, 40),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Authorized {
    /// Those that the file at `path` names.
    ///
    /// # Errors
    ///
    /// No file, one that others can change, or a line that is not as it should be.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = File::open(path).map_err(|cause| KeyError::file(path, cause))?;
        Self::of_text(path, &private::read_open(path, &file)?)
    }

    /// Takes `text` as the contents of the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// A line that is not as it should be.
    pub fn of_text(path: &Path, text: &str) -> Result<Self, KeyError> {
        let mut list = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let refused = |what| KeyError::Line { path: path.to_owned(), line: index + 1, what };
            let entry: Entry = line.parse().map_err(refused)?;
            if list.iter().any(|other: &Entry| other.key == entry.key) {
                return Err(refused(
                    "the same fingerprint stands on a line before: remove one of them",
                ));
            }
            list.push(entry);
        }
        Ok(Self::Only(list))
    }

    /// The sender with this key, if it may send.
    ///
    /// # Errors
    ///
    /// An existing file that is invalid: no sender is authorized then.
    pub fn entry(&self, key: Fingerprint) -> Result<Option<Entry>, KeyError> {
        match self {
            Self::Only(list) => Ok(list.iter().find(|entry| entry.key == key).cloned()),
            Self::Listed(path) => match Self::load(path) {
                Err(KeyError::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    Ok(None)
                }
                list => list?.entry(key),
            },
            Self::Anybody => Ok(Some(key.into())),
        }
    }

    /// Whether this one may send.
    ///
    /// # Errors
    ///
    /// As [`Authorized::entry`].
    pub fn allows(&self, key: Fingerprint) -> Result<bool, KeyError> {
        self.entry(key).map(|entry| entry.is_some())
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

    #[test]
    fn a_line_may_name_a_folder_and_a_quota() {
        let key = Fingerprint::of(b"a");
        let of = |rest: &str| format!("{key}{rest}").parse::<Entry>();
        assert_eq!(of(""), Ok(key.into()));
        assert_eq!(of(" the lab's recorder"), Ok(key.into()));
        let found = of(" quota=2T folder=lab/a remarks").unwrap();
        let folder = Some(Name::new(b"lab/a").unwrap());
        let quota_bytes = Some(2 << 40);
        assert_eq!(found, Entry { folder, quota_bytes, ..key.into() });
        let rights = |rest: &str| of(rest).map(|entry| (entry.may_delete, entry.may_link_out));
        assert_eq!(rights(" delete=yes x"), Ok((true, false)));
        assert_eq!(rights(" links-out=yes delete=yes"), Ok((true, true)));
        for right in ["delete", "links-out"] {
            let yes = format!("{right}=yes");
            assert!(of(&format!(" {yes}")).is_ok());
            let wrong = [format!("{right}=no"), format!("{yes} {yes}"), format!("x {yes}")];
            let capital = yes[..1].to_uppercase() + &yes[1..];
            for wrong in wrong.into_iter().chain([capital]) {
                assert!(of(&format!(" {wrong}")).is_err(), "{wrong}");
            }
        }
        for wrong in [
            "remarks folder=a",
            "FOLDER=a",
            "foldr=a",
            "folder=a quotas=1K",
            "quota=1 x Quota=2",
            "folder=\"a",
        ] {
            assert!(of(&format!(" {wrong}")).is_err(), "{wrong}");
        }
        for wrong in ["folder=..", "folder=/a", "folder=", "quota=1X", "quota=", "quota=99999999T"]
        {
            assert!(of(&format!(" {wrong}")).is_err(), "{wrong}");
        }
        assert!(of(" quota=1 quota=2").is_err() && "nobody".parse::<Entry>().is_err());
    }
}
