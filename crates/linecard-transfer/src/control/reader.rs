//! Parses messages from a stream of bytes.

use super::{FRAME_BYTES, MAX_MESSAGE_BYTES, Message, MessageError};
use alloc::vec::Vec;

/// Bytes buffered beyond the longest message, so that reads need not end at message boundaries.
const AHEAD_BYTES: usize = 64 << 10;
/// The most messages of unknown types, so that a peer cannot keep the reader busy with them.
const MAX_SKIPPED: u32 = 10_000;

/// Accepts bytes in pieces of any size and returns messages. Buffers at most one message and 64
/// KiB.
///
/// An error is permanent: the start of the next message is not known.
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

    /// An empty reader.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Buffers the first of these bytes, as many as there is room for; returns their number. After
    /// [`Reader::read`] has returned none or an error, there is room for at least 64 KiB.
    #[must_use = "data that was not taken must be given again"]
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

    /// The next message, if it is complete.
    ///
    /// # Errors
    ///
    /// An invalid message, or one beyond a limit: as soon as it is detected, and on every later
    /// call.
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

    /// Whether part of a message is buffered, so that closing would truncate it.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.taken < self.held.len()
    }

    /// The bytes behind the last message, which are no messages; the reader is empty then.
    #[must_use]
    pub fn take_rest(&mut self) -> Vec<u8> {
        let mut rest = core::mem::take(&mut self.held);
        rest.drain(..core::mem::take(&mut self.taken));
        rest
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
