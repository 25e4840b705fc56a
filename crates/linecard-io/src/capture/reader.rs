//! The reader: finds the format by its magic and gives one record after the other.

use std::fmt::Write as _;
use std::io::Read;

use super::input::Input;
use super::pcap::Pcap;
use super::pcapng::Section;
use super::record::Record;
use super::source::{PcapHeader, Source};
use super::{CaptureError, Endianness, Format};

/// First bytes of compressed files, and the programs that decompress them.
const COMPRESSED: [(&[u8], &str); 5] = [
    (&[0x1f, 0x8b], "gzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (&[0xfd, b'7', b'z', b'X'], "xz"),
    (b"BZh", "bzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
];

/// Reads a capture, pcap or pcapng, from a file or a stream.
///
/// It buffers by itself: give it a plain `File` or `Stdin`.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    body: Contents,
}

#[derive(Debug)]
enum Contents {
    Pcap(Pcap),
    PcapNg(Section),
}

impl<R: Read> Reader<R> {
    /// Starts reading; the first bytes determine the format.
    pub fn new(read: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(read);
        input.fill_to(4)?;
        let Some(&start) = input.bytes().first_chunk() else {
            return Err(refusal(input.bytes()));
        };
        let body = if let Some((endianness, nanoseconds)) = PcapHeader::kind(start) {
            Contents::Pcap(Pcap::open(&mut input, endianness, nanoseconds)?)
        } else if start == *b"\n\r\r\n" {
            Contents::PcapNg(Section::open(&mut input)?)
        } else {
            return Err(refusal(&start));
        };
        Ok(Self { input, body })
    }

    /// Fills `record` with the next entry. False at the end of the file.
    ///
    /// On an error `record` is as before, all entries before the bad one have been delivered, and
    /// reading again gives the same error.
    #[inline]
    pub fn read(&mut self, record: &mut Record) -> Result<bool, CaptureError> {
        match &mut self.body {
            Contents::Pcap(pcap) => pcap.read(&mut self.input, record),
            Contents::PcapNg(section) => section.read(&mut self.input, record),
        }
    }

    /// Whether the next entry is here already. If not, the next call of [`read`](Self::read) may
    /// wait for it: on a live pipe, the time to pass on packets that are ready.
    pub fn holds_entry(&self) -> bool {
        let bytes = self.input.bytes();
        match &self.body {
            Contents::Pcap(pcap) => pcap.holds_packet(bytes),
            Contents::PcapNg(section) => {
                let length = section.endianness().u32_at(bytes, 4);
                length.is_some_and(|length| bytes.len() >= length as usize)
            }
        }
    }

    /// The format found.
    pub fn format(&self) -> Format {
        match self.body {
            Contents::Pcap(_) => Format::Pcap,
            Contents::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The link type (LINKTYPE value) of an interface of the current section; pcap has only
    /// interface 0.
    pub fn link_type(&self, interface: u32) -> Option<u32> {
        match &self.body {
            Contents::Pcap(pcap) => (interface == 0).then(|| pcap.link_type().into()),
            Contents::PcapNg(section) => {
                section.interfaces().get(interface).ok().map(|known| known.link_type.into())
            }
        }
    }

    /// Interfaces described so far in the current section; 1 for pcap.
    pub fn interface_count(&self) -> usize {
        match &self.body {
            Contents::Pcap(_) => 1,
            Contents::PcapNg(section) => section.interfaces().count(),
        }
    }

    /// Bytes consumed: where the next entry begins.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The byte order of the current section.
    pub fn endianness(&self) -> Endianness {
        match &self.body {
            Contents::Pcap(pcap) => pcap.endianness(),
            Contents::PcapNg(section) => section.endianness(),
        }
    }

    /// The properties of this capture that a [`Writer`](super::Writer) needs.
    pub fn source(&self) -> Source {
        match &self.body {
            Contents::Pcap(pcap) => pcap.source(),
            Contents::PcapNg(section) => Source::pcapng(section.endianness()),
        }
    }
}

/// Why a file that starts like this is not read.
fn refusal(start: &[u8]) -> CaptureError {
    for (magic, with) in COMPRESSED {
        if start.starts_with(magic) {
            return CaptureError::Compressed { with };
        }
    }
    if start.is_empty() {
        return CaptureError::NotACapture { found: "the input is empty".into() };
    }
    let mut found = String::from("it starts with");
    for byte in start {
        // Writing to a string cannot fail.
        let _ = write!(found, " {byte:02x}");
    }
    CaptureError::NotACapture { found }
}
