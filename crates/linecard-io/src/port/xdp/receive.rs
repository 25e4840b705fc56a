//! The receive path: filled frames become packets, and the kernel is given new frames.

use super::port::XdpPort;
use super::umem::{Umem, XdpBuffer};
use linecard::packet::{
    Batch, ChecksumState, Form, Layout, LinkType, Meta, Packet, Piece, prefetch_line,
};
use linecard::time::Instant;
use linecard_tun::egress::frame_len;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

/// The most frames of one packet: what the largest IP packet takes, with its Ethernet header and two VLAN tags, where
/// the kernel leaves 256 bytes of each frame free. Senders in this machine leave cutting to an interface that has no
/// hardware for it, and the kernel's general path passes on what they sent.
pub const MAX_PARTS: usize = (65_535_usize + 22).div_ceil(2_048 - 256);

/// The most frames that are given to the kernel at a time, as many as a batch of short packets takes from it.
pub(super) const REFILL: u32 = 64;

/// When frames that wait in a ring were first seen there: the ring has no times. They are late by at most the time
/// between two looks.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The index behind the frames that had arrived, and the time; each has frames that the one before does not have,
    /// so that there are no more than places in the ring.
    seen: VecDeque<(u32, Instant)>,
}

impl Arrivals {
    /// For a ring of so many places: no packet takes memory later.
    pub(super) fn of_ring(slots: u32) -> Self {
        // One more is of frames that were all taken, and one of what has just arrived.
        Self { seen: VecDeque::with_capacity(slots as usize + 2) }
    }

    /// All frames before the index `behind` have arrived now.
    fn note(&mut self, behind: u32, now: Instant) {
        if self.seen.back().is_none_or(|(last, _)| *last != behind) {
            self.seen.push_back((behind, now));
        }
    }

    /// When the frame of an index was first seen; none if it came after the last look. Indices are asked for in
    /// order.
    fn of(&mut self, index: u32) -> Option<Instant> {
        while let Some((behind, at)) = self.seen.front() {
            // Indices wrap, and are at most a ring apart.
            if (index.wrapping_sub(*behind) as i32) < 0 {
                return Some(*at);
            }
            self.seen.pop_front();
        }
        None
    }
}

/// Frames of a packet whose last frame has not arrived yet.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    parts: Vec<XdpBuffer>,
    /// The rest of a packet that was dropped is dropped as well.
    is_dropping: bool,
}

/// The effect of a frame.
#[derive(Debug)]
enum Assembled {
    /// A packet in one frame.
    Single(XdpBuffer),
    /// A packet in several.
    Several(Vec<XdpBuffer>),
    /// More frames follow, or the packet has been dropped already.
    Nothing,
    /// The packet is dropped.
    Dropped,
}

impl Assembly {
    /// Takes the next frame; none if it cannot be used.
    fn take(&mut self, frame: Option<XdpBuffer>, is_last: bool) -> Assembled {
        let Some(frame) = frame.filter(|_| !self.is_dropping && self.parts.len() < MAX_PARTS)
        else {
            self.parts.clear();
            let was_dropping = std::mem::replace(&mut self.is_dropping, !is_last);
            return if was_dropping { Assembled::Nothing } else { Assembled::Dropped };
        };
        if is_last && self.parts.is_empty() {
            return Assembled::Single(frame);
        }
        self.parts.push(frame);
        if is_last {
            Assembled::Several(std::mem::take(&mut self.parts))
        } else {
            Assembled::Nothing
        }
    }
}

impl XdpPort {
    /// Moves received packets into the batch, as long as there is room; returns the number of their
    /// frames.
    pub(super) fn take_received<B: From<XdpBuffer> + AsRef<[u8]>>(
        &mut self,
        batch: &mut Batch<B>,
        now: Instant,
    ) -> u32 {
        let (mut came, first) = (0, batch.len());
        let (mut index, behind) = self.socket.rx.look();
        self.arrivals.note(behind, now);
        while batch.room() > 0 {
            let Some(descriptor) = self.socket.rx.pop() else { break };
            came += 1;
            let arrived = self.arrivals.of(index).unwrap_or(now);
            index = index.wrapping_add(1);
            let is_last = descriptor.options & libc::XDP_PKT_CONTD == 0;
            let frame = Umem::received(&self.umem, descriptor.address, descriptor.len);
            if let Some(frame) = &frame {
                self.filling = self.filling.saturating_sub(1);
                prefetch_line(frame.as_ref());
            }
            let meta = Meta { timestamp: arrived, lane: self.queue(), ..Meta::default() };
            match self.assembly.take(frame, is_last) {
                Assembled::Single(frame) => {
                    self.accept(Packet::new(B::from(frame), LinkType::Ethernet, meta), batch);
                }
                Assembled::Several(parts) => match join(parts, self.gather, meta) {
                    Some(packet) => self.accept(packet, batch),
                    None => self.counters.receive_dropped += 1,
                },
                Assembled::Nothing => {}
                Assembled::Dropped => self.counters.receive_dropped += 1,
            }
        }
        if came > 0 {
            self.socket.rx.release();
        }
        if self.open_checksums {
            self.find_open_checksums(batch, first);
        }
        came
    }

