//! Opens a packet socket.

use super::config::{Fanout, PacketConfig};
use crate::sys;
use crate::sys::ring::Ring;
use crate::sys::socket::{PacketFd, take_error};
use linecard::offload::virtio::{Endian, Format};
use linecard::packet::LinkType;
use linecard_tun::egress::Virtio;
use linecard_tun::sys::device;
use linecard_tun::{BUFFER_LEN, PortError};
use std::os::fd::AsFd;

const CAPABILITY: &str = "CAP_NET_RAW";
/// Bytes that may wait to be sent: 1.6 ms of 10 Gbit/s, above what most systems allow by default.
const SEND_BUFFER: libc::c_int = 2 << 20;

/// Plain IP, as of mobile links: `ARPHRD_RAWIP` of `linux/if_arp.h`, which libc does not name.
const ARPHRD_RAWIP: u16 = 519;

/// Everything that the port needs from the kernel.
pub(super) struct Opened {
    pub(super) ring: Option<Ring>,
    pub(super) socket: PacketFd,
    pub(super) link: LinkType,
    pub(super) virtio: Option<Virtio>,
}

/// `given` is the length of the buffers that frames are received into.
pub(super) fn open(config: &PacketConfig, given: usize) -> Result<Opened, PortError> {
    config.check()?;
    let name = config.interface.as_str();
    let index = device::index(name)
        .map_err(|error| PortError::about(name, "find an interface", CAPABILITY, error))?;
    let socket = PacketFd::open()
        .map_err(|error| PortError::of("open a packet socket", CAPABILITY, error))?;
    let virtio = virtio(&socket, config);
    prepare(&socket, config)?;
    let ring = if virtio.is_none() { ring(&socket, config) } else { None };
    if ring.is_none() {
        // Without timestamps, frames count as received when they are read.
        let _only_later = socket.set_timestamps();
    }
    if virtio.is_some() && given < BUFFER_LEN {
        return Err(PortError::ShortBuffers { given, needed: BUFFER_LEN });
    }
    // Both are only optimisations: without the first, sent frames are filtered out here.
    let ignored = socket.set(libc::PACKET_IGNORE_OUTGOING, 1).is_ok();
    // When bypassing the queueing discipline, the kernel loses large packets that the interface
    // cannot segment.
    let bypass = config.qdisc_bypass && virtio.is_none();
    let _only_slower = socket.set(libc::PACKET_QDISC_BYPASS, bypass.into());
    let _only_smaller = socket.set_send_buffer(SEND_BUFFER);
    if config.promiscuous {
        socket
            .set_promiscuous(index)
            .map_err(|error| PortError::about(name, "make it promiscuous", CAPABILITY, error))?;
    }
    socket
        .bind(index)
        .map_err(|error| PortError::about(name, "bind a packet socket", CAPABILITY, error))?;
    if let Some(fanout) = config.fanout {
        join(&socket, fanout, ignored)?;
    }
    // An interface that is down reports that at once; it may come up later.
    let _down = take_error(socket.as_fd());
    let link = link(&socket, name)?;
    Ok(Opened { ring, socket, link, virtio })
}

/// The virtio header format, if requested and supported.
fn virtio(socket: &PacketFd, config: &PacketConfig) -> Option<Virtio> {
    let has = config.offloads && socket.set(libc::PACKET_VNET_HDR, 1).is_ok();
    has.then_some((Format::Legacy, Endian::NATIVE))
}

/// Configures the metadata of frames, and how many may wait.
fn prepare(socket: &PacketFd, config: &PacketConfig) -> Result<(), PortError> {
    socket.set(libc::PACKET_AUXDATA, 1).map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL | libc::ENOPROTOOPT) => PortError::Lacks {
            what: "what packet sockets say of frames (PACKET_AUXDATA)",
            advice: "use Linux 2.6.27 or newer with CONFIG_PACKET",
        },
        _ => PortError::of("ask for VLAN tags and checksums", CAPABILITY, source),
    })?;
    // In range; if the system allows less, fewer frames can wait.
    let _only_smaller = socket.set_receive_buffer(config.receive_buffer as libc::c_int);
    Ok(())
}

/// A ring, if the kernel supports one; otherwise frames are received by calls.
///
/// Not with virtio headers: a frame that these cannot describe stops such a ring permanently (Linux
/// 5.6 or newer), and large frames do not benefit from one.
fn ring(socket: &PacketFd, config: &PacketConfig) -> Option<Ring> {
    let mtu = device::mtu(&config.interface).unwrap_or(0);
    Ring::new(socket, config.receive_buffer, usize::try_from(mtu).unwrap_or(0)).ok()
}

fn join(socket: &PacketFd, fanout: Fanout, ignored: bool) -> Result<(), PortError> {
    // The group decides for all members whether sent frames are filtered out.
    let mut joined = socket.set(libc::PACKET_FANOUT, fanout.argument(ignored));
    if ignored && joined.as_ref().is_err_and(|error| sys::is(error, libc::EINVAL)) {
        joined = socket.set(libc::PACKET_FANOUT, fanout.argument(false));
    }
    joined.map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL | libc::EALREADY | libc::ENOSPC) => {
            PortError::Fanout { group: fanout.group }
        }
        _ => PortError::of("join a fanout group", CAPABILITY, source),
    })
}

fn link(socket: &PacketFd, name: &str) -> Result<LinkType, PortError> {
    let bound = socket
        .bound()
        .map_err(|error| PortError::about(name, "read a link type", CAPABILITY, error))?;
    match bound.hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(LinkType::Ethernet),
        libc::ARPHRD_NONE | ARPHRD_RAWIP => Ok(LinkType::Raw),
        hardware => Err(PortError::LinkType { name: name.to_owned(), hardware }),
    }
}
