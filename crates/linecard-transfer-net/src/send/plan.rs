//! The findings of a dry run: the action for each object.

use crate::file::{FileError, Kind, Object};
use linecard_transfer::control;

/// An action of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It would be sent, or made where it is a folder.
    Send,
    /// It would be sent, and replace another.
    Replace,
    /// It exists, and is equal.
    Equal,
    /// It would not be transferred.
    Refuse,
    /// It is at the receiver only, and would be removed.
    Remove,
}

/// The future of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name at the receiver.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// The action.
    pub action: Action,
    /// Its bytes that would be sent, where they are known.
    pub bytes: u64,
    /// Why it would not be transferred.
    pub why: Option<String>,
}

/// An object of the receiver in the place of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct There {
    /// A file of the same length, whose hash is known.
    is_compared: bool,
    /// It would be replaced if it differs.
    is_replaced: bool,
}

impl There {
    pub(super) const fn of(told: &control::Have) -> Self {
        Self { is_compared: told.existing.is_some(), is_replaced: told.replaces }
    }

    /// The future of an object of which the receiver has `had_bytes`; an error if it would be refused.
    pub(super) fn planned(
        self,
        object: &Object,
        had_bytes: u64,
        is_equal: bool,
    ) -> Result<Planned, FileError> {
        let (action, bytes) = match self {
            _ if is_equal => (Action::Equal, 0),
            Self { is_replaced: true, .. } => (Action::Replace, object.size.unwrap_or(0)),
            Self { is_compared: true, .. } => {
                return Err(FileError::Exists { path: object.name.as_path().into() });
            }
            Self { .. } => (Action::Send, object.size.unwrap_or(0)),
        };
        let bytes = bytes.saturating_sub(had_bytes);
        Ok(Planned { name: name_of(object), kind: object.kind, action, bytes, why: None })
    }
}

impl Planned {
    /// Something that would be removed.
    pub(super) fn removed(name: &[u8], is_folder: bool) -> Self {
        let kind = if is_folder { Kind::Folder } else { Kind::File };
        Self { name: text_of(name), kind, action: Action::Remove, bytes: 0, why: None }
    }

    /// An object that would not be transferred.
    pub(super) fn refused(object: &Object, why: String) -> Self {
        let (name, kind) = (name_of(object), object.kind);
        Self { name, kind, action: Action::Refuse, bytes: 0, why: Some(why) }
    }
}

fn name_of(object: &Object) -> String {
    text_of(object.name.as_bytes())
}

fn text_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
