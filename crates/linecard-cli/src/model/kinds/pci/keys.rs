//! What there is to decide about a gigabit adapter on PCI, and its keys. Ranges are the model's.

use super::super::super::key::{Key, Kind};
use super::super::super::values::word;
use super::super::{number, put_bytes, put_clock, put_rate, time};
use linecard_model::pci::{Config, Protocol};

const PROTOCOLS: [(&str, Protocol); 3] = [
    ("deferred", Protocol::Deferred),
    ("in-handler", Protocol::InHandler),
    ("parallel", Protocol::Parallel),
];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// All that there is to decide.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Settings {
    pub(super) of: Config,
}

impl Kind for Settings {
    const NAME: &'static str = "pci";
    const KEYS: &'static [Key<Self>] = &[
        number!("run.seed", of.seed, 0 to 9223372036854775807, 1,
            "draws the clients' starts and answers"),
        time!("run.warm_up", of.warm_up, "0ms" to "100s", "50ms", "not measured"),
        time!("run.duration", of.duration, "1ms" to "100s", "200ms", "measured"),
        Key {
            name: "adapter.bus_mhz",
            what: "the bus clock in MHz, 0.001 to 100000 [33.333333]",
            set: |to, text| put_clock(text, &mut to.of.adapter.bus_hz),
        },
        Key {
            name: "adapter.fifo",
            what: "bytes of the FIFO, 1518 to 16M [64K]",
            set: |to, text| put_bytes(text, (1_518, 1 << 24), &mut to.of.adapter.fifo_bytes),
        },
        number!("adapter.threshold", of.adapter.threshold_bytes, 0 to 1518, 400,
            "bytes of a frame before the bus is asked for"),
        number!("adapter.buffers", of.adapter.buffers, 1 to 65536, 512, "receive buffers"),
        number!("adapter.requeue_batch", of.adapter.requeue_batch, 1 to 65536, 18,
            "buffers returned together, at most all"),
        Key {
            name: "adapter.one_write",
            what: "a batch is returned by a single write: \"on\" or \"off\" [off]",
            set: |to, text| word(text, &SWITCH).map(|on| to.of.adapter.requeue_by_one_write = on),
        },
        number!("server.mhz", of.server.mhz, 1 to 10000, 700, "clock of each processor"),
        number!("server.cpus", of.server.cpus, 1 to 16, 4, "processors"),
        Key {
            name: "server.copies",
            what: "the interrupt handler copies frames out of the buffers: \"on\" or \"off\" [on]",
            set: |to, text| word(text, &SWITCH).map(|on| to.of.server.copies = on),
        },
        Key {
            name: "server.protocol",
            what: "protocol work is \"deferred\", done \"in-handler\", or on a processor of its own: \
                   \"parallel\" [deferred]",
            set: |to, text| word(text, &PROTOCOLS).map(|place| to.of.server.protocol = place),
        },
        number!("costs.handler_cycles", of.costs.handler_cycles, 0 to 100000000, 5432,
            "of the interrupt handler for a frame, beside the copy"),
        number!("costs.copy_ps_per_byte", of.costs.copy_ps_per_byte, 0 to 1000000, 3900,
            "picoseconds to copy a byte"),
        number!("costs.protocol_cycles", of.costs.protocol_cycles, 0 to 100000000, 1172,
            "for a frame or a request"),
        number!("costs.application_cycles", of.costs.application_cycles, 0 to 100000000, 2960,
            "for a frame"),
        number!("load.clients", of.load.clients, 1 to 64, 8, "clients, each on a link of its own"),
        number!("load.sessions", of.load.sessions, 1 to 64, 6, "sessions of each client"),
        number!("load.window_frames", of.load.window_frames, 2 to 1024, 6,
            "frames that a session sends without an answer"),
        number!("load.file_bytes", of.load.file_bytes, 1 to 1073741824, 100000, "bytes of a file"),
        Key {
            name: "load.client_rate",
            what: "bits per second of a client's link, \"1M\" to \"1G\" [100M]",
            set: |to, text| put_rate(text, &mut to.of.load.client_bps),
        },
        time!("load.answer", of.load.answer, "0us" to "1s", "50us",
            "what an answer takes at least; up to twice this is drawn"),
    ];
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
