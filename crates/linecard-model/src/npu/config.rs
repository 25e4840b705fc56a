//! The parameters: the unit, its DMA engine, the host behind it and the client before it.
//!
//! Values named "published" are those of Li, Chen, Su. The paper gives few times; the others are ours, and their
//! documentation says so.

use crate::Ps;
use garde::Validate;
pub use linecard::offload::active_ack::Mode;
use linecard_config::{Duration, Maybe, Rate, Switch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// Threads that do not receive: one sends, one checks for timeouts, one has the shell (VI).
pub const OTHER_THREADS: u16 = 3;
/// Shared memory that holds packet descriptors, in bytes (VI).
pub const SHARED_MEMORY: u64 = 16 << 20;
/// Bytes of a packet descriptor: ours; address, length and state of an aggregate's pages, in a cache line.
pub const DESCRIPTOR_LEN: u64 = 64;

/// Times are bounded to an hour, so that sums stay far below the largest number.
const HOUR_NS: u64 = 3_600_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// The most instructions or accesses of a step.
const MAX_STEPS: u32 = 1_000_000;
/// The fastest link and engine.
const MAX_RATE: Rate = Rate::tera(10);

/// Receive offload on a network processor: client, link, processor, DMA engine, host.
///
/// ```
/// use linecard_model::npu::{Config, run};
/// let mut config = Config::default();
/// config.client.connections = 2;
/// config.run.duration = linecard_config::Duration::from_ms(10);
/// let outcome = run(&config)?;
/// assert!(outcome.is_conserved() && outcome.host.accepted > 0);
///
/// config.npu.ring = 1_000_000;
/// let error = run(&config).expect_err("too much for the shared memory");
/// assert!(error.to_string().contains("16777216 bytes"));
/// # Ok::<(), linecard_config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The run itself.
    #[garde(dive)]
    pub run: Run,
    /// The network processor.
    #[garde(dive)]
    pub npu: Npu,
    /// Its cores, the memory behind them, and the steps of a packet.
    #[garde(dive)]
    pub core: Core,
    /// Its DMA engine.
    #[garde(dive)]
    pub dma: Dma,
    /// The receiving host.
    #[garde(dive)]
    pub host: Host,
    /// The sending host, and the link.
    #[garde(dive)]
    pub client: Client,
}

/// The run itself.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// ports, sequence numbers and jitter follow from it
    #[garde(range(min = 0, max = i64::MAX as u64))]
    pub seed: u64,
    /// when measuring begins, before run.duration
    #[default(Duration::from_ms(8))]
    #[garde(range(min = Duration::ZERO, max = HOUR), custom(before(self.duration)))]
    pub warm_up: Duration,
    /// the end, in virtual time
    #[default(Duration::from_ms(28))]
    #[garde(range(min = Duration::from_ns(1), max = HOUR))]
    pub duration: Duration,
}

/// The thread that a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// by the Toeplitz hash of the four-tuple
    #[default]
    Hash,
    /// in turns, without regard to connections
    Spray,
}

/// The DMA request that is served next (V.B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// the newest, as published first
    Stack,
    /// the oldest
    Fifo,
    /// the oldest of each thread in turn: the published balancer, which costs one more message
    #[default]
    RoundRobin,
}

/// Acknowledgments by the unit on the host's behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActiveAck {
    /// none
    Off,
    /// with the published window of 0xFFFF
    #[default]
    Paper,
    /// within the window that the host has offered
    Honest,
}

