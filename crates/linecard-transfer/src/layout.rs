//! Divides a chunk into packets and groups: identical at both ends, from four numbers.

use crate::fec::Scheme;

/// The most packets of a chunk: what an index in a repair packet's header leaves for groups of one.
pub const MAX_PACKETS: u32 = 1 << 20;

/// The most repair packets of a group.
pub const MAX_REPAIR: u32 = 64;

/// A chunk as packets: `packets` with data, in groups of `data`, each with `repair` packets more.
///
/// Packets are numbered by *slots* in the order in which they are first sent: the data of a group, then its
/// repair, then the next group. Without repair, all of the chunk is one group.
///
/// ```
/// use linecard_transfer::fec::Scheme;
/// use linecard_transfer::layout::{Layout, PacketRole};
/// let layout = Layout::new(10_000, 1_000, Scheme::reed_solomon(4, 2).unwrap()).unwrap();
/// assert_eq!((layout.packets(), layout.groups(), layout.slots()), (10, 3, 16));
/// assert_eq!(layout.place(6), PacketRole::Data { index: 4 });
/// assert_eq!(layout.place(15), PacketRole::Repair { group: 2, row: 1 });
/// assert_eq!(layout.group_data(2), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    bytes: u32,
    payload: u32,
    data: u32,
    repair: u32,
    packets: u32,
    groups: u32,
}

/// The role of a packet within its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketRole {
    /// Data packet `index`.
    Data {
        /// From 0.
        index: u32,
    },
    /// Row `row` of the repair of `group`.
    Repair {
        /// From 0.
        group: u32,
        /// From 0.
        row: u32,
    },
}

/// Why a chunk cannot be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nothing to send, or no payload per packet.
    #[error("a chunk of {bytes} bytes in packets of {payload} is empty")]
    Empty {
        /// Of the chunk.
        bytes: u32,
        /// Of a packet.
        payload: u32,
    },
    /// More packets than can be numbered.
    #[error("{0} packets of a chunk are more than {MAX_PACKETS}: take smaller chunks")]
    Packets(u32),
    /// More repair packets than can be tracked.
    #[error("{0} repair packets of a group are more than {MAX_REPAIR}: take smaller groups")]
    Repair(u32),
}

impl Layout {
    /// A chunk of `bytes` in packets of `payload`, in groups according to `scheme`.
    ///
    /// # Errors
    ///
    /// If the numbers give no packets, or too many.
    pub fn new(bytes: u32, payload: u32, scheme: Scheme) -> Result<Self, LayoutError> {
        if bytes == 0 || payload == 0 {
            return Err(LayoutError::Empty { bytes, payload });
        }
        let packets = bytes.div_ceil(payload);
        let repair = scheme.repair_packets() as u32;
        let data = if repair == 0 { packets } else { scheme.data_packets() as u32 };
        if packets > MAX_PACKETS {
            return Err(LayoutError::Packets(packets));
        }
        if repair > MAX_REPAIR {
            return Err(LayoutError::Repair(repair));
        }
        Ok(Self { bytes, payload, data, repair, packets, groups: packets.div_ceil(data) })
    }

