//! Frames of a packet socket: many by one call, each with what the kernel says of it.
#![expect(unsafe_code, reason = "recvmmsg and its control messages have no safe form in std")]

use super::check;
use linecard::offload::virtio::Format;
use std::fmt;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Frames of one call, at most.
pub(crate) const FRAMES: usize = 64;
/// Room for the control messages of a frame: a time and `tpacket_auxdata` take 72 bytes.
const CONTROL: usize = 128;

/// Memory for one frame beside the buffer that takes its bytes.
#[derive(Clone, Copy)]
struct Slot {
    virtio: [u8; Format::MAX_LEN],
    slices: [libc::iovec; 2],
    address: libc::sockaddr_ll,
    control: Control,
}

/// Control messages begin with a `usize`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Arguments and results of one call; its pointers are set by each call.
pub(crate) struct Receiver {
    slots: Vec<Slot>,
    messages: Vec<libc::mmsghdr>,
    virtio_len: usize,
}

// SAFETY: no pointer in the lists is used outside `receive`, which sets all of them again.
unsafe impl Send for Receiver {}

/// The kernel's metadata of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival<'r> {
    /// Bytes of the frame that are in its buffer.
    pub(crate) len: usize,
    /// The frame had more.
    pub(crate) is_truncated: bool,
    /// Sent by this machine, not received.
    pub(crate) is_outgoing: bool,
    /// The virtio header before it, if one was asked for.
    pub(crate) virtio: &'r [u8],
    /// When it was received, in nanoseconds of the system's clock.
    pub(crate) time_ns: Option<u64>,
    /// Bits of `TP_STATUS_*`; 0 where the kernel says nothing.
    pub(crate) status: u32,
    /// Its outermost VLAN tag where `status` says that there is one: TCI and TPID.
    pub(crate) vlan: (u16, u16),
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.slots.len())
    }
}

impl Receiver {
    /// For frames behind virtio headers of this length, 0 for none.
    pub(crate) fn new(virtio_len: usize) -> Self {
        // SAFETY: structs of integers and pointers, for which zeros are valid.
        let (slot, message): (Slot, libc::mmsghdr) = unsafe { std::mem::zeroed() };
        Self {
            slots: vec![slot; FRAMES],
            messages: vec![message; FRAMES],
            virtio_len: virtio_len.min(Format::MAX_LEN),
        }
    }

    /// Takes frames that wait at the socket, each into one of the buffers, without waiting; how
    /// many. An error is that of the first.
    pub(crate) fn receive<B: AsMut<[u8]>>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: &mut [B],
    ) -> io::Result<usize> {
        let count = buffers.len().min(FRAMES);
        let slots = self.slots.iter_mut().zip(&mut self.messages);
        for ((slot, message), buffer) in slots.zip(buffers) {
            let buffer = buffer.as_mut();
            slot.slices = [
                libc::iovec { iov_base: slot.virtio.as_mut_ptr().cast(), iov_len: self.virtio_len },
                libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
            ];
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut slot.address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = slot.slices.as_mut_ptr();
            header.msg_iovlen = slot.slices.len() as _;
            header.msg_control = slot.control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            header.msg_flags = 0;
        }
        let (fd, list) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        let (len, flags) = (count as libc::c_uint, libc::MSG_DONTWAIT as _);
        // SAFETY: `list` has at least `len` messages. Each points to an address, control bytes and two
        // slices of its slot, and these to a header of the slot, at least as long as told, and to a
        // buffer. All of that lives during the call and is borrowed by nobody else.
        let came = check(unsafe { libc::recvmmsg(fd, list, len, flags, std::ptr::null_mut()) })?;
        Ok(usize::try_from(came).unwrap_or(0).min(count))
    }

    /// The metadata of one of the frames of the last call.
    pub(crate) fn arrival(&self, index: usize) -> Option<Arrival<'_>> {
        let (slot, message) = (self.slots.get(index)?, self.messages.get(index)?);
        let header = &message.msg_hdr;
        let mut arrival = Arrival {
            len: (message.msg_len as usize).saturating_sub(self.virtio_len),
            is_truncated: header.msg_flags & libc::MSG_TRUNC != 0,
            is_outgoing: slot.address.sll_pkttype == libc::PACKET_OUTGOING,
            virtio: &slot.virtio[..self.virtio_len],
            time_ns: None,
            status: 0,
            vlan: (0, 0),
        };
        #[expect(clippy::unnecessary_cast, reason = "of another type in other libraries of C")]
        let used = (header.msg_controllen as usize).min(CONTROL);
        read_control(&slot.control.0[..used], &mut arrival);
        Some(arrival)
    }
}

