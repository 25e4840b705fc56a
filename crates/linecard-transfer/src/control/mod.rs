//! The messages of the control channel between both ends of a transfer.
//!
//! A message is a frame: type (u16), length (u32), then fields, each a tag (u16), a length (u32)
//! and a value; all numbers in network byte order. Later versions add fields and messages: unknown
//! fields are skipped, and so are unknown messages whose type is [`SKIPPABLE`] or above. Everything
//! else that is invalid is an error, detected before anything is allocated.
//!
//! The channel is authenticated and encrypted (`linecard_transfer_net::control`), but the other end
//! is not trusted, so every length and count has a limit here.

mod agree;
mod delete;
mod field;
mod hello;
mod object;
mod reader;
mod text;

pub use agree::{Agreed, Refuse, RefuseCode, WelcomeError};
pub use delete::{List, Listed, MAX_ASKED, MAX_NAMES_BYTES, Names, Remove, Removed};
pub use hello::{FecScheme, Hello, LaneKind, LaneOffer, Mode, Suite, Welcome};
pub use object::{ChunkRange, End, Failed, Have, Object, Span};
pub use reader::Reader;
pub use text::Text;

use alloc::vec::Vec;
use field::{Fields, Frame};

/// The newest message version of this crate: 2 has dry runs and removal, 3 test data of open length in dry runs, 4
/// acknowledgments of more than 64 chunks above the oldest, 5 chunks of any length of objects of unknown length, 6 hard
/// links, 7 compressed messages behind the [`Welcome`].
pub const VERSION: u16 = 7;
/// All that it speaks.
pub const VERSIONS: [u16; 7] = [1, 2, 3, 4, 5, 6, VERSION];
/// Bytes of type and length before the fields.
pub const FRAME_BYTES: usize = 6;
/// The longest message, without type and length: the ranges of a [`Have`] and some more.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Unknown messages from this type on are skipped, those below are an error.
pub const SKIPPABLE: u16 = 0x8000;
/// The most fields of a message, unknown ones included.
pub const MAX_FIELDS: usize = 64;
/// The most versions of a [`Hello`].
pub const MAX_VERSIONS: usize = 16;
/// The most suites of a [`Hello`].
pub const MAX_SUITES: usize = 16;
/// The most kinds of forward error correction of a [`Hello`].
pub const MAX_FEC_KINDS: usize = 16;
/// The most bytes of an object's name: `PATH_MAX` of Linux.
pub const MAX_NAME_BYTES: usize = 4_096;
/// The most bytes of a text for the user.
pub const MAX_TEXT_BYTES: usize = 1_024;
/// The most ranges of a [`Have`]: half a mebibyte.
pub const MAX_HAVE_RANGES: usize = 65_536;
/// The smallest chunk.
pub const MIN_CHUNK_BYTES: u32 = 64 << 10;
/// The largest chunk.
pub const MAX_CHUNK_BYTES: u32 = 64 << 20;
/// The smallest payload of a packet: any acknowledgment fits.
pub const MIN_PAYLOAD_BYTES: u32 = 512;
/// The largest window, in chunks: more than any receiver holds.
pub const MAX_WINDOW_CHUNKS: u32 = 1 << 20;

const _: () = assert!(MAX_HAVE_RANGES * 8 + 64 <= MAX_MESSAGE_BYTES);
const _: () = assert!(crate::wire::MAX_ACK_BYTES <= MIN_PAYLOAD_BYTES as usize);
// The row of a repair packet takes 8 of the 32 bits of an index.
const _: () = assert!(MAX_CHUNK_BYTES / MIN_PAYLOAD_BYTES <= 1 << 24);

/// One message.
///
/// ```
/// use linecard_transfer::control::{Message, Reader};
/// let mut bytes = Vec::new();
/// Message::Stored { object: 7 }.write(&mut bytes)?;
/// let mut reader = Reader::new();
/// assert_eq!(reader.push(&bytes), bytes.len());
/// assert_eq!(reader.read()?, Some(Message::Stored { object: 7 }));
/// assert_eq!(reader.read()?, None);
/// # Ok::<(), linecard_transfer::control::MessageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Capabilities and proposals of the sender: its first message.
    Hello(Hello),
    /// Choices of the receiver: its first message if it accepts the transfer.
    Welcome(Welcome),
    /// The receiver refuses the transfer: then its first and last message.
    Refuse(Refuse),
    /// An object is going to be sent.
    Object(Object),
    /// The chunks of an object that the receiver has already.
    Have(Have),
    /// The length of a stream's chunk.
    Span(Span),
    /// An object has been sent.
    End(End),
    /// An object is stored, complete and verified.
    Stored {
        /// Its number.
        object: u32,
    },
    /// Something failed.
    Failed(Failed),
    /// Nothing more will be sent, or everything is stored.
    Finish,
    /// The sender asks for names in a folder of the receiver.
    List(List),
    /// The names.
    Listed(Listed),
    /// The receiver is to remove something.
    Remove(Remove),
    /// It has done so.
    Removed(Removed),
}

