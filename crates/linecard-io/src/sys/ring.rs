//! The receive ring of a packet socket (`TPACKET_V2`): slots of memory shared with the kernel.
//!
//! The kernel copies each frame into the next slot and hands the slot over at once. A frame that is
//! longer than its slot waits at the socket besides, where one call receives it.
#![expect(unsafe_code, reason = "mapped memory and its hand-over have no safe form in std")]

use super::check;
use super::frames::{Arrival, number, short};
use super::socket::PacketFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the pieces that the kernel allocates: whole pages, and a whole number of slots.
const BLOCK_LEN: usize = 64 << 10;
/// The shortest slot: an Ethernet frame of 1,500 bytes with all that stands before it.
const SHORTEST: usize = 2_048;
/// The longest slot.
const LONGEST: usize = 16 << 10;
/// Bytes of a slot before its frame, and of the frame's own headers and tags, at most.
const BEFORE: usize = 128;

/// Fields of `tpacket2_hdr`, and of the `sockaddr_ll` behind it.
mod field {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
    pub(super) const CAPTURED: usize = 8;
    pub(super) const MAC: usize = 12;
    pub(super) const SECONDS: usize = 16;
    pub(super) const NANOSECONDS: usize = 20;
    pub(super) const TCI: usize = 24;
    pub(super) const TPID: usize = 26;
    /// `sll_pkttype`.
    pub(super) const KIND: usize = 32 + 10;
}

/// Slots for one frame each, which belong to the kernel or to us.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    len: usize,
    slot_len: usize,
    /// Where the slot is that is handed over next.
    at: usize,
}

// SAFETY: the mapping belongs to the ring alone, and no thread is bound to it.
unsafe impl Send for Ring {}

/// A frame in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'r> {
    /// As much of it as the slot has.
    pub(crate) bytes: &'r [u8],
    /// The kernel's metadata; `is_truncated` when the slot has less than the frame.
    pub(crate) arrival: Arrival<'static>,
    /// The whole frame waits at the socket, and has to be received there before the next slot.
    pub(crate) is_queued: bool,
}

impl Ring {
    /// Gives the socket, which is bound to no interface yet, a ring of about `bytes` bytes, with slots
    /// for frames of an interface with this MTU.
    pub(crate) fn new(socket: &PacketFd, bytes: usize, mtu: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK_LEN).max(1);
        let (len, slot_len) = (BLOCK_LEN * blocks, slot_len(mtu));
        socket.set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        // Any number above 0: longer frames wait at the socket.
        socket.set(libc::PACKET_COPY_THRESH, 1)?;
        socket.set_ring((BLOCK_LEN, blocks), slot_len)?;
        let fd = socket.as_fd().as_raw_fd();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses; the result is checked.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, fd, 0) };
        if let Some(base) = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED) {
            return Ok(Self { base, len, slot_len, at: 0 });
        }
        let error = io::Error::last_os_error();
        // Without its mapping, frames would go into a ring that is not read.
        socket.set_ring((0, 0), 0)?;
        Err(error)
    }

    /// The next frame, when the kernel has handed its slot over.
    pub(crate) fn frame(&self) -> Option<Frame<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot lies inside the mapping, which lives as long as `self`. It is ours, and the
        // kernel does not write to it, until `release`, which borrows `self` mutably.
        let slot = unsafe { std::slice::from_raw_parts(self.slot().as_ptr(), self.slot_len) };
        Some(Frame::read(slot, status))
    }

    /// Whether a quarter of the slots have frames: the kernel fills them in order.
    pub(crate) fn is_crowded(&self) -> bool {
        let at = (self.at + self.len / 4 / self.slot_len * self.slot_len) % self.len;
        self.status_at(at).load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
    }

    /// Gives the slot of the next frame back to the kernel.
    pub(crate) fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at += self.slot_len;
        if self.at >= self.len {
            self.at = 0;
        }
    }

    fn slot(&self) -> NonNull<u8> {
        self.slot_at(self.at)
    }

    /// The slot there: a multiple of the slot's length, below that of the ring.
    fn slot_at(&self, at: usize) -> NonNull<u8> {
        // SAFETY: the ring's length is a multiple of the slot's, too: the slot lies inside the mapping.
        unsafe { self.base.add(at) }
    }

    fn status(&self) -> &AtomicU32 {
        self.status_at(self.at)
    }

    fn status_at(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the mapping begins on a page, and slots at multiples of their length, a power of two
        // of at least `SHORTEST` bytes: the status is inside and aligned. The kernel and we read and
        // write it as a whole only.
        unsafe { AtomicU32::from_ptr(self.slot_at(at).add(field::STATUS).as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows it any more.
        let _unmapped = check(unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) });
    }
}

