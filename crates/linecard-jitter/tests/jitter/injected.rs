//! Sources of jitter, switched on at known times: the cause that is found for each late packet.

use crate::lab::{TRIES, cable, calm, traced};
use crate::score::{MAX_RUNS, Score, Scores, Windows, score_of};
use crate::sys::set_segment;
use linecard_io::placement::Placement;
use linecard_jitter::ledger::{Cause, Ledger};
use linecard_jitter::linux::clock::{Wait, monotonic_ns};
use linecard_jitter::linux::session::{Conditions, CoreAssignment, SessionOutcome, TestNetwork};
use linecard_jitter::linux::trace::this_thread;
use linecard_jitter::trace::{NET_RX, Names};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// From one injection to the next.
const EVERY_NS: u64 = 10_000_000;
/// Injections, from so long after the call on.
const BEGIN_NS: u64 = 250_000_000;
const INJECTIONS: u64 = 100;
/// The after-effects of an injection end after this.
const AFTERMATH_NS: u64 = 60_000;
/// Beyond SINK's class, so that it is displaced.
const ABOVE: u8 = 90;

fn score(
    outcome: &SessionOutcome,
    windows: &Windows,
    is_it: impl Fn(Cause, &Names) -> bool,
) -> Option<Score> {
    let trace = outcome.trace.as_ref().ok()?;
    let ledger = Ledger::of(trace, &outcome.measured);
    score_of(ledger.spikes.iter().map(|spike| (spike, &trace.names)), windows, is_it)
}

/// Measures while `inject` does its work; asserts that it is found.
fn find(
    test: &str,
    conditions: &Conditions,
    inject: impl Fn(&TestNetwork, &AtomicBool) -> Windows + Sync,
    is_it: impl Fn(Cause, &Names) -> bool,
) {
    let Some((_alone, place)) = cable(test) else { return };
    let mut scores = Scores::default();
    for _ in 0..MAX_RUNS {
        let over = AtomicBool::new(false);
        let (outcome, windows) = std::thread::scope(|scope| {
            let injecting = scope.spawn(|| inject(&place, &over));
            let outcome = traced(&place, conditions, test);
            over.store(true, Ordering::Relaxed);
            (outcome, injecting.join().expect("the injection ends"))
        });
        let Some(outcome) = outcome else { return };
        if scores.add(test, score(&outcome, &windows, &is_it)) {
            break;
        }
    }
    scores.assert_good(test);
}

fn sink_core() -> usize {
    CoreAssignment::of_this_host().sink.into()
}

pub(crate) fn above() -> Placement {
    Placement { core: Some(sink_core()), fifo: Some(ABOVE), ..Placement::default() }
}

/// Calls `work` again and again on the sink's core, from a time on; gives when that was.
fn again_and_again(begin_ns: u64, over: &AtomicBool, mut work: impl FnMut()) -> Windows {
    let _placed = above().enter(false).expect("root may");
    let mut windows = Windows::new();
    for n in 0..INJECTIONS {
        // Sleeping as far as that goes: the sink's core is not this test's.
        let due_ns = begin_ns + n * EVERY_NS;
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
        if over.load(Ordering::Relaxed) {
            break;
        }
        let from_ns = monotonic_ns();
        work();
        windows.push((from_ns.saturating_sub(AFTERMATH_NS), monotonic_ns() + AFTERMATH_NS));
    }
    windows
}

/// Promise (Jitter): Injected causes are found with recall and precision of at least 0.95: a pinned
/// thread, and in further tests a timer storm, softirq load and deferred interrupts, 100 injections
/// in a run of 60,000 packets, medians of five runs, as root on two cores.
///
/// A thread that is pinned to the sink's core and goes before it.
#[test]
fn a_pinned_thread_is_found() {
    let thread = AtomicU32::new(0);
    let inject =
        |_: &TestNetwork, over: &AtomicBool| pinned_thread(soon_ns(), over, (&thread, 150_000));
    let is_it = |cause: Cause, _: &Names| cause == Cause::Thread(thread.load(Ordering::Relaxed));
    find("a_pinned_thread_is_found", &calm(), inject, is_it);
}

fn soon_ns() -> u64 {
    monotonic_ns() + BEGIN_NS
}

/// A thread that takes the core for this many nanoseconds.
pub(crate) fn pinned_thread(
    begin_ns: u64,
    over: &AtomicBool,
    (thread, ns): (&AtomicU32, u64),
) -> Windows {
    thread.store(this_thread(), Ordering::Relaxed);
    again_and_again(begin_ns, over, || {
        let _done = Wait::Spin.until(monotonic_ns() + ns, &AtomicBool::new(false));
    })
}

/// Hundreds of timers that fire at the same time on the sink's core.
#[test]
fn a_timer_storm_is_found() {
    let inject = |_: &TestNetwork, over: &AtomicBool| timer_storm(soon_ns(), over, 120);
    find("a_timer_storm_is_found", &calm(), inject, is_timer);
}

