//! The paper's experiments, E0 to E8: all sources of jitter are removed, then added back one by
//! one.
//!
//! Source: Toussaint, Hawari, Clausen, "Chasing Linux Jitter Sources for Uncompressed Video", 2018,
//! section IV. Conditions of the paper that this host cannot provide are emulated and marked
//! *emulated*, or marked as not testable here.

use super::session::{Conditions, Receive};
use super::sink::SinkMode;
use std::time::Duration;

/// The interrupt throttling of section IV.E.
pub const THROTTLE: Duration = Duration::from_micros(100);
/// Period of the experiments in which sender and sink share a core.
const SLOW_PERIOD_PS: u64 = 400_000_000;

/// One experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Experiment {
    /// Quality of the stream.
    E0,
    /// Busy loop without a network.
    E1,
    /// All sources of jitter removed.
    E2,
    /// The same, from interrupt to application.
    E3,
    /// Cores may sleep.
    E4,
    /// Interrupts on another core.
    E5,
    /// Interrupts on another core, which is busy.
    E6,
    /// The receiver blocks.
    E7,
    /// Interrupts are throttled.
    E8,
}

/// How faithfully this host reproduces an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fidelity {
    /// As in the paper, with a virtual cable as the network.
    Real,
    /// The same cause, produced in another way.
    Emulated(&'static str),
    /// Not possible on this host.
    NotHere(&'static str),
}

/// The way of a stream, as far as experiments are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The loopback interface: packets are received on the sending core, within the send call.
    Loopback,
    /// A virtual cable between two namespaces.
    Cable,
    /// An interface of this host that is not known by name; its settings are left alone.
    Unnamed,
    /// An interface of this host without interrupts of its own.
    Virtual,
    /// An interface of this host whose interrupts can be moved.
    Adapter,
}

/// Runs of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setup {
    /// The busy loop.
    Dummy,
    /// A stream.
    Stream(Box<Conditions>),
}

impl Experiment {
    /// All experiments.
    pub const ALL: [Self; 9] =
        [Self::E0, Self::E1, Self::E2, Self::E3, Self::E4, Self::E5, Self::E6, Self::E7, Self::E8];

    /// Its name.
    #[must_use]
    pub fn id(self) -> &'static str {
        ["E0", "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8"][self as usize]
    }

    /// A one-line description.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::E0 => "quality of the stream",
            Self::E1 => "busy loop without a network",
            Self::E2 => "baseline: all sources removed",
            Self::E3 => "baseline, from interrupt to application",
            Self::E4 => "cores may sleep",
            Self::E5 => "interrupts between cores",
            Self::E6 => "interrupts on another, busy core",
            Self::E7 => "the receiver blocks",
            Self::E8 => "interrupts throttled to one in 100 µs",
        }
    }

    /// The result published in the paper.
    #[must_use]
    pub fn published(self) -> &'static str {
        match self {
            Self::E0 => "deviation 0.6 µs at the ingress",
            Self::E1 => "4 spikes of about 15 µs in 7.41 s (figure 5)",
            Self::E2 => "a band of 1 µs around 7.41 µs (figure 6b)",
            Self::E3 => "deviation grows from interrupt to application (figure 7)",
            Self::E4 => "many spikes of about 15 µs (figure 8)",
            Self::E5 => "slightly more jitter (figure 9a)",
            Self::E6 => "frequent spikes of about 15 µs (figure 9b)",
            Self::E7 => "spikes up to 16 µs, 60 µs with sleep states (figure 10)",
            Self::E8 => "steps of 100 µs, which hide all else (figure 11)",
        }
    }

    /// Fidelity on this host, over this way.
    #[must_use]
    pub fn reality(self, way: Way) -> Fidelity {
        match (self, way) {
            (Self::E5 | Self::E6 | Self::E8, Way::Loopback) => {
                return Fidelity::NotHere("it takes a cable between namespaces, and for that root");
            }
            (Self::E5 | Self::E6 | Self::E8, Way::Unnamed) => {
                return Fidelity::NotHere(
                    "it takes the interface that the stream arrives at: name it, as in \
                     --sink-address 192.0.2.1:5004%eth1",
                );
            }
            (Self::E5 | Self::E6, Way::Adapter) => return Fidelity::Real,
            (Self::E2 | Self::E3, Way::Adapter) => {
                return Fidelity::Emulated("boot flags are as they are");
            }
            (Self::E2 | Self::E3, Way::Unnamed | Way::Virtual) => {
                return Fidelity::Emulated(
                    "packets come up where the interface has them; boot flags are as they are",
                );
            }
            (Self::E5, Way::Virtual) => {
                return Fidelity::Emulated("packets are handed to the sink's core (RPS)");
            }
            _ => {}
        }
        match self {
            Self::E1 | Self::E7 => Fidelity::Real,
            Self::E0 => Fidelity::Emulated(
                "the sender's own record, by its kernel's clock, for the capture",
            ),
            Self::E8 => Fidelity::Emulated(
                "NAPI deferral by a kernel timer in place of throttled interrupts",
            ),
            Self::E2 | Self::E3 => Fidelity::Emulated(
                "packets come up on the sender's core; boot flags are as they are",
            ),
            Self::E4 => Fidelity::Emulated("the receiver blocks, so that its core may sleep"),
            Self::E5 => {
                Fidelity::Emulated("the sender's core interrupts the sink's for each packet (RPS)")
            }
            Self::E6 => {
                Fidelity::Emulated("threaded NAPI, on a core with a thread that never waits")
            }
        }
    }

    /// The setup of the experiment over this way; `base` gives period, count and cores.
    #[must_use]
    pub fn setup(self, base: &Conditions, way: Way) -> Setup {
        let other = base.spare_core();
        let base = &match way {
            // As in the paper, on the sink's core unless the experiment is about that.
            Way::Adapter => {
                let receive = Receive::Interrupt { core: base.cores.sink };
                Conditions { receive, ..base.clone() }
            }
            _ => base.clone(),
        };
        let stream = match self {
            Self::E1 => return Setup::Dummy,
            Self::E0 => Conditions { traced: None, ..base.clone() },
            Self::E2 | Self::E3 => base.clone(),
            Self::E4 => Conditions { mode: SinkMode::Block, is_awake: false, ..base.clone() },
            Self::E5 => {
                let receive = match (way, other) {
                    (Way::Adapter, Some(core)) => Receive::Interrupt { core },
                    _ => Receive::Sink,
                };
                Conditions { receive, ..base.clone() }
            }
            Self::E6 => busy(base, way, other),
            Self::E7 => Conditions { mode: SinkMode::Block, ..base.clone() },
            Self::E8 => Conditions { deferral: Some(THROTTLE), ..base.clone() },
        };
        Setup::Stream(Box::new(stream))
    }
}

/// Without a third core, the busy thread shares the sender's core; the sender then sleeps between
/// packets that are far apart.
fn busy(base: &Conditions, way: Way, other: Option<u16>) -> Conditions {
    let sink = base.cores.sink;
    let core = other.unwrap_or(if base.is_sender_remote { sink } else { base.cores.generator });
    let receive = match way {
        Way::Adapter => Receive::Interrupt { core },
        _ => Receive::Thread { core },
    };
    let mut conditions = Conditions { receive, spinner: Some(core), ..base.clone() };
    if other.is_none() {
        let seconds_ps = base.period_ps.saturating_mul(base.count);
        conditions.period_ps = SLOW_PERIOD_PS.max(base.period_ps);
        conditions.count = (seconds_ps / conditions.period_ps).max(2);
        conditions.sleeping_sender = true;
    }
    conditions
}
