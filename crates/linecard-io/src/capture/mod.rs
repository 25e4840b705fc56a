//! Capture files: pcap and pcapng, read and written as a stream.
//!
//! [`Reader`] fills one reusable [`Record`] per entry; [`Writer`] passes records through, byte for
//! byte when the format stays the same, or writes new packets in the likeness of read ones;
//! [`OutputFile`] is where results go, visible under their name only when complete.
//!
//! Memory does not grow with the file: one buffer of [`MAX_ENTRY`] bytes, one record, and a table
//! of at most [`MAX_INTERFACES`] interfaces. Lengths in a file are never trusted to allocate.
//!
//! [`Decompressed`] undoes gzip, zstd and lz4, and [`OutputFile::create_capture`] compresses by name.
//!
//! Not supported: other compressions, pcap's modified variants (Kuznetzov, Navtel, AIX), entries longer
//! than [`MAX_ENTRY`].
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

#[cfg(test)]
mod build;
mod compressed;
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

pub use compressed::{Compression, Decompressed, MAX_WINDOW, decompressed};
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

use std::path::Path;

/// The two file formats for captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The classic format: one header, one link type, packets.
    Pcap,
    /// The block format: sections, interfaces, packets with options, anything else.
    PcapNg,
}

impl Format {
    /// The format that a file's name asks for, before the ending of its [`Compression`].
    ///
    /// ```
    /// use linecard_io::capture::Format;
    /// use std::path::Path;
    /// assert_eq!(Format::of_name(Path::new("a.pcap.gz")), Format::Pcap);
    /// assert_eq!(Format::of_name(Path::new("a.zst")), Format::PcapNg);
    /// ```
    #[must_use]
    pub fn of_name(path: &Path) -> Self {
        let stem = path.with_extension("");
        let is_compressed = Compression::of_name(path) != Compression::None;
        let plain = if is_compressed { stem.as_path() } else { path };
        match plain.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("pcap") => Self::Pcap,
            _ => Self::PcapNg,
        }
    }
}
