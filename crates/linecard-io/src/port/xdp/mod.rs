//! AF_XDP: packets of a live interface, received without copying and sent from where they are.
//!
//! An [`Attachment`] is a program on an interface that passes the packets of its queues to sockets;
//! an [`XdpPort`] is the socket of one queue, with its own memory. Ports share nothing, so each can
//! run on its own thread. Requires Linux 5.9 or newer, and privileges: see [`probe()`].
//!
//! If the driver supports it, packets are not copied at all; otherwise the kernel copies each once.
//! Bounds: [`Config`]. Packets of a queue that has a port do not reach the kernel's stack or other
//! programs.
//!
//! Sources: the kernel's `Documentation/networking/af_xdp.rst` and `linux/if_xdp.h`; instructions
//! of the program after RFC 9669.

mod config;
mod counters;
mod error;
mod port;
mod probe;
mod program;
mod queues;
mod receive;
mod ring;
mod send;
mod settle;
mod socket;
mod sys;
mod umem;

pub use config::{Config, FrameLen};
pub use counters::{Counters, KernelCounters};
pub use error::XdpError;
pub use port::{Frames, XdpPort};
pub use probe::{Features, probe};
pub use program::{Attachment, MAX_QUEUES, Mode};
pub use queues::XdpQueues;
pub use receive::MAX_PARTS;
pub use socket::Binding;
pub use umem::XdpBuffer;
