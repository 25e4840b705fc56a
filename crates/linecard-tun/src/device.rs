//! TUN and TAP devices on borrowed memory: frames with their virtio headers, read into and written
//! from where the caller has them.

use crate::PortError;
use crate::interface::check_name;
use crate::sys::device;
use linecard::offload::burst::{CutError, FrameSegments, Merged, Merger, cut};
use linecard::offload::coalesce::Config;
use linecard::offload::virtio::{self, Endian, Format, Header};
use linecard::packet::LinkType;
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
    /// Whether the device has several queues, each opened separately with the same name; the kernel
    /// distributes flows over them. Off by default.
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

    /// A TUN device with one queue and all offloads.
    #[must_use]
    pub fn tun(name: impl Into<String>) -> Self {
        Self { kind: TapKind::Ip, ..Self::new(name) }
    }
}

/// One queue of a TUN or TAP device. It never blocks, and may be used by several threads.
///
/// ```no_run
/// use linecard::offload::burst::{Room, stride};
/// use linecard_tun::{BUFFER_LEN, Device, TapConfig};
///
/// let device = Device::open(&TapConfig::tun("tun%d"))?;
/// let (mut frame, mut out) = (vec![0; BUFFER_LEN], vec![0; 2 * BUFFER_LEN]);
/// // A packet of up to 64 KiB from the kernel, cut into packets of the device's MTU.
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
    /// What the kernel says of it.
    pub header: Header,
    /// The frame.
    pub bytes: &'b mut [u8],
    link: LinkType,
}

impl<'b> Frame<'b> {
    /// Its segments; the frame itself, with its checksum completed, if it is not to be segmented.
    ///
    /// # Errors
    ///
    /// The header contradicts the frame.
    pub fn cut(self) -> Result<FrameSegments<'b>, CutError> {
        cut(self.link, &self.header, self.bytes)
    }
}

impl Device {
    /// Opens a queue of a device, which is created if it does not exist, and is not brought up. The
    /// longest virtio header that the kernel knows is agreed on.
    ///
    /// # Errors
    ///
    /// If a privilege, name or device is missing: see [`PortError`].
    pub fn open(config: &TapConfig) -> Result<Self, PortError> {
        check_name(&config.name)?;
        let file = open_file()?;
        let name = attach(&file, config)?;
        let (offloads, format) = agree(&file, config.offloads)?;
        let link = if config.kind == TapKind::Ip { LinkType::Raw } else { LinkType::Ethernet };
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
        let burst = Config::burst();
        let of = |bit: u32, most: u16| if self.offloads & bit == 0 { 1 } else { most };
        let format = self.format;
        Merger::new(
            self.link,
            Config {
                device: Some(virtio::Device { format, ..virtio::Device::default() }),
                max_segments: of(libc::TUN_F_TSO4, burst.max_segments),
                max_datagrams: of(libc::TUN_F_USO4, burst.max_datagrams),
                secret: RandomState::new().hash_one(&self.name),
                ..burst
            },
        )
    }

    /// Reads a frame into `buffer`, which needs [`BUFFER_LEN`](crate::BUFFER_LEN) bytes, or without
    /// offloads the device's MTU and 18 more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if there is none; [`ErrorKind::InvalidData`] if it was longer than
    /// `buffer`, and is lost; else the system's, among them `EBADFD` once the device was removed.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Frame<'b>> {
        let (mut head, mut beyond) = ([0; Format::MAX_LEN], [0]);
        let head_len = self.format.header_len();
        let mut places = [
            IoSliceMut::new(&mut head[..head_len]),
            IoSliceMut::new(buffer),
            // A frame that extends into this byte was too long: the kernel truncates silently.
            IoSliceMut::new(&mut beyond),
        ];
        let len = (&self.file).read_vectored(&mut places)?;
        let room = buffer.len();
        let frame = len.checked_sub(head_len).and_then(|len| buffer.get_mut(..len));
        let Some(bytes) = frame else {
            let text = format!("a frame is longer than the buffer of {room} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        };
        let header = Header::read(&head, self.format, Endian::Little).unwrap_or_default();
        Ok(Frame { header, bytes, link: self.link })
    }

    /// Writes a packet of its [`merger`](Self::merger), by one call.
    ///
    /// # Errors
    ///
    /// As [`write_frame`](Self::write_frame).
    pub fn write(&self, packet: &Merged<'_>) -> io::Result<()> {
        self.write_frame(&packet.header, packet.slices)
    }

    /// Writes a frame that lies in these slices, described by a header.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the frame contradicts the header, has more than 1,023 slices or
    /// is in a tunnel that the [`format`](Self::format) cannot describe. `EIO` if the device is
    /// down. [`ErrorKind::WouldBlock`] if the kernel's queue is full.
    pub fn write_frame(&self, header: &Header, slices: &[&[u8]]) -> io::Result<()> {
        let mut head = [0; Format::MAX_LEN];
        let Some(head_len) = header.write(&mut head, self.format, Endian::Little) else {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        };
        let head = &head[..head_len];
        let mut few = [IoSlice::new(&[]); FEW];
        if let Some(list) = few.get_mut(..=slices.len()) {
            list[0] = IoSlice::new(head);
            list[1..].iter_mut().zip(slices).for_each(|(to, from)| *to = IoSlice::new(from));
            return (&self.file).write_vectored(list).map(drop);
        }
        let all = std::iter::once(head).chain(slices.iter().copied());
        let list: Vec<IoSlice<'_>> = all.map(IoSlice::new).collect();
        (&self.file).write_vectored(&list).map(drop)
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
