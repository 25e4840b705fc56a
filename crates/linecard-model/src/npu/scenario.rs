//! What there is to decide: the unit, its DMA engine, the host behind it and the client before it.
//!
//! Values named "published" are of papers/lro-npu.txt. The paper gives few times; the others are
//! ours, and say so.

use crate::Ps;
pub use linecard::offload::active_ack::Mode;

/// Threads that do not receive: one sends, one checks for timeouts, one has the shell (VI).
pub const OTHER_THREADS: u16 = 3;
/// Shared memory that holds packet descriptors, in bytes (VI).
pub const SHARED_MEMORY: u64 = 16 << 20;
/// Bytes of a packet descriptor: ours; address, length and state of an aggregate's pages, in a
/// cache line.
pub const DESCRIPTOR_LEN: u64 = 64;

/// A run of the whole: client, link, network processor, DMA, host.
///
/// ```
/// use linecard_model::npu::{Scenario, run};
/// let mut scenario = Scenario::default();
/// scenario.client.connections = 2;
/// scenario.duration = linecard_model::Ps::from_ns(2_000_000);
/// let outcome = run(&scenario)?;
/// assert!(outcome.is_conserved() && outcome.host.accepted > 0);
///
/// scenario.npu.ring = 1_000_000;
/// let error = run(&scenario).expect_err("too much for the shared memory");
/// assert!(error.to_string().contains("16777216 bytes"));
/// # Ok::<(), linecard_model::npu::ScenarioError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scenario {
    /// Ports, sequence numbers and jitter follow from it.
    pub seed: u64,
    /// How long the run lasts, in virtual time. Default: 0, which is refused: say how long.
    pub duration: Ps,
    /// When measuring begins; before, connections are made and windows grow.
    pub warm_up: Ps,
    /// The network processor.
    pub npu: Npu,
    /// Its DMA engine.
    pub dma: Dma,
    /// The receiving host.
    pub host: Host,
    /// The sending host, and the link.
    pub client: Client,
}

/// How packets come to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// By the Toeplitz hash of the four-tuple, of which the upper bits choose: `hash · threads ≫ 32`.
    #[default]
    Hash,
    /// In turns: nothing is kept of connections, so that none needs a thread of its own.
    Spray,
}

/// Which DMA request is served next (V.B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Discipline {
    /// The newest: the published engine.
    Stack,
    /// The oldest.
    Fifo,
    /// The oldest of each thread in turn: the published balancer, which costs one more message.
    #[default]
    RoundRobin,
}

/// The network processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npu {
    /// Cores, 1 to 64. Default: 4 (published).
    pub cores: u16,
    /// Hardware threads of a core, 1 to 64. Default: 4 (published). A thread's time is taken to be
    /// waiting for memory, so that threads of a core do not slow each other down.
    pub threads_per_core: u16,
    /// Time of a receive thread for a packet, all included, in nanoseconds. Default: 32,000: **the
    /// calibrated constant**. It makes 13 threads of the published plateau of 4.75 Gbit/s:
    /// 13 · 1460 · 8 bit / 32.0 µs.
    pub packet_ns: u64,
    /// That time varies evenly by up to so many per cent, 0 to 100. Default: 5 (ours), so that
    /// threads do not run in step.
    pub jitter_percent: u64,
    /// Time of a receive thread for a timeout message, in nanoseconds. Default: 2,000 (ours).
    pub timeout_ns: u64,
    /// Time in which the timeout thread looks at one connection, in nanoseconds, at least 1.
    /// Default: 200 (ours).
    pub check_ns: u64,
    /// Time of the sending thread for a packet, in nanoseconds. Default: 1,000 (ours).
    pub send_ns: u64,
    /// Packets that wait for the sending thread at most. Default: 4,096 (ours).
    pub send_queue: u64,
    /// Latency of a message between threads and engines, in nanoseconds. Default: 100 (ours).
    pub message_ns: u64,
    /// Packets that wait for a receive thread at most. Default: 1,024 (ours).
    pub queue: usize,
    /// Packets in the unit's memory at most, from arrival until they are in host memory. Default:
    /// 65,536 (ours; the published 4 GB would hold 2 million).
    pub buffers: u64,
    /// Connection descriptors of a receive thread. Default: 256 (ours).
    pub descriptors: usize,
    /// Descriptors in the Rx ring of a receive thread; all rings lie in [`SHARED_MEMORY`]. Default:
    /// 1,024 (ours).
    pub ring: u64,
    /// How packets come to threads. Default: by hash (published).
    pub dispatch: Dispatch,
    /// Whether packets are merged. Default: yes.
    pub merge: bool,
    /// Bytes of a merged packet. Default: 65,535, the published 64 KB as far as a length field goes.
    pub max_bytes: usize,
    /// A flow counts as paused after ten average intervals (published), but not before this, in
    /// nanoseconds. Default: 1 (published: nothing).
    pub idle_floor_ns: u64,
    /// Nothing is held longer, in nanoseconds. Default: 1,000,000,000; the paper has no such limit.
    pub hold_budget_ns: u64,
    /// Whether data is acknowledged as it comes, and with which window. Default: 0xFFFF (published).
    pub active_ack: Option<Mode>,
}