/// Reads the control messages: a length (with its own 16 bytes), a level and a type each.
fn read_control(mut bytes: &[u8], arrival: &mut Arrival<'_>) {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    while let Some((header, rest)) = bytes.split_at_checked(HEADER) {
        let len = usize_at(header).saturating_sub(HEADER);
        let (level, kind) =
            (number(header, size_of::<usize>()), number(header, size_of::<usize>() + 4));
        let Some(data) = rest.get(..len) else { return };
        match (level as libc::c_int, kind as libc::c_int) {
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                arrival.status = number(data, aux::STATUS);
                arrival.vlan = (short(data, aux::TCI), short(data, aux::TPID));
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                arrival.time_ns = time(data);
            }
            _ => {}
        }
        bytes = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
}

/// Fields of `tpacket_auxdata`.
mod aux {
    pub(super) const STATUS: usize = 0;
    pub(super) const TCI: usize = 16;
    pub(super) const TPID: usize = 18;
}

/// A `timespec` of nanoseconds since 1970.
fn time(data: &[u8]) -> Option<u64> {
    let (seconds, rest) = data.split_at_checked(data.len() / 2)?;
    let (seconds, ns) = (usize_at(seconds) as u64, usize_at(rest) as u64);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

fn usize_at(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |bytes| usize::from_ne_bytes(*bytes))
}

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

pub(super) fn short(bytes: &[u8], at: usize) -> u16 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn empty() -> Arrival<'static> {
        Arrival {
            len: 0,
            is_truncated: false,
            is_outgoing: false,
            virtio: &[],
            time_ns: None,
            status: 0,
            vlan: (0, 0),
        }
    }

    fn message(level: libc::c_int, kind: libc::c_int, data: &[u8]) -> Vec<u8> {
        let mut bytes = (size_of::<libc::cmsghdr>() + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        assert_eq!(aux::STATUS, offset_of!(libc::tpacket_auxdata, tp_status));
        assert_eq!(aux::TCI, offset_of!(libc::tpacket_auxdata, tp_vlan_tci));
        assert_eq!(aux::TPID, offset_of!(libc::tpacket_auxdata, tp_vlan_tpid));
        assert_eq!(size_of::<usize>(), offset_of!(libc::cmsghdr, cmsg_level));
        assert_eq!(size_of::<usize>() + 4, offset_of!(libc::cmsghdr, cmsg_type));
    }

    #[test]
    fn time_tag_and_status_are_read_from_control_messages() {
        let time = [3_usize.to_ne_bytes(), 7_usize.to_ne_bytes()].concat();
        let mut auxdata = vec![0; size_of::<libc::tpacket_auxdata>()];
        auxdata[..4].copy_from_slice(&9_u32.to_ne_bytes());
        auxdata[16..18].copy_from_slice(&5_u16.to_ne_bytes());
        auxdata[18..20].copy_from_slice(&0x88A8_u16.to_ne_bytes());
        let mut control = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &time);
        control.extend(message(99, 99, &[1]));
        control.extend(message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &auxdata));
        let mut arrival = empty();
        read_control(&control, &mut arrival);
        let expected =
            Arrival { time_ns: Some(3_000_000_007), status: 9, vlan: (5, 0x88A8), ..empty() };
        assert_eq!(arrival, expected);
        // Nothing that a length says leads outside.
        for len in 0..control.len() {
            read_control(&control[..len], &mut empty());
        }
        for at in 0..control.len() {
            let mut bad = control.clone();
            bad[at] = 0xFF;
            read_control(&bad, &mut empty());
        }
    }
}
