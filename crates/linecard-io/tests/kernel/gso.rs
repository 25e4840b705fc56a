//! GSO: one large packet, segmented by the kernel and by us.
//!
//! The packet is sent with a virtio header out of a device that can neither segment nor compute
//! checksums, so the kernel does both; the other end sees the segments.

use crate::around::skipped;
use crate::cases::{self, Case};
use crate::frame::{
    ACK, AE, CWR, DF, ECE, FIN, Field, Frame, PSH, RST, SYN, TCP, UDP, URG, content,
};
use crate::lab::{self, Lab, Receiver};
use crate::session::{by_us, origins};
use linecard::offload::segment::segment;
use linecard::packet::{Gso, LinkType, Meta, Packet};
use linecard_testkit::say;
use std::time::Duration;

/// Bytes of the virtio header with the number of buffers, and without.
const HEADERS: [usize; 2] = [12, 10];
const PATIENCE: Duration = Duration::from_secs(3);

/// A packet to be cut.
#[derive(Debug)]
struct Large {
    name: String,
    /// The whole frame, its checksum complete.
    frame: Vec<u8>,
    /// Of which the headers are those of the frame.
    template: Frame,
    size: u16,
}

impl Large {
    fn new(name: impl Into<String>, template: Frame, size: u16) -> Self {
        Self { name: name.into(), frame: template.bytes(), template, size }
    }

    fn payload_len(&self) -> usize {
        self.frame.len() - self.header_len()
    }

    fn header_len(&self) -> usize {
        self.transport() + self.template.transport_header_len()
    }

    /// Where the transport header starts.
    fn transport(&self) -> usize {
        let transport = self.template.transport_header_len() + self.template.payload.len();
        self.template.bytes().len() - transport
    }

    /// The frame behind a virtio header of `len` bytes, its checksum left to hardware.
    fn with_virtio_header(&self, len: usize) -> Vec<u8> {
        const NEEDS_CHECKSUM: u8 = 1;
        let (tcp, v6) = (self.template.protocol == TCP, self.template.ip.v6);
        let kind = match (tcp, v6) {
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        };
        let (start, offset) = (self.transport(), if tcp { 16 } else { 6 });
        let mut bytes = vec![NEEDS_CHECKSUM, kind];
        for value in [self.header_len(), usize::from(self.size), start, offset] {
            bytes.extend((value as u16).to_ne_bytes());
        }
        bytes.resize(len, 0);
        let field = len + start + offset;
        bytes.extend(&self.frame);
        let pseudo = self.template.pseudo_sum(self.frame.len() - start);
        bytes[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        bytes
    }

    fn by_kernel(&self, lab: &mut Lab, header: usize) -> Vec<Vec<u8>> {
        let sent = lab.tx.send(&self.with_virtio_header(header));
        sent.unwrap_or_else(|error| panic!("{}: the kernel refuses it: {error}", self.name));
        receive(lab, self.payload_len().div_ceil(self.size.into()), &self.name)
    }
}

/// The `count` segments of the packet `name`.
pub(crate) fn receive(lab: &mut Lab, count: usize, name: &str) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    while segments.len() < count {
        match lab.rx.receive().expect("the socket is open") {
            Some(received) => segments.push(received.frame),
            None => {
                let more = lab.rx.wait(PATIENCE).expect("the socket is open");
                assert!(more, "{name}: {} of {count} segments came", segments.len());
            }
        }
    }
    segments
}

/// Our segments.
pub(crate) fn cut_by_us(frame: &[u8], size: u16) -> Vec<Vec<u8>> {
    let packet = Packet::new(frame, LinkType::Ethernet, Meta::default());
    let gso = Gso { size, ..Gso::default() };
    let mut cut = segment(&packet, gso).expect("a whole packet");
    let (mut room, mut segments) = (vec![0; cut.max_len()], Vec::new());
    while let Some(written) = cut.write_next(&mut room).expect("there is room") {
        segments.push(room[..written.len].to_vec());
    }
    segments
}

/// Packets of every kind that a virtio header can describe.
fn large() -> Vec<Large> {
    let mut large = Vec::new();
    for (version, v6) in [("IPv4", false), ("IPv6", true)] {
        for (protocol, name) in [(TCP, "TCP"), (UDP, "UDP")] {
            let mut frame = Frame { protocol, ..Frame::default() };
            (frame.ip.v6, frame.ip.id) = (v6, 65_530);
            for (len, size) in [
                (300, 100),
                (301, 100),
                (399, 100),
                (1001, 333),
                (64, 1),
                (9000, 1448),
                (60_000, 1448),
                (60_001, 8948),
                (2000, 1999),
            ] {
                let one = Frame { payload: content(len, len), ..frame.clone() };
                large.push(Large::new(
                    format!("{name} over {version}, {len} by {size}"),
                    one,
                    size,
                ));
            }
            frame.payload = content(1, 1000);
            fields(&mut large, &format!("{name} over {version}"), &frame);
        }
    }
    large
}

