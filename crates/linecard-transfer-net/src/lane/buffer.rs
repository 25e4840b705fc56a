//! Memory for received datagrams, which is reused.

use super::{MAX_DATAGRAM_BYTES, MAX_SEND};
use std::fmt;
use std::net::SocketAddr;

/// Merged packets that one call takes.
pub(super) const SLOTS: usize = 16;
/// Room for each: the longest that the kernel merges.
pub(super) const SLOT_BYTES: usize = 1 << 16;
/// Datagrams of a stream that one call gives: as many as of merged packets.
pub(super) const MAX_FRAMES: usize = SLOTS * MAX_SEND;

const _: () = assert!(SLOT_BYTES > MAX_DATAGRAM_BYTES);

/// Where [`Lane::receive`](super::Lane::receive) puts datagrams: 1 MiB, made once and filled again and
/// again. It may serve one lane after the other.
pub struct ReceiveBuffer {
    area: Box<[u8]>,
    runs: Vec<Run>,
}

/// Datagrams of one source, one behind the other, and where they start in the area.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    bytes: usize,
    stride: usize,
    source: Option<SocketAddr>,
}

/// One datagram, to be opened in place.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// All of it.
    pub bytes: &'a mut [u8],
    /// Whom the network says it is from; none on lanes that are connected by nature.
    pub source: Option<SocketAddr>,
}

impl ReceiveBuffer {
    /// An empty area.
    #[must_use]
    pub fn new() -> Self {
        // Written once, so that no page is missing when datagrams come.
        let area = vec![1; SLOTS * SLOT_BYTES].into_boxed_slice();
        Self { area, runs: Vec::with_capacity(MAX_FRAMES) }
    }

    /// Packets of the last call, in order.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let mut rest = &mut self.area[..];
        let mut at = 0;
        self.runs.iter().flat_map(move |run| {
            let (_, from) = std::mem::take(&mut rest).split_at_mut(run.start - at);
            let (bytes, after) = from.split_at_mut(run.bytes);
            (rest, at) = (after, run.start + run.bytes);
            bytes.chunks_mut(run.stride).map(|bytes| Datagram { bytes, source: run.source })
        })
    }

    /// Bytes of the packets of the last call.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Forgets everything; the area to be filled.
    pub(crate) fn begin(&mut self) -> &mut [u8] {
        self.runs.clear();
        &mut self.area
    }

    /// The area, with what was put there so far.
    pub(super) fn area(&self) -> &[u8] {
        &self.area
    }

    /// Datagrams of `stride` bytes at `start`, behind all that were added before; how many.
    pub(crate) fn add(
        &mut self,
        start: usize,
        (bytes, stride): (usize, usize),
        source: Option<SocketAddr>,
    ) -> usize {
        let behind = self.runs.last().map_or(0, |run| run.start + run.bytes);
        if bytes == 0 || start < behind || start + bytes > self.area.len() {
            return 0;
        }
        let stride = if stride == 0 { bytes } else { stride };
        self.runs.push(Run { start, bytes, stride, source });
        bytes.div_ceil(stride)
    }
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBuffer").field("runs", &self.runs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_split_at_their_stride_and_may_be_written() {
        let mut received = ReceiveBuffer::new();
        let area = received.begin();
        area[..5].copy_from_slice(b"aabbc");
        area[SLOT_BYTES..SLOT_BYTES + 3].copy_from_slice(b"xyz");
        assert_eq!(received.add(0, (5, 2), None), 3);
        assert_eq!(received.add(SLOT_BYTES, (3, 0), None), 1);
        received.datagrams().for_each(|datagram| datagram.bytes[0] = b'!');
        let all: Vec<Vec<u8>> = received.datagrams().map(|d| d.bytes.to_vec()).collect();
        assert_eq!(all, [&b"!a"[..], b"!b", b"!", b"!yz"]);
        received.begin();
        assert_eq!(received.datagrams().count(), 0);
    }

    #[test]
    fn what_does_not_lie_there_is_not_added() {
        let mut received = ReceiveBuffer::new();
        assert_eq!(received.add(4, (4, 4), None), 1);
        assert_eq!(received.add(7, (4, 4), None), 0);
        assert_eq!(received.add(SLOTS * SLOT_BYTES - 1, (2, 1), None), 0);
    }
}
