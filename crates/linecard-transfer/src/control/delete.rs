//! Messages about files that the receiver has and the sender does not have.

use super::field::{Fields, Frame, Tag};
use super::text::Text;
use super::{MAX_NAME_BYTES, MessageError};
use alloc::vec::Vec;

/// The most questions of a sender without an answer, about what the receiver has or is to remove.
pub const MAX_ASKED: usize = 64;
/// The most bytes of [`Names`].
pub const MAX_NAMES_BYTES: usize = 32 << 10;

/// Names of files and folders. Not trusted.
///
/// ```
/// use linecard_transfer::control::Names;
/// let mut names = Names::default();
/// assert!(names.push(b"file", false) && names.push(b"folder", true));
/// let all: Vec<_> = names.iter().collect();
/// assert_eq!(all, [(&b"file"[..], false), (b"folder", true)]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(
    /// Each with a zero behind it; that of a folder ends in `/`.
    Vec<u8>,
);

impl Names {
    /// Adds a name; false if there is no more room.
    pub fn push(&mut self, name: &[u8], is_folder: bool) -> bool {
        let end: &[u8] = if is_folder { b"/\0" } else { b"\0" };
        let fits = self.0.len() + name.len() + end.len() <= MAX_NAMES_BYTES;
        if fits {
            self.0.extend(name);
            self.0.extend(end);
        }
        fits
    }

    /// Each name, and whether it is that of a folder.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let names = self.0.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| name.strip_suffix(b"/").map_or((name, false), |name| (name, true)))
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Asks for what the receiver has in a folder that was sent, or below one: the sender's question when all it sent has
/// arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The name of the folder, as those of objects.
    pub folder: Vec<u8>,
    /// Only names behind this one, in the order of [`Listed`]; empty for the first.
    pub after: Vec<u8>,
}

/// The answer to [`List`], in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Names in the folder.
    pub names: Names,
    /// There is more behind the last of them.
    pub has_more: bool,
    /// Why the folder cannot be listed; empty if it can.
    pub error: Text,
}

/// The receiver is to remove these, in this order: folders are empty by then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remove {
    /// Whole names, as those of objects.
    pub names: Names,
}

/// The answer to [`Remove`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many are not there any more.
    pub count: u32,
    /// How many could not be removed.
    pub failed: u32,
    /// Why the first of those could not; empty if there is none.
    pub error: Text,
}

const FOLDER: Tag = (1, "folder");
const AFTER: Tag = (2, "after");
const NAMES: Tag = (1, "names");
const MORE: Tag = (2, "more");
const ERROR: Tag = (3, "error");
const COUNT: Tag = (1, "count");
const FAILED: Tag = (2, "failed");

impl List {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.bytes(FOLDER.0, &self.folder);
        frame.bytes(AFTER.0, &self.after);
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let name = |tag| fields.bytes(tag, MAX_NAME_BYTES).map(<[u8]>::to_vec);
        Ok(Self { folder: name(FOLDER)?, after: name(AFTER)? })
    }
}

impl Listed {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.bytes(NAMES.0, &self.names.0);
        if self.has_more {
            frame.bytes(MORE.0, &[]);
        }
        frame.bytes(ERROR.0, self.error.as_str().as_bytes());
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let names = Names(fields.bytes(NAMES, MAX_NAMES_BYTES)?.to_vec());
        Ok(Self { names, has_more: fields.maybe(MORE)?.is_some(), error: fields.text(ERROR)? })
    }
}

impl Remove {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.bytes(NAMES.0, &self.names.0);
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self { names: Names(fields.bytes(NAMES, MAX_NAMES_BYTES)?.to_vec()) })
    }
}

impl Removed {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(COUNT.0, self.count);
        frame.number(FAILED.0, self.failed);
        frame.bytes(ERROR.0, self.error.as_str().as_bytes());
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            count: fields.number(COUNT)?,
            failed: fields.number(FAILED)?,
            error: fields.text(ERROR)?,
        })
    }
}
