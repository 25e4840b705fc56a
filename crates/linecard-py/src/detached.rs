//! Long calls: other threads of Python go on meanwhile, and Ctrl-C ends them.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a signal waits at most.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own, and looks for signals until it is done. When one raises an exception,
/// `work` is told to stop by its argument, and what it would still have found is dropped.
pub(crate) fn detached<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> R + Send + 'static,
) -> PyResult<R> {
    let stop = Arc::new(AtomicBool::new(false));
    let (done, result) = channel();
    // Only this thread takes it; the lock is for the compiler.
    let result = Mutex::new(result);
    let theirs = Arc::clone(&stop);
    let spawned = thread::Builder::new().name("linecard".into()).spawn(move || {
        // Nobody waits any more after a signal.
        let _gone = done.send(work(&theirs));
    });
    spawned?;
    loop {
        match py.detach(|| {
            let result = result.lock().unwrap_or_else(PoisonError::into_inner);
            result.recv_timeout(LOOK)
        }) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let text = "a thread of linecard has panicked, which is a bug: see stderr";
                return Err(PyRuntimeError::new_err(text));
            }
        }
        if let Err(signal) = py.check_signals() {
            stop.store(true, Ordering::Relaxed);
            return Err(signal);
        }
    }
}
