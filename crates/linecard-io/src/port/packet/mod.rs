//! Packet sockets (`AF_PACKET`): any interface, shared with the kernel's own stack.
//!
//! Without offloads, frames are received from a ring of slots (`TPACKET_V2`), without calls as long as
//! any wait. A ring of blocks (`TPACKET_V3`) hands a frame over only when its block is full or a timer
//! of at least 1 ms expires, which delays every frame of a quiet interface. With offloads, receiving
//! takes one call for a batch, as sending does. What arrives is a copy: the kernel's stack sees it too,
//! unless [`Takeover`] keeps it away.

mod config;
mod open;
mod slots;
mod takeover;

pub use config::{Fanout, FanoutBy, PacketConfig};
pub use takeover::Takeover;

use crate::sys::frames::{Arrival, FRAMES, Receiver};
use crate::sys::ring::Ring;
use crate::sys::{
    self,
    socket::{PacketFd, take_error},
};
use linecard::offload::virtio::Header;
use linecard::packet::{BATCH, Batch, ChecksumState, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::egress::{self, Frames, HeaderBytes, Segmenter, Virtio, describe};
use linecard_tun::sys::send::Sender;
use linecard_tun::{Buffers, Counters, Drops, PortError, ingress};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::SystemTime;
use std::{fmt, io};

/// Offset of a VLAN tag: after the addresses.
const TAG_AT: usize = 12;
const TAG_LEN: usize = 4;
/// The tag protocol if the kernel does not report one: 802.1Q.
const DEFAULT_TPID: u16 = 0x8100;
/// Receive calls without frames between two checks of the interface, and the time after which there
/// is one in any case.
const LOOKS: u32 = 1_024;
const LOOK_NS: u64 = 10_000_000;

/// A packet socket on one interface, which receives into buffers of `S`.
///
/// ```no_run
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::Port;
/// use linecard::time::Instant;
/// use linecard_io::port::{PacketConfig, PacketSocket};
/// use linecard_tun::BUFFER_LEN;
///
/// let pool = Pool::new(256, BUFFER_LEN);
/// let mut port = PacketSocket::open(&PacketConfig::new("eth0"), pool)?;
/// let mut batch = Batch::new();
/// port.receive(&mut batch, Instant::ZERO);
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// **Receive.** Frames are as on the wire: a VLAN tag that the kernel has removed is restored.
/// Their time is the kernel's, converted to the caller's: `now` minus the age of the frame. With
/// virtio headers, packets that the kernel has merged are received whole with their
/// [`Gso`](linecard::packet::Gso); a frame that contradicts its header is dropped, such as one
/// merged in a tunnel, which these headers cannot describe. Without them, the kernel's "checksum
/// valid" is trusted, even if the interface has only summed the frame. Frames sent by this machine
/// are left out.
///
/// **Transmit.** Large packets are sent whole if the kernel supports that, otherwise segmented.
/// Frames above the interface's MTU are dropped and counted. A packet left in the batch has to stay
/// its first packet, because some of its segments may have been sent.
pub struct PacketSocket<S: Buffers = Pool> {
    /// None if frames are received only by calls.
    ring: Option<Ring>,
    receiver: Receiver,
    /// Buffers for the next frames, at most [`FRAMES`].
    spare: Vec<S::Buffer>,
    socket: PacketFd,
    link: LinkType,
    virtio: Option<Virtio>,
    pool: S,
    sender: Sender,
    headers: Vec<HeaderBytes>,
    segmenter: Segmenter,
    /// Drop counters before the first segment of a partly segmented packet.
    before_cut: Option<Drops>,
    looks: u32,
    looked: Instant,
    /// When the socket was opened, by the system's clock: no frame arrived earlier.
    opened_ns: u64,
    counters: Counters,
}

impl<S: Buffers> PacketSocket<S> {
    /// Opens an interface of the calling thread's network namespace. Buffers of the pool should
    /// have [`BUFFER_LEN`](linecard_tun::BUFFER_LEN) bytes; with offloads they must.
    ///
    /// # Errors
    ///
    /// If a privilege or interface is missing, or the kernel lacks a feature: see [`PortError`].
    pub fn open(config: &PacketConfig, pool: S) -> Result<Self, PortError> {
        let open::Opened { ring, socket, link, virtio } = open::open(config, pool.buffer_len())?;
        let virtio_len = virtio.map_or(0, |(format, _)| format.header_len());
        Ok(Self {
            ring,
            receiver: Receiver::new(virtio_len),
            spare: Vec::with_capacity(FRAMES),
            socket,
            link,
            virtio,
            pool,
            sender: Sender::default(),
            headers: Vec::with_capacity(BATCH),
            segmenter: Segmenter::default(),
            before_cut: None,
            looks: 0,
            looked: Instant::ZERO,
            opened_ns: system_ns(),
            counters: Counters::default(),
        })
    }

    /// The link type of the interface.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Whether large packets are exchanged whole.
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.virtio.is_some()
    }

    /// Whether a quarter of the ring is taken; none without a ring.
    #[must_use]
    pub fn is_crowded(&self) -> Option<bool> {
        self.ring.as_ref().map(Ring::is_crowded)
    }

    /// The counters so far; queries the kernel's drop counters.
    pub fn counters(&mut self) -> Counters {
        if let Ok(drops) = self.socket.drops() {
            self.counters.dropped.ring_full += u64::from(drops);
        }
        self.counters
    }

    /// Receives as many frames as the batch and the pool have room for; returns whether any
    /// arrived.
    fn receive_batch(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> bool {
        if self.ring.is_some() {
            return self.receive_slots(batch, now);
        }
        let room = batch.room().min(FRAMES);
        while self.spare.len() < room
            && let Some(buffer) = self.pool.take()
        {
            self.spare.push(buffer);
        }
        let count = room.min(self.spare.len());
        if count == 0 {
            self.counters.no_buffer += u64::from(room > 0);
            return false;
        }
        let came = match self.receiver.receive(self.socket.as_fd(), &mut self.spare[..count]) {
            Ok(came) => came,
            Err(error) => {
                // A frame that no virtio header can describe is lost.
                let is_lost = sys::is(&error, libc::EINVAL);
                self.counters.dropped.bad_header += u64::from(is_lost);
                return is_lost;
            }
        };
        let clock = Clock { now, system_ns: system_ns(), opened_ns: self.opened_ns };
        for (index, buffer) in self.spare.drain(..came).enumerate() {
            let Some(arrival) = self.receiver.arrival(index) else { break };
            if arrival.is_outgoing {
                continue;
            }
            let meta = Meta { timestamp: clock.of_frame(arrival.time_ns), ..Meta::default() };
            match packet::<S>(&arrival, buffer, (self.link, self.virtio), meta) {
                Ok(packet) => {
                    count_packet(&mut self.counters, &packet);
                    let _fits = batch.push(packet);
                }
                Err(Refused::TooLong) => self.counters.dropped.too_long += 1,
                Err(Refused::BadHeader) => self.counters.dropped.bad_header += 1,
            }
        }
        came > 0
    }

    /// Checks whether the interface still exists: after a number of receive calls without frames,
    /// or after some time.
    fn look(&mut self, now: Instant) {
        self.looks += 1;
        if self.looks < LOOKS && now.ns_since(self.looked) < LOOK_NS && self.looks > 1 {
            return;
        }
        (self.looks, self.looked) = (1, now);
        self.look_now();
    }

    fn look_now(&mut self) {
        // An unread "down" error would wake every waiter.
        let _down = take_error(self.socket.as_fd());
        if self.socket.bound().is_ok_and(|bound| bound.index < 0) {
            self.counters.gone = 1;
        }
    }

    /// Sends the packets at the front that are sent whole; returns how many were handled, sent or
    /// lost. None if the kernel's queue is full.
    fn send_whole(&mut self, batch: &mut Batch<S::Buffer>) -> Option<usize> {
        let mut burst = self.sender.burst();
        for (header, packet) in self.headers.iter().zip(batch.iter()) {
            burst.add(std::iter::once(header.as_slice()).chain(egress::slices(packet)));
        }
        let sent = match burst.send(self.socket.as_fd()) {
            Ok(sent) => sent,
            Err(error) => return self.lost(&error).then_some(1),
        };
        for packet in batch.iter().take(sent) {
            self.counters.count_transmitted(egress::frame_len(packet));
        }
        Some(sent)
    }

    /// Sends the first packet, which cannot be sent whole; false if the kernel's queue is full.
    fn send_first(&mut self, packet: &mut Packet<S::Buffer>) -> bool {
        if packet.link() == self.link {
            return self.send_cut(packet);
        }
        self.counters.dropped.other_link += 1;
        true
    }

    /// Segments the packet and sends its segments; false if the kernel's queue is full.
    fn send_cut(&mut self, packet: &mut Packet<S::Buffer>) -> bool {
        let before = self.before_cut.take().unwrap_or(self.counters.dropped);
        let mut segmenter = std::mem::take(&mut self.segmenter);
        let all = segmenter.send(packet, |frames| self.send_frames(frames));
        self.segmenter = segmenter;
        match all {
            Ok(false) => {
                self.before_cut = Some(before);
                return false;
            }
            Ok(true) => self.counters.count_cut(before, egress::frame_len(packet)),
            Err(_) => self.counters.dropped.unsendable += 1,
        }
        true
    }

    /// Sends segments; returns how many were handled.
    fn send_frames(&mut self, frames: Frames<'_>) -> usize {
        let (header, count) = (HeaderBytes::plain(self.virtio), frames.iter().count());
        let mut done = 0;
        while done < count {
            let mut burst = self.sender.burst();
            for frame in frames.iter().skip(done) {
                burst.add([header.as_slice(), frame].into_iter());
            }
            match burst.send(self.socket.as_fd()) {
                Ok(sent) => done += sent,
                Err(error) if self.lost(&error) => done += 1,
                Err(_) => break,
            }
        }
        done
    }

    /// Whether a frame is lost because of this error, which is counted then; otherwise it can be
    /// sent later.
    fn lost(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => return false,
            Some(libc::EMSGSIZE) => self.counters.dropped.above_mtu += 1,
            Some(libc::EINVAL) => self.counters.dropped.invalid += 1,
            _ => {
                self.counters.dropped.refused += 1;
                if sys::is(error, libc::ENXIO) || sys::is(error, libc::ENODEV) {
                    self.look_now();
                }
            }
        }
        true
    }
}

