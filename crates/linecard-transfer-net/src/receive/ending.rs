//! Transfers that end, and still store files: the same sender, which is back at once, waits for these.

use crate::keys::Fingerprint;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a sender waits at most.
const WAIT: Duration = Duration::from_secs(5);

/// The senders of transfers that end; none is one without a key of its own.
#[derive(Debug, Default)]
pub(super) struct Endings {
    keys: Mutex<Vec<Option<Fingerprint>>>,
    changed: Condvar,
}

/// A transfer ends as long as this exists.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    all: &'a Endings,
    key: Option<Fingerprint>,
}

impl Endings {
    /// The transfer of this sender has begun to end.
    pub(super) fn begin(&self, key: Option<Fingerprint>) -> Ending<'_> {
        self.keys().push(key);
        Ending { all: self, key }
    }

    /// Waits until no transfer of this sender is about to end: their files are locked.
    pub(super) fn wait(&self, key: Option<Fingerprint>) {
        let is_ending = |keys: &mut Vec<_>| keys.contains(&key);
        // After that, these files are refused one by one.
        let _waited = self.changed.wait_timeout_while(self.keys(), WAIT, is_ending);
    }

    fn keys(&self) -> MutexGuard<'_, Vec<Option<Fingerprint>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut keys = self.all.keys();
        if let Some(at) = keys.iter().position(|key| *key == self.key) {
            keys.swap_remove(at);
        }
        drop(keys);
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