impl<'r> Frame<'r> {
    /// Offsets that lead outside the slot give a frame without bytes, which is truncated.
    fn read(slot: &'r [u8], status: u32) -> Self {
        let mac = usize::from(short(slot, field::MAC));
        let captured = number(slot, field::CAPTURED) as usize;
        let bytes = slot.get(mac..).and_then(|rest| rest.get(..captured)).unwrap_or_default();
        let (seconds, ns) = (number(slot, field::SECONDS), number(slot, field::NANOSECONDS));
        let arrival = Arrival {
            len: bytes.len(),
            is_truncated: bytes.len() < number(slot, field::LEN) as usize,
            is_outgoing: slot.get(field::KIND) == Some(&libc::PACKET_OUTGOING),
            virtio: &[],
            time_ns: Some(u64::from(seconds) * 1_000_000_000 + u64::from(ns)),
            status,
            vlan: (short(slot, field::TCI), short(slot, field::TPID)),
        };
        Self { bytes, arrival, is_queued: status & libc::TP_STATUS_COPY != 0 }
    }
}

/// A power of two that divides a block.
fn slot_len(mtu: usize) -> usize {
    mtu.min(LONGEST).saturating_add(BEFORE).next_power_of_two().clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    fn put(slot: &mut [u8], at: usize, value: u32) {
        slot[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// The slot as the kernel writes it for a frame of 60 bytes.
    fn slot() -> Vec<u8> {
        let mut slot = vec![0; 256];
        put(&mut slot, field::LEN, 60);
        put(&mut slot, field::CAPTURED, 60);
        put(&mut slot, field::SECONDS, 3);
        put(&mut slot, field::NANOSECONDS, 7);
        slot[field::MAC..field::MAC + 2].copy_from_slice(&66_u16.to_ne_bytes());
        slot[field::TCI..field::TCI + 2].copy_from_slice(&5_u16.to_ne_bytes());
        slot[field::TPID..field::TPID + 2].copy_from_slice(&0x88A8_u16.to_ne_bytes());
        slot[66..126].fill(9);
        slot
    }

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        use libc::tpacket2_hdr;
        assert_eq!(field::STATUS, offset_of!(tpacket2_hdr, tp_status));
        assert_eq!(field::LEN, offset_of!(tpacket2_hdr, tp_len));
        assert_eq!(field::CAPTURED, offset_of!(tpacket2_hdr, tp_snaplen));
        assert_eq!(field::MAC, offset_of!(tpacket2_hdr, tp_mac));
        assert_eq!(field::SECONDS, offset_of!(tpacket2_hdr, tp_sec));
        assert_eq!(field::NANOSECONDS, offset_of!(tpacket2_hdr, tp_nsec));
        assert_eq!(field::TCI, offset_of!(tpacket2_hdr, tp_vlan_tci));
        assert_eq!(field::TPID, offset_of!(tpacket2_hdr, tp_vlan_tpid));
        let address = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
        assert_eq!(field::KIND, address + offset_of!(libc::sockaddr_ll, sll_pkttype));
    }

    #[test]
    fn a_slot_says_all_of_its_frame() {
        let mut slot = slot();
        let frame = Frame::read(&slot, libc::TP_STATUS_USER);
        assert_eq!(frame.bytes, [9; 60]);
        let arrival = frame.arrival;
        assert_eq!((arrival.len, arrival.time_ns), (60, Some(3_000_000_007)));
        assert_eq!((arrival.status, arrival.vlan), (1, (5, 0x88A8)));
        assert!(!arrival.is_truncated && !arrival.is_outgoing && !frame.is_queued);
        put(&mut slot, field::LEN, 61);
        slot[field::KIND] = libc::PACKET_OUTGOING;
        let frame = Frame::read(&slot, libc::TP_STATUS_USER | libc::TP_STATUS_COPY);
        assert!(frame.arrival.is_truncated && frame.arrival.is_outgoing && frame.is_queued);
    }

    #[test]
    fn a_slot_that_contradicts_itself_never_leads_outside() {
        for at in 0..field::KIND {
            for value in [0, 1, 66, 0xFF, 0xFFFF, 0x7FFF_FFFF, u32::MAX] {
                let mut bad = slot();
                put(&mut bad, at, value);
                assert!(Frame::read(&bad, 1).bytes.len() <= bad.len(), "{value:#x} at {at}");
            }
        }
        for len in 0..slot().len() {
            assert!(Frame::read(&slot()[..len], 1).bytes.len() <= len);
        }
    }

    #[test]
    fn slots_have_room_for_the_mtu_and_divide_a_block() {
        for (mtu, expected) in [(0, 2_048), (1_500, 2_048), (2_000, 4_096), (9_000, 16_384)] {
            assert_eq!(slot_len(mtu), expected, "{mtu}");
        }
        assert_eq!(slot_len(65_536), LONGEST);
        assert_eq!(slot_len(usize::MAX), LONGEST);
        assert_eq!(BLOCK_LEN % LONGEST, 0);
    }
}
