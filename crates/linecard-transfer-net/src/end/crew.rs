//! Threads beside that of the driver, which seal, send, receive and open packets of other lanes at the same time.
//!
//! Everything else stays with the driver: it says which packets leave, waits until all of them are handed over, and takes
//! what has come in the order of lanes. So nothing but the sockets is shared, and a transfer with several threads decides
//! as one with a single thread does.

use super::{Cores, Pinned};
use std::io;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

/// Bytes of work beside the largest part that are worth another thread: giving it away takes about as long as sealing and
/// sending a few datagrams.
const WORTH_BYTES: usize = 64 << 10;
/// How long a thread looks for the next work before it sleeps: waking it takes longer than most work.
const LOOK: Duration = Duration::from_micros(50);

/// Work that another thread does: some items, which it gives back.
type Work<T> = (Vec<T>, fn(&mut T));

/// The threads of an end that work on lanes, each of which has an item `T`.
///
/// ```
/// use linecard_transfer_net::end::{Cores, Crew};
/// let crew = Crew::new(&Cores::default(), 4)?;
/// let mut lanes = vec![1, 2, 3, 4];
/// crew.each(&mut lanes, |_| 1_000_000, |lane| *lane *= 10);
/// assert_eq!(lanes, [10, 20, 30, 40]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Crew<T> {
    /// Those beside the driver's.
    hands: Vec<Hand<T>>,
}

/// A thread: what it is given, and what it gives back.
#[derive(Debug)]
struct Hand<T> {
    work: SyncSender<Work<T>>,
    done: Receiver<Vec<T>>,
}

impl<T: Send + 'static> Crew<T> {
    /// For an end with so many lanes: as many threads as `cores` names, or else as there are cores beside that of the
    /// files' thread; one for each lane at most. They inherit the cores of the calling thread.
    ///
    /// # Errors
    ///
    /// The system starts no more threads.
    pub fn new(cores: &Cores, lanes: usize) -> io::Result<Self> {
        let threads = match cores.lanes {
            Some(_) => 1 + cores.more.len(),
            None => available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1)),
        };
        let others = threads.clamp(1, lanes.max(1)) - 1;
        let hands = (0..others).map(|at| Hand::start(at, cores.more.get(at).copied()));
        Ok(Self { hands: hands.collect::<io::Result<_>>()? })
    }

    /// How many work at the same time, the driver's included.
    #[must_use]
    pub const fn threads(&self) -> usize {
        1 + self.hands.len()
    }

    /// Does `work` on each of `items`, of which `weight` says for about how many bytes it is, and returns when all is
    /// done. What is not worth another thread is done by the calling one.
    ///
    /// # Panics
    ///
    /// Where `work` does.
    pub fn each(&self, items: &mut Vec<T>, weight: impl Fn(&T) -> usize, work: fn(&mut T)) {
        if self.hands.is_empty() {
            return items.iter_mut().for_each(work);
        }
        let weights: Vec<usize> = items.iter().map(weight).collect();
        let all: usize = weights.iter().sum();
        let is_worth = all - weights.iter().max().unwrap_or(&0) >= WORTH_BYTES;
        let (mut left, mut threads) = (all, self.threads());
        let mut busy = Vec::with_capacity(self.hands.len());
        for hand in self.hands.iter().filter(|_| is_worth) {
            let fair = left / threads;
            let (mut first, mut given) = (items.len(), 0);
            // Another one where that comes closer to a fair share.
            while first > 1 && given + weights[first - 1] / 2 <= fair {
                first -= 1;
                given += weights[first];
            }
            (left, threads) = (left - given, threads - 1);
            if first < items.len() {
                hand.give((items.split_off(first), work));
                busy.push(hand);
            }
        }
        items.iter_mut().for_each(work);
        // The last was given first.
        for hand in busy.into_iter().rev() {
            items.append(&mut hand.take());
        }
    }
}