/// The DMA engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dma {
    /// Bits per second that it moves. Default: 16 Gbit/s (ours).
    pub bits_per_second: u64,
    /// Time for each request besides, in nanoseconds. Default: 200 (ours).
    pub request_ns: u64,
    /// Which request is next. Default: by turns (published, V.B).
    pub discipline: Discipline,
    /// Requests that wait at most. Default: 262,144 (ours).
    pub requests: usize,
}

/// The receiving host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Processor time for an interrupt, of which each packet from the unit raises one, in
    /// nanoseconds. Default: 2,000 (ours).
    pub interrupt_ns: u64,
    /// Processor time for a packet in driver and stack, merged or not, in nanoseconds. Default:
    /// 3,000 (ours).
    pub packet_ns: u64,
    /// Bits per second at which payload is copied to the application. Default: 40 Gbit/s (ours).
    pub copy_bits_per_second: u64,
    /// Room for data that the application has not read, 1 to 65,535 bytes: no window scaling.
    /// Default: 65,535.
    pub receive_buffer: u32,
    /// Bits per second that the application reads of each connection; none: at once. Default: none.
    pub read_bits_per_second: Option<u64>,
}

/// When connections begin to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// Each as soon as it is made.
    Each,
    /// All when all are made, as the published test program.
    #[default]
    Together,
}

/// The sending host, and the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Connections that send, 0 to 1,024. Default: 1.
    pub connections: u32,
    /// Connections that are made beside them and send nothing, 0 to 1,024. Default: 0.
    pub idle_connections: u32,
    /// Time from one connection's first SYN to the next one's, idle ones last, in nanoseconds.
    /// Default: 1,000.
    pub stagger_ns: u64,
    /// Time before the first idle connection's SYN, in nanoseconds. Default: 0.
    pub head_start_ns: u64,
    /// When they begin to send. Default: together (published).
    pub start: Start,
    /// Bytes that each sends; none: without end. Default: none.
    pub bytes: Option<u64>,
    /// Bits per second on the link. Default: 10 Gbit/s (published).
    pub link_bits_per_second: u64,
    /// Payload of a segment, 64 to 1,460 bytes. Default: 1,460.
    pub segment: u32,
    /// Bytes that a connection may have outstanding, whatever the receiver allows. Default: 65,535.
    pub send_window: u32,
    /// Segments that a connection may have outstanding in the beginning and after a timeout's
    /// recovery began, at least 1. Default: 3 (RFC 3390 for 1,460 bytes).
    pub initial_window: u32,
    /// Retransmission timer for data, doubled with each retransmission, in nanoseconds. Default:
    /// 200,000,000, the least of Linux.
    pub rto_ns: u64,
    /// The same for SYN. Default: 1,000,000,000 (RFC 6298).
    pub syn_rto_ns: u64,
    /// SYNs sent before a connection is given up, at least 1. Default: 6, as Linux.
    pub syn_tries: u32,
    /// Every so many frames, one arrives with a bit wrong; none: never. Default: none.
    pub corrupt_every: Option<u32>,
    /// Every so many frames, one arrives behind the next; none: never. Default: none.
    pub swap_every: Option<u32>,
}

