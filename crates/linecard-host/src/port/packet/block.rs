//! A block of the receive ring: frames one behind the other, each behind a `tpacket3_hdr`.
//!
//! The kernel writes it; still every offset is checked against the block, so that a mistake costs
//! frames and nothing else.

/// Where a block says how many frames it has, and where the first is (`tpacket_hdr_v1`).
const COUNT: usize = 12;
const FIRST: usize = 16;
/// Fields of `tpacket3_hdr`.
mod field {
    pub(super) const NEXT: usize = 0;
    pub(super) const SECONDS: usize = 4;
    pub(super) const NANOSECONDS: usize = 8;
    pub(super) const CAPTURED: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const TCI: usize = 32;
    pub(super) const TPID: usize = 36;
    /// `sll_pkttype` of the `sockaddr_ll` behind the header of 48 bytes.
    pub(super) const KIND: usize = 48 + 10;
}
/// The tag that is meant where the kernel does not say: 802.1Q.
const DEFAULT_TPID: u16 = 0x8100;

/// A frame in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'b> {
    /// Its bytes, without its outermost VLAN tag.
    pub(super) frame: &'b [u8],
    /// The virtio header before it, if one was asked for.
    pub(super) virtio: &'b [u8],
    /// More bytes than those: the frame was cut.
    pub(super) is_cut: bool,
    /// Bits of `TP_STATUS_*`.
    pub(super) status: u32,
    /// When it came, in nanoseconds of the system's clock.
    pub(super) time_ns: u64,
    /// Its outermost VLAN tag.
    pub(super) tag: Option<[u8; 4]>,
    /// Sent by this machine, not received.
    pub(super) is_outgoing: bool,
}

/// How far a block has been read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    at: usize,
    left: u32,
}

impl Walk {
    /// At the block's first frame.
    pub(super) fn start(block: &[u8]) -> Self {
        let at = u32_at(block, FIRST).unwrap_or(0) as usize;
        Self { at, left: u32_at(block, COUNT).unwrap_or(0) }
    }

    /// The next frame, behind a virtio header of `virtio_len` bytes; none when there is none, or
    /// the block contradicts itself.
    pub(super) fn next<'b>(&mut self, block: &'b [u8], virtio_len: usize) -> Option<Entry<'b>> {
        self.left = self.left.checked_sub(1)?;
        let entry = block.get(self.at..).and_then(|bytes| Entry::at(bytes, virtio_len));
        let next = u32_at(block, self.at + field::NEXT).unwrap_or(0) as usize;
        if entry.is_none() || next == 0 {
            self.left = 0;
        }
        // Both come from 32 bits.
        self.at += next;
        entry
    }
}

impl<'b> Entry<'b> {
    fn at(bytes: &'b [u8], virtio_len: usize) -> Option<Self> {
        let number = |at| u32_at(bytes, at);
        let mac = usize::from(u16::from_ne_bytes(*bytes.get(field::MAC..)?.first_chunk()?));
        let captured = number(field::CAPTURED)? as usize;
        let status = number(field::STATUS)?;
        let seconds = u64::from(number(field::SECONDS)?).saturating_mul(1_000_000_000);
        Some(Self {
            frame: bytes.get(mac..)?.get(..captured)?,
            virtio: bytes.get(mac.checked_sub(virtio_len)?..mac)?,
            is_cut: captured < number(field::LEN)? as usize,
            status,
            time_ns: seconds + u64::from(number(field::NANOSECONDS)?),
            tag: tag(bytes, status)?,
            is_outgoing: *bytes.get(field::KIND)? == libc::PACKET_OUTGOING,
        })
    }
}

