//! Independent runs on several threads, with results in the order of the requests.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than any machine that this was tried on.
pub const MAX_THREADS: usize = 256;

/// As many threads as there are cores to run on.
#[must_use]
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Calls `run` for each item on this many threads; a panic of a thread is propagated.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, run(item)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let count = threads.clamp(1, items.len().max(1));
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::with_capacity(items.len());
        for worker in workers {
            match worker.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1_000).collect();
        for threads in [1, 3, 2_000] {
            let squares = super::map(&items, threads, |n| n * n);
            assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
            assert_eq!(squares.len(), 1_000);
        }
        assert!(super::map(&[0_u8; 0], 4, |n| *n).is_empty());
    }
}