impl Default for Npu {
    fn default() -> Self {
        Self {
            cores: 4,
            threads_per_core: 4,
            packet_ns: 32_000,
            jitter_percent: 5,
            timeout_ns: 2_000,
            check_ns: 200,
            send_ns: 1_000,
            send_queue: 4_096,
            message_ns: 100,
            queue: 1_024,
            buffers: 65_536,
            descriptors: 256,
            ring: 1_024,
            dispatch: Dispatch::Hash,
            merge: true,
            max_bytes: 65_535,
            idle_floor_ns: 1,
            hold_budget_ns: 1_000_000_000,
            active_ack: Some(Mode::Paper),
        }
    }
}

impl Npu {
    /// As a normal adapter (VII): nothing is merged, nothing is acknowledged, and packets go to
    /// threads in turns, as no thread has to know a connection. Each takes the same time, without
    /// anything to look up or sort, so that the order is kept.
    #[must_use]
    pub fn normal() -> Self {
        let dispatch = Dispatch::Spray;
        Self { merge: false, active_ack: None, dispatch, jitter_percent: 0, ..Self::default() }
    }

    /// Threads that receive.
    #[must_use]
    pub fn receive_threads(&self) -> u16 {
        self.cores.saturating_mul(self.threads_per_core).saturating_sub(OTHER_THREADS)
    }
}

impl Default for Dma {
    fn default() -> Self {
        Self {
            bits_per_second: 16_000_000_000,
            request_ns: 200,
            discipline: Discipline::RoundRobin,
            requests: 1 << 18,
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self {
            interrupt_ns: 2_000,
            packet_ns: 3_000,
            copy_bits_per_second: 40_000_000_000,
            receive_buffer: 65_535,
            read_bits_per_second: None,
        }
    }
}

impl Default for Client {
    fn default() -> Self {
        Self {
            connections: 1,
            idle_connections: 0,
            stagger_ns: 1_000,
            head_start_ns: 0,
            start: Start::Together,
            bytes: None,
            link_bits_per_second: 10_000_000_000,
            segment: 1_460,
            send_window: 65_535,
            initial_window: 3,
            rto_ns: 200_000_000,
            syn_rto_ns: 1_000_000_000,
            syn_tries: 6,
            corrupt_every: None,
            swap_every: None,
        }
    }
}

/// Why a scenario cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A value outside its range.
    #[error("{name} is {value}: choose {low} to {high}")]
    Range {
        /// Which, by its path in [`Scenario`].
        name: &'static str,
        /// What was given.
        value: u64,
        /// The least.
        low: u64,
        /// The greatest.
        high: u64,
    },
    /// No thread is left to receive.
    #[error(
        "{0} hardware threads: {OTHER_THREADS} send, check timeouts and serve the shell, so that at \
         least {least} are needed",
        least = OTHER_THREADS + 1
    )]
    Threads(u64),
    /// The rings do not fit.
    #[error(
        "rings of {ring} descriptors for {threads} threads take {bytes} bytes: shared memory has \
         {SHARED_MEMORY} bytes, so choose at most {most}",
        bytes = ring * u64::from(*threads) * DESCRIPTOR_LEN,
        most = SHARED_MEMORY / DESCRIPTOR_LEN / u64::from((*threads).max(1))
    )]
    SharedMemory {
        /// Descriptors of a ring.
        ring: u64,
        /// Threads that receive.
        threads: u16,
    },
    /// Measuring would begin after the end.
    #[error("warm_up is {warm_up} and duration {duration}: measuring has to begin before the end")]
    WarmUp {
        /// When measuring begins.
        warm_up: Ps,
        /// The end.
        duration: Ps,
    },
}

