//! An adapter whose Ethernet device fetches payload from host memory, beside one that stores and
//! forwards it (application 10/082,893, Cheng, 2002; in papers/zero-copy-and-gigabit-pci.txt).
//!
//! Each read of the device is decoded by its address: one window leads to host memory, another to the
//! adapter's embedded memory. Firmware builds headers in embedded memory and sums them with the
//! pseudo header; payload is fetched by the device from where the host left it, and the device adds
//! its sum. Data that fits a packet goes as one. The other adapter brings all of a message to embedded
//! memory first, and does the rest alike. Real bytes go through both; the source holds no figures, so
//! all that is measured here is ours.
//!
//! Bounds: [`HEADER_SLOTS`] headers and [`PAYLOAD_BUFFERS`] messages in embedded memory, one frame on
//! the wire and one in the device.

mod config;
mod device;
mod firmware;
mod load;
mod memory;
mod simulation;
#[cfg(test)]
mod tests;

pub use config::{Adapter, Config, Firmware, Host, Kind, Load};
pub use device::Fragment;
pub use load::{HEADERS, message, segments};
pub use memory::{AddressMap, Fault, Side, Window};
pub use simulation::simulate;

use crate::Ps;
use alloc::vec::Vec;
use linecard_config::ConfigError;

/// Headers that wait in embedded memory for the device; firmware runs so far ahead.
pub const HEADER_SLOTS: usize = 16;
/// Messages in the embedded memory of the adapter that stores them: one is filled while one is sent.
pub const PAYLOAD_BUFFERS: usize = 2;
/// Bytes of a message with its headers: what TCP segmentation is asked for, and an Ethernet header.
pub const MAX_MESSAGE: usize = 65_536 + 64;

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The frames on the wire, in their order, without CRC.
    pub frames: Vec<Vec<u8>>,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Bytes over the host bus.
    pub host_bus_bytes: u64,
    /// Bytes read from and written to embedded memory.
    pub embedded_bytes: u64,
    /// Payload among them.
    pub embedded_payload_bytes: u64,
    /// Messages that fitted one packet.
    pub single_packets: u64,
    /// Accesses outside both windows.
    pub faults: u64,
    /// Frames and whole messages not sent because of these.
    pub dropped: u64,
    /// When the first frame had left.
    pub first: Ps,
    /// When the last one had.
    pub last: Ps,
}

impl Outcome {
    /// Payload per second from the beginning to the last bit, in bits.
    #[must_use]
    pub fn bps(&self) -> f64 {
        self.payload_bytes as f64 * 8.0 / self.last.as_secs_f64().max(1e-12)
    }
}

/// Why a run is refused.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A parameter.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not TCP over IPv4 on Ethernet.
    #[error(
        "message {0} is not a whole TCP datagram over IPv4 on Ethernet: the firmware sends no other"
    )]
    Message(usize),
    /// Too long for the embedded memory's buffers.
    #[error("message {index} has {len} bytes: send at most {MAX_MESSAGE}")]
    TooLong {
        /// Which.
        index: usize,
        /// Its bytes.
        len: usize,
    },
}
