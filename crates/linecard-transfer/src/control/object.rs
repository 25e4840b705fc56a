//! Messages about the objects that are sent.

use super::field::{Fields, Frame, Tag};
use super::text::Text;
use super::{MAX_CHUNK_BYTES, MAX_HAVE_RANGES, MAX_NAME_BYTES, MessageError, OBJECT_FIELD};
use alloc::vec::Vec;

/// An object to be sent: a file or a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its number, assigned by the sender.
    pub id: u32,
    /// Relative path, with `/` between its parts; empty for a stream without a name. At most
    /// [`MAX_NAME_BYTES`]. Not trusted: the receiver decides where it leads.
    pub name: Vec<u8>,
    /// Length in bytes if known; a stream's length follows in its [`End`].
    pub size: Option<u64>,
    /// Permissions, as in `st_mode`.
    pub mode: u32,
    /// Whether it has holes: parts that are zero and take no room on the sender's disk.
    pub has_holes: bool,
    /// Whether a file of the same length and modification time at the receiver counts as the same.
    pub by_time: bool,
    /// Whether it is one of several, so that the others continue when it cannot be stored.
    pub has_others: bool,
    /// Whether objects that follow are hard links of it.
    pub has_links: bool,
    /// Number of the object, a file announced before with `has_links`, that it is a hard link of: it has no bytes of its
    /// own. From version 6 on.
    pub link_of: Option<u32>,
    /// Modification time, ns since 1970.
    pub modified_ns: i64,
    /// Number of its first chunk in the connection.
    pub first_chunk: u32,
}

const NAME: Tag = (2, "name");
const SIZE: Tag = (3, "size");
const MODE: Tag = (4, "mode");
const MODIFIED: Tag = (5, "modification time");
const FIRST_CHUNK: Tag = (6, "first chunk");
const HOLES: Tag = (7, "holes");
const BY_TIME: Tag = (8, "by time");
const OTHERS: Tag = (9, "others");
const LINKS: Tag = (10, "links");
const LINK_OF: Tag = (11, "link of");

impl Object {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(OBJECT_FIELD.0, self.id);
        frame.bytes(NAME.0, &self.name);
        if let Some(size) = self.size {
            frame.number(SIZE.0, size);
        }
        frame.number(MODE.0, self.mode);
        frame.number(MODIFIED.0, self.modified_ns);
        frame.number(FIRST_CHUNK.0, self.first_chunk);
        if self.has_holes {
            frame.bytes(HOLES.0, &[]);
        }
        if self.by_time {
            frame.bytes(BY_TIME.0, &[]);
        }
        if self.has_others {
            frame.bytes(OTHERS.0, &[]);
        }
        if self.has_links {
            frame.bytes(LINKS.0, &[]);
        }
        if let Some(object) = self.link_of {
            frame.number(LINK_OF.0, object);
        }
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            id: fields.number(OBJECT_FIELD)?,
            size: fields.maybe_number(SIZE)?,
            mode: fields.number(MODE)?,
            modified_ns: fields.number(MODIFIED)?,
            first_chunk: fields.number(FIRST_CHUNK)?,
            name: fields.bytes(NAME, MAX_NAME_BYTES)?.to_vec(),
            has_holes: fields.maybe(HOLES)?.is_some(),
            by_time: fields.maybe(BY_TIME)?.is_some(),
            has_others: fields.maybe(OTHERS)?.is_some(),
            has_links: fields.maybe(LINKS)?.is_some(),
            link_of: fields.maybe_number(LINK_OF)?,
        })
    }
}

/// Consecutive chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRange {
    /// Number of the first, counted in the connection.
    pub first: u32,
    /// How many, at least one.
    pub count: u32,
}

/// The chunks of an object that the receiver has already, and will not need again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Have {
    /// Number of the object.
    pub object: u32,
    /// In ascending order, without overlap, at most [`MAX_HAVE_RANGES`].
    pub ranges: Vec<ChunkRange>,
    /// BLAKE3 hash of the receiver's file of the same name and length: if the object has the same
    /// hash, the sender sends none of its chunks.
    pub existing: Option<[u8; 32]>,
    /// Of a partial file that may be all of an object of one chunk, a value that follows from its BLAKE3 hash, and from
    /// which that does not: if it follows from the object's hash, the sender does not send the chunk. A sender that does
    /// not have the data cannot claim them.
    pub part: Option<[u8; 32]>,
    /// The receiver has a file of the same name, length and time, and takes it for the same: `ranges` are
    /// all, and the sender need not read it.
    pub is_same: bool,
    /// In a dry run: a file or link of this name exists, and is replaced if it differs.
    pub replaces: bool,
    /// Key of the proof ([`End::proof`]) that the sender has what is in an existing file of which hard links follow.
    pub proof_key: Option<[u8; 32]>,
}

