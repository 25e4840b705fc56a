//! Packet sockets (`AF_PACKET`): any interface, shared with the kernel's own stack.
//!
//! Receiving goes by a ring that the kernel fills (`TPACKET_V3`), sending by one call for a batch.
//! What arrives is a copy: the kernel's stack sees it too, unless [`Takeover`] keeps it away.

mod block;
mod config;
mod open;
mod takeover;

pub use config::{Fanout, FanoutBy, PacketConfig};
pub use takeover::Takeover;

use super::outgoing::{self, Cutter, Frames, HeaderBytes, Virtio, describe};
use super::{Buffers, Counters, Drops, PortError, incoming};
use crate::sys::ring::Ring;
use crate::sys::send::Sender;
use crate::sys::{
    self,
    socket::{PacketFd, take_error},
};
use block::{Entry, Walk};
use linecard::offload::virtio::Header;
use linecard::packet::{BATCH, Batch, ChecksumState, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::SystemTime;

/// Where a VLAN tag stands: behind the addresses.
const TAG_AT: usize = 12;
const TAG_LEN: usize = 4;
/// Looks at an empty ring between two at the interface, and the time after which there is one.
const LOOKS: u32 = 1_024;
const LOOK_NS: u64 = 10_000_000;

/// A packet socket on one interface, which receives into buffers of `S`.
///
/// ```no_run
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::Port;
/// use linecard::time::Instant;
/// use linecard_host::port::{BUFFER_LEN, PacketConfig, PacketSocket};
///
/// let pool = Pool::new(256, BUFFER_LEN);
/// let mut port = PacketSocket::open(&PacketConfig::new("eth0"), pool)?;
/// let mut batch = Batch::new();
/// port.receive(&mut batch, Instant::ZERO);
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// **Receive.** Frames come as they were on the wire: a VLAN tag that the kernel has taken out is put
/// back. Their time is the kernel's, told in the caller's: `now` less the age of the frame. With
/// virtio headers, what the kernel has merged comes whole with its
/// [`Gso`](linecard::packet::Gso); a header that is not true of its frame drops it, as for what was
/// merged in tunnels, which these headers cannot describe. Without them, "checksum valid" is
/// believed as the kernel says it, also where an interface has only summed the frame up.
/// Frames that this machine sends are left out.
///
/// **Transmit.** Large packets go whole where the kernel takes that, else cut. Frames above the
/// interface's MTU are dropped and counted. A packet that is left in the batch has to stay its
/// first: some of its segments may have gone.
#[derive(Debug)]
pub struct PacketSocket<S: Buffers = Pool> {
    ring: Ring,
    /// How far the block has been read that the kernel has handed over.
    walk: Option<Walk>,
    socket: PacketFd,
    link: LinkType,
    virtio: Option<Virtio>,
    pool: S,
    sender: Sender,
    headers: Vec<HeaderBytes>,
    cutter: Cutter,
    /// Drops before the first segment of a packet that is half cut.
    before_cut: Option<Drops>,
    looks: u32,
    looked: Instant,
    counters: Counters,
}

impl<S: Buffers> PacketSocket<S> {
    /// Opens an interface of the calling thread's network namespace. Buffers of the pool are best of
    /// [`BUFFER_LEN`](super::BUFFER_LEN) bytes; with offloads they have to be.
    ///
    /// # Errors
    ///
    /// No such right or interface, or what the kernel lacks: see [`PortError`].
    pub fn open(config: &PacketConfig, pool: S) -> Result<Self, PortError> {
        let open::Opened { ring, socket, link, virtio } = open::open(config, pool.buffer_len())?;
        Ok(Self {
            ring,
            walk: None,
            socket,
            link,
            virtio,
            pool,
            sender: Sender::default(),
            headers: Vec::with_capacity(BATCH),
            cutter: Cutter::default(),
            before_cut: None,
            looks: 0,
            looked: Instant::ZERO,
            counters: Counters::default(),
        })
    }

    /// What frames of this interface start with.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Whether large packets come and go whole.
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.virtio.is_some()
    }

    /// What has been done so far; asks the kernel what it had no room for.
    pub fn counters(&mut self) -> Counters {
        if let Ok(statistics) = self.socket.statistics() {
            self.counters.dropped.ring_full += u64::from(statistics.drops);
        }
        self.counters
    }

    /// Receives from the block that the kernel has handed over, or hands it back; false when
    /// nothing more is to be done now.
    fn receive_one(&mut self, batch: &mut Batch<S::Buffer>, clock: &Clock) -> bool {
        let Some(block) = self.ring.block() else { return false };
        let mut walk = self.walk.unwrap_or_else(|| Walk::start(block));
        let Some(buffer) = self.pool.take() else {
            self.counters.starved += 1;
            return false;
        };
        let virtio_len = self.virtio.map_or(0, |(format, _)| format.header_len());
        let Some(entry) = walk.next(block, virtio_len) else {
            self.walk = None;
            self.ring.release();
            return true;
        };
        let made = if entry.is_outgoing { Ok(None) } else { self.packet(&entry, buffer, clock) };
        self.walk = Some(walk);
        match made {
            Ok(Some(packet)) => {
                self.counters.count_received(packet.bytes().len());
                let _fits = batch.push(packet);
            }
            Ok(None) => {}
            Err(Refused::TooLong) => self.counters.dropped.too_long += 1,
            Err(Refused::BadHeader) => self.counters.dropped.bad_header += 1,
        }
        true
    }

    /// Copies a frame out of the ring.
    fn packet(
        &self,
        entry: &Entry<'_>,
        mut buffer: S::Buffer,
        clock: &Clock,
    ) -> Result<Option<Packet<S::Buffer>>, Refused> {
        let tag = entry.tag.filter(|_| entry.frame.len() >= TAG_AT);
        if entry.is_cut || !copy::<S>(entry.frame, tag, &mut buffer) {
            return Err(Refused::TooLong);
        }
        let meta = Meta { timestamp: clock.told(entry.time_ns), ..Meta::default() };
        let Some((format, endian)) = self.virtio else {
            let mut packet = Packet::new(buffer, self.link, meta);
            packet.meta.checksum = incoming::checksum(&packet, said(entry.status));
            return Ok(Some(packet));
        };
        let mut header = Header::read(entry.virtio, format, endian).unwrap_or_default();
        if tag.is_some() {
            // It was told for the frame without its tag.
            header.csum_start = header.csum_start.saturating_add(TAG_LEN as u16);
        }
        let packet = incoming::packet(&header, buffer, self.link, meta);
        packet.map(Some).map_err(|_| Refused::BadHeader)
    }

    /// Looks whether the interface is still there: at every so many looks at an empty ring, or
    /// after some time.
    fn look(&mut self, now: Instant) {
        self.looks += 1;
        if self.looks < LOOKS && now.ns_since(self.looked) < LOOK_NS && self.looks > 1 {
            return;
        }
        (self.looks, self.looked) = (1, now);
        self.look_now();
    }

    fn look_now(&mut self) {
        // "Down" would wake every waiter until somebody takes note.
        let _down = take_error(self.socket.as_fd());
        if self.socket.bound().is_ok_and(|bound| bound.index < 0) {
            self.counters.gone = 1;
        }
    }

    /// Sends the packets at the front that go whole; how many are done with, sent or lost. None when
    /// the kernel's queue is full.
    fn send_whole(&mut self, batch: &mut Batch<S::Buffer>) -> Option<usize> {
        let mut burst = self.sender.burst();
        for (header, packet) in self.headers.iter().zip(batch.iter()) {
            burst.add(std::iter::once(header.as_slice()).chain(outgoing::slices(packet)));
        }
        let sent = match burst.send(self.socket.as_fd()) {
            Ok(sent) => sent,
            Err(error) => return self.lost(&error).then_some(1),
        };
        for packet in batch.iter().take(sent) {
            self.counters.count_transmitted(outgoing::frame_len(packet));
        }
        Some(sent)
    }

    /// Cuts the packet and sends its segments; false when the kernel's queue is full.
    fn send_cut(&mut self, packet: &mut Packet<S::Buffer>) -> bool {
        let before = self.before_cut.take().unwrap_or(self.counters.dropped);
        let mut cutter = std::mem::take(&mut self.cutter);
        let all = cutter.send(packet, |frames| self.send_frames(frames));
        self.cutter = cutter;
        match all {
            Ok(false) => {
                self.before_cut = Some(before);
                return false;
            }
            Ok(true) => self.counters.count_cut(before, outgoing::frame_len(packet)),
            Err(_) => self.counters.dropped.unsendable += 1,
        }
        true
    }

    /// Sends segments; how many are done with.
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

    /// Whether a frame is lost by this error, which is counted then; else it can be sent later.
    fn lost(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => return false,
            Some(libc::EMSGSIZE) => self.counters.dropped.above_mtu += 1,
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

impl<S: Buffers> Port<S::Buffer> for PacketSocket<S> {
    /// Ended when the interface is gone and the ring empty.
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        if batch.room() > 0 && self.ring.block().is_some() {
            let clock = Clock::at(now);
            while batch.room() > 0 && self.receive_one(batch, &clock) {}
            return PortState::Open;
        }
        if batch.room() > 0 && self.counters.gone == 0 {
            self.look(now);
        }
        if self.counters.gone > 0 && self.ring.block().is_none() {
            return PortState::Ended;
        }
        PortState::Open
    }

    /// On an interface that is down or gone packets are lost, as on a wire, and counted.
    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, _now: Instant) {
        while !batch.is_empty() {
            self.headers.clear();
            let virtio = self.virtio;
            self.headers.extend(batch.iter_mut().map_while(|packet| describe(packet, virtio)));
            let done = if !self.headers.is_empty() {
                self.send_whole(batch)
            } else {
                batch.iter_mut().next().and_then(|packet| self.send_cut(packet).then_some(1))
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
    /// Readable when a block has been handed over, or the interface has gone down or away.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Why a frame is dropped.
enum Refused {
    TooLong,
    BadHeader,
}

/// The system's clock held against the caller's, once for a batch.
struct Clock {
    now: Instant,
    system_ns: u64,
}

impl Clock {
    fn at(now: Instant) -> Self {
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { now, system_ns: linecard::time::ns(system) }
    }

    /// A time of the system's clock in the caller's, not later than now.
    fn told(&self, system_ns: u64) -> Instant {
        let age = self.system_ns.saturating_sub(system_ns);
        Instant::from_ns(self.now.as_ns().saturating_sub(age))
    }
}

/// Copies a frame into the buffer, its tag put back; false when it does not fit.
fn copy<S: Buffers>(frame: &[u8], tag: Option<[u8; TAG_LEN]>, buffer: &mut S::Buffer) -> bool {
    let len = frame.len() + tag.map_or(0, |tag| tag.len());
    let Some(place) = buffer.as_mut().get_mut(..len) else { return false };
    match tag {
        None => place.copy_from_slice(frame),
        Some(tag) => {
            place[..TAG_AT].copy_from_slice(&frame[..TAG_AT]);
            place[TAG_AT..TAG_AT + TAG_LEN].copy_from_slice(&tag);
            place[TAG_AT + TAG_LEN..].copy_from_slice(&frame[TAG_AT..]);
        }
    }
    S::truncate(buffer, len);
    true
}

/// What the kernel says of the checksum where there are no virtio headers.
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
        let mut buffer = pool.take().expect("free");
        assert!(copy::<Pool>(&frame, Some([0x81, 0, 0, 5]), &mut buffer));
        let mut whole = frame.clone();
        whole.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(buffer.as_ref(), whole);
        drop(buffer);
        assert!(!copy::<Pool>(&[0; 21], Some([0; 4]), &mut pool.take().expect("free")));
        assert!(copy::<Pool>(&[0; 24], None, &mut pool.take().expect("free")));
    }

    #[test]
    fn times_are_told_in_the_caller_s() {
        let clock = Clock { now: Instant::from_ns(1_000), system_ns: 9_000 };
        assert_eq!(clock.told(8_900), Instant::from_ns(900));
        assert_eq!(clock.told(9_100), Instant::from_ns(1_000));
        assert_eq!(clock.told(0), Instant::ZERO);
    }

    #[test]
    fn an_open_checksum_goes_before_a_valid_one() {
        let (open, valid) = (libc::TP_STATUS_CSUMNOTREADY, libc::TP_STATUS_CSUM_VALID);
        assert_eq!(said(0), ChecksumState::Unknown);
        assert_eq!(said(valid), ChecksumState::Valid);
        assert_eq!(said(open | valid), ChecksumState::Partial);
    }
}
