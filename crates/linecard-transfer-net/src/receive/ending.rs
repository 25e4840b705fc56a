//! Transfers that end, and still store files: the same sender, which is back at once, waits for these.

use crate::keys::Fingerprint;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a sender waits at most.
const WAIT: Duration = Duration::from_secs(5);

/// The transfers that end early.
#[derive(Debug, Default)]
pub(super) struct Endings {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The number of each, and its sender; none is one without a key of its own.
    ending: Vec<(u64, Option<Fingerprint>)>,
}

/// A transfer ends as long as this exists.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    all: &'a Endings,
    number: u64,
}

impl Endings {
    /// The transfer of this sender has begun to end.
    pub(super) fn begin(&self, key: Option<Fingerprint>) -> Ending<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.ending.push((number, key));
        Ending { all: self, number }
    }

    /// Waits for the transfers of this sender that end now: their files are locked.
    pub(super) fn wait(&self, key: Option<Fingerprint>) {
        let state = self.state();
        let next = state.next;
        let is_ending = |state: &mut State| {
            state.ending.iter().any(|(number, of)| *number < next && *of == key)
        };
        // After that, these files are refused one by one.
        let _waited = self.changed.wait_timeout_while(state, WAIT, is_ending);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.all.state().ending.retain(|(number, _)| *number != self.number);
        self.all.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// It was told that another process receives its files.
    #[test]
    fn a_sender_waits_for_its_own_transfers_only() {
        let (endings, is_free) = (Endings::default(), AtomicBool::new(false));
        let key = |text: &[u8]| Some(Fingerprint::of(text));
        let [first, second] = [(); 2].map(|()| endings.begin(key(b"one")));
        endings.wait(key(b"another"));
        endings.wait(None);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                endings.wait(key(b"one"));
                assert!(is_free.load(Ordering::SeqCst));
            });
            drop(first);
            is_free.store(true, Ordering::SeqCst);
            drop(second);
            waiting.join().expect("it has waited");
        });
        endings.wait(key(b"one"));
    }
}
