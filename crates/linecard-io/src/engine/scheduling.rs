//! The scheduling class of an engine's threads.

use super::boost;
use super::idle::Idle;
use crate::sys::schedule;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::{io, thread};

/// The real-time priority: the lowest, so that other real-time threads of the system come first.
const PRIORITY: u8 = 1;

/// The scheduling class of threads.
///
/// An ordinary thread shares its core with all others that want to run, and a hundred connections
/// have a hundred threads at their ends. While it waits, packets are lost from receive rings. The
/// kernel's own network stack does not wait: it runs in the context of the interrupted thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// As other threads of the system.
    #[default]
    Normal,
    /// Real-time (`SCHED_FIFO`), with the lowest priority: before all ordinary threads. In 10 ms a
    /// thread sleeps for 0.5 ms at least, which leaves 5 % of its core to them. Requires root or
    /// `CAP_SYS_NICE`.
    Realtime,
    /// Real-time while a thread is busy (all the time, if the kernel lends no priority by futexes,
    /// `FUTEX_LOCK_PI`), if that is permitted, threads sleep while they have nothing to do, and there
    /// are fewer of them than cores; otherwise normal. A process that was started in another
    /// class (`chrt`, `CPUSchedulingPolicy=` of systemd) keeps it. The kernel wakes an ordinary thread where its
    /// packet has arrived, and a real-time one on the core where it ran before: that is why a thread
    /// that only passes single packets is an ordinary one.
    Automatic,
}

/// The class that a thread has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Class {
    /// As other threads of the system.
    #[default]
    Ordinary,
    /// As other threads of the system, since no other is permitted.
    Refused,
    /// Real-time while it is busy.
    WhileBusy,
    /// Real-time.
    Realtime,
}

impl Class {
    /// Whether it may run in real time.
    pub(super) fn is_realtime(self) -> bool {
        matches!(self, Self::WhileBusy | Self::Realtime)
    }
}

thread_local! {
    static CLASS: Cell<Class> = const { Cell::new(Class::Ordinary) };
}

/// The class that the calling thread has got by [`Scheduling::enter`].
pub(crate) fn class() -> Class {
    CLASS.get()
}

impl Scheduling {
    /// The class of threads with this idle policy, on this many cores.
    fn among(self, threads: usize, cores: usize, idle: Idle) -> Self {
        let sleeps = matches!(idle, Idle::Sleep(_) | Idle::Interrupt | Idle::Wake);
        match self {
            Self::Automatic if threads >= cores || !sleeps => Self::Normal,
            other => other,
        }
    }

    /// The class of that many threads with this idle policy.
    pub(super) fn of_threads(self, threads: usize, idle: Idle) -> Self {
        self.among(threads, thread::available_parallelism().map_or(1, Into::into), idle)
    }

    /// Applies it to the calling thread; returns its class. A thread that is to be a real-time one
    /// while it is busy is one until its [`Busy`](super::busy::Busy) is made.
    ///
    /// # Errors
    ///
    /// If [`Realtime`](Self::Realtime) is not permitted.
    pub(super) fn enter(self) -> io::Result<Class> {
        let class = match self {
            Self::Normal => Class::Ordinary,
            Self::Automatic if is_chosen() => Class::Ordinary,
            Self::Realtime => self.set().map(|()| Class::Realtime)?,
            Self::Automatic if Self::Realtime.set().is_err() => Class::Refused,
            Self::Automatic if boost::is_possible() => Class::WhileBusy,
            Self::Automatic => Class::Realtime,
        };
        CLASS.set(class);
        Ok(class)
    }

    /// Makes the calling thread an ordinary or a real-time one.
    pub(super) fn set(self) -> io::Result<()> {
        match self {
            Self::Normal | Self::Automatic => schedule::Scheduling::ORDINARY.set(),
            Self::Realtime => schedule::Scheduling::fifo(PRIORITY).set(),
        }
    }
}

/// Whether the class of the calling thread was chosen.
fn is_chosen() -> bool {
    let current = schedule::Scheduling::current();
    current.is_ok_and(|current| current != schedule::Scheduling::ORDINARY)
}

/// How long a thread has run, and how long it has waited for a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTime {
    /// Nanoseconds on a core.
    pub run_ns: u64,
    /// Nanoseconds in which it had work, and others had its core.
    pub wait_ns: u64,
}

