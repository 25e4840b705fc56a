//! Transactions of a network interface for a packet, and the link that each Ethernet rate needs.

use super::link::{Generation, Link, Traffic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an interface and its driver work together (section 3 and figure 1 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nic {
    /// pointers, descriptors and an interrupt for each packet
    Simple,
    /// descriptors in batches and fewer interrupts, as an Intel 82599 with a kernel driver
    Kernel,
    /// the same with a driver that polls: no interrupts, no reading of pointers
    #[default]
    Polled,
}

/// Bytes of a descriptor, and of a pointer or an interrupt.
const DESCRIPTOR: u64 = 16;
const POINTER: u64 = 4;

/// Packets after which all batches are through: the least common multiple of the batches below.
const BATCH: u64 = 160;
/// Descriptors that the device reads, or writes back, at once when it sends.
const SEND_READ: u64 = 40;
const SEND_WRITE: u64 = 8;
/// Buffers that the host returns at once; packets to an interrupt; packets to a read of the pointer.
const FREE: u64 = 32;
const INTERRUPT: u64 = 32;
const RECEIVE_POINTER: u64 = 8;

impl Nic {
    /// All of them, the one that carries least first.
    pub const ALL: [Self; 3] = [Self::Simple, Self::Kernel, Self::Polled];

    /// Traffic for [`Nic::PACKETS`] packets of `bytes` sent and as many received, CRC left out.
    #[must_use]
    pub fn traffic(self, link: &Link, bytes: u64) -> Traffic {
        self.send(link, bytes).and(self.receive(link, bytes))
    }

    /// Packets each way that [`Nic::traffic`] is for: all batches come out even.
    pub const PACKETS: u64 = BATCH;

    /// Data per second in each direction at once, in bits, in packets of `bytes`.
    #[must_use]
    pub fn bps(self, link: &Link, bytes: u64) -> f64 {
        link.data_bits_per_second(bytes * BATCH, self.traffic(link, bytes))
    }

    fn send(self, link: &Link, bytes: u64) -> Traffic {
        // The host writes and reads as the device does, the other way round.
        let (poke, peek) = (link.write(POINTER).reversed(), link.read(POINTER).reversed());
        let interrupt = link.write(POINTER);
        let data = link.read(bytes).times(BATCH);
        match self {
            Self::Simple => {
                let each = poke.and(link.read(DESCRIPTOR)).and(interrupt).and(peek);
                data.and(each.times(BATCH))
            }
            Self::Kernel | Self::Polled => {
                let batches = link.read(DESCRIPTOR * SEND_READ).times(BATCH / SEND_READ);
                let back = link.write(DESCRIPTOR * SEND_WRITE).times(BATCH / SEND_WRITE);
                let shared = data.and(batches).and(back);
                if self == Self::Polled {
                    return shared.and(poke.times(BATCH / FREE));
                }
                shared.and(poke.and(peek).times(BATCH)).and(interrupt.times(BATCH / INTERRUPT))
            }
        }
    }

    fn receive(self, link: &Link, bytes: u64) -> Traffic {
        let (poke, peek) = (link.write(POINTER).reversed(), link.read(POINTER).reversed());
        let interrupt = link.write(POINTER);
        let data = link.write(bytes).and(link.read(DESCRIPTOR)).and(link.write(DESCRIPTOR));
        let data = data.times(BATCH);
        match self {
            Self::Simple => data.and(poke.and(interrupt).and(peek).times(BATCH)),
            Self::Polled => data.and(poke.times(BATCH / FREE)),
            Self::Kernel => data
                .and(poke.times(BATCH / FREE))
                .and(interrupt.times(BATCH / INTERRUPT))
                .and(peek.times(BATCH / RECEIVE_POINTER)),
        }
    }
}

/// Data in bits per second that Ethernet of `ethernet_bits_per_second` carries in frames of `frame` bytes (CRC
/// included, which stays on the device; 20 bytes of preamble and gap are not in it).
#[must_use]
pub fn ethernet_needs_bits_per_second(ethernet_bits_per_second: u64, frame: u64) -> f64 {
    ethernet_bits_per_second as f64 * (frame.saturating_sub(4)) as f64 / (frame + 20) as f64
}

/// The fewest lanes of a generation that carry Ethernet at its full rate both ways in frames of `frame`
/// bytes; none when 32 are too few.
///
/// ```
/// use linecard_model::pcie::{Generation, Nic, fewest_lanes};
/// assert_eq!(fewest_lanes(Generation::Gen3, Nic::Polled, 10_000_000_000, 1518), Some(2));
/// assert_eq!(fewest_lanes(Generation::Gen1, Nic::Polled, 800_000_000_000, 64), None);
/// ```
#[must_use]
pub fn fewest_lanes(
    generation: Generation,
    nic: Nic,
    ethernet_bits_per_second: u64,
    frame: u64,
) -> Option<u32> {
    let needed = ethernet_needs_bits_per_second(ethernet_bits_per_second, frame);
    [1, 2, 4, 8, 16, 32].into_iter().find(|&lanes| {
        let link = Link::new(generation, lanes);
        link.is_ok_and(|link| nic.bps(&link, frame.saturating_sub(4)) >= needed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_interface_carries_more() {
        let link = Link::new(Generation::Gen3, 8).unwrap();
        for bytes in [60, 124, 252, 508, 1514] {
            let [simple, kernel, polled] = Nic::ALL.map(|nic| nic.bps(&link, bytes));
            assert!(simple < kernel && kernel < polled, "{bytes}: {simple} {kernel} {polled}");
            assert!(polled < link.tlp_bits_per_second() as f64);
        }
    }

    /// The paper, section 3: the simple interface carries 40 Gbit/s in frames above 512 bytes only.
    #[test]
    fn the_simple_interface_falls_short_of_40g_in_small_frames() {
        let link = Link::new(Generation::Gen3, 8).unwrap();
        let carries = |frame| {
            Nic::Simple.bps(&link, frame - 4)
                >= ethernet_needs_bits_per_second(40_000_000_000, frame)
        };
        assert!(!carries(64) && !carries(256) && !carries(512) && carries(1024) && carries(1518));
    }

    #[test]
    fn faster_ethernet_needs_more() {
        for nic in Nic::ALL {
            for frame in [64, 512, 1518] {
                let lanes = [10, 40, 100, 200, 400, 800].map(|gbps| {
                    fewest_lanes(Generation::Gen6, nic, gbps * 1_000_000_000, frame).unwrap_or(64)
                });
                assert!(lanes.is_sorted(), "{nic:?} {frame}: {lanes:?}");
            }
        }
    }
}