/// The network processor.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Npu {
    /// cores (published: 4)
    #[default(4)]
    #[garde(range(min = 1, max = 64), custom(some_thread_receives(self.threads_per_core)))]
    pub cores: u16,
    /// hardware threads per core; three of all do not receive (published: 4)
    #[default(4)]
    #[garde(range(min = 1, max = 64))]
    pub threads_per_core: u16,
    /// a constant time of a receive thread per packet, in which it slows no other down; "none": it follows from `core`
    ///
    /// The published plateau of 4.75 Gbit/s is 32.0 µs for each of 13 threads: 13 · 1460 · 8 bit / 32.0 µs.
    #[garde(range(min = 0, max = HOUR_NS))]
    pub packet_ns: Maybe<u64>,
    /// variation of a constant time, evenly, in per cent, so that threads do not run in step
    #[default(5)]
    #[garde(range(min = 0, max = 100))]
    pub jitter_percent: u64,
    /// a receive thread's time for a timeout message
    #[default(2_000)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub timeout_ns: u64,
    /// the timeout thread's time per connection
    #[default(200)]
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub check_ns: u64,
    /// the sending thread's time per packet
    #[default(1_000)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub send_ns: u64,
    /// packets that wait for the sending thread
    #[default(4_096)]
    #[garde(range(min = 1, max = 1 << 20))]
    pub send_queue: u64,
    /// latency of a message between threads
    #[default(100)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub message_ns: u64,
    /// packets that wait for a receive thread
    #[default(1_024)]
    #[garde(range(min = 1, max = 1 << 20))]
    pub queue: usize,
    /// packets in the unit's memory, from arrival until they are in host memory
    ///
    /// The published 4 GB would hold 2 million.
    #[default(65_536)]
    #[garde(range(min = 1, max = 1 << 20))]
    pub buffers: u64,
    /// connections of a receive thread
    #[default(256)]
    #[garde(range(min = 1, max = 1 << 16))]
    pub descriptors: usize,
    /// descriptors in a receive thread's ring, of 64 bytes; all rings share 16 MiB
    #[default(1_024)]
    #[garde(
        range(min = 1, max = u64::from(u32::MAX)),
        custom(fits_shared_memory(self.receive_threads()))
    )]
    pub ring: u64,
    /// the thread that a packet goes to (published: by hash)
    pub dispatch: Dispatch,
    /// whether packets are merged
    #[default(Switch::ON)]
    pub merge: Switch,
    /// bytes of a merged packet (published: 64 KB)
    #[default(65_535)]
    #[garde(range(min = 1_500, max = 65_535))]
    pub max_bytes: usize,
    /// no flow counts as paused for less; then for ten average intervals (published: no such floor)
    #[default(1)]
    #[garde(range(min = 1, max = HOUR_NS))]
    pub idle_floor_ns: u64,
    /// the longest time that a packet is held (published: no such limit)
    #[default(1_000_000_000)]
    #[garde(range(min = 1_000, max = HOUR_NS))]
    pub hold_budget_ns: u64,
    /// acknowledgments on the host's behalf as data comes
    pub active_ack: ActiveAck,
}

/// The cores, the memory behind them, and the steps of a packet.
///
/// The threads of a core share its pipeline: one of them issues, an instruction a cycle, until it has to wait for memory;
/// then the next one that is ready takes over. Steps are counted: `firmware/lro.c` does what the paper's algorithms do,
/// on the RV32I core of this crate, and an access is a line that is not in a cache of 8 KiB, a thread's share.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// clock of each core in MHz
    ///
    /// The paper has no figure; 1,000 is ours.
    #[default(1_000)]
    #[garde(range(min = 1, max = 10_000))]
    pub mhz: u32,
    /// cycles lost when another thread takes over the pipeline
    ///
    /// The paper says "low-switching-overhead"; 1 is ours.
    #[default(1)]
    #[garde(range(min = 0, max = 10_000))]
    pub switch_cycles: u32,
    /// latency of an access to memory
    ///
    /// The paper has no figure; 100 ns is ours, of DDR2 behind caches and a ring.
    #[default(100)]
    #[garde(range(min = 0, max = 1_000_000))]
    pub latency_ns: u64,
    /// bits per second of the memory, which all threads share (published: 800 MHz DDR2; 64 bit wide is ours)
    #[default(Rate::new(51_200_000_000))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    pub memory_rate: Rate,
    /// bytes of an access: a cache line
    #[default(32)]
    #[garde(range(min = 4, max = 4_096))]
    pub line: u32,
    /// instructions of a packet beside the following: filters, the connection, intervals, acknowledgment; counted
    #[default(358)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub instructions: u32,
    /// instructions to sum 32 bytes of a packet, which are always read; counted
    #[default(34)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub sum_instructions: u32,
    /// instructions for each packet that its connection holds: both algorithms walk the list; counted
    #[default(12)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub held_instructions: u32,
    /// accesses for each of these, counted with five connections of a thread (64 on 13): lists do not stay in the cache
    #[default(1)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub held_accesses: u32,
    /// accesses of a packet beside its own lines; counted
    #[default(4)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub accesses: u32,
    /// instructions of a packet that is only passed on, as by a normal adapter; counted
    #[default(21)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub pass_instructions: u32,
    /// accesses of such a packet; counted
    #[default(2)]
    #[garde(range(min = 0, max = MAX_STEPS))]
    pub pass_accesses: u32,
}

