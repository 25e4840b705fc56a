//! The job of this thread as seen by whoever has begun it: how far it is, and whether it is to end.

use crate::failure::Failure;
use linecard::watch::Watch;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// None on the command line, where a signal ends the process.
    static WATCH: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// Does `job` under a watch, and other jobs of the thread under theirs again.
pub(crate) fn during<R>(watch: &Arc<Watch>, job: impl FnOnce() -> R) -> R {
    let before = WATCH.replace(Some(Arc::clone(watch)));
    let done = job();
    WATCH.set(before);
    done
}

/// That of this thread's job.
pub(crate) fn current() -> Option<Arc<Watch>> {
    WATCH.with_borrow(Clone::clone)
}

/// The same, or one that nobody looks at.
pub(crate) fn any() -> Arc<Watch> {
    current().unwrap_or_default()
}

/// Refuses to go on with what is to end.
pub(crate) fn go_on() -> Result<(), Failure> {
    match current().is_some_and(|watch| watch.is_stopped()) {
        true => Err(Failure::Stopped("stopped".to_owned())),
        false => Ok(()),
    }
}
