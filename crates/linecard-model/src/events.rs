//! The event queue, ordered by time and then by insertion.

use super::Ps;
use alloc::collections::BinaryHeap;
use core::cmp::Ordering;

/// Events in order of time. Events at the same time come in the order in which they were added, so
/// that runs are deterministic.
///
/// ```
/// use linecard_model::{Events, Ps};
/// let mut events = Events::default();
/// events.add(Ps(20), "later");
/// events.add(Ps(10), "first");
/// events.add(Ps(10), "second");
/// assert_eq!(events.next(), Some((Ps(10), "first")));
/// assert_eq!(events.next(), Some((Ps(10), "second")));
/// ```
#[derive(Debug)]
pub struct Events<T> {
    heap: BinaryHeap<Entry<T>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Ps,
    number: u64,
    what: T,
}

impl<T> Events<T> {
    /// Schedules `what` at `at`.
    pub fn add(&mut self, at: Ps, what: T) {
        self.heap.push(Entry { at, number: self.added, what });
        self.added += 1;
    }

    /// Removes the next event; returns it with its time.
    #[expect(clippy::should_implement_trait, reason = "events are added while they are taken")]
    pub fn next(&mut self) -> Option<(Ps, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }

    /// The time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Number of scheduled events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed, because the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}
