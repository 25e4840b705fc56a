//! The way out: packets become entries of the TX ring, and what was sent is taken back.

use super::port::XdpPort;
use super::receive::sent_len;
use super::ring::Descriptor;
use super::sys;
use super::umem::XdpBuffer;
use linecard::packet::{Batch, Packet};
use linecard::time::Instant;
use std::os::fd::AsFd;

/// Frames of one packet to send at most; the kernel takes 17 in copy mode.
const MAX_SENT_PARTS: usize = 16;
/// An Ethernet header; the kernel sends nothing shorter.
const SHORTEST: usize = 14;
/// How often the TX ring is filled in one call: once, and again with the room that waking made.
const ROUNDS: u32 = 2;
/// System calls in a row to have the TX ring emptied: 65,536 slots at 32 a call.
const MAX_WAKES: u32 = 2048;

/// What became of a packet.
enum Outcome {
    /// It is in the TX ring, or was thrown away.
    Done,
    /// There is no room in the ring, or no frame.
    NoRoom,
}

impl XdpPort {
    /// [`Port::transmit`](linecard::port::Port::transmit) for packets of any buffer: those in a
    /// frame of this port are sent from there, others are copied into frames. What has no room in
    /// the TX ring stays in the batch.
    pub fn send<B: AsRef<[u8]>>(&mut self, batch: &mut Batch<B>, _now: Instant) {
        self.reclaim();
        for _ in 0..ROUNDS {
            while let Some(packet) = batch.front() {
                match self.queue_packet(packet) {
                    Outcome::NoRoom => break,
                    Outcome::Done => drop(batch.pop()),
                }
            }
            self.socket.tx.submit();
            if self.socket.tx.pending() > 0 {
                self.wake_to_send();
            }
            self.reclaim();
            if batch.is_empty() {
                return;
            }
        }
    }

    /// Takes frames back that were sent.
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

    fn queue_packet<B: AsRef<[u8]>>(&mut self, packet: &Packet<B>) -> Outcome {
        let len = sent_len(packet);
        let frame_len = self.umem.frame_len() as usize;
        let parts = len.div_ceil(frame_len);
        if len > self.longest {
            self.ask_mtu();
        }
        let max_parts = if self.binding().multi_buffer { MAX_SENT_PARTS } else { 1 };
        if len < SHORTEST || len > self.longest || parts > max_parts {
            self.counters.send_dropped += 1;
            return Outcome::Done;
        }
        if (self.socket.tx.room(parts as u32) as usize) < parts {
            return Outcome::NoRoom;
        }
        let lent = if packet.is_merged() { None } else { self.umem.lend(packet.bytes()) };
        if let Some(address) = lent {
            self.push(address, len, 0);
            self.counters.sent_in_place += 1;
        } else if !self.queue_copy(packet, parts) {
            return Outcome::NoRoom;
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += len as u64;
        Outcome::Done
    }

    /// Copies a packet into frames; whether there were enough.
    fn queue_copy<B: AsRef<[u8]>>(&mut self, packet: &Packet<B>, parts: usize) -> bool {
        let frame_len = self.umem.frame_len() as usize;
        let mut left = sent_len(packet);
        let mut frames: [Option<XdpBuffer>; MAX_SENT_PARTS] = [const { None }; MAX_SENT_PARTS];
        for frame in &mut frames[..parts] {
            *frame = self.umem.buffer(left.min(frame_len));
            if frame.is_none() {
                return false;
            }
            left -= left.min(frame_len);
        }
        if packet.is_merged() {
            copy(core::iter::once(packet.header()).chain(packet.payload()), &mut frames);
        } else {
            copy(core::iter::once(packet.bytes()), &mut frames);
        }
        for (at, frame) in frames.iter().flatten().enumerate() {
            let Some(address) = self.umem.lend(frame.as_ref()) else { continue };
            let options = if at + 1 < parts { libc::XDP_PKT_CONTD } else { 0 };
            self.push(address, frame.as_ref().len(), options);
        }
        true
    }

    /// Puts an entry into the TX ring, in which there is room.
    fn push(&mut self, address: u64, len: usize, options: u32) {
        // A frame is far below 4 GiB.
        if self.socket.tx.push(Descriptor { address, len: len as u32, options }) {
            self.sending += 1;
        }
    }

    /// Has the kernel send what is in the TX ring. In copy mode that happens in these calls, which
    /// send 32 packets each before Linux 6.17.
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
                // Removed, or moved away.
                Some(libc::ENXIO) => return self.ended = true,
                // Down, or its own queue is full: later.
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