/// So many timers at once.
pub(crate) fn timer_storm(begin_ns: u64, over: &AtomicBool, timers: usize) -> Windows {
    let storm = |at_ns: u64| (0..timers).map(move |_| timer(at_ns));
    let placed = above().enter(false).expect("root may");
    let storm_ns =
        (0..TRIES).filter_map(|_| storm_length_ns(storm)).min().expect("the time of a storm");
    let storms = (files() / timers).min(INJECTIONS as usize) as u64;
    let begin_ns = begin_ns.max(monotonic_ns() + BEGIN_NS);
    let times = (0..storms).map(|n| begin_ns + n * EVERY_NS);
    let _timers: Vec<OwnedFd> = times.clone().flat_map(storm).collect();
    drop(placed);
    let end_ns = begin_ns + storms * EVERY_NS;
    while !over.load(Ordering::Relaxed) && monotonic_ns() < end_ns {
        std::thread::sleep(Duration::from_millis(20));
    }
    let now_ns = monotonic_ns();
    // Later packets are not affected by it.
    times.filter(|at_ns| *at_ns < now_ns).map(|at_ns| (at_ns, at_ns + storm_ns)).collect()
}

/// The longest time in which a storm leaves nothing of this core for this thread; `None` if setting the timers took too
/// long.
fn storm_length_ns<T: Iterator<Item = OwnedFd>>(storm: impl Fn(u64) -> T) -> Option<u64> {
    let at_ns = monotonic_ns() + 50_000_000;
    let _timers: Vec<OwnedFd> = storm(at_ns).collect();
    let _awake = Wait::Sleep.until(at_ns - 1_000_000, &AtomicBool::new(false));
    let (begun_ns, mut longest_ns) = (monotonic_ns(), 0);
    let mut before_ns = begun_ns;
    while before_ns < at_ns + 2_000_000 {
        let now_ns = monotonic_ns();
        longest_ns = longest_ns.max(now_ns - before_ns);
        before_ns = now_ns;
    }
    (begun_ns < at_ns).then_some(longest_ns)
}

pub(crate) fn is_timer(cause: Cause, names: &Names) -> bool {
    match cause {
        Cause::Timer(function) => {
            names.functions.get(&function).is_none_or(|name| name.starts_with("timerfd_"))
        }
        _ => false,
    }
}

fn timer(at_ns: u64) -> OwnedFd {
    let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).expect("a timer");
    let at =
        Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as _ };
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: never, it_value: at };
    timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME, &times).expect("a time");
    fd
}

/// How many files this process may still open: each timer is one.
fn files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to there");
    usize::try_from(maximum.unwrap_or(20_000)).unwrap_or(20_000).saturating_sub(200)
}

/// Other traffic in the softirq that receives, on the sink's core.
#[test]
fn softirq_load_is_found() {
    let inject = |_: &TestNetwork, over: &AtomicBool| softirq_load(soon_ns(), over, 24);
    find("softirq_load_is_found", &calm(), inject, is_net_rx);
}

/// So many large datagrams, each of 60 segments.
pub(crate) fn softirq_load(begin_ns: u64, over: &AtomicBool, datagrams: u32) -> Windows {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(sink.local_addr().unwrap()).unwrap();
    sink.set_nonblocking(true).unwrap();
    // Many short segments: nearly all of the work is in the softirq that divides them, and little in the call, which
    // copies, and for which a virtual machine may have to find memory first.
    set_segment(&source, 60);
    let payload = vec![0_u8; 60 * 60];
    again_and_again(begin_ns, over, || {
        // Longer than what a hypervisor takes now and then, which is charged to whatever it interrupts.
        for _ in 0..datagrams {
            let _sent = source.send(&payload);
        }
    })
}

pub(crate) fn is_net_rx(cause: Cause, _: &Names) -> bool {
    cause == Cause::Softirq(NET_RX)
}

/// Polls that are deferred on purpose.
#[test]
fn held_back_interrupts_are_found() {
    let test = "held_back_interrupts_are_found";
    let Some((_alone, place)) = cable(test) else { return };
    let held = Conditions { deferral: Some(Duration::from_micros(100)), ..calm() };
    let share = |conditions: &Conditions| {
        let outcome = traced(&place, conditions, test)?;
        let ledger = Ledger::of(outcome.trace.as_ref().ok()?, &outcome.measured);
        let found = ledger.spikes.iter().filter(|spike| spike.cause() == Cause::Deferral).count();
        Some((found, ledger.spikes.len()))
    };
    let mut scores = Scores::default();
    for _ in 0..MAX_RUNS {
        let (Some((found, all)), Some((wrong, _))) = (share(&held), share(&calm())) else { return };
        let recall = found as f64 / all.max(1) as f64;
        let precision = found as f64 / (found + wrong).max(1) as f64;
        if scores.add(test, (found > 1_000).then_some(Score { recall, precision })) {
            break;
        }
    }
    scores.assert_good(test);
}
