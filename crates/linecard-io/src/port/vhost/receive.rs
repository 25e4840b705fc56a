//! Packets that the guest sends.

use super::ring::{Broken, Chain, Memory, Part, Ring};
use linecard::offload::virtio::Format;
use vm_memory::{Bytes, GuestAddress};

/// The shortest frame: an Ethernet header.
pub(super) const MIN_FRAME: usize = 14;

/// Result of taking the next chain of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is none.
    Nothing,
    /// A frame of this many bytes is in the buffer, and its header before it.
    Frame(usize),
    /// It is longer than the buffer.
    TooLong,
    /// Its descriptors are not those of a frame.
    Malformed,
}

impl Ring {
    /// Copies the next frame into `buffer`, and the bytes in front of it into `header`.
    pub(super) fn take(
        &mut self,
        memory: &Memory,
        header: &mut [u8; Format::MAX_LEN],
        buffer: &mut [u8],
        parts: &mut Vec<Part>,
    ) -> Result<Taken, Broken> {
        parts.clear();
        let header_len = self.features().virtio().0.header_len();
        let (head, taken) = match self.pop(memory, false, parts)? {
            Chain::None => return Ok(Taken::Nothing),
            Chain::Malformed(head) => (head, Taken::Malformed),
            Chain::Whole(head, len) if len < header_len + MIN_FRAME => (head, Taken::Malformed),
            Chain::Whole(head, len) if len - header_len > buffer.len() => (head, Taken::TooLong),
            Chain::Whole(head, len) => {
                let header = &mut header[..header_len];
                let copied = copy(memory, parts, header, &mut buffer[..len - header_len]);
                (head, copied.map_or(Taken::Malformed, |()| Taken::Frame(len - header_len)))
            }
        };
        self.push_used(memory, head, 0)?;
        Ok(taken)
    }
}

/// Fills the header, then the frame.
fn copy(
    memory: &Memory,
    parts: &[Part],
    header: &mut [u8],
    frame: &mut [u8],
) -> Result<(), Broken> {
    let mut filled = [header, frame].into_iter();
    let mut room: &mut [u8] = filled.next().unwrap_or_default();
    for &(at, len) in parts {
        let (mut at, mut len) = (at.0, len);
        while len > 0 {
            if room.is_empty() {
                room = filled.next().ok_or(Broken)?;
            }
            let now;
            (now, room) = room.split_at_mut(len.min(room.len()));
            memory.read_slice(now, GuestAddress(at))?;
            // The end of a part that could be read is an address.
            at = at.wrapping_add(now.len() as u64);
            len -= now.len();
        }
    }
    Ok(())
}