fn fields(large: &mut Vec<Large>, name: &str, frame: &Frame) {
    let mut add = |what: &str, change: &dyn Fn(&mut Frame)| {
        let mut frame = frame.clone();
        change(&mut frame);
        large.push(Large::new(format!("{name}, {what}"), frame, 300));
    };
    add("ECN", &|frame| frame.ip.tos = 3);
    add("DF not set", &|frame| frame.ip.flags_fragment ^= DF);
    add("VLAN tag", &|frame| frame.tags = vec![[0x81, 0, 0, 5]]);
    if frame.ip.v6 {
        let options = |kind| (kind, vec![0, 1, 4, 0, 0, 0, 0]);
        add("hop-by-hop options", &|frame| frame.ip.extensions = vec![options(0)]);
        add("destination options", &|frame| frame.ip.extensions = vec![options(60)]);
    }
    if frame.protocol == TCP {
        let flags = [FIN, SYN, RST, PSH, URG, ECE, CWR, AE, 0x200, 0x400, 0x800];
        for flags in flags.into_iter().chain([FIN | PSH, ECE | CWR | AE]) {
            add(&format!("flags {flags:#05x}"), &|frame| frame.flags = ACK | flags);
        }
        add("options of 12", &|frame| frame.options = vec![1; 12]);
        add("options of 40", &|frame| frame.options = vec![1; 40]);
        add("urgent pointer", &|frame| (frame.flags, frame.urgent) = (ACK | URG, 500));
        add("sequence beyond 2^32", &|frame| frame.sequence = u32::MAX - 400);
    }
    // Segments whose checksum computes to 0, which UDP sends as 0xFFFF.
    let zero = Frame { payload: content(3, 300), field: Field::ComputesToZero, ..frame.clone() };
    let bytes = zero.bytes();
    let payload = bytes[bytes.len() - 300..].repeat(3);
    add("checksums of 0", &|frame| frame.payload.clone_from(&payload));
}

/// Our merged packets of all cases, as far as a virtio header can describe it: it can neither say that
/// identifications stand still (where "don't fragment" is set they may count up), nor that CWR is on all segments, nor that frames were padded, nor
/// that there is no checksum.
fn merged(cases: &[Case]) -> Vec<Large> {
    let mut large = Vec::new();
    for case in cases {
        let merged = by_us(&case.frames);
        let origins = origins(&case.frames, &merged).expect("all can be told");
        for (one, origins) in merged.iter().zip(&origins).filter(|(_, origins)| origins.len() > 1) {
            let [first, second] = [&case.frames[origins[0]], &case.frames[origins[1]]];
            let counts = first.ip.v6 || first.ip.id != second.ip.id;
            let fixed = !counts && first.ip.flags_fragment & DF == 0;
            if fixed || first.flags & CWR != 0 || first.padded || first.field == Field::None {
                continue;
            }
            if origins.iter().any(|origin| case.frames[*origin].padded) {
                continue;
            }
            let name = format!("merged of {}", case.name);
            let (frame, template) = (one.frame.clone(), first.clone());
            large.push(Large { name, frame, template, size: one.gso_size });
        }
    }
    large
}

/// Promise (Offloads): GSO of Linux 6.18 segments 859 packets as `segment` does, byte for byte.
#[test]
fn the_kernel_cuts_what_we_cut() {
    let mut large = large();
    large.extend(merged(&cases::plain()));
    for header in HEADERS {
        let cut = lab::inside(Receiver::Plain, header, |lab| {
            for one in &large {
                let (kernel, ours) = (one.by_kernel(lab, header), cut_by_us(&one.frame, one.size));
                assert_eq!(kernel.len(), ours.len(), "{}", one.name);
                for (number, (kernel, ours)) in kernel.iter().zip(&ours).enumerate() {
                    assert_eq!(kernel, ours, "{}: segment {}", one.name, number + 1);
                }
            }
        });
        match cut {
            Ok(()) => say(&format!(
                "GSO: {} packets cut alike, virtio header of {header} bytes",
                large.len()
            )),
            Err(why) => skipped("the kernel's GSO as witness", &why),
        }
    }
}
