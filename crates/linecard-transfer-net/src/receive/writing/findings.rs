//! The stored parts of an object that is announced.

use crate::file::{ChunkBytes, Existing, FileError, Folder, Have, Object};

/// The stored parts of an object.
#[derive(Debug, Default)]
pub(in crate::receive) struct Findings {
    /// Chunks that need not come.
    pub(in crate::receive) have: Have,
    /// The hash of an existing file.
    pub(in crate::receive) existing: Option<[u8; 32]>,
    /// The hash of a partial file that may be all of it.
    pub(in crate::receive) part: Option<blake3::Hash>,
    /// It counts as the same.
    pub(in crate::receive) is_same: bool,
    /// There is nothing to do when all of it has been sent.
    pub(in crate::receive) is_settled: bool,
    /// In a dry run: an existing object is replaced if it differs.
    pub(in crate::receive) replaces: bool,
    /// The sender is to prove with this key that it has an existing file.
    pub(in crate::receive) proof_key: Option<[u8; 32]>,
}

impl Findings {
    /// The object is in its place, with all its `count` chunks.
    pub(in crate::receive) fn settled(count: u32) -> Self {
        Self { have: Have::all(count), is_same: true, is_settled: true, ..Self::default() }
    }

    /// A file of this hash exists.
    pub(super) fn of_file(hash: blake3::Hash, have: Have) -> Self {
        Self { have, existing: Some(*hash.as_bytes()), ..Self::default() }
    }
}

/// The existing object of this name. Nothing is left beside a whole file.
pub(super) fn existing(
    folder: &Folder,
    about: &Object,
    chunk_bytes: ChunkBytes,
) -> Result<Existing, FileError> {
    let count = chunk_bytes.count(about.size.unwrap_or(0))?;
    let existing = folder.existing(about)?;
    if existing == Existing::Same {
        folder.remove_part(about, chunk_bytes);
    }
    if matches!(existing, Existing::Same | Existing::File { part: false, .. }) {
        // Files of one chunk have no journal.
        if count > 1 {
            folder.remove_journal(about);
        }
        folder.remove_old_link(about);
    }
    Ok(existing)
}