impl Scenario {
    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first value that is out of its range, or does not fit another.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let Self { npu, dma, host, client, .. } = self;
        // Times are bounded to an hour, so that sums stay far below what a number holds.
        let time = |name, value| (name, value, 0, 3_600_000_000_000);
        let rate = |name, value| (name, value, 1_000, 10_000_000_000_000);
        let positive = |name, value, high| (name, value, 1, high);
        let ranges = [
            positive("duration (ps)", self.duration.0, 3_600 * Ps::SECOND.0),
            positive("npu.cores", npu.cores.into(), 64),
            positive("npu.threads_per_core", npu.threads_per_core.into(), 64),
            time("npu.packet_ns", npu.packet_ns),
            ("npu.jitter_percent", npu.jitter_percent, 0, 100),
            time("npu.timeout_ns", npu.timeout_ns),
            positive("npu.check_ns", npu.check_ns, 1_000_000_000),
            time("npu.send_ns", npu.send_ns),
            positive("npu.send_queue", npu.send_queue, 1 << 20),
            time("npu.message_ns", npu.message_ns),
            positive("npu.queue", npu.queue as u64, 1 << 20),
            positive("npu.buffers", npu.buffers, 1 << 20),
            positive("npu.descriptors", npu.descriptors as u64, 1 << 16),
            positive("npu.ring", npu.ring, u32::MAX.into()),
            ("npu.max_bytes", npu.max_bytes as u64, 1_500, 65_535),
            ("npu.idle_floor_ns", npu.idle_floor_ns, 1, 3_600_000_000_000),
            ("npu.hold_budget_ns", npu.hold_budget_ns, 1_000, 3_600_000_000_000),
            rate("dma.bits_per_second", dma.bits_per_second),
            time("dma.request_ns", dma.request_ns),
            positive("dma.requests", dma.requests as u64, 1 << 20),
            time("host.interrupt_ns", host.interrupt_ns),
            time("host.packet_ns", host.packet_ns),
            rate("host.copy_bits_per_second", host.copy_bits_per_second),
            positive("host.receive_buffer", host.receive_buffer.into(), 65_535),
            rate("host.read_bits_per_second", host.read_bits_per_second.unwrap_or(1_000)),
            ("client.connections", client.connections.into(), 0, 1_024),
            ("client.idle_connections", client.idle_connections.into(), 0, 1_024),
            time("client.stagger_ns", client.stagger_ns),
            time("client.head_start_ns", client.head_start_ns),
            positive("client.bytes", client.bytes.unwrap_or(1), 1 << 40),
            rate("client.link_bits_per_second", client.link_bits_per_second),
            ("client.segment", client.segment.into(), 64, 1_460),
            ("client.send_window", client.send_window.into(), client.segment.into(), 1 << 30),
            positive("client.initial_window", client.initial_window.into(), 1 << 16),
            ("client.rto_ns", client.rto_ns, 1_000, 3_600_000_000_000),
            ("client.syn_rto_ns", client.syn_rto_ns, 1_000, 3_600_000_000_000),
            positive("client.syn_tries", client.syn_tries.into(), 100),
            positive("client.corrupt_every", client.corrupt_every.unwrap_or(1).into(), 1 << 30),
            positive("client.swap_every", client.swap_every.unwrap_or(1).into(), 1 << 30),
        ];
        for (name, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return Err(ScenarioError::Range { name, value, low, high });
            }
        }
        self.check_relations()
    }

    fn check_relations(&self) -> Result<(), ScenarioError> {
        let Self { npu, warm_up, duration, .. } = self;
        let threads = npu.receive_threads();
        if threads == 0 {
            return Err(ScenarioError::Threads((npu.cores * npu.threads_per_core).into()));
        }
        if npu.ring * u64::from(threads) * DESCRIPTOR_LEN > SHARED_MEMORY {
            return Err(ScenarioError::SharedMemory { ring: npu.ring, threads });
        }
        if warm_up >= duration {
            return Err(ScenarioError::WarmUp { warm_up: *warm_up, duration: *duration });
        }
        Ok(())
    }
}
