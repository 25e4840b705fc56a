//! TUN and TAP devices: what the kernel sends on them is received here, and vice versa.
//!
//! A virtio header precedes each frame. With it the kernel passes packets of up to 64 KiB
//! unsegmented and with partial checksums, and accepts merged ones whole. Its longest format, for
//! packets in UDP tunnels, is used if the kernel supports it (Linux 6.17).

use crate::egress::{self, HeaderBytes, Segmenter, Virtio, describe};
use crate::interface::check_name;
use crate::sys::send::Sender;
use crate::sys::{self, device};
use crate::{BUFFER_LEN, Buffers, Counters, Drops, PortError, ingress};
use linecard::offload::virtio::{Endian, Format, Header};
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const DEVICE: &str = "/dev/net/tun";
const CAPABILITY: &str = "CAP_NET_ADMIN";
const ATTACH: &str = "open a TUN or TAP device";

/// Checksums and TCP of both versions of IP, with ECN.
const TCP: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// UDP too: Linux 6.2.
const UDP: u32 = TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6;
/// In UDP tunnels with and without checksum: `TUN_F_UDP_TUNNEL_GSO` and
/// `TUN_F_UDP_TUNNEL_GSO_CSUM` of Linux 6.17, which libc does not name.
const TUNNELS: u32 = UDP | 0x080 | 0x100;

/// The offloads that the kernel may leave to us, most first, with the header format that they
/// require.
const OFFERS: [(u32, Format); 4] = [
    (TUNNELS, Format::Tunnel),
    (UDP, Format::V1),
    (TCP, Format::V1),
    (libc::TUN_F_CSUM, Format::V1),
];

/// The link type of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TapKind {
    /// An Ethernet header: a TAP device.
    #[default]
    Ethernet,
    /// An IP header: a TUN device.
    Ip,
}

/// A device and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapConfig {
    /// Its name, 1 … 15 bytes; `%d` in it stands for the first free number. The device is created
    /// if it does not exist, and removed with its last queue.
    pub name: String,
    /// Ethernet frames or IP packets; Ethernet by default.
    pub kind: TapKind,
    /// Whether the device has several queues, each opened as a separate [`Tap`] with the same name;
    /// the kernel distributes flows over them. Off by default.
    pub multi_queue: bool,
    /// Whether segmenting and checksums may be left to the receiving side, in both directions; on
    /// by default. If off, packets are as on a wire.
    pub offloads: bool,
}

impl TapConfig {
    /// A TAP device with one queue and all offloads.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: TapKind::Ethernet, multi_queue: false, offloads: true }
    }
}