    /// Marks packets whose checksum was left open, of those behind the first ones. The headers of all
    /// are being fetched by then: the sender's core has them, and one at a time costs a miss each.
    fn find_open_checksums<B: AsRef<[u8]>>(&mut self, batch: &mut Batch<B>, first: usize) {
        for packet in batch.iter_mut().skip(first).filter(|packet| is_checksum_open(packet)) {
            packet.meta.checksum = ChecksumState::Partial;
            self.counters.open_checksums += 1;
        }
    }

    fn accept<B: AsRef<[u8]>>(&mut self, packet: Packet<B>, batch: &mut Batch<B>) {
        self.counters.received += 1;
        self.counters.received_bytes += frame_len(&packet) as u64;
        // There is room, otherwise nothing would have been received.
        let _fits = batch.push(packet);
    }

    /// Gives the kernel as many free frames to receive into as it accepts.
    pub(super) fn refill(&mut self) {
        let room = self.socket.fill.room(self.umem.free().min(REFILL as usize) as u32);
        let mut given = 0;
        while given < room {
            let Some(address) = self.umem.take_to_fill() else { break };
            if !self.socket.fill.push(address) {
                self.umem.untake(address);
                break;
            }
            given += 1;
        }
        if given > 0 {
            self.filling += given;
            self.socket.fill.submit();
        }
        if self.filling == 0 {
            self.counters.no_buffer += 1;
        }
        if self.socket.fill.needs_wakeup() {
            self.counters.wakes += 1;
            // The result is found by receiving.
            let _ready = linecard_tun::wait(&[self.socket.as_fd()], Duration::ZERO);
        }
    }
}

/// A packet that spans several frames: as pieces if configured and its headers can be followed to
/// its end, otherwise copied into one buffer. There is at least one part.
fn join<B: From<XdpBuffer> + AsRef<[u8]>>(
    parts: Vec<XdpBuffer>,
    wanted: bool,
    meta: Meta,
) -> Option<Packet<B>> {
    let link = LinkType::Ethernet;
    let len = parts.iter().map(|part| part.as_ref().len()).sum();
    let layout = Layout::parse_head(link, parts.first()?.as_ref(), len);
    if wanted && layout.form() == Form::Datagram && layout.end() == len {
        let mut parts = parts.into_iter().map(B::from);
        let head = parts.next()?;
        let pieces = parts.filter_map(|part| {
            let all = 0..part.as_ref().len();
            Piece::new(part, all, meta.timestamp)
        });
        return Packet::gather(head, pieces.collect(), link, meta).ok();
    }
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.as_ref()).copied().collect();
    Some(Packet::new(XdpBuffer::from(bytes).into(), link, meta))
}

