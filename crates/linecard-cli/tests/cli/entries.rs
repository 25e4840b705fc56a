//! Captures read back through the library, to compare them entry by entry.

use linecard_io::capture::{Reader, Record};

/// Fields of a packet that must be equal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) data: Vec<u8>,
    pub(crate) options: Vec<u8>,
    pub(crate) timestamp_ns: u64,
    pub(crate) interface: u32,
    pub(crate) original_len: u32,
}

/// The packets of a capture, up to where it is damaged.
pub(crate) fn packets(bytes: &[u8]) -> Vec<Entry> {
    let (mut reader, mut record) = (Reader::new(bytes).unwrap(), Record::default());
    let mut packets = Vec::new();
    while let Ok(true) = reader.read(&mut record) {
        if record.is_packet() {
            packets.push(Entry {
                data: record.data().to_vec(),
                options: record.options().to_vec(),
                timestamp_ns: record.timestamp_ns(),
                interface: record.interface(),
                original_len: record.original_len(),
            });
        }
    }
    packets
}

/// Where each packet of a little-endian pcap file begins, and where the last one ends.
pub(crate) fn offsets(pcap: &[u8]) -> Vec<usize> {
    let mut offsets = vec![24];
    while let Some(len) = pcap.get(offsets[offsets.len() - 1] + 8..).and_then(|b| b.first_chunk()) {
        offsets.push(offsets[offsets.len() - 1] + 16 + u32::from_le_bytes(*len) as usize);
    }
    offsets
}
