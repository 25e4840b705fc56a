//! A virtual machine, or another vhost-user front end, as a port.
//!
//! [`VhostDevice`] is a network card of a virtual machine, as a vhost-user back end: a front end
//! (QEMU, Cloud Hypervisor, DPDK's virtio-user) connects to its socket and shares the memory of the
//! guest. A [`VhostPort`] takes packets that the guest sends, and gives it others, each by one copy.
//!
//! The protocol is that of the crate `vhost`, and memory is mapped and accessed by `vm-memory`. Where
//! rings and regions lie is found once, not at each access. Threads are those of the ports: nothing
//! runs besides, and nothing blocks.
//!
//! **What the guest says is not believed.** Everything in its memory may change at any time, and is
//! read once. A frame whose descriptors make no sense is dropped and counted; a ring that makes
//! none stops until its front end starts it again. Work per packet is bounded by 1,024 descriptors.
//!
//! Not supported: migration (`VHOST_F_LOG_ALL` is not offered, and front ends say so), packed rings,
//! an IOMMU, control queues (front ends have their own), large packets in tunnels (their feature
//! bits are above 64, which the protocol cannot express).

mod device;
mod error;
mod features;
mod link;
mod memory;
mod port;
mod receive;
mod ring;
mod send;

pub use error::VhostError;
pub use port::{MAX_PAIRS, VhostConfig, VhostDevice, VhostPort};
