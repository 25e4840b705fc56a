//! The receive side on a network processor in virtual time (Li, Chen, Su): four cores of four
//! hardware threads, a DMA engine, a host behind and a TCP sender before it.
//!
//! **Merging is done by the same code as in live operation.** Each receive thread runs
//! [`Resequencer`], [`ActiveAck`] and [`Coalescer`] on real packets with real bytes; this module
//! adds queueing, processing times and scheduling. Every byte that reaches the host is compared
//! with what was sent.
//!
//! | part | waits in | costs |
//! |---|---|---|
//! | link | the sender's windows | its rate |
//! | dispatcher | – | a message |
//! | 13 receive threads | a queue each | steps of a packet, on pipelines that threads of a core share ([`Core`]) |
//! | memory | a queue | a latency, and its rate |
//! | timeout thread | – | its round over all connections, a message, 2 µs of the thread |
//! | DMA engine | stack, queue, or a queue for each thread | a time a request, and its rate |
//! | host | the threads' Rx rings | interrupt, stack, copy: by packet from the unit |
//! | sending thread | a queue | 1 µs a packet |
//!
//! # Assumptions beyond the paper
//!
//! - Steps are counted on firmware that does what the paper's algorithms do; clock, latency and width of memory are
//!   ours. A constant time for a packet ([`Npu::packet_ns`]) takes their place: with 32.0 µs the published plateau
//!   comes out, and threads do not slow each other down.
//! - Sending, checking for timeouts and the shell take no time of the pipelines; receive threads are spread evenly over
//!   cores.
//! - The filter sequence (figure 6) is not in the text: packets are refused for the reasons of section
//!   II, in the order in which the coalescer looks, and those with a wrong checksum are discarded.
//! - As a normal adapter nothing is kept of connections, so that packets go to threads in turns, and
//!   the host's interrupt and stack for each packet are the bottleneck. Both are our reading of
//!   "throughput is irrelevant to the number of connections"; with packets hashed, one connection
//!   would have one thread.
//! - A merged packet is as many DMA requests as packets: "the rest packets' payload data" lie apart.
//! - Descriptors: connections are made at their SYN and end at FIN ([`Creation::OnSyn`]). Without a free
//!   one the longest unused gives way; the paper does not say.
//! - A merged packet leaves when the next would not fit into 64 KB, not when it is reached.
//! - What is due leaves when the timeout thread's message comes, or with the next packet of that
//!   thread if that comes before.
//! - A gap is waited for ten intervals from the packet that has waited longest, not from the last.
//! - Connections have no window scaling: 0xFFFF promises 65,535 bytes.
//!
//! [`Resequencer`]: linecard::offload::resequence::Resequencer
//! [`ActiveAck`]: linecard::offload::active_ack::ActiveAck
//! [`Coalescer`]: linecard::offload::coalesce::Coalescer
//! [`Creation::OnSyn`]: linecard::offload::coalesce::Creation::OnSyn

mod client;
mod config;
mod cores;
#[cfg(test)]
mod counted;
mod dma;
mod engines;
mod frame;
mod host;
mod link;
mod machine;
mod outcome;
mod stream;
#[cfg(test)]
mod tests;
mod thread;

pub use config::{
    ActiveAck, Client, Config, Core, DESCRIPTOR_LEN, Discipline, Dispatch, Dma, Host, Mode, Npu,
    OTHER_THREADS, Run, SHARED_MEMORY, Start,
};
pub use dma::{Overload, Requests};
pub use host::Figures as HostFigures;
pub use outcome::{Amount, ClientFigures, DmaFigures, Drops, NpuResults, expected_share};

use linecard::progress::Progress;
use linecard_config::ConfigError;

/// Runs the model.
///
/// # Errors
///
/// The first value that is out of range or does not fit the others.
pub fn run(config: &Config) -> Result<NpuResults, ConfigError> {
    run_with_progress(config, &Progress::new())
}

/// [`run`] with progress in picoseconds of virtual time; on cancellation it ends with the results
/// so far.
///
/// # Errors
///
/// The first value that is out of range or does not fit the others.
pub fn run_with_progress(config: &Config, progress: &Progress) -> Result<NpuResults, ConfigError> {
    linecard_config::check(config)?;
    Ok(machine::Machine::new(config).run(progress))
}
