//! TUN and TAP devices on borrowed memory: frames with their virtio headers, read into and written
//! from where the caller has them.

use crate::PortError;
use crate::interface::{self, check_name};
use crate::sys::{self, device};
use linecard::offload::burst::{CutError, FrameSegments, Merged, Merger, cut};
use linecard::offload::coalesce::Config;
use linecard::offload::virtio::{self, Endian, Format, Header, flag};
use linecard::offload::{defer_checksum, verify_checksum};
use linecard::packet::{Gso, LinkType, Meta, Packet};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const PATH: &str = "/dev/net/tun";
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

/// Slices of most packets: header, and as many packets as fill 64 KiB. More are listed in memory
/// allocated for the call.
const FEW: usize = 64;
/// Slices of a frame: what `writev` takes, less one for the header.
const MAX_SLICES: usize = sys::send::MAX_SLICES - 1;

/// The packets that a device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceKind {
    /// Ethernet frames.
    #[default]
    Tap,
    /// IP packets.
    Tun,
}

/// A TUN or TAP device and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its name, 1 … 15 bytes; `%d` in it stands for the first free number. The device is created
    /// if it does not exist, and removed with its last queue.
    pub name: String,
    /// TUN or TAP; TAP by default.
    pub kind: DeviceKind,
    /// Whether the device has several queues, each opened separately with the same name; the kernel
    /// distributes flows over them. Off by default.
    pub multi_queue: bool,
    /// Whether segmenting and checksums may be left to the receiving side, in both directions; on
    /// by default. If off, packets are as on a wire.
    pub offloads: bool,
    /// Whether that includes packets in UDP tunnels (VXLAN, Geneve; Linux 6.17). Of those that the
    /// kernel gives, only tunnels on the ports known here can be segmented. On by default for a TAP
    /// device, off for a TUN device.
    pub tunnels: bool,
}

impl DeviceConfig {
    /// A TAP device with one queue and all offloads.
    #[must_use]
    pub fn tap(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { name, kind: DeviceKind::Tap, multi_queue: false, offloads: true, tunnels: true }
    }

    /// A TUN device with one queue and all offloads but those of tunnels.
    #[must_use]
    pub fn tun(name: impl Into<String>) -> Self {
        Self { kind: DeviceKind::Tun, tunnels: false, ..Self::tap(name) }
    }
}

/// One queue of a TUN or TAP device. It never blocks, and may be used by several threads.
///
/// ```no_run
/// use linecard::offload::burst::{Room, stride};
/// use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
///
/// let device = Device::open(&DeviceConfig::tun("tun%d"))?;
/// let (mut frame, mut out) = (vec![0; BUFFER_LEN], vec![0; 2 * BUFFER_LEN]);
/// // A packet of up to 64 KiB from the kernel, divided into packets of the device's MTU.
/// let mut segments = device.read(&mut frame)?.cut()?;
/// let run = segments.write(Room::default(), &mut out)?.expect("at least one");
/// let (len, size) = (run.bytes().len(), run.size());
/// // The same back to the kernel: merged, by one call.
/// let mut merger = device.merger();
/// merger.merge_burst(&mut out[..len], stride(len, size), &mut |packet| {
///     device.write(&packet).expect("the device is up");
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Device {
    file: File,
    name: String,
    link: LinkType,
    format: Format,
    offloads: u32,
}

/// A frame that was read.
#[derive(Debug)]
pub struct Frame<'b> {
    /// The kernel's metadata.
    pub header: Header,
    /// The frame.
    pub bytes: &'b mut [u8],
    link: LinkType,
}

impl<'b> Frame<'b> {
    /// The frame at the front of `buffer`, as [`Device::read_into`] left it there.
    #[cfg(feature = "tokio")]
    pub(crate) fn of(link: LinkType, header: Header, bytes: &'b mut [u8]) -> Self {
        Self { header, bytes, link }
    }

