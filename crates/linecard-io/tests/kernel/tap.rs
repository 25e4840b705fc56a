//! The virtio header as the kernel's TAP devices understand it, written and read.
//!
//! Merged packets are written to one device and read from another: whole, with a header from the kernel, or segmented
//! by the kernel, where the other end has no offloads.

use crate::around::skipped;
use crate::frame::{ACK, FIN, Frame, Ip, PSH, TCP, Tunnel, UDP, content};
use crate::lab::{self, Bridge};
use linecard::offload::coalesce::{Coalescer, Config, Flush};
use linecard::offload::segment::segment;
use linecard::offload::virtio::{Endian, Format, Header};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{ChecksumState, Layout, LinkType, Meta, Packet};
use linecard::time::Instant;
use linecard_testkit::say;
use std::time::Duration;

/// Checksums, TCP of both versions with ECN, UDP of both versions.
const PLAIN: u32 = libc::TUN_F_CSUM
    | libc::TUN_F_TSO4
    | libc::TUN_F_TSO6
    | libc::TUN_F_TSO_ECN
    | libc::TUN_F_USO4
    | libc::TUN_F_USO6;
/// `TUN_F_UDP_TUNNEL_GSO` and `TUN_F_UDP_TUNNEL_GSO_CSUM` of Linux 6.17, which libc does not name.
const TUNNELS: u32 = PLAIN | 0x080 | 0x100;
const PATIENCE: Duration = Duration::from_secs(3);
/// For what should not come.
const MOMENT: Duration = Duration::from_millis(50);

/// Frames that merge into one.
#[derive(Debug)]
struct Burst {
    name: String,
    frames: Vec<Vec<u8>>,
    /// The frames as they come back: identifications that were constant count up.
    back: Vec<Vec<u8>>,
}

impl Burst {
    fn new(name: String, lens: &[usize], change: &dyn Fn(usize, &mut Frame)) -> Self {
        let mut sequence = 0;
        let frames = lens.iter().enumerate().map(|(index, len)| {
            let mut frame = Frame::bulk(index, 0);
            (frame.sequence, frame.payload) = (sequence, content(index, *len));
            sequence += *len as u32;
            change(index, &mut frame);
            frame
        });
        let mut all: Vec<_> = frames.collect();
        let frames = all.iter().map(Frame::bytes).collect();
        let first = all[0].ip.id;
        if all.iter().all(|frame| frame.ip.id == first) {
            (0..).zip(&mut all).for_each(|(index, frame)| frame.ip.id = first + index);
        }
        Self { name, frames, back: all.iter().map(Frame::bytes).collect() }
    }

    /// Merged, its checksum left to the kernel, behind its header.
    fn merged(&self, format: Format) -> Vec<u8> {
        let mut coalescer = Coalescer::new(Config::default());
        let mut out = Vec::new();
        for frame in &self.frames {
            let packet = Packet::new(frame.clone(), LinkType::Ethernet, Meta::default());
            coalescer.push(packet, Instant::ZERO, &mut |packet, _| out.push(packet));
        }
        coalescer.flush_all(Flush::Stop, &mut |packet, _| out.push(packet));
        assert_eq!(out.len(), 1, "{}: not merged into one", self.name);
        let mut packet = out.remove(0);
        assert!(defer_checksum(&mut packet), "{}", self.name);
        let header = Header::of(&packet).expect("a device can cut it");
        let mut bytes = vec![0; format.header_len()];
        header.write(&mut bytes, format, Endian::Little).expect("there is room");
        bytes.extend(packet.header());
        packet.payload().for_each(|slice| bytes.extend(slice));
        bytes
    }
}

fn version(v6: bool) -> &'static str {
    if v6 { "IPv6" } else { "IPv4" }
}

fn plain() -> Vec<Burst> {
    let mut bursts = Vec::new();
    for (protocol, name) in [(TCP, "TCP"), (UDP, "UDP")] {
        for v6 in [false, true] {
            let mut add = |what: &str, lens: &[usize], change: &dyn Fn(&mut Frame)| {
                let name = format!("{name} over {}{what}", version(v6));
                bursts.push(Burst::new(name, lens, &|_, frame| {
                    (frame.protocol, frame.ip.v6) = (protocol, v6);
                    change(frame);
                }));
            };
            add("", &[100; 5], &|_| {});
            add(", odd, short tail", &[333, 333, 333, 7], &|_| {});
            add(", of 1", &[1; 9], &|_| {});
            add(", 44 of 1448", &[1448; 44], &|_| {});
            add(", 7 of 8948", &[8948; 7], &|_| {});
            add(", VLAN tag", &[500; 4], &|frame| frame.tags = vec![[0x81, 0, 0, 5]]);
            add(", ECT", &[500; 4], &|frame| frame.ip.tos = 2);
            if v6 {
                let options = (60, vec![0, 1, 4, 0, 0, 0, 0]);
                add(", destination options", &[500; 4], &|frame| {
                    frame.ip.extensions = vec![options.clone()];
                });
            }
            if protocol == TCP {
                add(", options", &[500; 4], &|frame| frame.options = vec![1; 12]);
            }
        }
    }
    for (protocol, name) in [(TCP, "TCP"), (UDP, "UDP")] {
        // "Don't fragment" is set: what the identification is does not matter (RFC 6864), and the
        // kernel counts it up.
        bursts.push(Burst::new(format!("{name}, one identification"), &[700; 4], &|_, frame| {
            (frame.protocol, frame.ip.id) = (protocol, 77);
        }));
    }
    for flags in [PSH, FIN, PSH | FIN] {
        bursts.push(Burst::new(format!("TCP, flags {flags:#x} last"), &[700; 3], &|at, frame| {
            frame.flags = ACK | if at == 2 { flags } else { 0 };
        }));
    }
    bursts
}

