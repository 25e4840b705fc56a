//! Names that may come from a peer: only below the receiving folder.

use super::FileError;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes of a name, with its folders: what one call of the system takes.
pub const MAX_NAME_BYTES: usize = 4_095;
/// Most bytes of one part of it.
const MAX_PART_BYTES: usize = 255;
/// Most folders, one in the other.
pub(super) const MAX_DEPTH: usize = 128;

/// Ends of names that are this program's own, of files beside those that are received.
pub(super) const PART: &str = ".linecard-part";
pub(super) const JOURNAL: &str = ".linecard-journal";
/// A journal that is being rewritten.
pub(super) const NEW_JOURNAL: &str = ".linecard-journal-new";
pub(super) const DAMAGED: &str = ".linecard-damaged";
/// A link that has not got its name yet.
pub(super) const LINK: &str = ".linecard-link";

/// The name of an object: parts with `/` between them, relative, without `.` and `..`. Bytes need not
/// be UTF-8.
///
/// ```
/// use linecard_transfer_net::file::Name;
/// assert!(Name::new(b"photos/2026/a.jpg").is_ok());
/// let refused = Name::new(b"../etc/passwd").map_err(|error| error.to_string());
/// assert_eq!(refused, Err("the name \"../etc/passwd\" is refused: it has a part `..`".into()));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The name that these bytes are.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`].
    pub fn new(bytes: &[u8]) -> Result<Self, FileError> {
        match fault(bytes) {
            None => Ok(Self(bytes.to_vec())),
            Some(why) => {
                let name = String::from_utf8_lossy(bytes).chars().take(80).collect();
                Err(FileError::Name { name, why })
            }
        }
    }

    /// As it is sent.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a relative path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Its folders as one path; empty for a name without any.
    pub(crate) fn folder(&self) -> &[u8] {
        let cut = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        &self.0[..cut]
    }

    /// Its folders, from the outermost, and what it is called there.
    pub(super) fn split(&self) -> (impl Iterator<Item = &OsStr>, &OsStr) {
        let cut = self.0.iter().rposition(|byte| *byte == b'/');
        let (folders, last) = match cut {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (&[][..], &self.0[..]),
        };
        let folders = folders.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        (folders.map(OsStr::from_bytes), OsStr::from_bytes(last))
    }

    /// Its folders, from the outermost, and then itself.
    pub(super) fn parts(&self) -> impl Iterator<Item = &OsStr> {
        let (folders, last) = self.split();
        folders.chain(std::iter::once(last))
    }

    /// Name of a file beside it. Where that would be too long, it has a hash for a name.
    pub(super) fn beside(&self, end: &str) -> String {
        let (_, last) = self.split();
        match last.to_str() {
            Some(last) if 1 + last.len() + end.len() <= MAX_PART_BYTES => format!(".{last}{end}"),
            _ => format!(".{}{end}", &blake3::hash(last.as_bytes()).to_hex()[..32]),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0).escape_debug())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Whether a part of a name is this program's own.
pub(super) fn is_ours(part: &[u8]) -> bool {
    [PART, JOURNAL, NEW_JOURNAL, DAMAGED, LINK].iter().any(|end| part.ends_with(end.as_bytes()))
}

fn fault(bytes: &[u8]) -> Option<&'static str> {
    if bytes.is_empty() {
        return Some("it is empty");
    }
    if bytes.len() > MAX_NAME_BYTES {
        return Some("it is longer than 4095 bytes");
    }
    if bytes.starts_with(b"/") {
        return Some("it is not relative");
    }
    if bytes.contains(&0) {
        return Some("it has a zero in it");
    }
    let mut parts = bytes.split(|byte| *byte == b'/');
    if parts.clone().count() > MAX_DEPTH {
        return Some("it is in more than 127 folders");
    }
    parts.find_map(|part| match part {
        b"" => Some("it has an empty part"),
        b"." => Some("it has a part `.`"),
        b".." => Some("it has a part `..`"),
        _ if part.len() > MAX_PART_BYTES => Some("a part of it is longer than 255 bytes"),
        _ if is_ours(part) => Some("a part of it ends as the names of partial files do"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = "a/".repeat(200) + "b";
        let wide = "w".repeat(256);
        let huge = "h/".repeat(3_000);
        for (name, why) in [
            ("", "empty"),
            ("/etc/passwd", "not relative"),
            ("..", "`..`"),
            ("a/../b", "`..`"),
            ("a/..", "`..`"),
            ("./a", "`.`"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("a\0b", "a zero"),
            (&long, "127 folders"),
            (&wide, "255"),
            (&huge, "4095"),
            (".a.linecard-part", "partial"),
            ("x.linecard-journal/a", "partial"),
        ] {
            let error = Name::new(name.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why) && error.lines().count() == 1, "{name}: {error}");
        }
        for name in ["a", "...", "..a", "a/.b/c ", "\u{e4}/\n", "-rf"] {
            assert_eq!(Name::new(name.as_bytes()).unwrap().as_bytes(), name.as_bytes());
        }
        assert!(Name::new(b"\xFF\xFE").is_ok());
    }

    #[test]
    fn files_beside_have_names_that_exist_and_are_ours() {
        let longest = "w".repeat(255);
        for name in ["a/b/c.txt", &longest] {
            let name = Name::new(name.as_bytes()).unwrap();
            let beside = name.beside(PART);
            assert!(beside.len() <= MAX_PART_BYTES && is_ours(beside.as_bytes()), "{beside}");
        }
        let name = Name::new(b"a/b/c.txt").unwrap();
        assert_eq!(name.beside(JOURNAL), ".c.txt.linecard-journal");
        let (folders, last) = name.split();
        assert_eq!(
            (folders.collect::<Vec<_>>(), last),
            (vec![OsStr::new("a"), OsStr::new("b")], OsStr::new("c.txt"))
        );
    }
}