    /// Its segments; the frame itself, with its checksum completed, if it is not to be segmented.
    ///
    /// # Errors
    ///
    /// The header contradicts the frame, or the frame cannot be segmented: drop this frame, and continue.
    pub fn cut(self) -> Result<FrameSegments<'b>, CutError> {
        cut(self.link, &self.header, self.bytes)
    }

    /// Whether its TCP or UDP checksum is right: verified by the kernel or here, or left to the
    /// receiver, as that of packets which were made on this host. True for a frame that has none.
    ///
    /// A TCP implementation that takes frames as they are ([`Frame::bytes`], up to 64 KiB) verifies
    /// them by this, because the checksum of such a frame is not complete.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let known = flag::NEEDS_CSUM | flag::DATA_VALID;
        self.header.flags & known != 0 || {
            let packet = Packet::new(&*self.bytes, self.link, Meta::default());
            verify_checksum(&packet) != Some(false)
        }
    }
}

impl Device {
    /// Opens a queue of a device, which is created if it does not exist, and is not brought up. The
    /// longest virtio header that the kernel knows is agreed on.
    ///
    /// # Errors
    ///
    /// If a privilege, name or device is missing: see [`PortError`].
    pub fn open(config: &DeviceConfig) -> Result<Self, PortError> {
        check_name(&config.name)?;
        let file = open_file()?;
        let name = attach(&file, config)?;
        let (offloads, format) = agree(&file, config)?;
        let link = if config.kind == DeviceKind::Tun { LinkType::Raw } else { LinkType::Ethernet };
        Ok(Self { file, name, link, format, offloads })
    }

    /// The device's name, with its number if one was requested.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The link type of its frames.
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

    /// A merger whose packets this device accepts, with a flow hash that peers cannot know.
    #[must_use]
    pub fn merger(&self) -> Merger {
        Merger::new(self.link, self.merger_config())
    }

    /// The configuration of [`merger`](Self::merger), with a new key of the flow hash: to make a
    /// merger that differs in what does not concern the device, with its [`link`](Self::link).
    ///
    /// ```no_run
    /// use linecard::offload::burst::Merger;
    /// use linecard::offload::coalesce::{ChecksumPolicy, Config};
    /// use linecard_tun::{Device, DeviceConfig};
    ///
    /// let device = Device::open(&DeviceConfig::tun("tun0"))?;
    /// // The tunnel authenticates each packet, and its peer has verified them.
    /// let config = Config { checksum: ChecksumPolicy::Trust, ..device.merger_config() };
    /// let mut merger = Merger::new(device.link(), config);
    /// # Ok::<(), linecard_tun::PortError>(())
    /// ```
    ///
    /// [`Config::device`], [`Config::max_segments`] and [`Config::max_datagrams`] are what the device
    /// accepts: lower values are accepted too, and 1 means that nothing merges.
    #[must_use]
    pub fn merger_config(&self) -> Config {
        let burst = Config::burst();
        let of = |bit: u32, most: u16| if self.offloads & bit == 0 { 1 } else { most };
        let format = self.format;
        Config {
            device: Some(virtio::Device { format, ..virtio::Device::default() }),
            max_segments: of(libc::TUN_F_TSO4, burst.max_segments),
            max_datagrams: of(libc::TUN_F_USO4, burst.max_datagrams),
            secret: RandomState::new().hash_one(&self.name),
            ..burst
        }
    }