const RANGES: Tag = (2, "ranges");
const EXISTING: Tag = (3, "hash of the existing file");
const SAME: Tag = (4, "same");
const REPLACES: Tag = (5, "replaces");
const PROOF_KEY: Tag = (6, "key of the proof");
const PART: Tag = (7, "what follows from the hash of a partial file");

impl Have {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(OBJECT_FIELD.0, self.object);
        frame.list(RANGES.0, &self.ranges, |range, out| {
            out.extend(range.first.to_be_bytes());
            out.extend(range.count.to_be_bytes());
        });
        if let Some(existing) = &self.existing {
            frame.bytes(EXISTING.0, existing);
        }
        if self.is_same {
            frame.bytes(SAME.0, &[]);
        }
        if self.replaces {
            frame.bytes(REPLACES.0, &[]);
        }
        if let Some(key) = &self.proof_key {
            frame.bytes(PROOF_KEY.0, key);
        }
        if let Some(part) = &self.part {
            frame.bytes(PART.0, part);
        }
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let object = fields.number(OBJECT_FIELD)?;
        let list = fields.list::<8>(RANGES, (0, MAX_HAVE_RANGES))?;
        let mut ranges = Vec::with_capacity(list.len());
        let mut free = 0_u64;
        for range in list {
            let both = u64::from_be_bytes(*range);
            let (first, count) = ((both >> 32) as u32, both as u32);
            let end = u64::from(first) + u64::from(count);
            if u64::from(first) < free || count == 0 || end > 1 << 32 {
                return Err(MessageError::Value { field: RANGES.1, value: both });
            }
            free = end;
            ranges.push(ChunkRange { first, count });
        }
        Ok(Self {
            object,
            ranges,
            existing: fields.maybe_array(EXISTING)?,
            is_same: fields.maybe(SAME)?.is_some(),
            replaces: fields.maybe(REPLACES)?.is_some(),
            proof_key: fields.maybe_array(PROOF_KEY)?,
            part: fields.maybe_array(PART)?,
        })
    }
}

/// The length of a chunk of a stream, whose length is not known. Before version 5 all but the last one are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of the chunk in the connection.
    pub chunk: u32,
    /// Its bytes, at most [`MAX_CHUNK_BYTES`].
    pub bytes: u32,
}

const CHUNK: Tag = (1, "chunk");
const CHUNK_BYTES: Tag = (2, "bytes");

impl Span {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(CHUNK.0, self.chunk);
        frame.number(CHUNK_BYTES.0, self.bytes);
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let bytes: u32 = fields.number(CHUNK_BYTES)?;
        if bytes > MAX_CHUNK_BYTES {
            return Err(MessageError::Value { field: CHUNK_BYTES.1, value: bytes.into() });
        }
        Ok(Self { chunk: fields.number(CHUNK)?, bytes })
    }
}

/// All chunks of an object have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Number of the object.
    pub object: u32,
    /// Its bytes.
    pub size: u64,
    /// BLAKE3 of them.
    pub root: [u8; 32],
    /// BLAKE3 of them with the key of [`Have::proof_key`]. The receiver has told the hash without a key, so that hash does
    /// not prove that the sender has the bytes.
    pub proof: Option<[u8; 32]>,
}

const END_SIZE: Tag = (2, "size");
const ROOT: Tag = (3, "root");
const PROOF: Tag = (4, "proof");

impl End {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(OBJECT_FIELD.0, self.object);
        frame.number(END_SIZE.0, self.size);
        frame.bytes(ROOT.0, &self.root);
        if let Some(proof) = &self.proof {
            frame.bytes(PROOF.0, proof);
        }
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            object: fields.number(OBJECT_FIELD)?,
            size: fields.number(END_SIZE)?,
            root: fields.array(ROOT)?,
            proof: fields.maybe_array(PROOF)?,
        })
    }
}

/// A failure at the end that sends this message. If it concerns one object, only that object is
/// given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Number of the object; none if the whole transfer has failed.
    pub object: Option<u32>,
    /// From a sender, for an object: its chunks from this number on, counted in the connection,
    /// will not be sent. None if all have been sent.
    pub sent_below: Option<u32>,
    /// The kind of failure; the values are defined by the caller.
    pub code: u16,
    /// For the user.
    pub text: Text,
}

const CODE: Tag = (2, "code");
const TEXT: Tag = (3, "text");
const SENT_BELOW: Tag = (4, "end of what was sent");

impl Failed {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        if let Some(object) = self.object {
            frame.number(OBJECT_FIELD.0, object);
        }
        frame.number(CODE.0, self.code);
        frame.bytes(TEXT.0, self.text.as_str().as_bytes());
        if let Some(sent_below) = self.sent_below {
            frame.number(SENT_BELOW.0, sent_below);
        }
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            object: fields.maybe_number(OBJECT_FIELD)?,
            sent_below: fields.maybe_number(SENT_BELOW)?,
            code: fields.number(CODE)?,
            text: fields.text(TEXT)?,
        })
    }
}
