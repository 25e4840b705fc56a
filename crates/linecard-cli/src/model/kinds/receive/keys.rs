//! What there is to decide about a receiving side, and its keys.

use super::super::super::key::{Key, Kind};
use super::super::super::keys::{POLICIES, PROTOCOLS, sizes};
use super::super::super::settings::{self, DmaClock};
use super::super::super::values::{mhz, phase, rate, whole, word};
use super::super::{number, put_bytes, time};
use linecard_model::Ps;
use linecard_model::transmit::BusPolicy;

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(in super::super) struct Settings {
    pub(super) core_hz: u64,
    pub(super) core_phase: u64,
    pub(super) bubbles: u64,
    pub(super) dma: DmaClock,
    pub(super) dma_phase: u64,
    pub(super) cycles_per_word: u64,
    pub(super) bus_bits: u32,
    pub(super) policy: BusPolicy,
    pub(super) line: Option<u64>,
    pub(super) overhead: u64,
    pub(super) rbi: usize,
    pub(super) cam_entries: usize,
    pub(super) cam_latency: u64,
    pub(super) nodes: usize,
    pub(super) buffer: usize,
    pub(super) interrupt: Ps,
    pub(super) firmware: String,
    pub(super) patience: u64,
    /// Of this the load only: protocol, sizes, MTU, messages.
    pub(super) load: settings::Settings,
}

impl Default for Settings {
    /// The published design, for a line that always has a packet.
    fn default() -> Self {
        Self {
            core_hz: 423_000_000,
            core_phase: 0,
            bubbles: 1,
            dma: DmaClock::OfCore(1_000_000),
            dma_phase: 0,
            cycles_per_word: 2,
            bus_bits: 64,
            policy: BusPolicy::Hold,
            line: None,
            overhead: 20,
            rbi: 65_536,
            cam_entries: 64,
            cam_latency: 1,
            nodes: 1_024,
            buffer: 2_048,
            interrupt: Ps::ZERO,
            firmware: "published".to_owned(),
            patience: 1_000_000,
            load: settings::Settings::default(),
        }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "receive";
    const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "core.mhz",
            what: "the core's clock in MHz, 0.001 to 100000 [423]",
            set: |to, text| mhz(text).map(|hz| to.core_hz = hz),
        },
        Key {
            name: "core.phase",
            what: "when the first cycle begins, as a share of the period, 0 to 0.999999 [0]",
            set: |to, text| phase(text).map(|share| to.core_phase = share),
        },
        number!("core.bubbles", bubbles, 0 to 2, 1, "cycles lost by a branch that is taken"),
        Key {
            name: "dma.mhz",
            what: "the DMA's clock in MHz, or as \"5x\" a multiple of the core's [1x]",
            set: |to, text| DmaClock::parse(text).map(|clock| to.dma = clock),
        },
        Key {
            name: "dma.phase",
            what: "as core.phase [0]",
            set: |to, text| phase(text).map(|share| to.dma_phase = share),
        },
        number!("dma.cycles_per_word", cycles_per_word, 1 to 8, 2,
            "DMA cycles to move a word of the bus"),
        number!("bus.bits", bus_bits, 32 to 1024, 64, "width of the local bus, a power of two"),
        Key {
            name: "bus.policy",
            what: "who has the bus during a transfer: the DMA (\"hold\"), the core between two words \
                   (\"interleave\"), both (\"dual-port\") [hold]",
            set: |to, text| word(text, &POLICIES).map(|policy| to.policy = policy),
        },
        Key {
            name: "line.rate",
            what: "bits per second, \"1K\" to \"100T\"; \"unlimited\" brings packets as fast as there is \
                   room, so that none is lost [unlimited]",
            set: |to, text| rate(text).map(|rate| to.line = rate),
        },
        number!("line.overhead", overhead, 0 to 65535, 20,
            "bytes on the line beside each IP packet"),
        Key {
            name: "line.rbi",
            what: "bytes of the receive buffer, from two buffers of the host to 1G [64K]",
            set: |to, text| put_bytes(text, (136, 1 << 30), &mut to.rbi),
        },
        number!("cam.entries", cam_entries, 1 to 2000, 64, "lists that are found at a time"),
        number!("cam.latency", cam_latency, 1 to 64, 1, "core cycles of a lookup"),
        number!("host.nodes", nodes, 2 to 65536, 1024, "nodes of lists, each with a buffer"),
        number!("host.buffer", buffer, 68 to 65535, 2048,
            "bytes of a buffer, and of the longest packet; all buffers together 1 GiB at most"),
        time!("host.interrupt", interrupt, "0ns" to "1s", "0ns",
            "from a packet in the receive buffer to the sleeping core's first cycle"),
        Key {
            name: "load.protocol",
            what: "\"tcp\" comes in segments, \"udp\" in fragments, \"mix\" has both in turn [tcp]",
            set: |to, text| word(text, &PROTOCOLS).map(|protocol| to.load.protocol = protocol),
        },
        Key {
            name: "load.size",
            what: "payload bytes of a message, 1 to 65495, or a list of up to 64 in turn [64000]",
            set: |to, text| sizes(text).map(|sizes| to.load.sizes = sizes),
        },
        Key {
            name: "load.mtu",
            what: "the longest packet, from the IP header on, 68 to 65535 bytes [1500]",
            set: |to, text| put_bytes(text, (68, 65_535), &mut to.load.mtu),
        },
        number!("load.messages", load.messages, 1 to 1000000, 16,
            "how many messages, one behind the other"),
        Key {
            name: "firmware.image",
            what: "\"published\", \"best\", or the path of an ELF file, seen from the scenario's \
                   folder, with --set or --vary from the current one [published]",
            set: |to, text| {
                text.clone_into(&mut to.firmware);
                if text.is_empty() { Err("name a firmware".to_owned()) } else { Ok(()) }
            },
        },
        Key {
            name: "firmware.patience",
            what: "cycles without a packet and without sleep after which firmware is said to loop, \
                   1000 to 1000000000000 [1000000]",
            set: |to, text| whole(text, 1_000..=1_000_000_000_000).map(|n| to.patience = n),
        },
    ];
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
