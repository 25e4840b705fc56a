//! tun-rs as it sends to a TUN device: receive offload over a batch of IP packets, and the
//! splitting of a large one.

use crate::support::Slot;
use crate::support::measure::{Account, Receive};
use crate::support::send::Send;
use crate::support::trace::Trace;
use crate::support::traffic::Kind;
use linecard::time::Instant;
use tun_rs::{
    ExpandBuffer, GROTable, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6,
    VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, gso_split,
};

/// Bytes of an Ethernet header, which a TUN device does not show.
pub(crate) const ETHERNET: usize = 14;
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

/// Receive: what the crate does with a batch before it writes to the device.
pub(crate) struct Gro {
    table: GROTable,
}

impl Gro {
    pub(crate) fn new() -> Self {
        Self { table: GROTable::new() }
    }
}

impl<'a> Receive<'a> for Gro {
    fn fill(&self, trace: &Trace, index: usize, slot: &mut Slot<'a>) {
        let room = slot.room();
        room[..VIRTIO_NET_HDR_LEN].fill(UNTOUCHED);
        let len = trace.write(index, ETHERNET, &mut room[VIRTIO_NET_HDR_LEN..]);
        slot.set_len(VIRTIO_NET_HDR_LEN + len);
    }

    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, _: Instant) {
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
                account.leaves(payload_len(packet));
            }
            free.push(slot);
        }
    }
}

/// Bytes behind the headers of an IPv4 or IPv6 packet without extension headers.
fn payload_len(packet: &[u8]) -> usize {
    let (ip_len, protocol) = match packet[0] >> 4 {
        4 => (usize::from(packet[0] & 0x0F) * 4, packet[9]),
        _ => (40, packet[6]),
    };
    match protocol {
        6 => packet.len() - ip_len - usize::from(packet[ip_len + 12] >> 4) * 4,
        17 => packet.len() - ip_len - 8,
        _ => 0,
    }
}

/// Send: a large packet split into buffers, each with its checksum.
#[derive(Debug)]
pub(crate) struct Gso {
    kind: Kind,
    sizes: Vec<usize>,
}

impl Gso {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, sizes: vec![0; crate::support::BURST] }
    }
}

impl Send for Gso {
    fn cut(&mut self, source: &mut [u8], size: usize, slots: &mut [Slot<'_>]) -> usize {
        let (gso_type, ip_len, transport_len, field) = match self.kind {
            Kind::Tcp4 => (VIRTIO_NET_HDR_GSO_TCPV4, 20, 32, 16),
            Kind::Tcp6 => (VIRTIO_NET_HDR_GSO_TCPV6, 40, 32, 16),
            Kind::Udp4 => (VIRTIO_NET_HDR_GSO_UDP_L4, 20, 8, 6),
        };
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type,
            hdr_len: ip_len + transport_len,
            gso_size: size as u16,
            csum_start: ip_len,
            csum_offset: field,
        };
        slots.iter_mut().for_each(|slot| slot.set_len(slot.capacity()));
        let (v6, packet) = (self.kind == Kind::Tcp6, &mut source[ETHERNET..]);
        let count = gso_split(packet, header, slots, &mut self.sizes, 0, v6).expect("a packet");
        for (slot, len) in slots.iter_mut().zip(&self.sizes[..count]) {
            slot.set_len(*len);
        }
        count
    }
}
