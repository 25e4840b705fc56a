//! The read buffer: a window on the file that grows on demand up to one entry's limit.
//!
//! Not `std::io::BufReader`: that cannot keep a partial entry and read on behind it. Not
//! pcap-file's readers either: they say "unexpected end" both for a truncated file and for an entry
//! longer than their buffer, and do not tell how many bytes are left.

use std::io::{ErrorKind, Read};

use super::{CaptureError, Damage};

/// Longest entry that is read or written, in bytes: its data in pcap, the whole block in pcapng.
/// Four times the longest BIG TCP packet, eight times the largest snapshot length of libpcap.
pub const MAX_ENTRY: usize = 2 << 20;
/// pcap's record header comes on top of the data.
const BUFFER: usize = MAX_ENTRY + 16;
/// Bytes asked of the system at once: enough to make the call cheap, few enough to stay in L2.
const CHUNK: usize = 256 << 10;
const _: () = assert!(CHUNK < BUFFER);

/// A buffered input that knows its offset.
#[derive(Debug)]
pub(super) struct Input<R> {
    read: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(read: R) -> Self {
        // Zeroed pages are mapped when first touched: small files never use most of it.
        Self { read, buffer: vec![0; BUFFER], start: 0, end: 0, offset: 0, ended: false }
    }

    /// Bytes that are buffered and not consumed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Bytes consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves on by `count` buffered bytes.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Buffers at least `wanted` bytes. False if the file ends before, or the buffer does.
    #[inline]
    pub(super) fn fill_to(&mut self, wanted: u64) -> Result<bool, CaptureError> {
        if self.bytes().len() as u64 >= wanted {
            return Ok(true);
        }
        self.read_to(wanted)
    }

    fn read_to(&mut self, wanted: u64) -> Result<bool, CaptureError> {
        // The part of an entry left here is short beside a chunk: moving it costs little and
        // keeps the busy part of the buffer in the cache.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while (self.end as u64) < wanted {
            if self.end == BUFFER || !self.read_chunk()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_chunk(&mut self) -> Result<bool, CaptureError> {
        let until = BUFFER.min(self.end + CHUNK);
        while !self.ended {
            match self.read.read(&mut self.buffer[self.end..until]) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An error of the data, not of reading: see `Decompressed`.
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(self.damage(Damage::Compressed));
                }
                Err(source) => {
                    return Err(CaptureError::Read {
                        offset: self.offset + self.end as u64,
                        source,
                    });
                }
            }
        }
        Ok(false)
    }

    /// The error for the next entry.
    pub(super) fn damage(&self, what: Damage) -> CaptureError {
        CaptureError::Damaged { offset: self.offset, what }
    }

    /// The error after [`fill_to`](Self::fill_to) said no: the entry has `header` bytes that its
    /// claimed length does not include.
    pub(super) fn shortfall(&self, claims: u64, header: usize) -> CaptureError {
        let left = self.bytes().len() - header;
        self.damage(if self.bytes().len() == BUFFER {
            Damage::TooLong { claims }
        } else {
            Damage::Cut { claims, left }
        })
    }
}
