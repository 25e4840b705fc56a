//! A gigabit adapter on a PCI bus, and the server behind it (Loeb, Rindos, Holland and Woolet,
//! "Gigabit Ethernet PCI Adapter Performance", IEEE Network, March 2001).
//!
//! Clients on 100 Mbit/s links send files through a switch to an adapter, which moves frames over a 64 bit bus into
//! buffers of the server. An interrupt handler copies each, returns the buffers in batches and leaves the protocol work
//! to deferred tasks, which run when no frame waits. Nothing tells the simulation whether frames are handled in long
//! bursts or one by one: it follows from the cost of a frame and from the rate of frames.
//!
//! Bounds: frames in flight are bounded by the windows of the sessions
//! ([`Load::window_frames`] × sessions), the FIFO by its bytes, the ring by its buffers.

mod bus;
mod config;
mod host;
mod load;
mod outcome;
mod overhead;
mod simulation;

pub use bus::{Bus, PCI_HZ, Transfer};
pub use config::{Adapter, Config, Costs, Load, Protocol, Run, Server};
pub use outcome::{Frames, PciResults};
pub use overhead::{FRAME_OVERHEAD, WIRE_OVERHEAD, efficiency, file_frames};
pub use simulation::{simulate, simulate_with_progress};