fn tunnels() -> Vec<Burst> {
    let mut bursts = Vec::new();
    for checksum in [false, true] {
        for (kind, tunnel) in
            [("VXLAN", Tunnel::Vxlan { checksum }), ("Geneve", Tunnel::Geneve { checksum })]
        {
            for (outside, inside) in [(false, false), (true, true), (false, true), (true, false)] {
                for (protocol, name) in [(TCP, "TCP"), (UDP, "UDP")] {
                    let with = if checksum { " with checksum" } else { "" };
                    let (inner, outer) = (version(inside), version(outside));
                    let name = format!("{name} over {inner} in {kind}{with} over {outer}");
                    bursts.push(Burst::new(name, &[1000, 1000, 1000, 77], &|at, frame| {
                        (frame.protocol, frame.ip.v6) = (protocol, inside);
                        let ends = (21, 22);
                        let id = 900 + at as u16;
                        let outer = Ip { v6: outside, ends, id, ..Ip::default() };
                        frame.outer = vec![(outer, tunnel)];
                    }));
                }
            }
        }
    }
    bursts
}

impl Bridge {
    fn next(&mut self, format: Format, name: &str) -> (Header, Vec<u8>) {
        let bytes = self.out_of.read(PATIENCE).expect("the device is there");
        let mut bytes = bytes.unwrap_or_else(|| panic!("{name}: nothing comes out"));
        let header = Header::read(&bytes, format, Endian::Little).expect("a whole header");
        (header, bytes.split_off(format.header_len()))
    }

    fn nothing_more(&mut self, name: &str) {
        let more = self.out_of.read(MOMENT).expect("the device is there");
        assert_eq!(more, None, "{name}: something else comes out");
    }
}

/// As the header says, with complete checksums.
fn cut(header: &Header, frame: Vec<u8>, name: &str) -> Vec<Vec<u8>> {
    let layout = Layout::parse(LinkType::Ethernet, &frame);
    let offload = header.check(&frame, &layout);
    let offload = offload.unwrap_or_else(|error| panic!("{name}: {error} in {header:?}"));
    let mut packet = Packet::with_layout(frame, LinkType::Ethernet, layout, Meta::default());
    let Some(gso) = offload.gso else {
        if offload.checksum == ChecksumState::Partial {
            complete_checksum(&mut packet);
        }
        return vec![packet.into_parts().0];
    };
    let mut segments = segment(&packet, gso).expect("it was checked");
    let (mut room, mut frames) = (vec![0; segments.max_len()], Vec::new());
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push(room[..written.len].to_vec());
    }
    frames
}

/// Asks the kernel about `bursts`; `whole`: the other end takes them as they are.
fn compare(bridge: &mut Bridge, bursts: &[Burst], format: Format, whole: bool) {
    for burst in bursts {
        let name = &burst.name;
        let written = bridge.into.write(&burst.merged(format));
        written.unwrap_or_else(|error| panic!("{name}: the kernel refuses it: {error}"));
        let mut came = Vec::new();
        while came.len() < burst.back.len() {
            let (header, frame) = bridge.next(format, name);
            let frames = cut(&header, frame, name);
            assert_eq!(frames.len() > 1, whole, "{name}: {header:?}");
            came.extend(frames);
        }
        for (number, (came, sent)) in came.iter().zip(&burst.back).enumerate() {
            assert_eq!(came, sent, "{name}: segment {}", number + 1);
        }
        assert_eq!(came.len(), burst.back.len(), "{name}");
    }
    bridge.nothing_more("after all");
}

fn ask(format: Format, bursts: &[Burst], offloads: u32) {
    for (reader, what) in [(offloads, "taken as they are"), (0, "cut by the kernel")] {
        let sides = ((format.header_len(), offloads), (format.header_len(), reader));
        let asked = lab::bridged(sides, |bridge| compare(bridge, bursts, format, reader != 0));
        let header = format.header_len();
        match asked {
            Ok(()) => say(&format!("TAP: {} packets {what}, header of {header}", bursts.len())),
            Err(why) => skipped(&format!("packets {what} by a TAP, header of {header}"), &why),
        }
    }
}

/// Promise (Offloads): Linux 6.18 segments merged packets that our virtio headers describe into the
/// original packets, and its own headers are read back: 137 packets each way through TAP devices,
/// as root.
#[test]
fn the_kernel_reads_what_we_describe_and_we_what_it_does() {
    for format in [Format::Legacy, Format::V1, Format::Tunnel] {
        ask(format, &plain(), PLAIN);
    }
}

#[test]
fn the_kernel_reads_tunnels_that_we_describe() {
    ask(Format::Tunnel, &tunnels(), TUNNELS);
}
