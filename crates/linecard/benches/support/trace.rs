//! Packets to be received: derived ones, or those of a capture.

use core::ops::Range;
use linecard::packet::LinkType;
use std::path::Path;

/// The least bytes of an Ethernet frame without its check sequence: shorter ones are padded.
const MIN_FRAME: usize = 60;

/// Frames in order. Derived frames share one run of payload bytes, so that 400,000 of them fit.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) link: LinkType,
    headers: Vec<u8>,
    payload: Vec<u8>,
    frames: Vec<Frame>,
    /// Derived Ethernet frames are; recorded ones are as they were.
    is_padded: bool,
}

#[derive(Debug)]
struct Frame {
    header: Range<usize>,
    payload_len: usize,
}

impl Trace {
    /// No frames yet; those to come take their payload from the front of `payload`.
    pub(crate) fn new(name: impl Into<String>, link: LinkType, payload: Vec<u8>) -> Self {
        let is_padded = link == LinkType::Ethernet;
        let (headers, frames) = (Vec::new(), Vec::new());
        Self { name: name.into(), link, headers, payload, frames, is_padded }
    }

    /// The same frames under another name.
    pub(crate) fn renamed(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    pub(crate) fn push(&mut self, header: &[u8], payload_len: usize) {
        let start = self.headers.len();
        self.headers.extend_from_slice(header);
        self.frames.push(Frame { header: start..self.headers.len(), payload_len });
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Bytes of the longest frame.
    pub(crate) fn max_len(&self) -> usize {
        (0..self.len()).map(|index| self.frame_len(index)).max().unwrap_or(0)
    }

    fn frame_len(&self, index: usize) -> usize {
        let frame = &self.frames[index];
        let least = if self.is_padded { MIN_FRAME } else { 0 };
        least.max(frame.header.len() + frame.payload_len)
    }

    /// Writes frame `index` to the front of `to`; gives its length.
    pub(crate) fn write(&self, index: usize, to: &mut [u8]) -> usize {
        let frame = &self.frames[index];
        let header = &self.headers[frame.header.clone()];
        let len = header.len() + frame.payload_len;
        to[..header.len()].copy_from_slice(header);
        to[header.len()..len].copy_from_slice(&self.payload[..frame.payload_len]);
        let padded = self.frame_len(index);
        to[len..padded].fill(0);
        padded
    }

    /// Reads at most `limit` packets of a pcap file (µs or ns, either byte order); a file cut short
    /// gives the packets before the cut.
    pub(crate) fn read(path: &Path, limit: usize) -> Result<Self, String> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
        let magic = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
        let swapped = match magic {
            Some(0xA1B2_C3D4 | 0xA1B2_3C4D) => false,
            Some(0xD4C3_B2A1 | 0x4D3C_B2A1) => true,
            _ => {
                return Err(format!("{shown}: no pcap file: this benchmark reads no other format"));
            }
        };
        let word = |offset: usize| {
            let word = u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?);
            Some(if swapped { word.swap_bytes() } else { word })
        };
        let link = LinkType::from_capture(word(20).unwrap_or(u32::MAX) & 0xFFFF);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut trace = Self { is_padded: false, ..Self::new(name, link, Vec::new()) };
        let mut offset = 24;
        while trace.len() < limit
            && let Some(len) = word(offset + 8)
            && let Some(frame) = bytes.get(offset + 16..offset + 16 + len as usize)
        {
            trace.push(frame, 0);
            offset += 16 + frame.len();
        }
        if trace.len() == 0 { Err(format!("{shown}: no packet")) } else { Ok(trace) }
    }
}
