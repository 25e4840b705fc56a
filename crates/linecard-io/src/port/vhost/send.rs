//! Packets for the guest.

use super::memory::Cursor;
use super::ring::{Broken, Chain, MAX_PARTS, Part, Ring, View};
use linecard::offload::virtio::Format;
use linecard_tun::egress::HeaderBytes;

/// Where the header has the number of buffers, in its last two bytes if at all.
const NUM_BUFFERS: usize = 10;

/// A header that says nothing.
const PLAIN: [u8; Format::MAX_LEN] = [0; Format::MAX_LEN];

/// Result of sending a frame to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It lies in buffers of the guest, who sees it after [`Ring::publish`].
    Done,
    /// The guest has not provided enough buffers yet.
    Later,
    /// It is longer than a buffer, and the guest takes no packets in several.
    TooLong,
}

/// Memory for the lists of one packet.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) parts: Vec<Part>,
    /// Chains, each with its bytes.
    chains: Vec<(u16, usize)>,
}

impl Ring {
    /// Copies a frame behind its header, or one that says nothing, into the next buffers of the guest.
    pub(super) fn put<'f>(
        &mut self,
        view: &mut View<'_>,
        header: Option<&HeaderBytes>,
        frame: impl Iterator<Item = &'f [u8]>,
        frame_len: usize,
        lists: &mut Lists,
    ) -> Result<Put, Broken> {
        let header_len = self.features().virtio().0.header_len();
        let header = header.map_or(&PLAIN[..header_len], HeaderBytes::as_slice);
        let (first, len) = (self.next(), header_len + frame_len);
        let put = self.gather(view, len, lists)?;
        if put != Put::Done {
            self.put_back(first);
            return Ok(put);
        }
        let (fields, count) = header.split_at(NUM_BUFFERS);
        // At most 1,024.
        let buffers = (lists.chains.len() as u16).to_le_bytes();
        let mut writer =
            Writer { memory: &mut view.memory, parts: lists.parts.iter(), at: 0, room: 0 };
        // Apart: a field set within bytes that are read at once would have to reach the cache first.
        writer.write(fields)?;
        writer.write(&buffers[..count.len()])?;
        for slice in frame {
            writer.write(slice)?;
        }
        let mut rest = len;
        for &(head, room) in &lists.chains {
            let written = rest.min(room);
            rest -= written;
            // A packet has at most 64 KiB.
            self.push_used(head, written as u32);
        }
        Ok(Put::Done)
    }

    /// Takes as many chains as `len` bytes need.
    fn gather(
        &mut self,
        view: &mut View<'_>,
        len: usize,
        lists: &mut Lists,
    ) -> Result<Put, Broken> {
        lists.parts.clear();
        lists.chains.clear();
        let mut room = 0;
        while room < len {
            if !lists.chains.is_empty() && !self.features().merges_buffers() {
                return Ok(Put::TooLong);
            }
            match self.pop(view, true, &mut lists.parts)? {
                Chain::None => return Ok(Put::Later),
                // Not to be returned: only a broken driver provides such buffers.
                Chain::Malformed(_) => return Err(Broken),
                Chain::Whole(head, more) => {
                    lists.chains.push((head, more));
                    room += more;
                }
            }
        }
        Ok(Put::Done)
    }
}

/// Where the next byte of a packet goes.
struct Writer<'p, 'm> {
    memory: &'p mut Cursor<'m>,
    parts: std::slice::Iter<'p, Part>,
    at: u64,
    room: usize,
}

impl Writer<'_, '_> {
    /// Writes all of `bytes` to the parts, which have room for them.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            if self.room == 0 {
                let (at, len) = self.parts.next().ok_or(Broken)?;
                (self.at, self.room) = (*at, *len);
                continue;
            }
            let (now, later) = bytes.split_at(self.room.min(bytes.len()));
            self.memory.write(self.at, now)?;
            // The end of a part that could be written is an address.
            self.at = self.at.wrapping_add(now.len() as u64);
            self.room -= now.len();
            bytes = later;
        }
        Ok(())
    }
}

const _: () = assert!(MAX_PARTS <= u16::MAX as usize);