impl ThreadTime {
    /// The calling thread's; zeros if the kernel does not say (`CONFIG_SCHED_INFO`). The first call opens a file, which a
    /// confined thread may not do later.
    pub(crate) fn current() -> Self {
        thread_local! {
            static TIMES: Option<File> = File::open("/proc/thread-self/schedstat").ok();
        }
        let mut text = [0; 64];
        let read = |file: &Option<File>| file.as_ref()?.read_at(&mut text, 0).ok();
        let len = TIMES.with(read).unwrap_or(0);
        Self::parse(&String::from_utf8_lossy(&text[..len]))
    }

    /// Reads `RUN WAIT SLICES`.
    fn parse(text: &str) -> Self {
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok()).fuse();
        let (run_ns, wait_ns) = (numbers.next(), numbers.next());
        Self { run_ns: run_ns.unwrap_or(0), wait_ns: wait_ns.unwrap_or(0) }
    }

    /// Adds another thread's.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { run_ns: self.run_ns + other.run_ns, wait_ns: self.wait_ns + other.wait_ns }
    }

    /// Whether it waited for a tenth of the time in which it had work, or for longer.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        self.wait_ns > 0 && self.wait_ns >= self.run_ns / 9
    }
}

/// Whether the calling thread has a real-time priority now, of its own or lent.
#[cfg(test)]
pub(super) fn is_realtime() -> bool {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a process");
    let behind_name = stat.rsplit_once(')').expect("a name").1;
    // The 18th value is negative for these (proc_pid_stat(5)).
    behind_name.split_whitespace().nth(15).expect("18 values").starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn threads_that_could_take_all_cores_are_ordinary_unless_asked_for() {
        let class = |threads, idle| Scheduling::Automatic.among(threads, 4, idle);
        for idle in [Idle::Interrupt, Idle::Wake, Idle::Sleep(Duration::from_micros(50))] {
            assert_eq!(class(3, idle), Scheduling::Automatic);
            assert_eq!(class(4, idle), Scheduling::Normal, "one core for the others");
        }
        for idle in [Idle::Spin, Idle::Yield] {
            assert_eq!(class(1, idle), Scheduling::Normal, "it never sleeps");
        }
        for asked in [Scheduling::Normal, Scheduling::Realtime] {
            assert_eq!(asked.among(9, 1, Idle::Spin), asked);
        }
    }

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_runs() {
        let of = ThreadTime::parse;
        assert_eq!(of("900 100 7\n"), ThreadTime { run_ns: 900, wait_ns: 100 });
        assert_eq!(
            [of("900 100 7"), of("901 100 7"), of("")].map(|time| time.is_waiting()),
            [true, true, false]
        );
        assert!(!of("910 100 7").is_waiting() && !of("0 0 0").is_waiting());
        assert_eq!(of("1 2 3").plus(of("4 5 6")), of("5 7 9"));
        assert_eq!([of("a b"), of("-1 2")], [ThreadTime::default(); 2]);
    }

    #[test]
    fn a_class_that_somebody_has_chosen_stays() {
        let thread = thread::spawn(move || {
            schedule::Scheduling { policy: libc::SCHED_BATCH, priority: 0 }.set()?;
            let said = Scheduling::Automatic.enter()?;
            Ok::<_, io::Error>((said, schedule::Scheduling::current()?.policy))
        });
        let entered = thread.join().expect("no panic").expect("less is always permitted");
        assert_eq!(entered, (Class::Ordinary, libc::SCHED_BATCH));
    }

    #[test]
    fn a_thread_is_what_it_was_asked_to_be() {
        let entered = |class: Scheduling| {
            let thread = thread::spawn(move || class.enter().map(|said| (said, is_realtime())));
            thread.join().expect("no panic")
        };
        assert_eq!(entered(Scheduling::Normal).expect("it stays"), (Class::Ordinary, false));
        let (said, is) = entered(Scheduling::Automatic).expect("it may stay ordinary");
        assert_eq!(said.is_realtime(), is, "{said:?}");
        match entered(Scheduling::Realtime) {
            Ok(both) => assert_eq!(both, (Class::Realtime, true)),
            Err(error) => {
                assert_eq!(said, Class::Refused, "the other was allowed");
                linecard_testkit::skip("real-time scheduling", error);
            }
        }
    }
}