/// Why bytes are not a valid message, or why a message cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length exceeds the limit.
    #[error("a control message of {0} bytes is beyond the limit of {MAX_MESSAGE_BYTES}")]
    TooLong(u32),
    /// A type that this version does not know and must not skip.
    #[error("control message type {0:#06x} is not known; a newer version is needed here")]
    Unknown(u16),
    /// Too many messages were skipped.
    #[error("more than {0} control messages of unknown types")]
    Skipped(u32),
    /// More fields than allowed.
    #[error("a control message of more than {MAX_FIELDS} fields")]
    Fields,
    /// A field extends beyond the end of its message, or an incomplete field is left.
    #[error("control message type {0:#06x} does not end where its last field does")]
    Ragged(u16),
    /// A required field is missing.
    #[error("control message type {message:#06x} has no field \"{field}\"")]
    Missing {
        /// Type of the message.
        message: u16,
        /// Name of the field.
        field: &'static str,
    },
    /// A field occurs twice.
    #[error("control message type {message:#06x} has field \"{field}\" twice")]
    Duplicate {
        /// Type of the message.
        message: u16,
        /// Name of the field.
        field: &'static str,
    },
    /// The length of a field does not match its type.
    #[error("field \"{field}\" of {bytes} bytes has the wrong length")]
    Length {
        /// Name of the field.
        field: &'static str,
        /// Of its value.
        bytes: usize,
    },
    /// More or fewer elements than allowed.
    #[error("field \"{field}\" has {count} elements, not {least} to {most}")]
    Count {
        /// Name of the field.
        field: &'static str,
        /// How many it has.
        count: usize,
        /// Fewest.
        least: usize,
        /// Most.
        most: usize,
    },
    /// An invalid value.
    #[error("field \"{field}\" cannot be {value}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Its content.
        value: u64,
    },
}

/// Types of messages.
mod kind {
    pub(super) const HELLO: u16 = 1;
    pub(super) const WELCOME: u16 = 2;
    pub(super) const REFUSE: u16 = 3;
    pub(super) const OBJECT: u16 = 4;
    pub(super) const HAVE: u16 = 5;
    pub(super) const SPAN: u16 = 6;
    pub(super) const END: u16 = 7;
    pub(super) const STORED: u16 = 8;
    pub(super) const FAILED: u16 = 9;
    pub(super) const FINISH: u16 = 10;
    pub(super) const LIST: u16 = 11;
    pub(super) const LISTED: u16 = 12;
    pub(super) const REMOVE: u16 = 13;
    pub(super) const REMOVED: u16 = 14;
}

const OBJECT_FIELD: (u16, &str) = (1, "object");

impl Message {
    /// Appends the message to `out`: at most [`FRAME_BYTES`] and [`MAX_MESSAGE_BYTES`].
    ///
    /// # Errors
    ///
    /// A message that the other end would refuse; `out` is unchanged then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), MessageError> {
        let mut frame = Frame::begin(out, self.kind());
        match self {
            Self::Hello(hello) => hello.write(&mut frame),
            Self::Welcome(welcome) => welcome.write(&mut frame),
            Self::Refuse(refuse) => refuse.write(&mut frame),
            Self::Object(object) => object.write(&mut frame),
            Self::Have(have) => have.write(&mut frame),
            Self::Span(span) => span.write(&mut frame),
            Self::End(end) => end.write(&mut frame),
            Self::Stored { object } => frame.number(OBJECT_FIELD.0, *object),
            Self::Failed(failed) => failed.write(&mut frame),
            Self::Finish => {}
            Self::List(list) => list.write(&mut frame),
            Self::Listed(listed) => listed.write(&mut frame),
            Self::Remove(remove) => remove.write(&mut frame),
            Self::Removed(removed) => removed.write(&mut frame),
        }
        frame.end(Self::parse)
    }

    /// Whether it has a hash of content, or a key. The length of other data that is compressed with it would tell of it.
    #[must_use]
    pub fn has_hash(&self) -> bool {
        match self {
            Self::End(end) => end.root != [0; 32] || end.proof.is_some(),
            Self::Have(have) => {
                have.existing.is_some() || have.part.is_some() || have.proof_key.is_some()
            }
            _ => false,
        }
    }

    /// The message of type `kind` with these fields; none if it is to be skipped.
    fn parse(kind: u16, body: &[u8]) -> Result<Option<Self>, MessageError> {
        if kind >= SKIPPABLE {
            return Ok(None);
        }
        let fields = Fields::parse(kind, body)?;
        Ok(Some(match kind {
            kind::HELLO => Self::Hello(Hello::read(&fields)?),
            kind::WELCOME => Self::Welcome(Welcome::read(&fields)?),
            kind::REFUSE => Self::Refuse(Refuse::read(&fields)?),
            kind::OBJECT => Self::Object(Object::read(&fields)?),
            kind::HAVE => Self::Have(Have::read(&fields)?),
            kind::SPAN => Self::Span(Span::read(&fields)?),
            kind::END => Self::End(End::read(&fields)?),
            kind::STORED => Self::Stored { object: fields.number(OBJECT_FIELD)? },
            kind::FAILED => Self::Failed(Failed::read(&fields)?),
            kind::FINISH => Self::Finish,
            kind::LIST => Self::List(List::read(&fields)?),
            kind::LISTED => Self::Listed(Listed::read(&fields)?),
            kind::REMOVE => Self::Remove(Remove::read(&fields)?),
            kind::REMOVED => Self::Removed(Removed::read(&fields)?),
            unknown => return Err(MessageError::Unknown(unknown)),
        }))
    }

    const fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Welcome(_) => kind::WELCOME,
            Self::Refuse(_) => kind::REFUSE,
            Self::Object(_) => kind::OBJECT,
            Self::Have(_) => kind::HAVE,
            Self::Span(_) => kind::SPAN,
            Self::End(_) => kind::END,
            Self::Stored { .. } => kind::STORED,
            Self::Failed(_) => kind::FAILED,
            Self::Finish => kind::FINISH,
            Self::List(_) => kind::LIST,
            Self::Listed(_) => kind::LISTED,
            Self::Remove(_) => kind::REMOVE,
            Self::Removed(_) => kind::REMOVED,
        }
    }
}

#[cfg(test)]
mod tests;
