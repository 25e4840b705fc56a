//! From the wire to the application: a periodic stream through DMA, interrupt, softirq and socket of
//! one core (Toussaint, Hawari and Clausen, "Chasing Linux Jitter Sources for Uncompressed Video",
//! CNSM 2018, sections II and IV).
//!
//! Each stage takes a random time. The sources that the paper enables one by one are switches here:
//! interrupt throttling, sleep states (no `idle=poll`), a blocking socket. Stage times are fitted
//! to the shapes of its figures 5 to 11, where they are not those measured on a host; it prints no tables.
//!
//! Bounds: [`NAPI_BUDGET`] packets per poll; the socket holds at most the packets between two
//! reads.

mod config;
mod cpu;
mod run;
mod spread;

pub use config::{Config, Core, Load, Stage, Stages};
pub use run::{Times, busy_loop, simulate};
pub use spread::{LEVELS, Spread};

use crate::Ps;

/// Packets that the kernel takes from the device in one poll.
pub const NAPI_BUDGET: usize = 64;

/// A stream and the stage times on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Interval between packets at the sender.
    pub period: Ps,
    /// Additional delay of a packet on the wire.
    pub wire: Spread,
    /// Time of the transfer into memory.
    pub dma: Spread,
    /// The shortest interval between interrupts (ITR); no throttling if zero.
    pub throttle: Ps,
    /// Time from the interrupt to its handler, on a core that is awake.
    pub interrupt: Spread,
    /// Additional wake-up time on an idle core, if idle cores sleep; none with `idle=poll`.
    pub sleep: Option<Spread>,
    /// The handler, and the kernel's path to the first packet.
    pub handler: Spread,
    /// The network stack, per packet, up to the socket.
    pub softirq: Spread,
    /// Wake-up of a blocked application: scheduler and context switch. None if it polls.
    pub wake: Option<Spread>,
    /// Reading a packet from the socket.
    pub read: Spread,
    /// Interruptions of the core: interval and duration.
    pub stolen: Option<(Spread, Spread)>,
    /// Seed of all times.
    pub seed: u64,
}

impl Default for Stream {
    /// The paper's baseline (section IV.A): no throttling, `idle=poll`, an application that polls.
    fn default() -> Self {
        Config::default().stream()
    }
}

impl Stream {
    /// Idle cores sleep: without `idle=poll` (figure 8).
    #[must_use]
    pub fn with_sleep(self) -> Self {
        // A core that polls a socket rarely sleeps, an otherwise idle one sleeps each time. The
        // longest wake-ups only show in the latter case.
        let sleep = if self.wake.is_some() {
            Spread::ns(1_000, 1_000).or(500, 45_000)
        } else {
            Spread::ns(0, 200).or(1_000, 8_000)
        };
        Self { sleep: Some(sleep), ..self }
    }

    /// The application blocks in `read` (figure 10).
    #[must_use]
    pub fn with_blocking(self) -> Self {
        Self { wake: Some(Spread::ns(1_000, 500).or(1_000, 7_500)), ..self }
    }
}
