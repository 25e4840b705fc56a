//! PCI Express: the usable rate of a link, and the reads in flight that its latency requires.
//!
//! A closed form ([`Link`], [`Nic`]) after Neugebauer et al., "Understanding `PCIe` performance for end
//! host networking" (SIGCOMM 2018), carried on to Gen7; and a small simulation of reads with tags and
//! a round trip ([`simulate_reads`]) that has to agree with it.

mod config;
mod flight;
mod link;
mod nic;

pub use config::{Config, Load, NicConfig};
pub use flight::{Reads, reads_in_flight, simulate_reads};
pub use link::{Generation, LanesError, Link, LinkConfig, Traffic};
pub use nic::{Nic, ethernet_needs_bits_per_second, fewest_lanes};