impl<S: Buffers> fmt::Debug for PacketSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, link, virtio, counters, .. } = self;
        let mut shown = f.debug_struct("PacketSocket");
        shown.field("socket", socket).field("link", link).field("virtio", virtio);
        shown.field("counters", counters).finish_non_exhaustive()
    }
}

impl<S: Buffers> Port<S::Buffer> for PacketSocket<S> {
    /// Ended once the interface is gone and no frame waits.
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        if batch.room() == 0 || self.receive_batch(batch, now) {
            return PortState::Open;
        }
        if self.counters.gone == 0 {
            self.look(now);
            // Frames that arrived before the interface disappeared are received first.
            return PortState::Open;
        }
        PortState::Ended
    }

    /// On an interface that is down or gone, packets are lost, as on a wire, and counted.
    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, _now: Instant) {
        while !batch.is_empty() {
            self.headers.clear();
            let (virtio, link) = (self.virtio, self.link);
            let ours = batch.iter_mut().take_while(|packet| packet.link() == link);
            self.headers.extend(ours.map_while(|packet| describe(packet, virtio)));
            let done = if !self.headers.is_empty() {
                self.send_whole(batch)
            } else {
                batch.iter_mut().next().and_then(|packet| self.send_first(packet).then_some(1))
            };
            let Some(done) = done else {
                self.counters.blocked += 1;
                return;
            };
            for _ in 0..done {
                batch.pop();
            }
        }
    }
}