/// The DMA engine.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Dma {
    /// bits per second that the engine moves
    #[default(Rate::giga(16))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    #[schemars(extend("x-former" = "bits_per_second"))]
    pub rate: Rate,
    /// time per request besides
    #[default(200)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub request_ns: u64,
    /// the request that is next
    pub discipline: Discipline,
    /// requests that wait
    #[default(1 << 18)]
    #[garde(range(min = 1, max = 1 << 20))]
    pub requests: usize,
}

/// The receiving host.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// processor time of an interrupt, one for each packet from the unit
    #[default(2_000)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub interrupt_ns: u64,
    /// processor time of driver and stack per packet, merged or not
    #[default(3_000)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub packet_ns: u64,
    /// bits per second of the copy to the application
    #[default(Rate::giga(40))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    #[schemars(extend("x-former" = "copy_bits_per_second"))]
    pub copy_rate: Rate,
    /// bytes of a connection that wait for the application; windows are not scaled
    #[default(65_535)]
    #[garde(range(min = 1, max = 65_535))]
    pub receive_buffer: u32,
    /// bits per second that the application reads of a connection
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    pub read_rate: Maybe<Rate>,
}

/// When connections begin to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// each when it is made
    Each,
    /// all when all are made, as the published test program does
    #[default]
    Together,
}

/// The sending host, and the link.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Client {
    /// connections that send
    #[default(64)]
    #[garde(range(min = 0, max = 1_024))]
    pub connections: u32,
    /// connections that are opened beside them and send nothing
    #[garde(range(min = 0, max = 1_024))]
    pub idle_connections: u32,
    /// from one connection's first SYN to the next one's, idle ones last
    #[default(1_000)]
    #[garde(range(min = 0, max = HOUR_NS))]
    pub stagger_ns: u64,
    /// before the first idle connection's SYN
    #[garde(range(min = 0, max = HOUR_NS))]
    pub head_start_ns: u64,
    /// when connections begin to send
    pub start: Start,
    /// bytes that each connection sends; without an end by default
    #[garde(range(min = 1, max = 1_u64 << 40))]
    pub bytes: Maybe<u64>,
    /// bits per second on the link (published: 10 Gbit/s)
    #[default(Rate::giga(10))]
    #[garde(range(min = Rate::KILO, max = MAX_RATE))]
    #[schemars(extend("x-former" = "link_bits_per_second"))]
    pub link_rate: Rate,
    /// payload bytes of a segment
    #[default(1_460)]
    #[garde(range(min = 64, max = 1_460))]
    pub segment: u32,
    /// bytes that a connection may have outstanding: a segment at least
    #[default(65_535)]
    #[garde(range(min = 64, max = 1 << 30), custom(at_least_a_segment(self.segment)))]
    pub send_window: u32,
    /// segments outstanding in the beginning and after a retransmission timeout (RFC 3390)
    #[default(3)]
    #[garde(range(min = 1, max = 1 << 16))]
    pub initial_window: u32,
    /// retransmission timer of data, doubled with each retransmission; the least of Linux
    #[default(200_000_000)]
    #[garde(range(min = 1_000, max = HOUR_NS))]
    pub rto_ns: u64,
    /// retransmission timer of SYN (RFC 6298)
    #[default(1_000_000_000)]
    #[garde(range(min = 1_000, max = HOUR_NS))]
    pub syn_rto_ns: u64,
    /// SYNs before a connection is given up
    #[default(6)]
    #[garde(range(min = 1, max = 100))]
    pub syn_tries: u32,
    /// one frame in this many arrives with a flipped bit
    #[garde(range(min = 1, max = 1 << 30))]
    pub corrupt_every: Maybe<u32>,
    /// one frame in this many arrives after the next
    #[garde(range(min = 1, max = 1 << 30))]
    pub swap_every: Maybe<u32>,
}