/// One queue of a TUN or TAP device, which receives into buffers of `S`.
///
/// ```no_run
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::Port;
/// use linecard::time::Instant;
/// use linecard_tun::{BUFFER_LEN, Tap, TapConfig, interface};
///
/// let mut tap = Tap::open(&TapConfig::new("tap%d"), Pool::new(128, BUFFER_LEN))?;
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
    file: File,
    name: String,
    link: LinkType,
    format: Format,
    offloads: u32,
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
    pub fn open(config: &TapConfig, pool: S) -> Result<Self, PortError> {
        check_name(&config.name)?;
        let needed = BUFFER_LEN;
        if config.offloads && pool.buffer_len() < needed {
            return Err(PortError::ShortBuffers { given: pool.buffer_len(), needed });
        }
        let file = open_device()?;
        let name = attach(&file, config)?;
        let (offloads, format) = agree(&file, config.offloads)?;
        Ok(Self {
            file,
            name,
            link: if config.kind == TapKind::Ip { LinkType::Raw } else { LinkType::Ethernet },
            format,
            offloads,
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
        &self.name
    }

    /// The link type of its packets.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The virtio header format agreed on with the kernel.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The offloads that the kernel leaves to us: bits `TUN_F_*` of `linux/if_tun.h`.
    #[must_use]
    pub fn offloads(&self) -> u32 {
        self.offloads
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
        let (mut head, mut beyond) = ([0; Format::MAX_LEN], [0]);
        let head_len = self.format.header_len();
        let room = buffer.as_ref().len();
        let mut places = [
            IoSliceMut::new(&mut head[..head_len]),
            IoSliceMut::new(buffer.as_mut()),
            // A frame that extends into this byte was too long: the kernel truncates silently.
            IoSliceMut::new(&mut beyond),
        ];
        let len = match (&self.file).read_vectored(&mut places) {
            Ok(len) => len,
            Err(error) => {
                self.spare = Some(buffer);
                self.gone_by(&error);
                return Came::Nothing;
            }
        };
        let Some(len) = len.checked_sub(head_len).filter(|len| *len <= room) else {
            self.counters.dropped.too_long += 1;
            self.spare = Some(buffer);
            return Came::Dropped;
        };
        S::truncate(&mut buffer, len);
        let header = Header::read(&head, self.format, Endian::Little).unwrap_or_default();
        let meta = Meta { timestamp: now, ..Meta::default() };
        let Ok(packet) = ingress::packet(&header, buffer, self.link, meta) else {
            self.counters.dropped.bad_header += 1;
            return Came::Dropped;
        };
        self.counters.count_received(len);
        Came::Packet(packet)
    }

    /// Records that the device has been removed, if the error says so.
    fn gone_by(&mut self, error: &io::Error) {
        if sys::is(error, libc::EBADFD) {
            self.counters.gone = 1;
        }
    }

    /// Sends a packet, whole or segmented; false if the kernel's queue is full.
    fn send(&mut self, packet: &mut Packet<S::Buffer>) -> bool {
        if packet.link() != self.link {
            self.counters.dropped.other_link += 1;
            return true;
        }
        let virtio = Some((self.format, Endian::Little));
        let bytes = egress::frame_len(packet);
        let described = match self.offloads {
            // On a wire there are no partial checksums and no large packets.
            0 => describe(packet, None).map(|_| HeaderBytes::plain(virtio)),
            _ => describe(packet, virtio),
        };
        let Some(header) = described else { return self.send_cut(packet, virtio) };
        let mut burst = self.sender.burst();
        burst.add(std::iter::once(header.as_slice()).chain(egress::slices(packet)));
        let written = burst.write(self.file.as_fd());
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
                let written = burst.write(self.file.as_fd());
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
        self.file.as_fd()
    }
}

fn open_device() -> Result<File, PortError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open(DEVICE).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => PortError::NoAccess { path: DEVICE },
        io::ErrorKind::NotFound => PortError::Lacks {
            what: "TUN and TAP devices (no /dev/net/tun)",
            advice: "load the module by `modprobe tun`, or build it with CONFIG_TUN",
        },
        _ => PortError::System { doing: ATTACH, source },
    })
}

/// Attaches a queue; returns the device's name.
fn attach(file: &File, config: &TapConfig) -> Result<String, PortError> {
    let kind = if config.kind == TapKind::Ip { libc::IFF_TUN } else { libc::IFF_TAP };
    let queues = if config.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = kind | queues | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    device::attach_tun(file, &config.name, flags).map_err(|source| {
        let name = config.name.clone();
        match source.raw_os_error() {
            Some(libc::EBUSY | libc::E2BIG) => PortError::InUse { name },
            Some(libc::EINVAL | libc::EEXIST) => PortError::OtherKind { name },
            _ => PortError::of(ATTACH, CAPABILITY, source),
        }
    })
}

/// Offers the kernel our offloads, fewer and fewer until it agrees.
fn agree(file: &File, offloads: bool) -> Result<(u32, Format), PortError> {
    let offers = if offloads { &OFFERS[..] } else { &[] };
    for &(offer, format) in offers {
        if device::set_tun_offloads(file, offer).is_ok() && set_header(file, format).is_ok() {
            return Ok((offer, format));
        }
    }
    device::set_tun_offloads(file, 0)
        .map_err(|error| PortError::of("set a TAP's offloads", CAPABILITY, error))?;
    set_header(file, Format::V1)?;
    Ok((0, Format::V1))
}

fn set_header(file: &File, format: Format) -> Result<(), PortError> {
    device::set_tun_header(file, format.header_len()).map_err(|_| PortError::Lacks {
        what: "virtio headers of little endian on TAP devices",
        advice: "use Linux 4.0 or newer",
    })
}
