//! Counters of a run, which add up.

use super::host;
use super::stream::Digest;
use crate::Ps;

/// Packets, and the payload in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Packets as they were on the wire.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Packets that did not reach the host, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// The unit had no buffer.
    pub no_buffer: Amount,
    /// Too many waited for the receive thread.
    pub queue_full: Amount,
    /// Data that had come before (Algorithms 1 and 2), and data with a wrong checksum.
    pub discarded: Amount,
    /// The thread's Rx ring had no descriptor.
    pub ring_full: Amount,
    /// The DMA engine had no room for requests.
    pub dma_full: Amount,
}

impl Drops {
    /// All of them, by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Amount); 5] {
        [
            ("no-buffer", self.no_buffer),
            ("queue-full", self.queue_full),
            ("discarded", self.discarded),
            ("ring-full", self.ring_full),
            ("dma-full", self.dma_full),
        ]
    }

    /// Together.
    #[must_use]
    pub fn total(&self) -> Amount {
        let mut total = Amount::default();
        self.named().iter().for_each(|(_, amount)| total.add(amount.packets, amount.bytes));
        total
    }
}

/// Counters of the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// Connections made, as the client sees it.
    pub established: u64,
    /// The same, of those that send nothing.
    pub idle_established: u64,
    /// Connections given up.
    pub failed: u64,
    /// Connections of which all, FIN included, was acknowledged.
    pub finished: u64,
    /// When the last of them was, if all were.
    pub finished_at: Option<Ps>,
    /// SYNs sent.
    pub syns: u64,
    /// Segments of data sent.
    pub segments: u64,
    /// How many of them had been sent before.
    pub retransmitted: u64,
    /// How often a retransmission timer fired.
    pub timeouts: u64,
}

/// Counters of the DMA engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DmaFigures {
    /// Requests made: one for each packet in a merged one.
    pub requests: u64,
    /// Requests served.
    pub served: u64,
    /// Requests that waited at most.
    pub most_waiting: u64,
    /// Time that all requests ask for.
    pub offered: Ps,
    /// Requests for a SYN, and how many of them were served.
    pub syns: u64,
    /// See [`DmaFigures::syns`].
    pub syns_served: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NpuResults {
    /// How long it lasted.
    pub duration: Ps,
    /// Counters of the client.
    pub client: ClientFigures,
    /// Packets that came over the link.
    pub sent: Amount,
    /// Packets that reached the host's stack, alone or merged.
    pub delivered: Amount,
    /// Packets that did not.
    pub dropped: Drops,
    /// Packets in the unit, or waiting for the host, at the end.
    pub held: Amount,
    /// How many of the discarded packets were duplicates, and corrupt.
    pub duplicates: u64,
    /// See [`NpuResults::duplicates`].
    pub corrupt: u64,
    /// Counters of the host.
    pub host: host::Figures,
    /// Counters of the DMA engine.
    pub dma: DmaFigures,
    /// Acknowledgments on the host's behalf.
    pub active_acks: u64,
    /// Packets towards the client: sent, and dropped for want of room.
    pub answers: u64,
    /// See [`NpuResults::answers`].
    pub answers_dropped: u64,
    /// Time that receive threads had a packet or a message, all together.
    pub receiving: Ps,
    /// Time in which the cores' pipelines issued instructions or switched, all together.
    pub issuing: Ps,
    /// Time in which memory moved lines.
    pub moving: Ps,
    /// Messages of the timeout thread that made a thread let something go.
    pub timeouts: u64,
    /// Receive threads to which connections that send were hashed.
    pub threads_used: u64,
    /// Mean number of packets in a merged one.
    pub mean_aggregate: f64,
    /// Payload that receive threads took since measuring began, in bits per second. Without drops the
    /// host accepts as much; but the held amount goes up and down, as merged packets of connections that
    /// began together leave together, and a short run would show that.
    pub bits_per_second: f64,
    /// A hash of all bytes delivered and all counters: equal on every machine.
    pub digest: u64,
}

impl NpuResults {
    /// Whether every packet and byte is accounted for: sent = delivered + dropped + held, and what
    /// the host got is what it took or refused.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let (dropped, host) = (self.dropped.total(), &self.host);
        let ends = |f: fn(&Amount) -> u64| {
            (f(&self.sent), f(&self.delivered) + f(&dropped) + f(&self.held))
        };
        let (packets, bytes) = (ends(|amount| amount.packets), ends(|amount| amount.bytes));
        let others = host.duplicate + host.kept + host.stray + host.overrun + host.corrupt;
        packets.0 == packets.1
            && bytes.0 == bytes.1
            && host.bytes == self.delivered.bytes
            && host.bytes == host.accepted + others
            && host.wrong == 0
            && self.duplicates + self.corrupt == self.dropped.discarded.packets
    }

    /// Requested time of the DMA engine, as a share of the run.
    #[must_use]
    pub fn dma_load(&self) -> f64 {
        self.dma.offered.as_secs_f64() / self.duration.as_secs_f64()
    }

    /// The digest of the bytes, with all counters.
    pub(super) fn seal(&self, mut digest: Digest) -> u64 {
        let Self { client, host, dma, .. } = self;
        let amounts = [self.sent, self.delivered, self.held];
        let drops = self.dropped.named().map(|(_, amount)| amount);
        for amount in amounts.iter().chain(&drops) {
            digest.number(amount.packets);
            digest.number(amount.bytes);
        }
        let client_numbers = [
            client.established,
            client.idle_established,
            client.failed,
            client.finished,
            client.finished_at.map_or(0, |at| at.0),
            client.syns,
            client.segments,
            client.retransmitted,
            client.timeouts,
        ];
        let host_numbers = [
            host.interrupts,
            host.accepted,
            host.duplicate,
            host.kept,
            host.stray,
            host.overrun,
            host.corrupt,
            host.connections,
            host.finished,
        ];
        let others = [
            dma.requests,
            dma.served,
            dma.most_waiting,
            dma.offered.0,
            dma.syns,
            dma.syns_served,
            self.active_acks,
            self.answers,
            self.answers_dropped,
            self.timeouts,
            self.receiving.0,
            self.issuing.0,
        ];
        for number in client_numbers.iter().chain(&host_numbers).chain(&others) {
            digest.number(*number);
        }
        digest.0
    }
}

/// The share of threads that have a connection when `connections` are hashed to `threads`:
/// 1 − (1 − 1/threads)^connections, which is what the throughput of figure 13 is of its plateau.
///
/// ```
/// use linecard_model::npu::expected_share;
/// assert!((expected_share(13, 1) - 1.0 / 13.0).abs() < 1e-12);
/// assert!(expected_share(13, 64) > 0.99);
/// ```
#[must_use]
pub fn expected_share(threads: u16, connections: u32) -> f64 {
    let missed = 1.0 - 1.0 / f64::from(threads.max(1));
    1.0 - (0..connections).fold(1.0, |share, _| share * missed)
}
