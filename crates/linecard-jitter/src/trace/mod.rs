//! What the kernel was seen to do: events on one clock, from several cores, in order of time.
//!
//! Where they come from does not matter here: BPF, tracefs, or a test that makes them up.

mod join;
mod timeline;

pub use join::{Counts, Joined, Passage, Stage};
pub use timeline::{Occupant, Span, Timeline};

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of a thread's name that an event carries.
pub const NAME_LEN: usize = 8;

/// Softirqs by number, of `linux/interrupt.h`.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// The softirq that receives packets.
pub const NET_RX: u8 = 3;

/// Something that a core did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// The core's number.
    pub core: u16,
    /// What.
    pub what: What,
}

/// What a core did. Packets are those of the stream that is traced, and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A packet was handed to the driver (`net_dev_start_xmit`).
    Transmit {
        /// Its number.
        sequence: u64,
    },
    /// A packet came up from its driver (`netif_receive_skb`).
    Receive {
        /// Its number.
        sequence: u64,
    },
    /// A packet lies in the socket, and its reader is told (`sk_data_ready`).
    Ready,
    /// The socket had no room for a packet (`udp_fail_queue_rcv_skb`).
    Refused,
    /// The softirq that receives packets was asked for (`softirq_raise`).
    Raise,
    /// One NAPI poll has ended (`napi_poll`).
    Poll {
        /// Packets that it took.
        work: u32,
    },
    /// A device's interrupt began.
    InterruptEntry {
        /// Its number in `/proc/interrupts`.
        number: u32,
    },
    /// It ended.
    InterruptExit,
    /// An interrupt of the processor's own began: timers, calls from other cores.
    VectorEntry {
        /// Which.
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
    /// A timer's function began.
    TimerEntry {
        /// Its address, a key of [`Names::functions`].
        function: u64,
    },
    /// It ended.
    TimerExit,
    /// The core went on with another thread.
    Switch {
        /// The thread that was on it; 0 is the idle loop.
        from: u32,
        /// Whether that one would have gone on: it was displaced, it did not wait.
        is_displaced: bool,
        /// The thread that is on it now.
        to: u32,
        /// The beginning of its name.
        name: [u8; NAME_LEN],
    },
    /// A thread of interest was made runnable.
    Wakeup {
        /// Which.
        thread: u32,
    },
    /// The core went to sleep.
    Sleep {
        /// How deep, as the kernel numbers its states.
        state: u32,
    },
    /// The core woke.
    Awake,
}

/// Interrupts without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vector {
    /// The core's timer.
    LocalTimer,
    /// Another core asks for the scheduler.
    Reschedule,
    /// Another core asks for a function.
    CallFunction,
    /// Work that the core left itself.
    IrqWork,
}

impl Vector {
    /// All.
    pub const ALL: [Self; 4] =
        [Self::LocalTimer, Self::Reschedule, Self::CallFunction, Self::IrqWork];

    /// For people.
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

/// Names behind numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Threads, by number.
    pub threads: BTreeMap<u32, String>,
    /// Devices' interrupts, by number.
    pub interrupts: BTreeMap<u32, String>,
    /// Timers' functions, by address.
    pub functions: BTreeMap<u64, String>,
}

/// A trace: events, what is missing of it, names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// In order of time.
    pub events: Vec<Event>,
    /// Events that happened and are not in it: the record was full, or a probe was busy.
    pub lost: u64,
    /// The cores that were traced.
    pub cores: Vec<u16>,
    /// Names.
    pub names: Names,
    /// What receives.
    pub sink: Option<Seat>,
    /// What sends, where it is on this host.
    pub generator: Option<Seat>,
}

/// A thread with a core of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The thread.
    pub thread: u32,
    /// The core that it is pinned to.
    pub core: u16,
}

impl Trace {
    /// Sorts by time; events of one core at the same time stay as they are.
    pub fn sort(&mut self) {
        self.events.sort_by_key(|event| event.at_ns);
    }
}