impl<T: Send + 'static> Hand<T> {
    fn start(at: usize, core: Option<usize>) -> io::Result<Self> {
        let (work, given) = sync_channel::<Work<T>>(1);
        let (out, done) = sync_channel(1);
        thread::Builder::new().name(format!("lanes {}", at + 2)).spawn(move || {
            // It can be used: that was tried before.
            let _pinned = Pinned::to(core);
            while let Ok((mut items, work)) = look(&given) {
                items.iter_mut().for_each(work);
                if out.send(items).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { work, done })
    }

    fn give(&self, work: Work<T>) {
        let given = self.work.send(work);
        assert!(given.is_ok(), "the thread has panicked");
    }

    fn take(&self) -> Vec<T> {
        let Ok(items) = look(&self.done) else { unreachable!("the thread has panicked") };
        items
    }
}

/// Receives, and sleeps only if nothing comes soon.
fn look<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    let begun = Instant::now();
    loop {
        match from.try_recv() {
            Ok(item) => return Ok(item),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) if begun.elapsed() > LOOK => return from.recv(),
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread::ThreadId;

    fn crew<T: Send + 'static>(threads: usize, lanes: usize) -> Crew<T> {
        // Core 0 exists; whether this process may use it does not matter.
        let cores = Cores { lanes: Some(0), files: None, more: vec![0; threads - 1] };
        Crew::new(&cores, lanes).unwrap()
    }

    #[test]
    fn there_are_as_many_threads_as_cores_are_named_and_lanes_to_work_on() {
        let threads = |threads, lanes| crew::<()>(threads, lanes).threads();
        assert_eq!([threads(1, 4), threads(3, 4), threads(3, 2), threads(3, 0)], [1, 3, 2, 1]);
        let by_itself = Crew::<()>::new(&Cores::default(), 64).unwrap().threads();
        assert!(by_itself >= 1 && by_itself < available_parallelism().unwrap().get().max(2));
    }

    #[test]
    fn each_item_is_done_once_and_stays_where_it_was() {
        for threads in 1..=4 {
            let crew = crew(threads, 64);
            for items in 0..=9 {
                for weight in [0, WORTH_BYTES] {
                    let mut all: Vec<usize> = (0..items).collect();
                    crew.each(&mut all, |_| weight, |item| *item += 100);
                    let expected: Vec<usize> = (100..100 + items).collect();
                    assert_eq!(all, expected, "{threads} threads, {items} of {weight} bytes");
                }
            }
        }
    }

    /// Three lanes of nearly the same weight go to three threads, whichever is the lightest.
    #[test]
    fn shares_are_fair() {
        for lightest in 0..3 {
            let mut items: Vec<_> = (0..3).map(|at| (at, None)).collect();
            let weight = |(at, _): &(usize, Option<ThreadId>)| match *at == lightest {
                true => WORTH_BYTES - 2,
                false => WORTH_BYTES,
            };
            // The two others are awake or not: which thread does what is decided before.
            crew(3, 3).each(&mut items, weight, |(_, id)| *id = Some(thread::current().id()));
            assert!(items[0].1 != items[1].1 && items[1].1 != items[2].1, "{lightest}: {items:?}");
            assert_ne!(items[0].1, items[2].1);
        }
    }

    #[test]
    fn large_work_is_shared_and_small_work_is_not() {
        let note: fn(&mut Option<ThreadId>) = |id| *id = Some(thread::current().id());
        let mut items = vec![None; 2];
        crew(2, 2).each(&mut items, |_| WORTH_BYTES - 1, note);
        assert_eq!(items, [Some(thread::current().id()); 2]);
        // Each waits for the other: one thread would never end.
        let barrier = std::sync::Arc::new(Barrier::new(2));
        let mut items = vec![(std::sync::Arc::clone(&barrier), None), (barrier, None)];
        crew(2, 2).each(
            &mut items,
            |_| WORTH_BYTES,
            |(barrier, id)| {
                barrier.wait();
                *id = Some(thread::current().id());
            },
        );
        assert_ne!(items[0].1, items[1].1);
    }
}