impl Run {
    /// When measuring begins.
    pub(super) const fn begins(&self) -> Ps {
        Ps(self.warm_up.as_ps())
    }

    /// The end.
    pub(super) const fn ends(&self) -> Ps {
        Ps(self.duration.as_ps())
    }
}

impl ActiveAck {
    /// The mode, if there are any.
    pub(super) const fn mode(self) -> Option<Mode> {
        match self {
            Self::Off => None,
            Self::Paper => Some(Mode::Paper),
            Self::Honest => Some(Mode::WindowHonest),
        }
    }
}

impl Npu {
    /// As a normal adapter (VII): nothing is merged, nothing is acknowledged, and packets go to threads in turns, as no
    /// thread has to know a connection. Each takes the same time, without anything to look up or sort, so that the order
    /// is kept.
    #[must_use]
    pub fn normal() -> Self {
        let (merge, active_ack) = (Switch::OFF, ActiveAck::Off);
        Self { merge, active_ack, dispatch: Dispatch::Spray, jitter_percent: 0, ..Self::default() }
    }

    /// Whether packets are sorted, merged or acknowledged, and not only passed on.
    #[must_use]
    pub fn merges(&self) -> bool {
        self.merge.0 || self.active_ack.mode().is_some()
    }

    /// Threads that receive.
    #[must_use]
    pub fn receive_threads(&self) -> u16 {
        self.cores.saturating_mul(self.threads_per_core).saturating_sub(OTHER_THREADS)
    }
}

fn before(end: Duration) -> impl FnOnce(&Duration, &()) -> garde::Result {
    move |warm_up, ()| {
        if *warm_up < end {
            return Ok(());
        }
        let what = format!(
            "measuring begins at {warm_up} and the run ends at {end}: begin before the end"
        );
        Err(garde::Error::new(what))
    }
}

fn some_thread_receives(threads_per_core: u16) -> impl FnOnce(&u16, &()) -> garde::Result {
    move |cores, ()| {
        let threads = cores.saturating_mul(threads_per_core);
        if threads > OTHER_THREADS {
            return Ok(());
        }
        Err(garde::Error::new(format!(
            "{threads} hardware threads: {OTHER_THREADS} send, check timeouts and serve the shell, so at least {} are \
             needed",
            OTHER_THREADS + 1
        )))
    }
}

fn fits_shared_memory(threads: u16) -> impl FnOnce(&u64, &()) -> garde::Result {
    move |ring, ()| {
        let threads = u64::from(threads).max(1);
        let bytes = ring.saturating_mul(threads).saturating_mul(DESCRIPTOR_LEN);
        if bytes <= SHARED_MEMORY {
            return Ok(());
        }
        Err(garde::Error::new(format!(
            "rings of {ring} descriptors for {threads} threads take {bytes} bytes: shared memory has {SHARED_MEMORY} \
             bytes, so choose at most {}",
            SHARED_MEMORY / DESCRIPTOR_LEN / threads
        )))
    }
}

fn at_least_a_segment(segment: u32) -> impl FnOnce(&u32, &()) -> garde::Result {
    move |window, ()| {
        if *window >= segment {
            return Ok(());
        }
        Err(garde::Error::new(format!("{window} is less than a segment: choose {segment} or more")))
    }
}
