//! Messages out of bytes as they come.

use super::{FRAME_BYTES, MAX_MESSAGE_BYTES, Message, MessageError};
use alloc::vec::Vec;

/// Bytes that are held beyond the longest message, so that reads need not end where messages do.
const AHEAD_BYTES: usize = 64 << 10;
/// Most messages of unknown types: nobody can be kept busy by them.
const MAX_SKIPPED: u32 = 10_000;

/// Takes bytes in any pieces and gives messages. Holds at most a message and 64 KiB.
///
/// An error is for good: there is no next message behind one that is not understood.
#[derive(Debug, Default)]
pub struct Reader {
    held: Vec<u8>,
    /// Bytes of `held` that have been read.
    taken: usize,
    skipped: u32,
    failed: Option<MessageError>,
}

impl Reader {
    /// The most that is ever held.
    pub const MAX_BYTES: usize = FRAME_BYTES + MAX_MESSAGE_BYTES + AHEAD_BYTES;

    /// A reader that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the first of these bytes, as many as there is room for; how many. After
    /// [`Reader::read`] has given none, or an error, there is room for at least 64 KiB.
    #[must_use = "what was not taken has to be given again"]
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if self.failed.is_some() {
            return bytes.len();
        }
        self.held.drain(..self.taken);
        self.taken = 0;
        let taken = bytes.len().min(Self::MAX_BYTES - self.held.len());
        self.held.extend(&bytes[..taken]);
        taken
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    ///
    /// What is no message, or beyond a limit: as soon as that shows, and from then on.
    pub fn read(&mut self) -> Result<Option<Message>, MessageError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let outcome = self.read_next();
        if let Err(error) = outcome {
            self.failed = Some(error);
            self.held = Vec::new();
            self.taken = 0;
        }
        outcome
    }

    /// Whether a part of a message has come: then it is too early to close.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.taken < self.held.len()
    }

    fn read_next(&mut self) -> Result<Option<Message>, MessageError> {
        while let Some((head, rest)) = self.held[self.taken..].split_first_chunk::<FRAME_BYTES>() {
            let kind = u16::from_be_bytes([head[0], head[1]]);
            let bytes = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
            if bytes as usize > MAX_MESSAGE_BYTES {
                return Err(MessageError::TooLong(bytes));
            }
            let Some(body) = rest.get(..bytes as usize) else { break };
            let message = Message::parse(kind, body)?;
            self.taken += FRAME_BYTES + bytes as usize;
            if message.is_some() {
                return Ok(message);
            }
            self.skipped += 1;
            if self.skipped > MAX_SKIPPED {
                return Err(MessageError::Skipped(MAX_SKIPPED));
            }
        }
        Ok(None)
    }
}
