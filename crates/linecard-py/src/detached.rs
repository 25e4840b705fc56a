//! Long calls: other threads of Python run meanwhile and see the progress, and Ctrl-C ends the call.

use linecard::progress::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a signal waits at most.
const LOOK: Duration = Duration::from_millis(50);
/// How long work that was told to stop is waited for: what waits for input may never see it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells calls on other threads to stop: signals come to the first one only.
#[pyclass(module = "linecard", frozen)]
#[derive(Debug, Default, Clone)]
pub struct Stop(pub(crate) Arc<Progress>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// From now on calls end as soon as they see it.
    fn set(&self) {
        self.0.stop();
    }

    /// Whether it is set.
    fn is_set(&self) -> bool {
        self.0.is_stopped()
    }
}

/// Runs `work` on a thread of its own, and looks for signals until it is done. `progress` is called with what
/// is done and with all, where `work` says so. When a signal or `progress` raises an exception, `work` is told
/// to stop by its argument, and what it would still have found is dropped.
pub(crate) fn detached<R: Send + 'static>(
    py: Python<'_>,
    stop: Option<&Stop>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<Progress>) -> R + Send + 'static,
) -> PyResult<R> {
    let watch = stop.cloned().unwrap_or_default().0;
    let (done, result) = channel();
    // Only this thread takes it; the lock is for the compiler.
    let result = Mutex::new(result);
    let theirs = Arc::clone(&watch);
    let spawned = thread::Builder::new().name("linecard".into()).spawn(move || {
        // Nobody waits any more after a signal.
        let _gone = done.send(work(&theirs));
    });
    spawned?;
    loop {
        match wait(py, &result, LOOK) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let text = "a thread of linecard has panicked, which is a bug: see stderr";
                return Err(PyRuntimeError::new_err(text));
            }
        }
        let looked = py.check_signals().and_then(|()| match (progress, watch.counts()) {
            (Some(progress), (done, all)) if done < all => progress.call1((done, all)).map(drop),
            _ => Ok(()),
        });
        if let Err(exception) = looked {
            watch.stop();
            // Its files are closed then.
            let _dropped = wait(py, &result, PATIENCE);
            return Err(exception);
        }
    }
}

fn wait<R: Send>(
    py: Python<'_>,
    result: &Mutex<Receiver<R>>,
    time: Duration,
) -> Result<R, RecvTimeoutError> {
    py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time))
}
