//! The key of a connection, equal for both directions.

use crate::packet::header::{self, Ipv4, Ipv6};
use crate::packet::{Form, LayerKind, LinkType, MAX_TAGS, Packet};

/// Two addresses, two ports, VLAN tags with the EtherType.
const ROOM: usize = 2 * 16 + 2 * 2 + 4 * MAX_TAGS + 2;
/// Bytes of both MAC addresses.
pub(super) const MACS: usize = 12;

/// The addresses and ports of a connection, those of the data's sender first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key([u8; ROOM]);

impl Default for Key {
    fn default() -> Self {
        Self([0; ROOM])
    }
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the sender of data to its receiver.
    ToReceiver,
    /// From the receiver back to the sender.
    ToSender,
}

/// Header offsets of a plain TCP packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    pub(super) v6: bool,
    pub(super) network: usize,
    pub(super) transport: usize,
}

impl Plain {
    /// The headers of a packet without tunnel, IPv4 options or extension headers; none for other
    /// packets.
    pub(super) fn of<B: AsRef<[u8]>>(link: LinkType, packet: &Packet<B>) -> Option<Self> {
        let layout = packet.layout();
        let (network, transport) = (layout.network()?, layout.transport()?);
        let v6 = network.kind == LayerKind::Ipv6;
        let between = if v6 { Ipv6::LEN } else { Ipv4::LEN };
        let plain = layout.form() == Form::Datagram
            && layout.layer_count() == 2
            && transport.kind == LayerKind::Tcp
            && transport.at() - network.at() == between
            && match link {
                LinkType::Ethernet => network.at() <= MACS + 4 * MAX_TAGS + 2,
                LinkType::Raw => network.at() == 0,
                _ => false,
            };
        plain.then(|| Self { v6, network: network.at(), transport: transport.at() })
    }

    /// The key of the connection.
    pub(super) fn key(&self, bytes: &[u8], way: Way) -> Key {
        let mut key = [0; ROOM];
        let (ends, tags) = key.split_at_mut(2 * 16 + 2 * 2);
        let (addresses, ports) = ends.split_at_mut(2 * 16);
        let (one, other) = match way {
            Way::ToReceiver => (0, 1),
            Way::ToSender => (1, 0),
        };
        let mut put = |place: usize, address: &[u8]| {
            addresses[16 * place..][..address.len()].copy_from_slice(address);
        };
        if self.v6 {
            let ip = header::at::<Ipv6>(bytes, self.network);
            put(one, &ip.source);
            put(other, &ip.destination);
        } else {
            let ip = header::at::<Ipv4>(bytes, self.network);
            put(one, &ip.source);
            put(other, &ip.destination);
        }
        let shown = &bytes[self.transport..][..4];
        ports[2 * one..][..2].copy_from_slice(&shown[..2]);
        ports[2 * other..][..2].copy_from_slice(&shown[2..]);
        // The EtherType after the tags tells the versions of IP apart.
        let link = &bytes[MACS.min(self.network)..self.network];
        tags[..link.len()].copy_from_slice(link);
        if link.is_empty() {
            tags[0] = bytes[self.network] >> 4;
        }
        Key(key)
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
