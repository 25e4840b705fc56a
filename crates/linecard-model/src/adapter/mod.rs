//! An adapter whose Ethernet device fetches payload from host memory, compared with one that stores
//! and forwards it (US application 10/082,893, Cheng, 2002).
//!
//! Each read of the device is decoded by its address: one window leads to host memory, another to the adapter's
//! embedded memory. Firmware (`firmware/adapter.c`, on the RV32I core) builds headers in embedded memory and sums them
//! with the pseudo header; the device fetches payload from host memory and adds its sum. Data that fits in one packet
//! is sent as one. On the receive side, the firmware has the header and the device's sum, and returns the sequence
//! number, which gives the place of the payload in the stream. The other adapter first copies whole messages to
//! embedded memory, and is otherwise equal. Both process real bytes; the source contains no measurements, so all
//! results here are our own.
//!
//! Bounds: [`HEADER_SLOTS`] headers and [`PAYLOAD_BUFFERS`] messages in embedded memory, one frame on
//! the wire and one in the device; on the receive side [`HEADER_SLOTS`] frames.

mod config;
mod device;
mod firmware;
mod load;
mod memory;
mod receive;
mod simulation;
#[cfg(test)]
mod tests;

pub use config::{Adapter, Config, Firmware, Host, Kind, Load, Path};
pub use device::Fragment;
pub use load::{HEADERS, message, segments};
pub use memory::{AddressMap, Fault, Side, Window};
pub use simulation::simulate;

use crate::Ps;
use crate::rv32::{self, LoadError, Stop};
use alloc::vec::Vec;
use linecard_config::ConfigError;

/// Headers that may wait in embedded memory for the device: how far firmware runs ahead.
pub const HEADER_SLOTS: usize = 16;
/// Messages in the embedded memory of the storing adapter: one is filled while another is sent.
pub const PAYLOAD_BUFFERS: usize = 2;
/// Bytes of a message with its headers: the most that TCP segmentation accepts, and an Ethernet
/// header.
pub const MAX_MESSAGE: usize = 65_536 + 64;

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdapterResults {
    /// The frames on the wire, in their order, without CRC; on the way in those that were accepted, with the payload that
    /// is in host memory.
    pub frames: Vec<Vec<u8>>,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Bytes over the host bus.
    pub host_bus_bytes: u64,
    /// Bytes read from and written to embedded memory.
    pub embedded_bytes: u64,
    /// Payload among them.
    pub embedded_payload_bytes: u64,
    /// Cycles of the firmware's core.
    pub core_cycles: u64,
    /// Messages that fit in one packet; of received frames all.
    pub single_packets: u64,
    /// Accesses outside both windows.
    pub faults: u64,
    /// The first wrong answer of the firmware to a received frame.
    pub mismatch: Option<Mismatch>,
    /// Frames and whole messages not sent because of faults; frames that were refused.
    pub dropped: u64,
    /// When the first frame had been sent.
    pub first: Ps,
    /// When the last frame had been sent.
    pub last: Ps,
}

impl AdapterResults {
    /// Payload rate from the start to the last bit, in bits per second.
    #[must_use]
    pub fn bps(&self) -> f64 {
        self.payload_bytes as f64 * 8.0 / self.last.as_secs_f64().max(1e-12)
    }
}

/// A received frame that the firmware did not deliver once, at its place, or delivered although it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("frame {frame}: {field}: expected {expected}, got {got}")]
pub struct Mismatch {
    /// Its number in the order of arrival, from 0.
    pub frame: u64,
    /// Of its answer.
    pub field: &'static str,
    /// From the frame itself.
    pub expected: u32,
    /// From the firmware.
    pub got: u32,
}

/// The end of firmware that does not wait for the next message or frame.
#[derive(Debug, thiserror::Error)]
pub enum FirmwareEnd {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It did what the core cannot do.
    #[error(transparent)]
    Fault(#[from] rv32::Fault),
    /// It ended, or took too long.
    #[error("{stop:?} at {pc:#x}, cycle {cycle}")]
    Stop {
        /// The end.
        stop: Stop,
        /// The address of the instruction.
        pc: u32,
        /// The cycle.
        cycle: u64,
    },
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
    /// The firmware does not finish.
    #[error("message or frame {index}: the firmware does not wait for the next one: {end}")]
    Firmware {
        /// Which.
        index: usize,
        /// Its end instead.
        end: FirmwareEnd,
    },
    /// Too long for the embedded memory's buffers.
    #[error("message {index} has {len} bytes: send at most {MAX_MESSAGE}")]
    TooLong {
        /// Which.
        index: usize,
        /// Its bytes.
        len: usize,
    },
}