impl<S: Buffers> AsFd for PacketSocket<S> {
    /// Readable when a frame waits, or the interface has gone down or disappeared.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Why a frame is dropped.
enum Refused {
    TooLong,
    BadHeader,
}

/// The system's and the caller's time, read once per batch.
struct Clock {
    now: Instant,
    system_ns: u64,
    opened_ns: u64,
}

impl Clock {
    /// A frame's time converted from the system's clock to the caller's, not later than now. A
    /// frame from this machine may carry its scheduled transmit time, by another clock: a time
    /// outside the socket's lifetime is not an arrival time, and counts as now.
    fn of_frame(&self, time_ns: Option<u64>) -> Instant {
        let arrived = time_ns.filter(|time| (self.opened_ns..=self.system_ns).contains(time));
        let age = arrived.map_or(0, |time| self.system_ns - time);
        Instant::from_ns(self.now.as_ns().saturating_sub(age))
    }
}

fn system_ns() -> u64 {
    let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    linecard::time::ns(system)
}

/// Counts a packet that was received.
fn count_packet<B: AsRef<[u8]>>(counters: &mut Counters, packet: &Packet<B>) {
    counters.count_received(packet.bytes().len());
    counters.open_checksums += u64::from(packet.meta.checksum == ChecksumState::Partial);
}

/// A packet of a frame that was received into a buffer.
fn packet<S: Buffers>(
    arrival: &Arrival<'_>,
    mut buffer: S::Buffer,
    (link, virtio): (LinkType, Option<Virtio>),
    meta: Meta,
) -> Result<Packet<S::Buffer>, Refused> {
    let tag = tag(arrival).filter(|_| arrival.len >= TAG_AT);
    if arrival.is_truncated || !put_tag::<S>(&mut buffer, arrival.len, tag) {
        return Err(Refused::TooLong);
    }
    let Some((format, endian)) = virtio else {
        let mut packet = Packet::new(buffer, link, meta);
        packet.meta.checksum = ingress::checksum(&packet, said(arrival.status));
        return Ok(packet);
    };
    let mut header = Header::read(arrival.virtio, format, endian).unwrap_or_default();
    if tag.is_some() {
        // The header describes the frame without its tag.
        header.csum_start = header.csum_start.saturating_add(TAG_LEN as u16);
    }
    ingress::packet(&header, buffer, link, meta).map_err(|_| Refused::BadHeader)
}

/// The tag that the kernel or the interface has removed from the frame, if any.
fn tag(arrival: &Arrival<'_>) -> Option<[u8; TAG_LEN]> {
    let has = |bit| arrival.status & bit != 0;
    if !has(libc::TP_STATUS_VLAN_VALID) {
        return None;
    }
    let (tci, tpid) = arrival.vlan;
    let tpid = if has(libc::TP_STATUS_VLAN_TPID_VALID) { tpid } else { DEFAULT_TPID };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// Truncates the buffer to the frame, with its tag restored; false if that does not fit.
fn put_tag<S: Buffers>(buffer: &mut S::Buffer, len: usize, tag: Option<[u8; TAG_LEN]>) -> bool {
    let whole = len + tag.map_or(0, |tag| tag.len());
    let Some(place) = buffer.as_mut().get_mut(..whole) else { return false };
    if let Some(tag) = tag {
        place.copy_within(TAG_AT..len, TAG_AT + TAG_LEN);
        place[TAG_AT..TAG_AT + TAG_LEN].copy_from_slice(&tag);
    }
    S::truncate(buffer, whole);
    true
}

/// The checksum state reported by the kernel without virtio headers.
fn said(status: u32) -> ChecksumState {
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        ChecksumState::Partial
    } else if status & libc::TP_STATUS_CSUM_VALID != 0 {
        ChecksumState::Valid
    } else {
        ChecksumState::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_back_behind_the_addresses() {
        let pool = Pool::new(1, 24);
        let frame: Vec<u8> = (0..20).collect();
        let filled = |len: usize| {
            let mut buffer = pool.take().expect("free");
            buffer.as_mut()[..len].iter_mut().zip(0..).for_each(|(byte, value)| *byte = value);
            buffer
        };
        let mut buffer = filled(20);
        assert!(put_tag::<Pool>(&mut buffer, 20, Some([0x81, 0, 0, 5])));
        let mut whole = frame.clone();
        whole.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(buffer.as_ref(), whole);
        drop(buffer);
        assert!(!put_tag::<Pool>(&mut filled(21), 21, Some([0; 4])));
        assert!(put_tag::<Pool>(&mut filled(24), 24, None));
    }

    #[test]
    fn a_tag_is_what_the_kernel_says_of_it() {
        let (valid, tpid) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        let said = |status| {
            tag(&Arrival {
                len: 60,
                is_truncated: false,
                is_outgoing: false,
                virtio: &[],
                time_ns: None,
                status,
                vlan: (5, 0x88A8),
            })
        };
        assert_eq!(said(0), None);
        assert_eq!(said(valid), Some([0x81, 0, 0, 5]));
        assert_eq!(said(valid | tpid), Some([0x88, 0xA8, 0, 5]));
    }

    #[test]
    fn times_are_those_of_the_caller_s_clock() {
        let clock = Clock { now: Instant::from_ns(1_000), system_ns: 9_000, opened_ns: 8_500 };
        assert_eq!(clock.of_frame(Some(8_900)), Instant::from_ns(900));
        for no_time in [None, Some(0), Some(8_499), Some(9_001)] {
            assert_eq!(clock.of_frame(no_time), clock.now, "{no_time:?}");
        }
    }

    #[test]
    fn an_open_checksum_goes_before_a_valid_one() {
        let (open, valid) = (libc::TP_STATUS_CSUMNOTREADY, libc::TP_STATUS_CSUM_VALID);
        assert_eq!(said(0), ChecksumState::Unknown);
        assert_eq!(said(valid), ChecksumState::Valid);
        assert_eq!(said(open | valid), ChecksumState::Partial);
    }
}