    /// Bytes of the chunk.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Bytes of the chunk, and of all repair that may come for it.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let rows = u64::from(self.groups) * u64::from(self.repair);
        u64::from(self.bytes) + rows * u64::from(self.repair_bytes(0))
    }

    /// Packets with data.
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Groups.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// Repair packets of a group.
    #[must_use]
    pub const fn repair(&self) -> u32 {
        self.repair
    }

    /// Packets in total, repair included.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.packets + self.groups * self.repair
    }

    /// The group of a slot.
    #[must_use]
    pub const fn group(&self, slot: u32) -> u32 {
        slot / (self.data + self.repair)
    }

    /// The first slot of a group.
    #[must_use]
    pub const fn first_slot(&self, group: u32) -> u32 {
        group * (self.data + self.repair)
    }

    /// Data packets of a group: fewer in the last.
    #[must_use]
    pub fn group_data(&self, group: u32) -> u32 {
        self.packets.saturating_sub(group * self.data).min(self.data)
    }

    /// Index of the first data packet of a group.
    #[must_use]
    pub const fn first_index(&self, group: u32) -> u32 {
        group * self.data
    }

    /// The group of a data packet.
    #[must_use]
    pub const fn group_of_index(&self, index: u32) -> u32 {
        index / self.data
    }

    /// The role of the packet in a slot.
    #[must_use]
    pub fn place(&self, slot: u32) -> PacketRole {
        let group = self.group(slot);
        let within = slot - self.first_slot(group);
        match within.checked_sub(self.group_data(group)) {
            None => PacketRole::Data { index: self.first_index(group) + within },
            Some(row) => PacketRole::Repair { group, row },
        }
    }

    /// Offset of a data packet's bytes in the chunk.
    #[must_use]
    pub const fn offset(&self, index: u32) -> u32 {
        index * self.payload
    }

    /// Bytes of a data packet: fewer in the last.
    #[must_use]
    pub fn data_bytes(&self, index: u32) -> u32 {
        self.bytes.saturating_sub(self.offset(index)).min(self.payload)
    }

    /// Bytes of a group's repair packets: as of its longest data packet.
    #[must_use]
    pub fn repair_bytes(&self, group: u32) -> u32 {
        self.data_bytes(self.first_index(group))
    }

    /// Bytes of the packet with this role.
    #[must_use]
    pub fn place_bytes(&self, place: PacketRole) -> u32 {
        match place {
            PacketRole::Data { index } => self.data_bytes(index),
            PacketRole::Repair { group, .. } => self.repair_bytes(group),
        }
    }

    /// Whether this chunk has a packet with this role.
    #[must_use]
    pub const fn contains(&self, place: PacketRole) -> bool {
        match place {
            PacketRole::Data { index } => index < self.packets,
            PacketRole::Repair { group, row } => group < self.groups && row < self.repair,
        }
    }
}

impl PacketRole {
    /// The index in a packet's header.
    #[must_use]
    pub const fn to_index(self) -> u32 {
        match self {
            Self::Data { index } => index,
            Self::Repair { group, row } => group << 8 | row,
        }
    }

    /// The role that a data packet's header names.
    #[must_use]
    pub const fn of_data(index: u32) -> Self {
        Self::Data { index }
    }

    /// The role that a repair packet's header names.
    #[must_use]
    pub const fn of_repair(index: u32) -> Self {
        Self::Repair { group: index >> 8, row: index & 255 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    /// Each byte is in one data packet, each slot is one place, and each place has one slot.
    #[test]
    fn slots_and_places_are_the_same() {
        let mut rng = Rng::new(6);
        for _ in 0..500 {
            let (data, repair) = (1 + rng.below(20) as usize, 1 + rng.below(5) as usize);
            let scheme = Scheme::reed_solomon(data, repair).unwrap();
            let scheme = if rng.chance(0.2) { Scheme::NONE } else { scheme };
            let (bytes, payload) = (1 + rng.below(20_000) as u32, 1 + rng.below(999) as u32 * 2);
            let layout = Layout::new(bytes, payload, scheme).unwrap();
            let places: Vec<PacketRole> =
                (0..layout.slots()).map(|slot| layout.place(slot)).collect();
            let mut offset = 0;
            for place in &places {
                assert!(layout.contains(*place));
                if let PacketRole::Data { index } = *place {
                    assert_eq!(layout.offset(index), offset);
                    offset += layout.data_bytes(index);
                    assert_eq!(PacketRole::of_data(place.to_index()), *place);
                } else {
                    assert_eq!(PacketRole::of_repair(place.to_index()), *place);
                }
            }
            assert_eq!(offset, bytes);
            let mut sorted: Vec<_> = places
                .iter()
                .map(|place| (place.to_index(), matches!(place, PacketRole::Data { .. })))
                .collect();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), places.len());
            assert!(!layout.contains(PacketRole::Data { index: layout.packets() }));
            assert!(!layout.contains(PacketRole::Repair { group: layout.groups(), row: 0 }));
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let none = Scheme::NONE;
        assert!(matches!(Layout::new(0, 1, none), Err(LayoutError::Empty { .. })));
        assert!(matches!(Layout::new(1, 0, none), Err(LayoutError::Empty { .. })));
        assert_eq!(Layout::new(2 << 20, 1, none), Err(LayoutError::Packets(2 << 20)));
        let much = Scheme::reed_solomon(8, 65).unwrap();
        assert_eq!(Layout::new(9, 1, much), Err(LayoutError::Repair(65)));
    }
}