/// The tag that the kernel, or the interface, has taken out of the frame, if it had one; nothing
/// at all when that lies outside.
fn tag(bytes: &[u8], status: u32) -> Option<Option<[u8; 4]>> {
    let tci = u32_at(bytes, field::TCI)? as u16;
    let tpid = u16::from_ne_bytes(*bytes.get(field::TPID..)?.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return Some(None);
    }
    let told = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if told { tpid } else { DEFAULT_TPID }.to_be_bytes();
    let [c, d] = tci.to_be_bytes();
    Some(Some([a, b, c, d]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// What the kernel would write for these frames, each with its status.
    pub(in super::super) fn block(frames: &[(&[u8], u32)], virtio: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 48];
        put(&mut block, COUNT, frames.len() as u32);
        put(&mut block, FIRST, 48);
        for (number, (frame, status)) in frames.iter().enumerate() {
            let at = block.len();
            let mac = 48 + 20 + virtio.len() + 14;
            let last = number + 1 == frames.len();
            let len = (mac + frame.len()).next_multiple_of(8);
            block.resize(at + len, 0);
            put(&mut block, at + field::NEXT, if last { 0 } else { len as u32 });
            put(&mut block, at + field::SECONDS, 3);
            put(&mut block, at + field::NANOSECONDS, number as u32);
            put(&mut block, at + field::CAPTURED, frame.len() as u32);
            put(&mut block, at + field::LEN, frame.len() as u32);
            put(&mut block, at + field::STATUS, *status);
            put(&mut block, at + field::TCI, 5);
            let pair = |block: &mut [u8], at: usize, value: u16| {
                block[at..at + 2].copy_from_slice(&value.to_ne_bytes());
            };
            pair(&mut block, at + field::MAC, mac as u16);
            pair(&mut block, at + field::TPID, 0x88A8);
            block[at + mac - virtio.len()..at + mac].copy_from_slice(virtio);
            block[at + mac..at + mac + frame.len()].copy_from_slice(frame);
        }
        block
    }

    fn put(block: &mut [u8], at: usize, value: u32) {
        block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn walk(block: &[u8], virtio_len: usize) -> Vec<Entry<'_>> {
        let mut walk = Walk::start(block);
        std::iter::from_fn(|| walk.next(block, virtio_len)).collect()
    }

    #[test]
    fn fields_lie_where_the_kernel_has_them() {
        use libc::{tpacket_hdr_variant1, tpacket3_hdr};
        assert_eq!(field::SECONDS, offset_of!(tpacket3_hdr, tp_sec));
        assert_eq!(field::CAPTURED, offset_of!(tpacket3_hdr, tp_snaplen));
        assert_eq!(field::LEN, offset_of!(tpacket3_hdr, tp_len));
        assert_eq!(field::STATUS, offset_of!(tpacket3_hdr, tp_status));
        assert_eq!(field::MAC, offset_of!(tpacket3_hdr, tp_mac));
        let variant = offset_of!(tpacket3_hdr, hv1);
        assert_eq!(field::TCI, variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tci));
        assert_eq!(field::TPID, variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid));
        let address = size_of::<tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
        assert_eq!(field::KIND, address + offset_of!(libc::sockaddr_ll, sll_pkttype));
        let head = offset_of!(libc::tpacket_block_desc, hdr);
        assert_eq!(crate::sys::ring::STATUS, head + offset_of!(libc::tpacket_hdr_v1, block_status));
        assert_eq!(COUNT, head + offset_of!(libc::tpacket_hdr_v1, num_pkts));
        assert_eq!(FIRST, head + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt));
    }

    #[test]
    fn frames_come_in_order_with_what_is_said_of_them() {
        let vlan = libc::TP_STATUS_VLAN_VALID;
        let both = vlan | libc::TP_STATUS_VLAN_TPID_VALID;
        let block = block(&[(&[1; 60], 0), (&[2; 61], vlan), (&[3; 62], both)], &[7; 10]);
        let entries = walk(&block, 10);
        let tags: Vec<_> = entries.iter().map(|entry| entry.tag).collect();
        assert_eq!(tags, [None, Some([0x81, 0, 0, 5]), Some([0x88, 0xA8, 0, 5])]);
        for (number, entry) in entries.iter().enumerate() {
            assert_eq!(entry.frame, vec![number as u8 + 1; 60 + number]);
            assert_eq!(entry.virtio, [7; 10]);
            assert_eq!(entry.time_ns, 3_000_000_000 + number as u64);
            assert!(!entry.is_cut && !entry.is_outgoing);
        }
    }

    #[test]
    fn an_empty_block_has_none() {
        assert_eq!(walk(&block(&[], &[]), 0), []);
        assert_eq!(walk(&[], 0), []);
    }

    #[test]
    fn a_block_that_contradicts_itself_never_leads_outside() {
        let good = block(&[(&[1; 60], 0), (&[2; 61], 0), (&[3; 62], 0)], &[]);
        for at in (COUNT..good.len() - 3).step_by(2) {
            for value in [0, 1, 7, 48, 0xFF, 0xFFFF, 0x7FFF_FFFF, u32::MAX] {
                let mut bad = good.clone();
                put(&mut bad, at, value);
                assert!(walk(&bad, 0).len() <= bad.len(), "{value:#x} at {at}");
                assert!(walk(&bad, 10).len() <= bad.len(), "{value:#x} at {at}");
            }
        }
        for len in 0..good.len() {
            assert!(walk(&good[..len], 0).len() <= 3);
        }
    }
}
