//! The flag of a thread that sleeps when it has no work, and of those that give it work: none is missed.
//!
//! The thread sets its flag and then looks for work once more; others make work visible and then read the flag. A fence
//! between the two steps on both sides lets at least one of them see the other. `scripts/races.sh` tries all orders in
//! which the steps of such threads can take effect.

#[cfg(all(test, linecard_loom))]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(all(test, linecard_loom)))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a thread sleeps.
#[derive(Debug)]
pub(super) struct Parked(AtomicBool);

impl Parked {
    /// It runs.
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The thread is about to look for work once more, and then to sleep.
    pub(super) fn prepare(&self) {
        // All changes of the flag read what they replace, so that their order is beyond doubt; a store costs as much.
        self.0.swap(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The thread runs again. True if another has promised to wake it since [`Parked::prepare`], which may yet come.
    pub(super) fn finish(&self) -> bool {
        !self.0.swap(false, Ordering::SeqCst)
    }

    /// Whether the caller, who has given the thread work, has to wake it. One of several callers does.
    #[inline]
    pub(super) fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::SeqCst)
    }
}

#[cfg(all(test, linecard_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The counter that an eventfd is.
    #[derive(Debug, Default)]
    struct Event(Mutex<u64>, Condvar);

    impl Event {
        fn write(&self) {
            *self.0.lock().unwrap() += 1;
            self.1.notify_one();
        }

        /// Waits without end: a sleeper that is not woken is a deadlock, which loom reports.
        fn wait(&self) {
            let mut count = self.0.lock().unwrap();
            while *count == 0 {
                count = self.1.wait(count).unwrap();
            }
        }

        fn read(&self) {
            *self.0.lock().unwrap() = 0;
        }
    }

    struct Shared {
        parked: Parked,
        event: Event,
        /// Packets in the ring of each producer.
        rings: [AtomicU32; 2],
    }

    /// Threads put `packets` each into rings of their own, and one takes them all, with `must_wake` between.
    fn all_work_is_found(producers: usize, packets: u32, must_wake: fn(&Parked) -> bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new(Shared {
                parked: Parked::new(),
                event: Event::default(),
                rings: [AtomicU32::new(0), AtomicU32::new(0)],
            });
            let threads: Vec<_> = (0..producers)
                .map(|ring| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        for packet in 1..=packets {
                            shared.rings[ring].store(packet, Ordering::Release);
                            if must_wake(&shared.parked) {
                                shared.event.write();
                            }
                        }
                    })
                })
                .collect();
            let in_rings =
                || shared.rings.iter().map(|ring| ring.load(Ordering::Acquire)).sum::<u32>();
            let mut taken = 0;
            while taken < producers as u32 * packets {
                let found = in_rings();
                if found > taken {
                    taken = found;
                    continue;
                }
                let mut is_rung = false;
                shared.parked.prepare();
                if in_rings() == taken {
                    shared.event.wait();
                    is_rung = true;
                }
                if shared.parked.finish() || is_rung {
                    shared.event.read();
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn one_producer() {
        all_work_is_found(1, 2, Parked::must_wake);
    }

    #[test]
    fn two_producers() {
        all_work_is_found(2, 1, Parked::must_wake);
    }

    /// The model finds what it is for: without a fence, both sides may miss each other.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_a_fence_work_is_missed() {
        all_work_is_found(1, 1, |parked| {
            parked.0.load(Ordering::Relaxed) && parked.0.swap(false, Ordering::SeqCst)
        });
    }
}
