//! A capture that never ends: TCP flows with right checksums, made as fast as they are read.

/// Ethernet, IPv4, TCP without options.
pub(crate) const HEADERS: usize = 14 + 20 + 20;

/// The next packet, and the state of every flow.
#[derive(Debug, Clone)]
pub(crate) struct Frames {
    /// Flows that take turns.
    pub(crate) flows: u32,
    /// Packets of a flow one after the other.
    pub(crate) burst: u32,
    /// Bytes of a packet's payload.
    pub(crate) payload: usize,
    /// Microseconds from packet to packet.
    pub(crate) step_us: u64,
    /// Whether flow 0 has one packet only, the first.
    pub(crate) first_alone: bool,
    pub(crate) number: u64,
}

impl Default for Frames {
    fn default() -> Self {
        Self { flows: 1, burst: 1, payload: 1448, step_us: 1, first_alone: false, number: 0 }
    }
}

/// Little-endian, microseconds, Ethernet.
pub(crate) fn pcap_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..8].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
    header[16..20].copy_from_slice(&262_144_u32.to_le_bytes());
    header[20] = 1;
    header
}

impl Frames {
    /// Adds the next pcap record; gives its bytes.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>) -> usize {
        let number = self.number;
        self.number += 1;
        let payload = self.payload;
        let at = number * self.step_us;
        let len = (HEADERS + payload) as u32;
        out.extend(((1_700_000_000 + at / 1_000_000) as u32).to_le_bytes());
        out.extend(((at % 1_000_000) as u32).to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(len.to_le_bytes());
        let (flow, turn) = self.place(number);
        frame(out, flow, turn * payload as u32, turn as u16, payload);
        16 + len as usize
    }

    /// Which flow, and the how manieth packet of it.
    fn place(&self, number: u64) -> (u32, u32) {
        if self.first_alone && number == 0 {
            return (u32::MAX, 0);
        }
        let (burst, flows) = (u64::from(self.burst), u64::from(self.flows));
        let round = number / (burst * flows);
        let flow = number / burst % flows;
        (flow as u32, (round * burst + number % burst) as u32)
    }
}

/// A frame of zeros, so that its checksum is that of its headers.
pub(crate) fn frame(out: &mut Vec<u8>, flow: u32, sequence: u32, id: u16, payload: usize) {
    let mut head = [0_u8; HEADERS];
    head[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    head[12] = 0x08;
    let [a, b, c, d] = flow.to_be_bytes();
    let ip = &mut head[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    (ip[8], ip[9]) = (64, 6);
    ip[12..16].copy_from_slice(&[10, a, b, 1]);
    ip[16..20].copy_from_slice(&[192, 0, 2, 2]);
    let sum = sum(ip, 0);
    ip[10..12].copy_from_slice(&(!sum).to_be_bytes());
    let pseudo = self::sum(&head[26..34], 6 + 20 + payload as u32);
    let tcp = &mut head[34..];
    tcp[..4].copy_from_slice(&[c, d, 0x13, 0x88]);
    tcp[8..12].copy_from_slice(&[0, 0, 0, 1]);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    (tcp[12], tcp[13]) = (0x50, 0x10);
    tcp[14] = 0xFF;
    let sum = self::sum(tcp, pseudo.into());
    tcp[16..18].copy_from_slice(&(!sum).to_be_bytes());
    out.extend(head);
    out.resize(out.len() + payload, 0);
}

/// The sum of RFC 1071.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum = start + words.sum::<u32>();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}
