//! pcapng built by hand, as no capture program would write it.

use crate::frames::frame;

/// A section that grows by blocks; what has been fed is taken out.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) bytes: Vec<u8>,
    /// Packets so far.
    pub(crate) packets: u32,
    /// When the next packet comes.
    pub(crate) seconds: u64,
}

impl Section {
    /// Section header, and an Ethernet interface.
    pub(crate) fn new() -> Self {
        let mut section = Self { bytes: Vec::new(), packets: 0, seconds: 0 };
        let mut header = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        header.extend([1, 0, 0, 0]);
        header.extend([0xFF; 8]);
        section.block(0x0a0d_0d0a, &header);
        section.block(1, &[1, 0, 0, 0, 0, 0, 0, 0]);
        section
    }

    pub(crate) fn block(&mut self, code: u32, body: &[u8]) {
        let padding = body.len().next_multiple_of(4) - body.len();
        let len = ((12 + body.len() + padding) as u32).to_le_bytes();
        self.bytes.extend(code.to_le_bytes());
        self.bytes.extend(len);
        self.bytes.extend(body);
        self.bytes.extend(&[0; 3][..padding]);
        self.bytes.extend(len);
    }

    /// An Enhanced Packet Block.
    pub(crate) fn packet(&mut self, data: &[u8], options: &[(u16, &[u8])]) {
        self.packets += 1;
        let len = (data.len() as u32).to_le_bytes();
        let micros = self.seconds * 1_000_000;
        let mut body = vec![0; 4];
        body.extend(((micros >> 32) as u32).to_le_bytes());
        body.extend((micros as u32).to_le_bytes());
        body.extend(len);
        body.extend(len);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        for (code, value) in options {
            body.extend(code.to_le_bytes());
            body.extend((value.len() as u16).to_le_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.extend([0; 4]);
        }
        self.block(6, &body);
    }
}

/// A packet of a flow of its own.
pub(crate) fn packet(flow: u32, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(&mut bytes, flow, 1, 1, payload.max(100));
    bytes
}

/// Metadata that `coalesce` writes for two segments: the second of them `entries` further in the
/// file.
pub(crate) fn metadata_of_two(size: u16, mut entries: u64) -> Vec<u8> {
    let mut bytes = b"LCT1\0".to_vec();
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, 2]);
    while entries >= 0x80 {
        bytes.push(entries as u8 | 0x80);
        entries >>= 7;
    }
    bytes.extend([entries as u8, 0]);
    bytes
}