    /// Reads a frame into `buffer`, which needs [`BUFFER_LEN`](crate::BUFFER_LEN) bytes, or without
    /// offloads the device's MTU and 18 more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if there is none; [`ErrorKind::InvalidData`] if it was longer than
    /// `buffer`, and is lost; [`ErrorKind::NotFound`] once the device was removed; else the system's.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Frame<'b>> {
        let (header, len) = self.read_into(buffer)?;
        Ok(Frame { header, bytes: &mut buffer[..len], link: self.link })
    }

    /// Reads a frame into the front of `buffer`; its header and length.
    pub(crate) fn read_into(&self, buffer: &mut [u8]) -> io::Result<(Header, usize)> {
        let (mut head, mut beyond) = ([0; Format::MAX_LEN], [0]);
        let head_len = self.format.header_len();
        let mut places = [
            IoSliceMut::new(&mut head[..head_len]),
            IoSliceMut::new(buffer),
            // A frame that extends into this byte was too long: the kernel truncates silently.
            IoSliceMut::new(&mut beyond),
        ];
        let len = (&self.file).read_vectored(&mut places).map_err(removed)?;
        let room = buffer.len();
        let Some(len) = len.checked_sub(head_len).filter(|len| *len <= room) else {
            let text = format!(
                "a frame is longer than the buffer of {room} bytes, and lost: take BUFFER_LEN ({}) \
                 bytes, or without offloads the MTU and 18 more",
                crate::BUFFER_LEN
            );
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        };
        let header = Header::read(&head, self.format, Endian::Little).unwrap_or_default();
        Ok((header, len))
    }

    /// Writes a packet of its [`merger`](Self::merger), by one call.
    ///
    /// # Errors
    ///
    /// As [`write_frame`](Self::write_frame).
    pub fn write(&self, packet: &Merged<'_>) -> io::Result<()> {
        self.write_frame(&packet.header, packet.slices)
    }

    /// Writes a frame whose TCP or UDP payload is to be divided by `size` bytes, if it has more and
    /// `size` is not 0: for a TCP implementation that leaves segmenting to its device. It leaves the
    /// checksum to the device too: the field is replaced by the sum of the pseudo header.
    /// A frame without such a checksum is written as it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the frame cannot be divided so; else as
    /// [`write_frame`](Self::write_frame).
    pub fn write_large(&self, frame: &mut [u8], size: u16) -> io::Result<()> {
        let header = large_header(self.link, frame, size)?;
        self.write_frame(&header, &[frame])
    }

    /// Writes a frame that lies in these slices, described by a header.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the frame contradicts the header, has more than 1,023 slices or
    /// is in a tunnel that the [`format`](Self::format) cannot describe. `EIO` if the device is
    /// down; [`ErrorKind::NotFound`] once it was removed. [`ErrorKind::WouldBlock`] if the kernel's
    /// queue is full.
    pub fn write_frame(&self, header: &Header, slices: &[&[u8]]) -> io::Result<()> {
        let mut head = [0; Format::MAX_LEN];
        let Some(head_len) = header.write(&mut head, self.format, Endian::Little) else {
            let text = "the header describes a tunnel, which the device's format cannot: open the \
                        device with `tunnels` (Linux 6.17), or segment the frame";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        };
        if slices.len() > MAX_SLICES {
            // The standard library would write the first of them only.
            let text = format!(
                "a frame in {} slices: at most {MAX_SLICES} are written at once, join some",
                slices.len()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let head = &head[..head_len];
        let mut few = [IoSlice::new(&[]); FEW];
        if let Some(list) = few.get_mut(..=slices.len()) {
            list[0] = IoSlice::new(head);
            list[1..].iter_mut().zip(slices).for_each(|(to, from)| *to = IoSlice::new(from));
            return (&self.file).write_vectored(list).map(drop).map_err(removed);
        }
        let all = std::iter::once(head).chain(slices.iter().copied());
        let list: Vec<IoSlice<'_>> = all.map(IoSlice::new).collect();
        (&self.file).write_vectored(&list).map(drop).map_err(removed)
    }
}

impl AsFd for Device {
    /// Readable when a frame waits, or the device was removed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Says what the system means by "File descriptor in bad state".
fn removed(error: io::Error) -> io::Error {
    if sys::is(&error, libc::EBADFD) {
        return io::Error::new(ErrorKind::NotFound, "the device was removed");
    }
    error
}

/// Describes a frame that is to be divided, and defers its checksum.
fn large_header(link: LinkType, frame: &mut [u8], size: u16) -> io::Result<Header> {
    let mut packet = Packet::new(frame, link, Meta::default());
    let segments = packet.payload_len().div_ceil(size.max(1).into()) as u16;
    packet.meta.gso = (size > 0).then(|| Gso { size, segments, ..Gso::default() });
    if !defer_checksum(&mut packet) {
        return Ok(Header::default());
    }
    Header::of(&packet).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
}

fn open_file() -> Result<File, PortError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open(PATH).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => PortError::NoAccess { path: PATH },
        ErrorKind::NotFound => PortError::Lacks {
            what: "TUN and TAP devices (no /dev/net/tun)",
            advice: "load the module by `modprobe tun`, or build it with CONFIG_TUN",
        },
        _ => PortError::System { doing: ATTACH, source },
    })
}

