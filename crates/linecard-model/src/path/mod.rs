//! From the wire to the application: a periodic stream through DMA, interrupt, softirq and socket of
//! one core (Toussaint, Hawari and Clausen, "Chasing Linux Jitter Sources for Uncompressed Video",
//! CNSM 2018; papers/linux-jitter.txt, sections II and IV).
//!
//! Each stage takes a time that is drawn. What the paper switches on one by one is a switch here:
//! interrupt throttling, sleep states (no `idle=poll`), a socket that blocks. Stage times are fitted to
//! the shapes of its figures 5 to 11; it prints no tables.
//!
//! Bounds: [`NAPI_BUDGET`] packets to a poll; the socket holds at most what came between two reads.

mod config;
mod cpu;
mod run;
mod spread;

pub use config::{Config, Core, Load, Stage, Stages};
pub use run::{Times, busy_loop, simulate};
pub use spread::Spread;

use crate::Ps;

/// Packets that the kernel takes from the device before it looks at anything else.
pub const NAPI_BUDGET: usize = 64;

/// A stream and the times of the stages on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Between two packets at the sender.
    pub period: Ps,
    /// How much later than that a packet comes.
    pub wire: Spread,
    /// Until the packet is in memory.
    pub dma: Spread,
    /// At least between two interrupts (ITR); none when zero.
    pub throttle: Ps,
    /// From the interrupt to its handler, on a core that is awake.
    pub interrupt: Spread,
    /// More than that on a core that is idle, where idle cores sleep; none with `idle=poll`.
    pub sleep: Option<Spread>,
    /// The handler, and the kernel's way to the first packet.
    pub handler: Spread,
    /// The network stack, per packet, up to the socket.
    pub softirq: Spread,
    /// A blocked application is woken: scheduler and context switch. None when it polls.
    pub wake: Option<Spread>,
    /// A read of a packet from the socket.
    pub read: Spread,
    /// What stops the core, whatever it does: how long until the next, and how long it takes.
    pub stolen: Option<(Spread, Spread)>,
    /// Draws all of these.
    pub seed: u64,
}

impl Default for Stream {
    /// The paper's baseline (section IV.A): no throttling, `idle=poll`, an application that polls.
    fn default() -> Self {
        Config::default().stream()
    }
}

impl Stream {
    /// Idle cores sleep: `idle=poll` is left out (figure 8).
    #[must_use]
    pub fn with_sleep(self) -> Self {
        // A core that polls a socket sleeps seldom, one that is left to itself each time. The longest
        // wake-ups show only where it does.
        let sleep = if self.wake.is_some() {
            Spread::ns(1_000, 1_000).or(500, 45_000)
        } else {
            Spread::ns(0, 200).or(1_000, 8_000)
        };
        Self { sleep: Some(sleep), ..self }
    }

    /// The application blocks in its read (figure 10).
    #[must_use]
    pub fn with_blocking(self) -> Self {
        Self { wake: Some(Spread::ns(1_000, 500).or(1_000, 7_500)), ..self }
    }

    /// Interrupts are throttled (figure 11).
    #[must_use]
    pub fn with_throttle(self, throttle: Ps) -> Self {
        Self { throttle, ..self }
    }
}
