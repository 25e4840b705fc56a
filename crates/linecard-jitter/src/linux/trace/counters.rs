//! Counts packets received from drivers, by the kernel's own counters at `netif_receive_skb`: an
//! independent check of a trace.
//!
//! The counters include packets of all streams of the host, so they are never below those of the
//! trace. Counting takes time for each packet, as [`super::cost`] measures, and is off by default.

use super::cost::tracepoint;
use super::tracefs::{Folder, TracefsError};
use crate::linux::sys::perf::Counter;
use std::io;

/// Counters of some cores; dropping the value ends them.
#[derive(Debug)]
pub struct PacketCounters(Vec<Counter>);

/// Why packets cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The id of the tracepoint is not known.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The counter cannot be opened or read.
    #[error("no performance counter of the tracepoint ({0}): root, or CAP_PERFMON, is needed")]
    Refused(#[from] io::Error),
}

impl PacketCounters {
    /// Starts counting on these cores.
    ///
    /// # Errors
    ///
    /// See [`CounterError`].
    pub fn start(cores: &[u16]) -> Result<Self, CounterError> {
        let id = tracepoint(&Folder::open()?, "events/net/netif_receive_skb")?;
        let counters = cores.iter().map(|core| Counter::open(id, *core));
        Ok(Self(counters.collect::<io::Result<_>>()?))
    }

    /// Packets counted so far.
    ///
    /// # Errors
    ///
    /// A counter cannot be read.
    pub fn count(&mut self) -> Result<u64, CounterError> {
        let counts = self.0.iter_mut().map(Counter::count);
        Ok(counts.sum::<io::Result<u64>>()?)
    }
}