/// Whether the checksum field of a packet's innermost transport header has the sum of the pseudo
/// header, as a sender leaves it to hardware.
fn is_checksum_open<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let is_whole = layout.form() == Form::Datagram;
    let field = layout.transport().filter(|_| is_whole).and_then(Layout::checksum_field);
    let pseudo = layout.pseudo_sum(bytes, packet.payload_len());
    field.zip(pseudo).is_some_and(|(at, pseudo)| {
        bytes.get(at..at + 2).is_some_and(|field| field == pseudo.fold().to_be_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::offload::{complete_checksum, defer_checksum};

    /// An IPv4 UDP datagram of `payload` bytes behind an Ethernet header of this type.
    fn frame(ethernet_type: u16, payload: usize) -> Vec<u8> {
        let (ip_len, udp_len) = ((28 + payload) as u16, (8 + payload) as u16);
        let mut frame = vec![2; 12];
        frame.extend(ethernet_type.to_be_bytes());
        frame.extend([0x45, 0]);
        frame.extend(ip_len.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9]);
        frame.extend(udp_len.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend((0..payload).map(|at| at as u8));
        frame
    }

    fn joined(frame: &[u8], gather: bool) -> Packet<XdpBuffer> {
        let parts = frame.chunks(1792).map(|part| part.to_vec().into()).collect();
        join(parts, gather, Meta::default()).expect("there are parts")
    }

    #[test]
    fn the_frames_of_a_packet_are_assembled_and_a_dropped_packet_counts_once() {
        let frame = || Some(XdpBuffer::from(vec![0; 8]));
        let mut assembly = Assembly::default();
        // Per packet: its frames, and whether it arrives. Beyond the limit, each frame after it is of the same packet.
        for (frames, arrives) in [
            (1, true),
            (2, true),
            (MAX_PARTS, true),
            (3 * MAX_PARTS, false),
            (MAX_PARTS + 1, false),
            (1, true),
        ] {
            let took: Vec<_> =
                (1..=frames).map(|at| assembly.take(frame(), at == frames)).collect();
            let parts = match took.last() {
                Some(Assembled::Single(_)) => 1,
                Some(Assembled::Several(parts)) => parts.len(),
                _ => 0,
            };
            let dropped = took.iter().filter(|one| matches!(one, Assembled::Dropped)).count();
            let wanted = if arrives { (frames, 0) } else { (0, 1) };
            assert_eq!((parts, dropped), wanted, "{frames} frames");
        }
        // A frame that cannot be used takes its packet with it.
        assert!(matches!(assembly.take(frame(), false), Assembled::Nothing));
        assert!(matches!(assembly.take(None, false), Assembled::Dropped));
        assert!(matches!(assembly.take(frame(), true), Assembled::Nothing));
        assert!(matches!(assembly.take(None, true), Assembled::Dropped));
        assert!(matches!(assembly.take(frame(), true), Assembled::Single(_)));
    }

    #[test]
    fn a_long_datagram_is_gathered() {
        let frame = frame(0x0800, 8000);
        let packet = joined(&frame, true);
        assert_eq!((packet.is_merged(), frame_len(&packet)), (true, frame.len()));
        let bytes = [packet.header(), &packet.payload().collect::<Vec<_>>().concat()].concat();
        assert_eq!(bytes, frame);
    }

    #[test]
    fn what_cannot_be_followed_or_is_to_be_merged_is_copied() {
        let mut trailer = frame(0x0800, 4000);
        trailer.extend([0; 4]);
        let others = [(frame(0x88B5, 8000), true), (trailer, true), (frame(0x0800, 8000), false)];
        for (frame, gather) in others {
            let packet = joined(&frame, gather);
            assert!(
                !packet.is_merged() && packet.bytes() == frame && frame_len(&packet) == frame.len()
            );
        }
    }

    #[test]
    fn frames_arrived_when_they_were_first_seen_also_where_indices_wrap() {
        for start in [0, u32::MAX - 3] {
            let at = Instant::from_ns;
            let mut arrivals = Arrivals::default();
            let index = |n: u32| start.wrapping_add(n);
            arrivals.note(index(0), at(1));
            assert_eq!(arrivals.of(index(0)), None, "it came after the look");
            arrivals.note(index(5), at(2));
            arrivals.note(index(5), at(3));
            arrivals.note(index(8), at(4));
            let seen: Vec<_> = (1..9).map(|n| arrivals.of(index(n)).map(Instant::as_ns)).collect();
            assert_eq!(seen, [2, 2, 2, 2, 4, 4, 4, 0].map(|ns| Some(ns).filter(|ns| *ns > 0)));
            assert!(arrivals.seen.is_empty(), "nothing is kept of frames that were taken");
        }
    }

    /// With a look before each frame, and one of them taken at every other look.
    #[test]
    fn times_of_arrival_take_no_memory_after_the_port_is_opened() {
        const SLOTS: u32 = 64;
        let mut arrivals = Arrivals::of_ring(SLOTS);
        let capacity = arrivals.seen.capacity();
        let (mut behind, mut next) = (0_u32, 0_u32);
        for at in 0..1_000 {
            if behind - next < SLOTS {
                behind += 1;
            }
            arrivals.note(behind, Instant::from_ns(at));
            if at % 2 == 0 {
                assert!(arrivals.of(next).is_some());
                next += 1;
            }
        }
        assert_eq!(behind - next, SLOTS, "the ring is full");
        assert!(arrivals.seen.len() >= SLOTS as usize);
        assert_eq!(arrivals.seen.capacity(), capacity);
    }

    #[test]
    fn an_open_checksum_is_recognised_and_others_are_not() {
        let of = |bytes| Packet::new(bytes, LinkType::Ethernet, Meta::default());
        // Without a checksum, which UDP allows.
        let mut bytes = frame(0x0800, 100);
        assert!(!is_checksum_open(&of(bytes.clone())));
        bytes[40] = 1;
        let mut packet = of(bytes);
        assert!(defer_checksum(&mut packet) && is_checksum_open(&packet));
        assert!(complete_checksum(&mut packet) && !is_checksum_open(&packet));
    }
}
