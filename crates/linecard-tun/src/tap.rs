//! TUN and TAP devices: what the kernel sends on them is received here, and vice versa.
//!
//! A virtio header precedes each frame. With it the kernel passes packets of up to 64 KiB
//! unsegmented and with partial checksums, and accepts merged ones whole. Its longest format, for
//! packets in UDP tunnels, is used if the kernel supports it (Linux 6.17).

use crate::egress::{self, HeaderBytes, Segmenter, Virtio, describe};
use crate::sys::send::Sender;
use crate::{BUFFER_LEN, Buffers, Counters, Device, DeviceConfig, Drops, PortError, ingress, sys};
use linecard::offload::virtio::{Endian, Format};
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

/// One queue of a TUN or TAP device, which receives into buffers of `S`.
///
/// ```no_run
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::Port;
/// use linecard::time::Instant;
/// use linecard_tun::{BUFFER_LEN, Tap, DeviceConfig, interface};
///
/// let mut tap = Tap::open(&DeviceConfig::tap("tap%d"), Pool::new(128, BUFFER_LEN))?;
/// interface::set_up(tap.name(), true)?;
/// let mut batch = Batch::new();
/// tap.receive(&mut batch, Instant::ZERO);
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// **Receive.** A frame that contradicts its header is dropped ([`Drops::bad_header`]), except that
/// a partial checksum at an unknown offset, as in an unknown tunnel, is completed. Packets carry
/// the caller's time.
///
/// **Transmit.** Large packets are sent whole if a header can describe them, otherwise segmented. A
/// packet left in the batch has to stay its first packet, because some of its segments may have
/// been sent.
///
/// [`Drops::bad_header`]: crate::Drops::bad_header
#[derive(Debug)]
pub struct Tap<S: Buffers = Pool> {
    device: Device,
    pool: S,
    /// A buffer that was taken for a frame that did not arrive.
    spare: Option<S::Buffer>,
    sender: Sender,
    segmenter: Segmenter,
    /// Drop counters before the first segment of a partly segmented packet.
    before_cut: Option<Drops>,
    counters: Counters,
}

impl<S: Buffers> Tap<S> {
    /// Opens a queue of a device, which is created if it does not exist, and is not brought up.
    /// Buffers of the pool need [`BUFFER_LEN`] bytes, or without offloads the device's MTU and 18
    /// more.
    ///
    /// # Errors
    ///
    /// If a privilege, name or device is missing, or buffers are too short: see [`PortError`].
    pub fn open(config: &DeviceConfig, pool: S) -> Result<Self, PortError> {
        let needed = BUFFER_LEN;
        if config.offloads && pool.buffer_len() < needed {
            return Err(PortError::ShortBuffers { given: pool.buffer_len(), needed });
        }
        Ok(Self {
            device: Device::open(config)?,
            pool,
            spare: None,
            sender: Sender::default(),
            segmenter: Segmenter::default(),
            before_cut: None,
            counters: Counters::default(),
        })
    }

