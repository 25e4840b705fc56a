//! Packets that the guest sends.

use super::memory::Cursor;
use super::ring::{Broken, Chain, Part, Ring, View};
use linecard::offload::virtio::Format;

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
        view: &mut View<'_>,
        header: &mut [u8; Format::MAX_LEN],
        buffer: &mut [u8],
        parts: &mut Vec<Part>,
    ) -> Result<Taken, Broken> {
        parts.clear();
        let header_len = self.features().virtio().0.header_len();
        let (head, taken) = match self.pop(view, false, parts)? {
            Chain::None => return Ok(Taken::Nothing),
            Chain::Malformed(head) => (head, Taken::Malformed),
            Chain::Whole(head, len) if len < header_len + MIN_FRAME => (head, Taken::Malformed),
            Chain::Whole(head, len) if len - header_len > buffer.len() => (head, Taken::TooLong),
            Chain::Whole(head, len) => {
                let header = &mut header[..header_len];
                let copied = copy(&mut view.memory, parts, header, &mut buffer[..len - header_len]);
                (head, copied.map_or(Taken::Malformed, |()| Taken::Frame(len - header_len)))
            }
        };
        self.push_used(head, 0);
        Ok(taken)
    }
}

/// Fills the header, then the frame: both are as long as all parts together.
fn copy(
    memory: &mut Cursor<'_>,
    parts: &[Part],
    mut header: &mut [u8],
    mut frame: &mut [u8],
) -> Result<(), Broken> {
    for &(at, len) in parts {
        let (now, later) = header.split_at_mut(len.min(header.len()));
        memory.read(at, now)?;
        let more;
        (more, frame) = frame.split_at_mut(len - now.len());
        // The end of a part that could be read is an address.
        memory.read(at.wrapping_add(now.len() as u64), more)?;
        header = later;
    }
    Ok(())
}
