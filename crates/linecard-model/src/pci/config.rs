//! What there is to decide about adapter, server and load, and where it came from.

use super::bus::PCI_HZ;
use crate::Ps;

/// A run of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The adapter.
    pub adapter: Adapter,
    /// The server.
    pub server: Server,
    /// What its software costs.
    pub costs: Costs,
    /// What the clients do.
    pub load: Load,
    /// Draws the clients' starts and answers.
    pub seed: u64,
    /// Not measured, at the beginning.
    pub warm_up: Ps,
    /// Measured.
    pub duration: Ps,
}

/// The adapter and its bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapter {
    /// Bus clocks a second.
    pub bus_hz: u64,
    /// Room for received bytes, 1518 … 2²⁴. The paper has no figure; 64 KiB is ours.
    pub fifo_bytes: u32,
    /// Bytes of a frame that have to be there before the bus is asked for, 0 … 1518. The paper has no
    /// figure; 400 is fitted to its 100 wait states of a frame.
    pub threshold_bytes: u32,
    /// Receive buffers, 1 … 65536. The paper has no figure: 512 hold all that 70 sessions may send.
    pub buffers: u32,
    /// Buffers returned together, 1 … the number of buffers; the paper saw about 18.
    pub requeue_batch: u32,
    /// Returns a batch by a single write instead of one for each buffer, as the paper suggests.
    pub requeue_by_one_write: bool,
}

/// The server's processors and what runs where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Clock of each processor in MHz, 1 … 10000.
    pub mhz: u32,
    /// Processors, 1 … 16.
    pub cpus: u8,
    /// Whether the interrupt handler copies frames out of the receive buffers.
    pub copies: bool,
    /// Where the protocol work is done.
    pub protocol: Protocol,
}

/// Where protocol work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// In deferred tasks on the processor that took the interrupt, when no frame waits; as measured.
    Deferred,
    /// In the interrupt handler itself: nothing is deferred.
    InHandler,
    /// On a processor of its own, beside the interrupt handler: the paper's "deserializing".
    Parallel,
}

/// What the server's software costs. Fitted once, to these: the handler takes 650 bus clocks
/// (19.5 µs) of a frame at 400 MHz; 210 frames take 4.9 ms there with all that belongs to them
/// (figure 8); at 700 MHz eight clients are just served, 15.35 µs a frame (figures 2 and 9, whose
/// parts add up to 15.4); beside one processor at 100 %, three others are at 10 % each at 550 MHz.
/// What does not go with the clock between 400 and 700 MHz is taken to be the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Cycles of the interrupt handler for a frame, beside the copy.
    pub handler_cycles: u32,
    /// Copy from memory to memory: picoseconds a byte, whatever the processor's clock.
    pub copy_ps_per_byte: u32,
    /// Cycles of protocol work for a frame or a request.
    pub protocol_cycles: u32,
    /// Cycles of the application for a frame.
    pub application_cycles: u32,
}

/// What clients do: each session asks for a file, receives it, and asks for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Clients, 1 … 64, each on a link of [`Load::client_bps`].
    pub clients: u32,
    /// Sessions of each client, 1 … 64.
    pub sessions: u32,
    /// Frames that a session may have sent without an answer, 2 … 1024. The paper has no figure;
    /// 6 is the window of Windows NT 4.0, 8760 bytes.
    pub window_frames: u32,
    /// Bytes of a file, 1 … 2³⁰.
    pub file_bytes: u32,
    /// Bits per second of a client's link.
    pub client_bps: u64,
    /// What a client and the switch take to answer, at least; up to twice this is drawn. The paper
    /// has no figure; ours is 50 µs.
    pub answer: Ps,
}

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Out of its range.
    #[error("{name} is {value}: choose {low} to {high}")]
    Range {
        /// Which value.
        name: &'static str,
        /// What it is.
        value: u64,
        /// Its least.
        low: u64,
        /// Its most.
        high: u64,
    },
    /// No such bus clock.
    #[error(transparent)]
    Clock(#[from] crate::ClockError),
}

impl Default for Config {
    /// The 700 MHz server with eight clients of six sessions each, at which the paper saw most.
    fn default() -> Self {
        Self {
            adapter: Adapter::default(),
            server: Server { mhz: 700, cpus: 4, copies: true, protocol: Protocol::Deferred },
            costs: Costs::default(),
            load: Load::default(),
            seed: 1,
            warm_up: Ps::from_ns(50_000_000),
            duration: Ps::from_ns(200_000_000),
        }
    }
}

impl Default for Adapter {
    fn default() -> Self {
        Self {
            bus_hz: PCI_HZ,
            fifo_bytes: 65_536,
            threshold_bytes: 400,
            buffers: 512,
            requeue_batch: 18,
            requeue_by_one_write: false,
        }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            handler_cycles: 5_432,
            copy_ps_per_byte: 3_900,
            protocol_cycles: 1_172,
            application_cycles: 2_960,
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            clients: 8,
            sessions: 6,
            window_frames: 6,
            file_bytes: 100_000,
            client_bps: 100_000_000,
            answer: Ps::from_ns(50_000),
        }
    }
}

impl Config {
    /// Refuses what cannot be run.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let (adapter, server, load) = (&self.adapter, &self.server, &self.load);
        let second = Ps::SECOND.0;
        let ranges = [
            ("fifo_bytes", adapter.fifo_bytes.into(), (1_518, 1 << 24)),
            ("threshold_bytes", adapter.threshold_bytes.into(), (0, 1_518)),
            ("buffers", adapter.buffers.into(), (1, 65_536)),
            ("requeue_batch", adapter.requeue_batch.into(), (1, adapter.buffers.into())),
            ("mhz", server.mhz.into(), (1, 10_000)),
            ("cpus", server.cpus.into(), (1, 16)),
            ("clients", load.clients.into(), (1, 64)),
            ("sessions", load.sessions.into(), (1, 64)),
            ("window_frames", load.window_frames.into(), (2, 1_024)),
            ("file_bytes", load.file_bytes.into(), (1, 1 << 30)),
            ("client_bps", load.client_bps, (1_000_000, 1_000_000_000)),
            ("warm_up", self.warm_up.0, (0, 100 * second)),
            ("duration", self.duration.0, (1_000_000_000, 100 * second)),
        ];
        for (name, value, (low, high)) in ranges {
            if !(low..=high).contains(&value) {
                return Err(ConfigError::Range { name, value, low, high });
            }
        }
        Ok(())
    }
}