    /// The device's name, with its number if one was requested.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// The link type of its packets.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.device.link()
    }

    /// The virtio header format agreed on with the kernel.
    #[must_use]
    pub fn format(&self) -> Format {
        self.device.format()
    }

    /// The offloads that the kernel leaves to us: bits `TUN_F_*` of `linux/if_tun.h`.
    #[must_use]
    pub fn offloads(&self) -> u32 {
        self.device.offloads()
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Reads a frame; none if there is none, or if it was dropped.
    fn read(&mut self, now: Instant) -> Came<S::Buffer> {
        let Some(mut buffer) = self.spare.take().or_else(|| self.pool.take()) else {
            self.counters.no_buffer += 1;
            return Came::Nothing;
        };
        let (header, len) = match self.device.read(buffer.as_mut()) {
            Ok(frame) => (frame.header, frame.bytes.len()),
            Err(error) => {
                self.spare = Some(buffer);
                if error.kind() == ErrorKind::InvalidData {
                    self.counters.dropped.too_long += 1;
                    return Came::Dropped;
                }
                self.gone_by(&error);
                return Came::Nothing;
            }
        };
        S::truncate(&mut buffer, len);
        let meta = Meta { timestamp: now, ..Meta::default() };
        let Ok(packet) = ingress::packet(&header, buffer, self.device.link(), meta) else {
            self.counters.dropped.bad_header += 1;
            return Came::Dropped;
        };
        self.counters.count_received(len);
        Came::Packet(packet)
    }

    /// Records that the device has been removed, if the error says so.
    fn gone_by(&mut self, error: &io::Error) {
        if sys::is(error, libc::EBADFD) || error.kind() == ErrorKind::NotFound {
            self.counters.gone = 1;
        }
    }

    /// Sends a packet, whole or segmented; false if the kernel's queue is full.
    fn send(&mut self, packet: &mut Packet<S::Buffer>) -> bool {
        if packet.link() != self.device.link() {
            self.counters.dropped.other_link += 1;
            return true;
        }
        let virtio = Some((self.device.format(), Endian::Little));
        let bytes = egress::frame_len(packet);
        let described = match self.device.offloads() {
            // On a wire there are no partial checksums and no large packets.
            0 => describe(packet, None).map(|_| HeaderBytes::plain(virtio)),
            _ => describe(packet, virtio),
        };
        let Some(header) = described else { return self.send_cut(packet, virtio) };
        let mut burst = self.sender.burst();
        burst.add(std::iter::once(header.as_slice()).chain(egress::slices(packet)));
        let written = burst.write(self.device.as_fd());
        match self.sent(written) {
            Sent::Later => return false,
            Sent::Taken => self.counters.count_transmitted(bytes),
            Sent::Lost => {}
        }
        true
    }

    fn send_cut(&mut self, packet: &mut Packet<S::Buffer>, virtio: Option<Virtio>) -> bool {
        let bytes = egress::frame_len(packet);
        let header = HeaderBytes::plain(virtio);
        let before = self.before_cut.take().unwrap_or(self.counters.dropped);
        let mut segmenter = std::mem::take(&mut self.segmenter);
        let all = segmenter.send(packet, |frames| {
            let written = frames.iter().take_while(|frame| {
                let mut burst = self.sender.burst();
                burst.add([header.as_slice(), frame].into_iter());
                let written = burst.write(self.device.as_fd());
                self.sent(written) != Sent::Later
            });
            written.count()
        });
        self.segmenter = segmenter;
        match all {
            Ok(false) => {
                self.before_cut = Some(before);
                return false;
            }
            Ok(true) => self.counters.count_cut(before, bytes),
            Err(_) => self.counters.dropped.unsendable += 1,
        }
        true
    }

    /// Evaluates the result of sending a frame; a lost frame is counted.
    fn sent(&mut self, written: io::Result<usize>) -> Sent {
        let Err(error) = written else { return Sent::Taken };
        let later = [libc::EAGAIN, libc::EINTR, libc::ENOBUFS, libc::ENOMEM];
        if later.into_iter().any(|number| sys::is(&error, number)) {
            return Sent::Later;
        }
        self.gone_by(&error);
        let dropped = &mut self.counters.dropped;
        // The kernel returns EIO if the device is down.
        match error.raw_os_error() {
            Some(libc::EINVAL) => dropped.invalid += 1,
            _ => dropped.refused += 1,
        }
        Sent::Lost
    }
}

/// The result of one read.
enum Came<B> {
    Packet(Packet<B>),
    Dropped,
    Nothing,
}

#[derive(PartialEq, Eq)]
enum Sent {
    Taken,
    Later,
    Lost,
}

impl<S: Buffers> Port<S::Buffer> for Tap<S> {
    /// Ended once the device has been removed.
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        // As many attempts as there is room: dropped frames count too.
        for _ in 0..batch.room() {
            match self.read(now) {
                Came::Packet(packet) => {
                    let _fits = batch.push(packet);
                }
                Came::Dropped => {}
                Came::Nothing => break,
            }
        }
        if self.counters.gone > 0 { PortState::Ended } else { PortState::Open }
    }

    /// On a device that is down or removed, packets are lost, as on a wire, and counted.
    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, _now: Instant) {
        loop {
            let Some(packet) = batch.iter_mut().next() else { return };
            if !self.send(packet) {
                self.counters.blocked += 1;
                return;
            }
            batch.pop();
        }
    }
}

impl<S: Buffers> AsFd for Tap<S> {
    /// Readable when a frame waits, or the device has been removed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
