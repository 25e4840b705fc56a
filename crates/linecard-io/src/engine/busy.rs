//! When a thread runs in real time, and when it rests.

use super::boost::Boost;
use super::scheduling::{Class, Scheduling};
use linecard::time::Instant;
use std::thread;
use std::time::Duration;

/// Packets received in one turn from which on a thread is busy: this many have waited for it. Single
/// packets and answers to them never come in such numbers.
const WAITING: usize = 32;
/// The time without such turns after which a thread is an ordinary one again: several times the
/// pauses of a connection that is limited to a rate.
const CALM_NS: u64 = 100_000_000;

/// In so much time a real-time thread sleeps for this long, or rests for the difference: other threads
/// get a share of its core, the kernel's own included. The kernel's limit for real-time threads need
/// not hold for lent priority. A rest is shorter than packets of 1,500 bytes at 10 Gbit/s take to fill
/// a receive ring.
pub(super) const WORK_NS: u64 = 10_000_000;
pub(super) const REST: Duration = Duration::from_micros(500);

/// Gives a thread real-time priority, and has it rest.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Where it is to be a real-time thread while it is busy.
    boost: Option<Boost>,
    is_realtime: bool,
    /// When it was last busy.
    busy: Instant,
    /// Since when it counts how long it sleeps.
    begun: Instant,
    slept: Duration,
}

impl Busy {
    /// For the calling thread of this name and class, which leaves the real-time one if it has it only
    /// while it is busy. If that is not possible, it keeps it.
    pub(super) fn new(class: Class, name: &str) -> Self {
        let boost = (class == Class::WhileBusy).then(|| {
            let boost = Boost::new(name)?;
            Scheduling::Normal.set().map(|()| boost)
        });
        let boost = boost.and_then(Result::ok);
        let is_realtime = class.is_realtime() && boost.is_none();
        Self { boost, is_realtime, ..Self::default() }
    }

    /// Called after a turn that received this many packets, at this time.
    #[inline]
    pub(super) fn after(&mut self, received: usize, is_rate_high: bool, now: Instant) {
        let Some(boost) = &mut self.boost else { return };
        if received >= WAITING || is_rate_high {
            self.busy = now;
            if !self.is_realtime && boost.take().is_ok() {
                (self.is_realtime, self.begun, self.slept) = (true, now, Duration::ZERO);
            }
        } else if self.is_realtime && now.ns_since(self.busy) >= CALM_NS {
            self.is_realtime = boost.give().is_err();
        }
    }

    /// Notes that it has slept for so long.
    pub(super) fn sleeps(&mut self, time: Duration) {
        self.slept = self.slept.saturating_add(time);
    }

    /// Rests if that is due; returns whether it did.
    #[inline]
    pub(super) fn rest(&mut self, now: Instant) -> bool {
        if !self.is_realtime || now.ns_since(self.begun) < WORK_NS {
            return false;
        }
        let missing = REST.saturating_sub(self.slept);
        (self.begun, self.slept) = (now, Duration::ZERO);
        if missing > Duration::ZERO {
            thread::sleep(missing);
        }
        missing > Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant as Clock;

    const START: Instant = Instant::from_ns(1_000_000_000);

    #[test]
    fn a_real_time_thread_rests_and_others_do_not() {
        let due = |windows| Instant::from_ns(START.as_ns() + windows * WORK_NS);
        let mut realtime = Busy::new(Class::Realtime, "test");
        realtime.sleeps(REST);
        assert!(!realtime.rest(due(0)), "it has slept");
        assert!(!realtime.rest(Instant::from_ns(due(1).as_ns() - 1)), "it is not yet due");
        realtime.sleeps(REST - Duration::from_nanos(1));
        assert!(realtime.rest(due(1)) && !realtime.rest(due(1)), "once, for the difference");
        for class in [Class::Ordinary, Class::Refused] {
            assert!(!Busy::new(class, "test").rest(due(9)), "{class:?}");
        }
    }

    /// In a thread of its own, whose class changes; without privileges from then on.
    #[test]
    fn a_thread_is_a_real_time_one_only_while_packets_wait_for_it() {
        let told = thread::spawn(|| {
            let class = Scheduling::Automatic.enter().expect("it may stay ordinary");
            if class != Class::WhileBusy {
                return None;
            }
            let is_realtime = super::super::scheduling::is_realtime;
            crate::rights::forget().expect("it may have fewer");
            let mut busy = Busy::new(class, "test");
            let at = |ns| Instant::from_ns(START.as_ns() + ns);
            let mut seen = vec![is_realtime()];
            let mut turn = |received, is_rate_high, ns| {
                busy.after(received, is_rate_high, at(ns));
                // The other thread needs a moment to wait for this one.
                let end = Clock::now() + Duration::from_secs(10);
                while busy.is_realtime && !is_realtime() && Clock::now() < end {
                    thread::yield_now();
                }
                seen.push(is_realtime());
            };
            turn(WAITING - 1, false, 0);
            turn(WAITING, false, 1);
            turn(1, false, CALM_NS);
            turn(1, false, CALM_NS + 1);
            turn(0, true, CALM_NS + 2);
            Some(seen)
        });
        match told.join().expect("no panic") {
            Some(seen) => assert_eq!(seen, [false, false, true, true, false, true]),
            None => linecard_testkit::skip("real-time scheduling", "not permitted"),
        }
    }
}