/// Attaches a queue; returns the device's name.
fn attach(file: &File, config: &DeviceConfig) -> Result<String, PortError> {
    let kind = if config.kind == DeviceKind::Tun { libc::IFF_TUN } else { libc::IFF_TAP };
    let queues = if config.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = kind | queues | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    device::attach_tun(file, &config.name, flags).map_err(|source| {
        let name = config.name.clone();
        match source.raw_os_error() {
            Some(libc::EBUSY | libc::E2BIG) => PortError::InUse { name },
            Some(libc::EINVAL | libc::EEXIST) if interface::exists(&name).unwrap_or(false) => {
                PortError::OtherKind { name }
            }
            _ => PortError::of(ATTACH, CAPABILITY, source),
        }
    })
}

/// Offers the kernel our offloads, fewer and fewer until it agrees.
fn agree(file: &File, config: &DeviceConfig) -> Result<(u32, Format), PortError> {
    let offers = if config.offloads { &OFFERS[..] } else { &[] };
    for &(offer, format) in offers {
        if offer == TUNNELS && !config.tunnels {
            continue;
        }
        if device::set_tun_offloads(file, offer).is_ok() && set_header(file, format).is_ok() {
            return Ok((offer, format));
        }
    }
    device::set_tun_offloads(file, 0)
        .map_err(|error| PortError::of("set a device's offloads", CAPABILITY, error))?;
    set_header(file, Format::V1)?;
    Ok((0, Format::V1))
}

fn set_header(file: &File, format: Format) -> Result<(), PortError> {
    device::set_tun_header(file, format.header_len()).map_err(|_| PortError::Lacks {
        what: "virtio headers of little endian on TAP devices",
        advice: "use Linux 4.0 or newer",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::offload::burst::Room;
    use linecard::offload::virtio::gso_type;

    /// TCP in IPv4 with 10 bytes of payload; the checksum field is 0.
    fn segment() -> Vec<u8> {
        let mut frame = vec![0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        frame.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        frame.extend(*b"0123456789");
        frame
    }

    fn frame(header: Header, bytes: &mut [u8]) -> Frame<'_> {
        Frame { header, bytes, link: LinkType::Raw }
    }

    #[test]
    fn a_large_frame_is_described_and_its_segments_are_intact() {
        let mut bytes = segment();
        let header = large_header(LinkType::Raw, &mut bytes, 4).expect("it is a segment");
        assert_eq!((header.gso_type, header.gso_size), (gso_type::TCPV4, 4));
        assert_eq!((header.flags, header.csum_start, header.csum_offset), (1, 20, 16));
        let mut cut = frame(header, &mut bytes).cut().expect("it is consistent");
        let mut out = [0; 256];
        let mut run = cut.write(Room::default(), &mut out).expect("room").expect("segments");
        let lens: Vec<usize> = run.segments().map(|segment| segment.len()).collect();
        assert_eq!(lens, [44, 44, 42]);
        run.segments().for_each(|segment| {
            assert!(frame(Header::default(), segment).is_intact());
            segment[41] ^= 1;
            assert!(!frame(Header::default(), segment).is_intact());
        });
    }

    #[test]
    fn a_frame_that_is_not_to_be_divided_leaves_its_checksum_to_the_device() {
        for size in [0, 10] {
            let mut bytes = segment();
            let header = large_header(LinkType::Raw, &mut bytes, size).expect("it is a segment");
            assert_eq!((header.flags, header.gso_type, header.gso_size), (1, 0, 0));
            header.complete_checksum(&mut bytes).expect("it is consistent");
            assert!(frame(Header::default(), &mut bytes).is_intact());
        }
        let mut other = [0; 40];
        assert_eq!(large_header(LinkType::Raw, &mut other, 0).ok(), Some(Header::default()));
    }

    #[test]
    fn what_the_kernel_has_verified_is_not_verified_again() {
        let mut bytes = segment();
        assert!(!frame(Header::default(), &mut bytes).is_intact());
        for flags in [flag::NEEDS_CSUM, flag::DATA_VALID] {
            assert!(frame(Header { flags, ..Header::default() }, &mut bytes).is_intact());
        }
    }

    #[test]
    fn frames_without_a_checksum_are_intact() {
        let mut datagram = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        datagram.extend([0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
        assert!(frame(Header::default(), &mut datagram).is_intact());
        // ICMP.
        datagram[9] = 1;
        assert!(frame(Header::default(), &mut datagram).is_intact());
    }
}
