//! AF_XDP: packets of a live interface, received without copying and sent from where they lie.
//!
//! An [`Attachment`] is a program on an interface that hands the packets of its queues to sockets;
//! an [`XdpPort`] is the socket of one queue, with memory of its own. Ports share nothing, so each
//! can work on a thread of its own. Takes Linux 5.9 or newer, and rights: see [`probe()`].
//!
//! Where the driver can, packets are not copied at all; else the kernel copies each once. Bounds:
//! [`Config`]. What other programs lose: packets of a queue that has a port do not reach the kernel.
//!
//! Sources: the kernel's `Documentation/networking/af_xdp.rst` and `linux/if_xdp.h`; instructions
//! of the program after RFC 9669.

mod config;
mod counters;
mod error;
mod port;
mod probe;
mod program;
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
pub use receive::MAX_PARTS;
pub use socket::Binding;
pub use umem::XdpBuffer;
