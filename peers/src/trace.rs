//! Packets to be received: derived ones, or those of a capture.

use std::path::Path;

/// The least bytes of an Ethernet frame without its check sequence: shorter ones are padded.
const MIN_FRAME: usize = 60;
const ETHERNET: u32 = 1;

/// Frames in order. Derived frames share one run of payload bytes, so that a million of them need
/// their headers' memory only.
#[derive(Debug, Clone)]
pub struct Trace {
    headers: Vec<u8>,
    payload: Vec<u8>,
    pub frames: Vec<Frame>,
    /// Frames before this one only make flows known, and are not timed.
    pub timed_from: usize,
}

/// Where a frame's bytes lie.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    start: u32,
    header_len: u16,
    payload_len: u16,
}

impl Trace {
    /// No frames yet; those to come take their payload from the front of `payload`.
    pub fn new(payload: Vec<u8>) -> Self {
        Self { headers: Vec::new(), payload, frames: Vec::new(), timed_from: 0 }
    }

    pub fn push(&mut self, header: &[u8], payload_len: usize) {
        let start = u32::try_from(self.headers.len()).expect("less than 4 GiB of headers");
        self.headers.extend_from_slice(header);
        let [header_len, payload_len] = [header.len(), payload_len]
            .map(|len| u16::try_from(len).expect("a frame is no longer than 64 KiB"));
        self.frames.push(Frame { start, header_len, payload_len });
    }

    /// Bytes of the longest frame.
    pub fn max_len(&self) -> usize {
        let lens =
            self.frames.iter().map(|f| usize::from(f.header_len) + usize::from(f.payload_len));
        lens.max().unwrap_or(0).max(MIN_FRAME)
    }

    /// Writes a frame to the front of `to`, padded; gives its length.
    pub fn write(&self, index: usize, to: &mut [u8]) -> usize {
        let Frame { start, header_len, payload_len } = self.frames[index];
        let (start, header_len) = (start as usize, usize::from(header_len));
        let len = header_len + usize::from(payload_len);
        to[..header_len].copy_from_slice(&self.headers[start..start + header_len]);
        to[header_len..len].copy_from_slice(&self.payload[..usize::from(payload_len)]);
        if len < MIN_FRAME {
            to[len..MIN_FRAME].fill(0);
        }
        len.max(MIN_FRAME)
    }

    /// Reads at most `limit` packets of a pcap file of Ethernet (µs or ns, either byte order); a
    /// file cut short gives the packets before the cut.
    pub fn read(path: &Path, limit: usize) -> Result<Self, String> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
        let magic = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
        let swapped = match magic {
            Some(0xA1B2_C3D4 | 0xA1B2_3C4D) => false,
            Some(0xD4C3_B2A1 | 0x4D3C_B2A1) => true,
            _ => return Err(format!("{shown}: no pcap file; no other format is read here")),
        };
        let word = |offset: usize| {
            let word = u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?);
            Some(if swapped { word.swap_bytes() } else { word })
        };
        if word(20).map(|link| link & 0xFFFF) != Some(ETHERNET) {
            return Err(format!("{shown}: not a capture of Ethernet"));
        }
        let mut trace = Self::new(Vec::new());
        let mut offset = 24;
        while trace.frames.len() < limit
            && let Some(len) = word(offset + 8)
            && let Some(frame) = bytes.get(offset + 16..offset + 16 + len as usize)
        {
            trace.push(frame, 0);
            offset += 16 + frame.len();
        }
        if trace.frames.is_empty() { Err(format!("{shown}: no packet")) } else { Ok(trace) }
    }
}
