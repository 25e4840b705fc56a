//! Capture files: pcap and pcapng, read and written as a stream.
//!
//! [`Reader`] fills one reusable [`Record`] per entry; [`Writer`] passes records through, byte for
//! byte when the format stays the same, or writes new packets in the likeness of read ones;
//! [`OutputFile`] is where results go, visible under their name only when complete.
//!
//! Memory does not grow with the file: one buffer of [`MAX_ENTRY`] bytes, one record, and a table
//! of at most [`MAX_INTERFACES`] interfaces. Lengths in a file are never trusted to allocate.
//!
//! Not supported: compressed captures, pcap's modified variants (Kuznetzov, Navtel, AIX), entries
//! longer than [`MAX_ENTRY`].
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

#[cfg(test)]
mod build;
mod endian;
mod error;
mod flatten;
mod input;
mod interface;
pub mod options;
mod output;
mod pcap;
mod pcapng;
mod reader;
mod record;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use endian::Endianness;
pub use error::{CaptureError, Damage};
pub use flatten::Lost;
pub use input::MAX_ENTRY;
pub use interface::MAX_INTERFACES;
pub use output::{Incomplete, OutputFile, Removed};
pub use reader::Reader;
pub use record::{Record, Shape};
pub use source::Source;
pub use writer::{OptionMatch, PacketChange, Writer};

/// The two file formats for captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The classic format: one header, one link type, packets.
    Pcap,
    /// The block format: sections, interfaces, packets with options, anything else.
    PcapNg,
}
