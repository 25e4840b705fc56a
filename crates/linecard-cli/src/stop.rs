//! How a job that reads for long is told to stop by whoever has begun it on this thread.

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// None on the command line, where a signal ends the process.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs a job that ends when `stop` is set, once it reads again.
pub(crate) fn until<R>(stop: Arc<AtomicBool>, job: impl FnOnce() -> R) -> R {
    STOP.set(Some(stop));
    let done = job();
    STOP.set(None);
    done
}

/// An input that fails when the job of this thread is to stop, so that nothing is left half written.
pub(crate) fn stoppable(input: Box<dyn Read>) -> Box<dyn Read> {
    match STOP.take() {
        None => input,
        Some(stop) => {
            STOP.set(Some(Arc::clone(&stop)));
            Box::new(Stoppable::new(input, stop))
        }
    }
}

/// An input that fails once `stop` is set.
#[derive(Debug)]
pub struct Stoppable<R> {
    input: R,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Stoppable<R> {
    /// `input` until then.
    pub fn new(input: R, stop: Arc<AtomicBool>) -> Self {
        Self { input, stop }
    }
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::Error::other("stopped")),
            false => self.input.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_fails_once_it_is_to_stop() {
        let stop = Arc::new(AtomicBool::new(false));
        until(Arc::clone(&stop), || {
            let mut input = stoppable(Box::new(io::repeat(7)));
            assert_eq!(input.read(&mut [0; 4]).ok(), Some(4));
            stop.store(true, Ordering::Relaxed);
            assert!(input.read(&mut [0; 4]).is_err());
        });
        // Other jobs of the thread are no longer told.
        assert_eq!(stoppable(Box::new(io::repeat(7))).read(&mut [0; 4]).ok(), Some(4));
    }
}
