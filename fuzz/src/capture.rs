//! Any bytes as a capture: no panic, and what can be read comes back from what is written.

use linecard_io::capture::{Format, Reader, Record, Writer};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) data: Vec<u8>,
    options: Vec<u8>,
    ticks: u64,
    interface: u32,
    original_len: u32,
    pub(crate) is_packet: bool,
}

/// Input: the capture.
pub fn capture(data: &[u8]) {
    let Ok(reader) = Reader::new(data) else { return };
    let format = reader.format();
    let read = entries(data);
    if let Some(written) = copy(data, format) {
        assert_eq!(read, entries(&written), "in the same format");
    }
    let other = if format == Format::Pcap { Format::PcapNg } else { Format::Pcap };
    if let Some(written) = copy(data, other) {
        let data = |entries: Vec<Entry>| -> Vec<Vec<u8>> {
            let packets = entries.into_iter().filter(|entry| entry.is_packet);
            packets.map(|entry| entry.data).collect()
        };
        assert_eq!(data(read), data(entries(&written)), "in the other format");
    }
}

pub(crate) fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let Ok(mut reader) = Reader::new(bytes) else { return entries };
    let mut record = Record::default();
    while let Ok(true) = reader.read(&mut record) {
        entries.push(Entry {
            data: record.data().to_vec(),
            options: record.options().to_vec(),
            ticks: record.ticks(),
            interface: record.interface(),
            original_len: record.original_len(),
            is_packet: record.is_packet(),
        });
    }
    entries
}

/// Everything that can be read, written again; none when this format cannot hold it.
fn copy(bytes: &[u8], format: Format) -> Option<Vec<u8>> {
    let mut reader = Reader::new(bytes).ok()?;
    let mut writer = Writer::new(Vec::new(), format, reader.source()).ok()?;
    let mut record = Record::default();
    while let Ok(true) = reader.read(&mut record) {
        writer.write(&record).ok()?;
    }
    writer.finish().ok()
}
