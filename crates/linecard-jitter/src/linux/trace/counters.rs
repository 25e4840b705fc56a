//! How many packets came up from drivers, by the kernel's own counters at `netif_receive_skb`: a second
//! witness beside a trace.
//!
//! It counts packets of every stream of the host, so it is never less than what the trace has. Counting
//! costs time for each packet, as [`super::cost`] measures, and is done on request.

use super::cost::tracepoint;
use super::tracefs::{Folder, TracefsError};
use crate::linux::sys::perf::Counter;
use std::io;

/// Counters of some cores; dropped, they are gone.
#[derive(Debug)]
pub struct PacketCounters(Vec<Counter>);

/// Why packets cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The tracepoint's number is not known.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel gives no counter, or no count.
    #[error("no performance counter of the tracepoint ({0}): root, or CAP_PERFMON, is needed")]
    Refused(#[from] io::Error),
}

impl PacketCounters {
    /// Begins to count on these cores.
    ///
    /// # Errors
    ///
    /// See [`CounterError`].
    pub fn start(cores: &[u16]) -> Result<Self, CounterError> {
        let id = tracepoint(&Folder::open()?, "events/net/netif_receive_skb")?;
        let counters = cores.iter().map(|core| Counter::open(id, *core));
        Ok(Self(counters.collect::<io::Result<_>>()?))
    }

    /// Packets so far.
    ///
    /// # Errors
    ///
    /// When a counter cannot be read.
    pub fn count(&mut self) -> Result<u64, CounterError> {
        let counts = self.0.iter_mut().map(Counter::count);
        Ok(counts.sum::<io::Result<u64>>()?)
    }
}
