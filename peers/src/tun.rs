//! tun-rs as it sends to a TUN device: receive offload over a batch of IP packets, and the
//! splitting of a large one.

use crate::buffers::Slot;
use crate::check::{Account, total_len};
use crate::measure::{BURST, Receiver, Sender};
use crate::packet::{ETHERNET, Kind};
use crate::trace::Trace;
use tun_rs::{
    ExpandBuffer, GROTable, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6,
    VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, gso_split,
};

/// Room for a merged packet and its virtio header, which tun-rs needs in every buffer: the crate's
/// users have it too.
pub const ROOM: usize = 65_536 + 64;
/// Written before each packet: tun-rs leaves it in those that it has merged into others.
const UNTOUCHED: u8 = 0xEE;
/// The header's checksum is to be completed.
const NEEDS_CHECKSUM: u8 = 1;

impl ExpandBuffer for Slot<'_> {
    fn buf_capacity(&self) -> usize {
        self.capacity()
    }

    fn buf_resize(&mut self, new_len: usize, value: u8) {
        let old_len = self.as_ref().len();
        self.set_len(new_len);
        if new_len > old_len {
            self.as_mut()[old_len..].fill(value);
        }
    }

    fn buf_extend_from_slice(&mut self, more: &[u8]) {
        let old_len = self.as_ref().len();
        self.set_len(old_len + more.len());
        self.as_mut()[old_len..].copy_from_slice(more);
    }
}

/// Receive: what the crate does with a batch before it writes to the device. It verifies every
/// checksum of what it merges, and flushes all at the end of a batch.
pub struct Gro {
    table: GROTable,
}

impl Gro {
    pub fn new() -> Self {
        Self { table: GROTable::new() }
    }
}

impl<'a> Receiver<Slot<'a>> for Gro {
    /// Behind the room for a virtio header, the IP packet alone: a TUN device shows no more.
    fn fill(&self, trace: &Trace, index: usize, slot: &mut Slot<'a>) {
        let room = slot.room();
        trace.write(index, room);
        let len = total_len(&room[ETHERNET..]);
        room.copy_within(ETHERNET..ETHERNET + len, VIRTIO_NET_HDR_LEN);
        room[..VIRTIO_NET_HDR_LEN].fill(UNTOUCHED);
        slot.set_len(VIRTIO_NET_HDR_LEN + len);
    }

    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, _: u64) {
        self.table.apply_gro(burst, VIRTIO_NET_HDR_LEN, true).expect("a batch of packets");
    }

    fn settle(
        &mut self,
        burst: &mut Vec<Slot<'a>>,
        free: &mut Vec<Slot<'a>>,
        account: &mut Account,
    ) {
        for slot in burst.drain(..) {
            let (virtio, packet) = slot.as_ref().split_at(VIRTIO_NET_HDR_LEN);
            if virtio != [UNTOUCHED; VIRTIO_NET_HDR_LEN] {
                account.leaves(packet, core::iter::empty());
            }
            free.push(slot);
        }
    }
}

/// Send: a large packet split into buffers, each with its checksum.
pub struct Gso<'a> {
    kind: Kind,
    size: usize,
    slots: Vec<Slot<'a>>,
    sizes: Vec<usize>,
}

impl<'a> Gso<'a> {
    pub fn new(kind: Kind, size: usize, mut slots: Vec<Slot<'a>>) -> Self {
        slots.iter_mut().for_each(|slot| slot.set_len(slot.capacity()));
        Self { kind, size, slots, sizes: vec![0; BURST] }
    }
}

impl Sender for Gso<'_> {
    fn cut(&mut self, _: usize, frame: &mut [u8]) -> usize {
        let (gso_type, csum_offset) = match self.kind {
            Kind::Tcp4 | Kind::Bare4 => (VIRTIO_NET_HDR_GSO_TCPV4, 16),
            Kind::Tcp6 => (VIRTIO_NET_HDR_GSO_TCPV6, 16),
            Kind::Udp4 => (VIRTIO_NET_HDR_GSO_UDP_L4, 6),
        };
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type,
            hdr_len: (self.kind.ip_len() + self.kind.transport_len()) as u16,
            gso_size: self.size as u16,
            csum_start: self.kind.ip_len() as u16,
            csum_offset,
        };
        let (v6, packet) = (self.kind == Kind::Tcp6, &mut frame[ETHERNET..]);
        gso_split(packet, header, &mut self.slots, &mut self.sizes, 0, v6).expect("a packet")
    }

    fn segments(&self, count: usize) -> Vec<Vec<u8>> {
        let whole = self.slots.iter().zip(&self.sizes).take(count);
        whole.map(|(slot, len)| slot.as_ref()[..*len].to_vec()).collect()
    }
}
