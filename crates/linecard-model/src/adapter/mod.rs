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

mod device;
mod firmware;
mod memory;
mod simulation;
#[cfg(test)]
mod tests;

pub use device::Fragment;
pub use memory::{AddressMap, Fault, Side, Window};
pub use simulation::simulate;

use crate::Ps;
use alloc::vec::Vec;

/// Headers that wait in embedded memory for the device; firmware runs so far ahead.
pub const HEADER_SLOTS: usize = 16;
/// Messages in the embedded memory of the adapter that stores them: one is filled while one is sent.
pub const PAYLOAD_BUFFERS: usize = 2;
/// Bytes of a message with its headers: what TCP segmentation is asked for, and an Ethernet header.
pub const MAX_MESSAGE: usize = 65_536 + 64;

/// Where payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From host memory to the device.
    ZeroCopy,
    /// From host memory to embedded memory, and from there to the device.
    StoreAndForward,
}

/// An adapter. All rates are ours; the defaults are of the time of the source: a bus of 64 bit and
/// 66 MHz, memory of 100 MHz, a core of 100 MHz, gigabit Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Where payload goes.
    pub kind: Kind,
    /// Bytes of a packet from the IP header on, 68 … 9216.
    pub mtu: usize,
    /// Host bus, bits per second.
    pub host_bus_bps: u64,
    /// From a read of host memory to its first byte.
    pub host_latency: Ps,
    /// Embedded memory, bits per second, reads and writes together.
    pub embedded_bps: u64,
    /// Ethernet, bits per second.
    pub wire_bps: u64,
    /// The firmware's core, cycles per second.
    pub firmware_hz: u64,
    /// Cycles to take up a message.
    pub message_cycles: u64,
    /// Cycles to build a header.
    pub header_cycles: u64,
    /// Bytes of host memory that the device's window shows; what lies beyond is a fault.
    pub host_window: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kind: Kind::ZeroCopy,
            mtu: 1_500,
            host_bus_bps: 4_266_666_667,
            host_latency: Ps::from_ns(600),
            embedded_bps: 3_200_000_000,
            wire_bps: 1_000_000_000,
            firmware_hz: 100_000_000,
            message_cycles: 300,
            header_cycles: 200,
            host_window: 1 << 30,
        }
    }
}

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

/// What an adapter does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// Not TCP over IPv4 on Ethernet.
    #[error(
        "message {0} is no whole TCP datagram over IPv4 on Ethernet: the firmware sends no other"
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
    /// No room for payload, or more than frames carry.
    #[error("an MTU of {0} bytes: choose 256 to 9216")]
    Mtu(usize),
    /// Something never ends.
    #[error("{0} is 0: give a rate above 0")]
    Rate(&'static str),
}
