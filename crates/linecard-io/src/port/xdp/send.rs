//! The transmit path: packets become entries of the TX ring, and sent frames are reclaimed.

use super::port::XdpPort;
use super::ring::Descriptor;
use super::sys;
use super::umem::XdpBuffer;
use linecard::offload::segment::{SegmentError, Segments};
use linecard::packet::{Batch, LinkType, Packet, Piece};
use linecard::time::Instant;
use linecard_tun::egress::{Step, describe, frame_len, slices};
use std::os::fd::AsFd;

/// The most frames of one packet to send; the kernel accepts 17 in copy mode.
const MAX_SENT_PARTS: usize = 16;
/// An Ethernet header; the kernel sends nothing shorter.
const SHORTEST: usize = 14;
/// How often the TX ring is filled in one call: once, and again with the room that waking the
/// kernel made.
const ROUNDS: u32 = 2;
/// The most consecutive system calls to empty the TX ring: 65,536 slots at 32 per call.
const MAX_WAKES: u32 = 2048;

/// The result of queueing a packet.
enum Queued {
    /// It is in the TX ring, or was dropped.
    Done,
    /// The ring has no room, or no frame is free.
    NoRoom,
}

impl XdpPort {
    /// [`Port::transmit`](linecard::port::Port::transmit) for packets of any buffer: those in a
    /// frame of this port are sent from there, others are copied into frames. Large packets are
    /// segmented, each segment written into a frame in the pass that sums it; partial checksums are
    /// completed. A reduced MTU is noticed within 10 ms of `now`.
    ///
    /// Packets without room in the TX ring stay in the batch. A packet left there has to stay its
    /// first packet, because some of its segments may have been sent.
    pub fn send<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, batch: &mut Batch<B>, now: Instant) {
        self.reclaim();
        if !batch.is_empty() {
            self.look_after_mtu(now);
        }
        for _ in 0..ROUNDS {
            while self.queue_first(batch) {}
            self.socket.tx.submit();
            if self.socket.tx.pending() > 0 {
                self.wake_to_send();
            }
            self.reclaim();
            if batch.is_empty() {
                return;
            }
        }
        self.counters.blocked += 1;
    }

    /// Reclaims frames that were sent.
    pub(super) fn reclaim(&mut self) {
        let mut done = false;
        while let Some(address) = self.socket.completion.pop() {
            done = true;
            if self.umem.sent(address) {
                self.sending = self.sending.saturating_sub(1);
            } else {
                self.counters.completion_errors += 1;
            }
        }
        if done {
            self.socket.completion.release();
        }
    }

    /// Queues the first packet of the batch; returns whether it was handled.
    fn queue_first<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, batch: &mut Batch<B>) -> bool {
        let Some(packet) = batch.iter_mut().next() else { return false };
        match self.queue_packet(packet) {
            Queued::NoRoom => return false,
            Queued::Done => drop(batch.pop()),
        }
        true
    }

    fn queue_packet<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, packet: &mut Packet<B>) -> Queued {
        if packet.link() != LinkType::Ethernet {
            self.counters.other_link += 1;
            return Queued::Done;
        }
        if describe(packet, None).is_none() {
            return self.queue_segments(packet);
        }
        let len = frame_len(packet);
        if len > self.longest {
            self.ask_mtu();
        }
        if !self.fits(len) {
            return Queued::Done;
        }
        if self.socket.tx.room(1) == 0 {
            return Queued::NoRoom;
        }
        let lent = if packet.is_merged() { None } else { self.umem.lend(packet.bytes()) };
        if let Some(address) = lent {
            self.push(address, len, 0);
            self.counters.sent_in_place += 1;
        } else if !self.queue_copy(slices(packet), len) {
            return Queued::NoRoom;
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += len as u64;
        Queued::Done
    }

    /// Segments a packet and queues its segments, from where it stopped before.
    fn queue_segments<B: AsRef<[u8]>>(&mut self, packet: &mut Packet<B>) -> Queued {
        let size = packet.meta.gso.map_or(usize::MAX, |gso| gso.size.into());
        if packet.layout().header_len() + packet.payload_len().min(size) > self.longest {
            self.ask_mtu();
        }
        let before = self.before_cut.take().unwrap_or(self.counters);
        let mut progress = std::mem::take(&mut self.progress);
        let all = progress.cut(packet, |segments| self.queue_segment(segments));
        self.progress = progress;
        match all {
            Ok(false) => {
                self.before_cut = Some(before);
                return Queued::NoRoom;
            }
            Ok(true) => self.counters.count_cut(&before, frame_len(packet)),
            Err(_) => self.counters.unsendable += 1,
        }
        Queued::Done
    }

    /// Writes the next segment into a free frame, and queues it.
    fn queue_segment<B: AsRef<[u8]>>(
        &mut self,
        segments: &mut Segments<'_, Piece<B>>,
    ) -> Result<Step, SegmentError> {
        if self.socket.tx.room(1) == 0 {
            return Ok(Step::Later(0));
        }
        let Some(mut frame) = self.umem.buffer(self.umem.frame_len() as usize) else {
            return Ok(Step::Later(0));
        };
        match segments.write_next(frame.as_mut()) {
            Ok(None) => return Ok(Step::Ended),
            Ok(Some(written)) => frame.truncate(written.len),
            Err(SegmentError::OutputTooSmall { .. }) => {
                drop(frame);
                return Ok(self.queue_long(segments));
            }
            Err(error) => return Err(error),
        }
        let len = frame.as_ref().len();
        if self.fits(len) {
            self.counters.copied_bytes += len as u64;
            self.queue_frame(&frame, 0);
        }
        Ok(Step::On(1))
    }

    /// Copies the next segment, which is longer than a frame, into several frames.
    fn queue_long<B: AsRef<[u8]>>(&mut self, segments: &mut Segments<'_, Piece<B>>) -> Step {
        let Some(segment) = segments.next_segment() else { return Step::Ended };
        let payload_len: usize = segment.payload.clone().map(<[u8]>::len).sum();
        let len = segment.header.len() + payload_len;
        if !self.fits(len) {
            return Step::On(1);
        }
        let payload = segment.payload.map(|bytes| -> &[u8] { bytes });
        match self.queue_copy(std::iter::once(segment.header).chain(payload), len) {
            true => Step::On(1),
            false => Step::Later(0),
        }
    }

    /// Whether this many bytes can be sent at all; counted if not.
    fn fits(&mut self, len: usize) -> bool {
        let parts = len.div_ceil(self.umem.frame_len() as usize);
        let max_parts = if self.binding().multi_buffer { MAX_SENT_PARTS } else { 1 };
        if len > self.longest {
            self.counters.above_mtu += 1;
        } else if len >= SHORTEST && parts <= max_parts {
            return true;
        }
        self.counters.send_dropped += 1;
        false
    }

    /// Copies this many bytes into frames, and queues them; returns whether there were enough
    /// frames and room in the TX ring.
    fn queue_copy<'a>(&mut self, bytes: impl Iterator<Item = &'a [u8]>, len: usize) -> bool {
        let frame_len = self.umem.frame_len() as usize;
        let parts = len.div_ceil(frame_len);
        if (self.socket.tx.room(parts as u32) as usize) < parts {
            return false;
        }
        let mut left = len;
        let mut frames: [Option<XdpBuffer>; MAX_SENT_PARTS] = [const { None }; MAX_SENT_PARTS];
        for frame in &mut frames[..parts] {
            *frame = self.umem.buffer(left.min(frame_len));
            if frame.is_none() {
                return false;
            }
            left -= left.min(frame_len);
        }
        copy(bytes, &mut frames);
        self.counters.copied_bytes += len as u64;
        for (at, frame) in frames.iter().flatten().enumerate() {
            self.queue_frame(frame, if at + 1 < parts { libc::XDP_PKT_CONTD } else { 0 });
        }
        true
    }

    /// Queues a frame that was just filled.
    fn queue_frame(&mut self, frame: &XdpBuffer, options: u32) {
        if let Some(address) = self.umem.lend(frame.as_ref()) {
            self.push(address, frame.as_ref().len(), options);
        }
    }

    /// Adds an entry to the TX ring, which has room.
    fn push(&mut self, address: u64, len: usize, options: u32) {
        // A frame is far below 4 GiB.
        if self.socket.tx.push(Descriptor { address, len: len as u32, options }) {
            self.sending += 1;
        }
    }

    /// Makes the kernel send the entries of the TX ring. In copy mode that happens in these calls,
    /// which send 32 packets each before Linux 6.17.
    pub(super) fn wake_to_send(&mut self) {
        if self.binding().need_wakeup && !self.socket.tx.needs_wakeup() {
            return;
        }
        let mut pending = self.socket.tx.pending();
        for _ in 0..MAX_WAKES {
            self.counters.wakes += 1;
            let Err(error) = sys::wake(self.socket.as_fd()) else { return };
            self.reclaim();
            let left = self.socket.tx.pending();
            match error.raw_os_error() {
                // Removed, or moved to another namespace.
                Some(libc::ENXIO) => return self.ended = true,
                // Down, or its own queue is full: try later.
                Some(libc::ENETDOWN | libc::EBUSY | libc::ENOBUFS) => return,
                _ if left == 0 || left == pending => return,
                _ => pending = left,
            }
        }
    }
}

/// Copies bytes into frames, whose lengths add up to those of the bytes.
fn copy<'a>(bytes: impl Iterator<Item = &'a [u8]>, frames: &mut [Option<XdpBuffer>]) {
    let mut frames = frames.iter_mut().flatten();
    let mut room: &mut [u8] = &mut [];
    for mut bytes in bytes {
        while !bytes.is_empty() {
            if room.is_empty() {
                let Some(frame) = frames.next() else { return };
                room = frame.as_mut();
            }
            let len = room.len().min(bytes.len());
            let (to, rest) = std::mem::take(&mut room).split_at_mut(len);
            to.copy_from_slice(&bytes[..len]);
            (room, bytes) = (rest, &bytes[len..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_over_the_ends_of_frames() {
        let mut frames: Vec<Option<XdpBuffer>> =
            [4, 4, 2].map(|len| Some(XdpBuffer::from(vec![0; len]))).into();
        copy([&b"abc"[..], b"", b"defg", b"hij"].into_iter(), &mut frames);
        let copied: Vec<&[u8]> = frames.iter().flatten().map(AsRef::as_ref).collect();
        assert_eq!(copied, [&b"abcd"[..], b"efgh", b"ij"]);
    }
}
