//! What there is to decide about a network processor, and its keys. Ranges are the model's.

use super::super::super::key::{Key, Kind};
use super::super::super::values::word;
use super::super::{number, optional, put_rate, time};
use linecard_model::Ps;
use linecard_model::npu::{Client, Discipline, Dispatch, Mode, Scenario, Start};

const MODES: [(&str, Option<Mode>); 3] =
    [("off", None), ("paper", Some(Mode::Paper)), ("honest", Some(Mode::WindowHonest))];
const DISPATCHES: [(&str, Dispatch); 2] = [("hash", Dispatch::Hash), ("spray", Dispatch::Spray)];
const DISCIPLINES: [(&str, Discipline); 3] = [
    ("stack", Discipline::Stack),
    ("fifo", Discipline::Fifo),
    ("round-robin", Discipline::RoundRobin),
];
const STARTS: [(&str, Start); 2] = [("each", Start::Each), ("together", Start::Together)];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(in super::super) struct Settings {
    pub(super) of: Scenario,
}

impl Default for Settings {
    /// The published unit with so many connections that every thread has one.
    fn default() -> Self {
        let of = Scenario {
            warm_up: Ps::from_ns(8_000_000),
            duration: Ps::from_ns(28_000_000),
            client: Client { connections: 64, ..Client::default() },
            ..Scenario::default()
        };
        Self { of }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "npu";
    const KEYS: &'static [Key<Self>] = &[
        number!("run.seed", of.seed, 0 to 9223372036854775807, 0,
            "ports, sequence numbers and jitter follow from it"),
        time!("run.warm_up", of.warm_up, "0ns" to "3600s", "8ms",
            "when measuring begins, before run.duration"),
        time!("run.duration", of.duration, "1ns" to "3600s", "28ms", "the end, in virtual time"),
        number!("npu.cores", of.npu.cores, 1 to 64, 4, "cores"),
        number!("npu.threads_per_core", of.npu.threads_per_core, 1 to 64, 4,
            "hardware threads of a core; three of all do not receive"),
        number!("npu.packet_ns", of.npu.packet_ns, 0 to 3600000000000, 32000,
            "a receive thread's time for a packet"),
        number!("npu.jitter_percent", of.npu.jitter_percent, 0 to 100, 5,
            "by which that time varies"),
        number!("npu.timeout_ns", of.npu.timeout_ns, 0 to 3600000000000, 2000,
            "a receive thread's time for a timeout message"),
        number!("npu.check_ns", of.npu.check_ns, 1 to 1000000000, 200,
            "the timeout thread's time for a connection"),
        number!("npu.send_ns", of.npu.send_ns, 0 to 3600000000000, 1000,
            "the sending thread's time for a packet"),
        number!("npu.send_queue", of.npu.send_queue, 1 to 1048576, 4096,
            "packets that wait for the sending thread"),
        number!("npu.message_ns", of.npu.message_ns, 0 to 3600000000000, 100,
            "latency of a message between threads"),
        number!("npu.queue", of.npu.queue, 1 to 1048576, 1024,
            "packets that wait for a receive thread"),
        number!("npu.buffers", of.npu.buffers, 1 to 1048576, 65536, "packets in the unit's memory"),
        number!("npu.descriptors", of.npu.descriptors, 1 to 65536, 256,
            "connections of a receive thread"),
        number!("npu.ring", of.npu.ring, 1 to 4294967295, 1024,
            "descriptors in a receive thread's ring, of 64 bytes; all rings share 16 MiB"),
        Key {
            name: "npu.dispatch",
            what: "packets come to threads by \"hash\", or in turns: \"spray\" [hash]",
            set: |to, text| word(text, &DISPATCHES).map(|way| to.of.npu.dispatch = way),
        },
        Key {
            name: "npu.merge",
            what: "whether packets are merged: \"on\" or \"off\" [on]",
            set: |to, text| word(text, &SWITCH).map(|on| to.of.npu.merge = on),
        },
        number!("npu.max_bytes", of.npu.max_bytes, 1500 to 65535, 65535,
            "bytes of a merged packet"),
        number!("npu.idle_floor_ns", of.npu.idle_floor_ns, 1 to 3600000000000, 1,
            "no flow counts as paused for less"),
        number!("npu.hold_budget_ns", of.npu.hold_budget_ns, 1000 to 3600000000000, 1000000000,
            "nothing is held longer"),
        Key {
            name: "npu.active_ack",
            what: "data is acknowledged as it comes with the published window (\"paper\"), within the \
                   host's own (\"honest\"), or by the host alone (\"off\") [paper]",
            set: |to, text| word(text, &MODES).map(|mode| to.of.npu.active_ack = mode),
        },
        Key {
            name: "dma.rate",
            what: "bits per second that the engine moves, \"1K\" to \"10T\" [16G]",
            set: |to, text| put_rate(text, &mut to.of.dma.bits_per_second),
        },
        number!("dma.request_ns", of.dma.request_ns, 0 to 3600000000000, 200,
            "time of a request besides"),
        Key {
            name: "dma.discipline",
            what: "the request that is next: the newest (\"stack\"), the oldest (\"fifo\"), the oldest of \
                   each thread in turn (\"round-robin\") [round-robin]",
            set: |to, text| word(text, &DISCIPLINES).map(|next| to.of.dma.discipline = next),
        },
        number!("dma.requests", of.dma.requests, 1 to 1048576, 262144, "requests that wait"),
        number!("host.interrupt_ns", of.host.interrupt_ns, 0 to 3600000000000, 2000,
            "processor time of an interrupt, one for each packet from the unit"),
        number!("host.packet_ns", of.host.packet_ns, 0 to 3600000000000, 3000,
            "driver and stack, for a packet, merged or not"),
        Key {
            name: "host.copy_rate",
            what: "bits per second of the copy to the application, \"1K\" to \"10T\" [40G]",
            set: |to, text| put_rate(text, &mut to.of.host.copy_bits_per_second),
        },
        number!("host.receive_buffer", of.host.receive_buffer, 1 to 65535, 65535,
            "bytes of a connection that wait for the application"),
        Key {
            name: "host.read_rate",
            what: "bits per second that the application reads of a connection, \"1K\" to \"10T\", or \
                   \"unlimited\" [unlimited]",
            set: |to, text| {
                super::super::super::values::rate(text)
                    .map(|rate| to.of.host.read_bits_per_second = rate)
            },
        },
        number!("client.connections", of.client.connections, 0 to 1024, 64,
            "connections that send"),
        number!("client.idle_connections", of.client.idle_connections, 0 to 1024, 0,
            "connections that are made beside them and send nothing"),
        number!("client.stagger_ns", of.client.stagger_ns, 0 to 3600000000000, 1000,
            "from one connection's first SYN to the next one's"),
        number!("client.head_start_ns", of.client.head_start_ns, 0 to 3600000000000, 0,
            "before the first idle connection's SYN"),
        Key {
            name: "client.start",
            what: "connections send each when it is made (\"each\"), or when all are (\"together\") \
                   [together]",
            set: |to, text| word(text, &STARTS).map(|start| to.of.client.start = start),
        },
        Key {
            name: "client.bytes",
            what: "bytes that each sends, 1 to 1099511627776, or \"none\": without end [none]",
            set: |to, text| optional(text, (1, 1 << 40), &mut to.of.client.bytes),
        },
        Key {
            name: "client.link_rate",
            what: "bits per second on the link, \"1K\" to \"10T\" [10G]",
            set: |to, text| put_rate(text, &mut to.of.client.link_bits_per_second),
        },
        number!("client.segment", of.client.segment, 64 to 1460, 1460,
            "payload bytes of a segment"),
        number!("client.send_window", of.client.send_window, 64 to 1073741824, 65535,
            "bytes that a connection may have outstanding: a segment at least"),
        number!("client.initial_window", of.client.initial_window, 1 to 65536, 3,
            "segments outstanding in the beginning"),
        number!("client.rto_ns", of.client.rto_ns, 1000 to 3600000000000, 200000000,
            "retransmission timer of data"),
        number!("client.syn_rto_ns", of.client.syn_rto_ns, 1000 to 3600000000000, 1000000000,
            "retransmission timer of SYN"),
        number!("client.syn_tries", of.client.syn_tries, 1 to 100, 6,
            "SYNs before a connection is given up"),
        Key {
            name: "client.corrupt_every",
            what: "every so many frames one comes with a bit wrong, 1 to 1073741824, or \"none\" [none]",
            set: |to, text| optional(text, (1, 1 << 30), &mut to.of.client.corrupt_every),
        },
        Key {
            name: "client.swap_every",
            what: "every so many frames one comes behind the next, 1 to 1073741824, or \"none\" [none]",
            set: |to, text| optional(text, (1, 1 << 30), &mut to.of.client.swap_every),
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
