//! Events that the kernel recorded: on one clock, from several cores, sorted by time.
//!
//! Their source does not matter here: BPF, tracefs, or a test.

mod join;
mod timeline;

pub use join::{Counts, Joined, PacketTimes, Stage};
pub use timeline::{Occupant, Span, Timeline};

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of a thread's name in an event.
pub const NAME_LEN: usize = 8;

/// Softirqs by number, of `linux/interrupt.h`.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// The softirq that receives packets.
pub const NET_RX: u8 = 3;

/// An event on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time.
    pub at_ns: u64,
    /// Number of the core.
    pub core: u16,
    /// Kind of event.
    pub what: EventKind,
}

/// The kinds of events. Packets are always those of the traced stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A packet was handed to the driver (`net_dev_start_xmit`).
    Transmit {
        /// Its sequence number.
        sequence: u64,
    },
    /// A packet was received from its driver (`netif_receive_skb`).
    Receive {
        /// Its sequence number.
        sequence: u64,
    },
    /// A packet is in the socket, and its reader is notified (`sk_data_ready`).
    Ready {
        /// The lower half of the socket's cookie; 0 where only one socket is traced.
        socket: u32,
    },
    /// The socket had no room for a packet (`udp_fail_queue_rcv_skb`).
    Refused,
    /// The softirq that receives packets was requested (`softirq_raise`).
    Raise,
    /// One NAPI poll has ended (`napi_poll`).
    Poll {
        /// Packets that it received.
        work: u32,
    },
    /// A device interrupt began.
    InterruptEntry {
        /// Its number in `/proc/interrupts`.
        number: u32,
    },
    /// It ended.
    InterruptExit,
    /// An interrupt without a device began: timers, calls from other cores.
    VectorEntry {
        /// Kind of interrupt.
        vector: Vector,
    },
    /// It ended.
    VectorExit,
    /// A softirq began.
    SoftirqEntry {
        /// Its number, an index of [`SOFTIRQS`].
        number: u8,
    },
    /// It ended.
    SoftirqExit,
    /// A timer function began.
    TimerEntry {
        /// Its address, a key of [`Names::functions`].
        function: u64,
    },
    /// It ended.
    TimerExit,
    /// The core switched to another thread.
    Switch {
        /// The previous thread; 0 is the idle loop.
        from: u32,
        /// Whether the previous thread was preempted while runnable.
        is_displaced: bool,
        /// The next thread.
        to: u32,
        /// The beginning of the next thread's name.
        name: [u8; NAME_LEN],
    },
    /// A traced thread was made runnable.
    Wakeup {
        /// The thread.
        thread: u32,
    },
    /// The core entered an idle state.
    Sleep {
        /// Number of the idle state.
        state: u32,
    },
    /// The core woke up.
    Awake,
}

/// Interrupts without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vector {
    /// The core's timer.
    LocalTimer,
    /// Another core requests the scheduler.
    Reschedule,
    /// Another core requests a function call.
    CallFunction,
    /// Work that the core queued for itself.
    IrqWork,
}

impl Vector {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::LocalTimer, Self::Reschedule, Self::CallFunction, Self::IrqWork];

    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "local timer",
            Self::Reschedule => "rescheduling IPI",
            Self::CallFunction => "function call IPI",
            Self::IrqWork => "IRQ work",
        }
    }
}

/// Names for numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Threads, by id.
    pub threads: BTreeMap<u32, String>,
    /// Device interrupts, by number.
    pub interrupts: BTreeMap<u32, String>,
    /// Timer functions, by address.
    pub functions: BTreeMap<u64, String>,
}

/// A trace: events, losses and names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Sorted by time.
    pub events: Vec<Event>,
    /// Events that were not recorded: the buffer was full, or a probe was busy.
    pub lost: u64,
    /// The traced cores.
    pub cores: Vec<u16>,
    /// Names.
    pub names: Names,
    /// The receiving thread.
    pub sink: Option<PinnedThread>,
    /// The sending thread, if it is on this host.
    pub generator: Option<PinnedThread>,
    /// Whether the sender is on another host: packets have no events before they reach this one.
    pub is_sender_remote: bool,
}

/// A thread pinned to a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinnedThread {
    /// The thread.
    pub thread: u32,
    /// The core it is pinned to.
    pub core: u16,
}

impl Trace {
    /// When each packet was received from its driver, by its sequence number; the first time if it was several times.
    #[must_use]
    pub fn received(&self) -> BTreeMap<u64, u64> {
        let received = self.events.iter().rev().filter_map(|event| match event.what {
            EventKind::Receive { sequence } => Some((sequence, event.at_ns)),
            _ => None,
        });
        received.collect()
    }

    /// On which cores packets were received, and how many.
    #[must_use]
    pub fn received_on(&self) -> BTreeMap<u16, u64> {
        let mut cores = BTreeMap::new();
        for event in &self.events {
            if matches!(event.what, EventKind::Receive { .. }) {
                *cores.entry(event.core).or_default() += 1;
            }
        }
        cores
    }

    /// Sorts by time; events of one core at the same time keep their order.
    pub fn sort(&mut self) {
        self.events.sort_by_key(|event| event.at_ns);
    }
}
