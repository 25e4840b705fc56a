//! One list of frames, merged by the kernel and by us, and both results in one form.

use crate::frame::{Frame, UDP, sum16};
use crate::lab::Lab;
use crate::live::Live;
use crate::sys::{PacketSocket, Received, VNET_LEN};
use linecard::offload::burst::Merger;
use linecard::offload::coalesce::{Coalescer, Config, Flush};
use linecard::offload::virtio::{Device, Format};
use linecard::packet::{LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_testkit::packets::burst;
use linecard_testkit::packets::traffic::Arrival;
use std::ops::Range;
use std::time::Duration;

/// Frames of one list: the kernel lets everything go after 64 of one poll.
pub(crate) const MAX_FRAMES: usize = 63;
/// How often a list is sent again when the kernel began before all was sent.
const ATTEMPTS: usize = 50;
/// All of a list arrives in microseconds, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(3);

/// A frame that leaves, merged or not, its checksum complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) frame: Vec<u8>,
    /// Payload of the segments; 0 for a frame that was not merged.
    pub(crate) gso_size: u16,
}

/// The kernel's result for `frames`, all of which meet in one poll.
pub(crate) fn by_kernel(lab: &mut Lab, frames: &[Frame]) -> Vec<Merged> {
    assert!(frames.len() <= MAX_FRAMES, "a list of {} would be cut in two", frames.len());
    let bytes: Vec<_> = frames.iter().map(Frame::bytes).collect();
    for _ in 0..ATTEMPTS {
        if let Some(merged) = attempt(lab, &bytes) {
            return merged;
        }
    }
    panic!("the kernel merged before all was sent, {ATTEMPTS} times");
}

/// Sends all, then lets the kernel merge; none when it had begun before.
fn attempt(lab: &mut Lab, frames: &[Vec<u8>]) -> Option<Vec<Merged>> {
    for frame in frames {
        lab.tx.send(frame).expect("a frame is sent");
    }
    let early = lab.rx.wait(Duration::ZERO).expect("the socket is open");
    let merged = drain(&mut lab.rx, frames.len());
    (!early).then_some(merged)
}

/// Receives until the content of this many sent frames has arrived.
pub(crate) fn drain(rx: &mut PacketSocket, frames: usize) -> Vec<Merged> {
    let (mut merged, mut segments) = (Vec::new(), 0);
    while segments < frames {
        match rx.receive().expect("the socket is open") {
            Some(received) if received.outgoing => {}
            Some(received) => {
                let (one, count) = Merged::received(received);
                segments += count;
                merged.push(one);
            }
            None => {
                let more = rx.wait(PATIENCE).expect("the socket is open");
                assert!(more, "{segments} of {frames} frames came back: {merged:02x?}");
            }
        }
    }
    merged
}

/// Packets that pass an attachment.
pub(crate) fn by_attachment(live: &mut Live, frames: &[Frame]) -> Vec<Merged> {
    let bytes: Vec<_> = frames.iter().map(Frame::bytes).collect();
    bytes.iter().for_each(|frame| live.tx.send(frame).expect("a frame is sent"));
    drain(&mut live.rx, frames.len())
}

/// Our result for them: all at one time, then everything is flushed.
pub(crate) fn by_us(frames: &[Frame]) -> Vec<Merged> {
    let mut coalescer = Coalescer::new(Config::default());
    let mut merged = Vec::new();
    for frame in frames {
        let packet = Packet::new(frame.bytes(), LinkType::Ethernet, Meta::default());
        coalescer.push(packet, Instant::ZERO, &mut |packet, _| merged.push(Merged::ours(&packet)));
    }
    coalescer.flush_all(Flush::Stop, &mut |packet, _| merged.push(Merged::ours(&packet)));
    merged
}

/// The result of the burst API for them, which equals that of the coalescer with the same configuration.
pub(crate) fn check_burst(frames: &[Frame]) {
    let (link, meta, now) = (LinkType::Ethernet, Meta::default(), Instant::ZERO);
    let arrival = |frame: &Frame| Arrival { link, bytes: frame.bytes(), meta, now };
    let arrivals: Vec<Arrival> = frames.iter().map(arrival).collect();
    for format in [Format::V1, Format::Tunnel] {
        let device = Some(Device { format, ..Device::default() });
        let config = Config { device, ..Config::burst() };
        let mut merger = Merger::new(link, config.clone());
        burst::compare(&mut Rng::new(1), (&mut merger, &config), &arrivals);
    }
}

impl Merged {
    /// The kernel's form, and how many frames it was made of.
    fn received(received: Received) -> (Self, usize) {
        const NEEDS_CHECKSUM: u8 = 1;
        let Received { vnet, mut frame, .. } = received;
        let word = |at| usize::from(u16::from_ne_bytes([vnet[at], vnet[at + 1]]));
        const { assert!(VNET_LEN == 10) };
        let (gso_size, start, offset) = (word(4), word(6), word(8));
        if vnet[0] & NEEDS_CHECKSUM != 0 {
            complete(&mut frame, start, offset);
        }
        let segments = if vnet[1] == 0 {
            1
        } else {
            complete_outer(&mut frame);
            // Transport headers of TCP tell their length, those of UDP have 8 bytes.
            let header = if offset == 16 { usize::from(frame[start + 12] >> 4) * 4 } else { 8 };
            (frame.len() - start - header).div_ceil(gso_size)
        };
        (Self { frame, gso_size: gso_size as u16 }, segments)
    }

