//! Every key of a scenario of the sending side: its name, what it means, how its value is read.

use super::key::{self, Kind};
pub(crate) use super::key::{Key, find};
use super::settings::{DmaClock, MAX_SIZE, Protocol, Settings};
use super::values::{mhz, phase, rate, whole, within, word};
use crate::units;
use linecard_model::Ps;
use linecard_model::transmit::{BusPolicy, Design, HeaderPath};
use std::time::Duration;

/// More kinds of messages than a load needs to be told apart by size.
const MAX_SIZES: usize = 64;

pub(super) const POLICIES: [(&str, BusPolicy); 3] = [
    ("hold", BusPolicy::Hold),
    ("interleave", BusPolicy::Interleave),
    ("dual-port", BusPolicy::DualPort),
];
const HEADERS: [(&str, HeaderPath); 2] = [("beside", HeaderPath::Beside), ("bus", HeaderPath::Bus)];
pub(super) const PROTOCOLS: [(&str, Protocol); 3] =
    [("tcp", Protocol::Tcp), ("udp", Protocol::Udp), ("mix", Protocol::Mix)];

impl Kind for Settings {
    const NAME: &'static str = "transmit";
    const KEYS: &'static [Key<Self>] = &KEYS;
}

const KEYS: [Key<Settings>; 20] = [
    Key {
        name: "core.count",
        what: "cores, each with memories, bus, DMA and buffers of its own, 1 to 256 [1]",
        set: |to, text| whole(text, 1..=Design::MAX_CORES as u64).map(|n| to.cores = n as usize),
    },
    Key {
        name: "core.mhz",
        what: "the cores' clock in MHz, 0.001 to 100000 [423]",
        set: |to, text| mhz(text).map(|hz| to.core_hz = hz),
    },
    Key {
        name: "core.bubbles",
        what: "cycles lost by a branch that is taken, 0 to 2 [1]",
        set: |to, text| whole(text, 0..=2).map(|n| to.bubbles = n),
    },
    Key {
        name: "core.phase",
        what: "when the first cycle begins, as a share of the period, 0 to 0.999999 [0]",
        set: |to, text| phase(text).map(|share| to.core_phase = share),
    },
    Key {
        name: "dma.mhz",
        what: "the DMA's clock in MHz, or as \"5x\" a multiple of the cores' [2115]",
        set: |to, text| DmaClock::parse(text).map(|clock| to.dma = clock),
    },
    Key {
        name: "dma.cycles_per_word",
        what: "DMA cycles to move a word of the bus, 1 to 8 [1]",
        set: |to, text| whole(text, 1..=8).map(|n| to.cycles_per_word = n),
    },
    Key {
        name: "dma.phase",
        what: "as core.phase [0]",
        set: |to, text| phase(text).map(|share| to.dma_phase = share),
    },
    Key {
        name: "bus.bits",
        what: "width of the local bus, a power of two from 32 to 1024 [64]",
        set: |to, text| match whole(text, 32..=1024)? {
            bits if bits.is_power_of_two() => {
                to.bus_bits = bits as u32;
                Ok(())
            }
            bits => Err(format!("{bits} is no power of two: choose 32, 64, 128 … 1024")),
        },
    },
    Key {
        name: "bus.policy",
        what: "who has the bus during a transfer: the DMA (\"hold\"), the core between two words \
               (\"interleave\"), both (\"dual-port\") [hold]",
        set: |to, text| word(text, &POLICIES).map(|policy| to.policy = policy),
    },
    Key {
        name: "bus.header",
        what: "headers go \"beside\" the payload by a port of their own, or over the \"bus\" \
               [beside]",
        set: |to, text| word(text, &HEADERS).map(|path| to.header = path),
    },
    Key {
        name: "line.rate",
        what: "bits per second, \"1K\" to \"100T\", or \"unlimited\" [100G]",
        set: |to, text| rate(text).map(|rate| to.line = rate),
    },
    Key {
        name: "line.overhead",
        what: "bytes on the line beside each IP packet, 0 to 65535: 20 as published, 38 for \
               Ethernet [20]",
        set: |to, text| whole(text, 0..=65_535).map(|bytes| to.overhead = bytes),
    },
    Key {
        name: "line.sbi",
        what: "bytes of each line-interface buffer, from the MTU and 128 bytes to 1G [64K]",
        set: |to, text| {
            to.sbi = within(units::bytes(text)?, 196..=1 << 30)?;
            Ok(())
        },
    },
    Key {
        name: "host.interrupt",
        what: "from a message in the mailbox to the core's first cycle, \"0ns\" to \"1s\" [0ns]",
        set: |to, text| match units::duration(text)? {
            time if time <= Duration::from_secs(1) => {
                to.interrupt = Ps::from_ns(time.as_nanos() as u64);
                Ok(())
            }
            _ => Err(format!("{text} is out of range: choose 0ns to 1s")),
        },
    },
    Key {
        name: "load.protocol",
        what: "\"tcp\" is segmented, \"udp\" fragmented, \"mix\" has both in turn [tcp]",
        set: |to, text| word(text, &PROTOCOLS).map(|protocol| to.protocol = protocol),
    },
    Key {
        name: "load.size",
        what: "payload bytes of a message, 1 to 65495, or a list of up to 64 in turn [64000]",
        set: |to, text| sizes(text).map(|sizes| to.sizes = sizes),
    },
    Key {
        name: "load.mtu",
        what: "the longest packet, from the IP header on, 68 to 65535 bytes [1500]",
        set: |to, text| {
            let bytes = within(units::bytes(text)?, usize::from(Design::MIN_MTU)..=65_535)?;
            to.mtu = bytes as u16;
            Ok(())
        },
    },
    Key {
        name: "load.messages",
        what: "how many messages, one behind the other, 1 to 1000000 [16]",
        set: |to, text| whole(text, 1..=1_000_000).map(|n| to.messages = n),
    },
    Key {
        name: "firmware.image",
        what: "\"approach-1\", \"approach-2\", \"best\", or the path of an ELF file, seen from the \
               scenario's folder, with --set or --vary from the current one [approach-2]",
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

/// All keys of the sending side, for `--help`.
pub(crate) fn help() -> String {
    format!("{HELP}{}{}", key::help(&key::told::<Settings>()), crate::failure::EXIT_CODES)
}

/// What stands before keys in `--help`.
pub(super) const HELP: &str =
    "Keys of a scenario [default]; in the file, what is before the dot is a section.\n";

pub(super) fn sizes(text: &str) -> Result<Vec<usize>, String> {
    let sizes: Vec<&str> = text.split(',').map(str::trim).collect();
    if sizes.len() > MAX_SIZES {
        return Err(format!("{} sizes: give 1 to {MAX_SIZES}", sizes.len()));
    }
    sizes.into_iter().map(|size| within(units::bytes(size)?, 1..=MAX_SIZE as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_that_is_told_is_the_default() {
        key::check_defaults::<Settings>();
    }

    #[test]
    fn nothing_out_of_range_is_taken() {
        for (name, texts) in [
            ("core.count", &["0", "257", "-1", "1.5", ""][..]),
            ("core.mhz", &["0", "100001", "x"]),
            ("core.bubbles", &["3"]),
            ("dma.mhz", &["0", "0x", "1001x", "x"]),
            ("dma.cycles_per_word", &["0", "9"]),
            ("bus.bits", &["0", "16", "96", "2048"]),
            ("bus.policy", &["share"]),
            ("line.rate", &["0", "101T"]),
            ("line.sbi", &["0", "100"]),
            ("host.interrupt", &["2s", "5"]),
            ("load.size", &["0", "65496", "1,,2"]),
            ("load.mtu", &["67", "65536"]),
            ("load.messages", &["0", "1000001"]),
            ("firmware.patience", &["0"]),
        ] {
            for text in texts {
                let set = find::<Settings>(name).expect("a key").set;
                assert!(set(&mut Settings::default(), text).is_err(), "{name} = {text}");
            }
        }
        assert!(find::<Settings>("core.hz").err().expect("none").contains("core.mhz"));
        assert!(find::<Settings>("cores").err().expect("none").contains("core.count"));
    }
}