    fn ours(packet: &Packet<Vec<u8>>) -> Self {
        let gso_size = packet.meta.gso.map_or(0, |gso| gso.size);
        let frame = if packet.is_merged() {
            packet.header().iter().chain(packet.payload().flatten()).copied().collect()
        } else {
            packet.bytes().to_vec()
        };
        Self { frame, gso_size }
    }
}

/// Completes a checksum that hardware was to complete: the field holds the pseudo header's sum.
fn complete(frame: &mut [u8], start: usize, offset: usize) {
    let checksum = match (!sum16(&frame[start..]), offset) {
        (0, 6) => 0xFFFF,
        (checksum, _) => checksum,
    };
    frame[start + offset..start + offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Completes the checksum of a UDP tunnel around a merged packet.
///
/// The value that Linux leaves there (`udp4_gro_complete`, `udp6_gro_complete`) is the sum of the pseudo header
/// with the large packet's length, not complemented, for its segmentation to complete. A field that
/// holds something else is left, and so is found to differ; 0 means no checksum.
fn complete_outer(frame: &mut [u8]) {
    let v6 = frame[12..14] == [0x86, 0xDD];
    if !v6 && frame[12..14] != [8, 0] {
        return;
    }
    let (protocol, udp) = if v6 { (frame[20], 54) } else { (frame[23], 34) };
    let addresses = if v6 { 22..54 } else { 26..34 };
    let field = u16::from_be_bytes([frame[udp + 6], frame[udp + 7]]);
    let (len, number) = ((frame.len() - udp) as u16, [0, protocol]);
    let pseudo = [&frame[addresses], &len.to_be_bytes(), &number].concat();
    // The port is that of a tunnel; otherwise the field has been completed already.
    let tunnel = [4789, 6081].contains(&u16::from_be_bytes([frame[udp + 2], frame[udp + 3]]));
    if protocol == UDP && tunnel && field != 0 && field == sum16(&pseudo) {
        complete(frame, udp, 6);
    }
}

/// Which frames each was made of, by index; none if that cannot be determined.
pub(crate) fn origins(frames: &[Frame], merged: &[Merged]) -> Option<Vec<Vec<usize>>> {
    let mut free: Vec<Origin> = frames.iter().enumerate().map(Origin::new).collect();
    merged.iter().map(|one| one.origins(&mut free)).collect()
}

/// A frame that has not been found in the output yet.
struct Origin {
    index: usize,
    frame: Vec<u8>,
    /// Without the bytes behind the datagram.
    datagram: Vec<u8>,
    /// Addresses of the outermost IP header, where they lie.
    addresses: Range<usize>,
}

impl Origin {
    fn new((index, frame): (usize, &Frame)) -> Self {
        let bare = Frame { behind: Vec::new(), padded: false, ..frame.clone() };
        let ip = 14 + 4 * frame.tags.len() + frame.session.map_or(0, |_| 8);
        let v6 = frame.outer.first().map_or(frame.ip.v6, |(ip, _)| ip.v6);
        let addresses = if v6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        Self { index, frame: frame.bytes(), datagram: bare.bytes(), addresses }
    }
}

impl Merged {
    fn origins(&self, free: &mut Vec<Origin>) -> Option<Vec<usize>> {
        if self.gso_size == 0 {
            let at = free.iter().position(|origin| origin.frame == self.frame)?;
            return Some(vec![free.remove(at).index]);
        }
        let (first, header) = free.iter().enumerate().find_map(|(at, origin)| {
            let header = origin.datagram.len().checked_sub(self.gso_size.into())?;
            self.continues(header, header, origin).then_some((at, header))
        })?;
        let (mut numbers, mut at) = (vec![free.remove(first).index], usize::from(self.gso_size));
        while header + at < self.frame.len() {
            let next = free.iter().position(|o| self.continues(header + at, header, o))?;
            let origin = free.remove(next);
            at += origin.datagram.len() - header;
            numbers.push(origin.index);
        }
        Some(numbers)
    }

    /// Whether the payload of `origin`, behind a header of the length given, stands at `at`, and
    /// both have the same ends.
    fn continues(&self, at: usize, header: usize, origin: &Origin) -> bool {
        let payload = origin.datagram.get(header..).unwrap_or_default();
        let ends = origin.addresses.clone();
        !payload.is_empty()
            && self.frame.get(at..).is_some_and(|rest| rest.starts_with(payload))
            && self.frame.get(ends.clone()) == origin.datagram.get(ends)
    }
}

/// As text, numbered from 1: `1+2+3 4`. An unknown one is `?`.
pub(crate) fn text(origins: Option<&[Vec<usize>]>) -> String {
    let Some(origins) = origins else { return "?".to_owned() };
    let name = |numbers: &Vec<usize>| {
        let numbers: Vec<_> = numbers.iter().map(|number| (number + 1).to_string()).collect();
        numbers.join("+")
    };
    origins.iter().map(name).collect::<Vec<_>>().join(" ")
}
