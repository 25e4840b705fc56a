//! Drives the coalescer, collects what leaves, and checks what holds for any input.

use super::coalescer::{Out, Twin};
use super::frame::{Frame, be32};
use super::plain;
use super::traffic::{Arrival, Scenario};
use linecard::offload::coalesce::{Coalescer, Config, Exit, Flush, Input, Refusal};
use linecard::offload::segment::segment;
use linecard::packet::{Batch, Form, Layout, LinkType, Meta, Packet};
use linecard::time::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A buffer that knows which arrival it is.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub link: LinkType,
    pub number: usize,
    pub bytes: Vec<u8>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

pub fn packet(number: usize, arrival: &Arrival) -> Packet<Buffer> {
    let buffer = Buffer { link: arrival.link, number, bytes: arrival.bytes.clone() };
    Packet::new(buffer, arrival.link, arrival.meta)
}

/// Numbers of the arrivals in a packet.
pub fn numbers(packet: &Packet<Buffer>) -> Vec<usize> {
    let rest = packet.chain().iter().map(|piece| piece.buffer().number);
    core::iter::once(packet.buffer().number).chain(rest).collect()
}

/// The whole frame: of a merged packet, header and payload.
pub fn whole(packet: &Packet<Buffer>) -> Vec<u8> {
    if !packet.is_merged() {
        return packet.bytes().to_vec();
    }
    let mut frame = packet.header().to_vec();
    packet.payload().for_each(|slice| frame.extend(slice));
    frame
}

/// The coalescer and all that has left it.
pub struct Real {
    pub coalescer: Coalescer<Buffer>,
    pub out: Vec<(Packet<Buffer>, Exit)>,
    batches: usize,
    /// Batches given as frames.
    pub as_frames: usize,
}

impl Real {
    pub fn new(config: Config) -> Self {
        Self { coalescer: Coalescer::new(config), out: Vec::new(), batches: 0, as_frames: 0 }
    }

    pub fn push(&mut self, number: usize, arrival: &Arrival) {
        let out = &mut self.out;
        self.coalescer.push(packet(number, arrival), arrival.now, &mut |p, e| out.push((p, e)));
    }

    /// As packets, or every other time as frames where that says the same.
    pub fn push_batch(&mut self, batch: &mut Batch<Buffer>, now: Instant) {
        let out = &mut self.out;
        let mut out = |packet, exit| out.push((packet, exit));
        self.batches += 1;
        match common(batch) {
            Some((link, meta)) if self.batches.is_multiple_of(2) => {
                let mut frames = batch.drain().map(|packet| packet.into_parts().0).collect();
                self.as_frames += 1;
                self.coalescer.push_batch(Input::Frames(&mut frames, link, meta), now, &mut out);
            }
            _ => self.coalescer.push_batch(batch, now, &mut out),
        }
    }

    pub fn advance(&mut self, now: Instant) {
        let out = &mut self.out;
        self.coalescer.advance(now, &mut |p, e| out.push((p, e)));
    }

    pub fn stop(&mut self) {
        let out = &mut self.out;
        self.coalescer.flush_all(Flush::Stop, &mut |p, e| out.push((p, e)));
    }

    /// Output, in the twin's terms.
    pub fn outs(&self) -> Vec<Out> {
        let out = |(packet, exit): &(Packet<Buffer>, Exit)| Out {
            packets: numbers(packet),
            frame: whole(packet),
            gso: packet.meta.gso,
            flush: match exit {
                Exit::Passed(_) => None,
                Exit::Flushed(reason) => Some(*reason),
            },
        };
        self.out.iter().map(out).collect()
    }
}

/// The metadata of all packets of a batch, if it is equal but for arrival times.
fn common(batch: &Batch<Buffer>) -> Option<(LinkType, Meta)> {
    let of =
        |packet: &Packet<Buffer>| (packet.link(), Meta { timestamp: Instant::ZERO, ..packet.meta });
    let first = batch.front()?;
    let same = batch.iter().all(|packet| of(packet) == of(first) && !packet.is_merged());
    same.then_some((first.link(), first.meta))
}

/// Gives both the same packets at the same times.
pub fn run(scenario: &Scenario) -> (Real, Twin) {
    let mut real = Real::new(scenario.config.clone());
    let mut twin = Twin::new(scenario.config.clone());
    let flush_at_end = scenario.config.flush_at_batch_end;
    let mut at = 0;
    while at < scenario.arrivals.len() {
        let now = scenario.arrivals[at].now;
        while let Some(wakeup) = twin.next_wakeup().filter(|_| scenario.punctual) {
            if Instant::from_ns(wakeup) > now {
                break;
            }
            twin.advance(wakeup);
            real.advance(Instant::from_ns(wakeup));
        }
        // Alone, or as many as come to one batch.
        let in_batches = flush_at_end || at % 3 > 0;
        let size = if in_batches { 1 + at % 64 } else { 1 };
        let end = (at + size).min(scenario.arrivals.len());
        let mut batch = Batch::new();
        for number in at..end {
            let arrival = &scenario.arrivals[number];
            if in_batches {
                batch.push(packet(number, arrival)).expect("at most 64");
            } else {
                real.push(number, arrival);
            }
            if !flush_at_end {
                twin.push(number, arrival.link, &arrival.bytes, arrival.meta, now.as_ns());
            }
        }
        let mut left: Vec<usize> = if flush_at_end { (at..end).collect() } else { Vec::new() };
        while !left.is_empty() {
            let number = left.remove(twin.next_of(&left, &scenario.arrivals));
            let Arrival { link, bytes, meta, .. } = &scenario.arrivals[number];
            twin.push(number, *link, bytes, *meta, now.as_ns());
        }
        if in_batches {
            real.push_batch(&mut batch, now);
        }
        if flush_at_end {
            twin.flush_all(Flush::BatchEnd);
        }
        assert_eq!(real.coalescer.held(), twin.held(), "held after packet {}", end - 1);
        let wakeup = real.coalescer.next_wakeup().map(Instant::as_ns);
        let exact = twin.next_wakeup();
        assert_eq!(wakeup.is_some(), exact.is_some(), "wake-up after packet {}", end - 1);
        assert!(wakeup <= exact, "late wake-up after packet {}", end - 1);
        at = end;
    }
    real.stop();
    twin.flush_all(Flush::Stop);
    (real, twin)
}

/// The same frames in the same order within each flow, for the same reasons. Where nothing is held, packets are examined
/// only to join each other: why one stays alone, or could not have joined others, is not told.
pub fn same_outs(config: &Config, arrivals: &[Arrival], real: &[Out], twin: &[Out]) {
    let told = |out: &Out| match out.flush {
        flush if !config.flush_at_batch_end => flush,
        _ if out.packets.len() == 1 => None,
        Some(Flush::Bypass) => Some(Flush::Displaced),
        flush => flush,
    };
    let by_flow = |outs: &[Out]| {
        let mut flows: BTreeMap<Option<Vec<u8>>, Vec<Out>> = BTreeMap::new();
        for out in outs {
            let arrival = &arrivals[out.packets[0]];
            let view = plain::view(arrival.link, &arrival.bytes);
            let key = plain::flow_key(&arrival.bytes, &view, arrival.meta.lane);
            flows.entry(key).or_default().push(Out { flush: told(out), ..out.clone() });
        }
        flows
    };
    let (real, twin) = (by_flow(real), by_flow(twin));
    assert!(real.keys().eq(twin.keys()), "other flows");
    for (real, twin) in real.values().flatten().zip(twin.values().flatten()) {
        assert_eq!((&real.packets, real.flush, real.gso), (&twin.packets, twin.flush, twin.gso));
        let frames = (&real.frame, &twin.frame);
        assert!(real.frame == twin.frame, "{:?} {:02x?}", real.packets, frames);
    }
}

/// `received == passed + flushed segments + held`, and what else the counters promise.
pub fn check_counters(real: &Real, arrivals: &[Arrival]) {
    let counters = real.coalescer.counters();
    let held = real.coalescer.held() as u64;
    let passed = real.out.iter().filter(|(_, exit)| matches!(exit, Exit::Passed(_))).count() as u64;
    let flushed = real.out.len() as u64 - passed;
    let segments: u64 = (real.out.iter())
        .filter(|(_, exit)| matches!(exit, Exit::Flushed(_)))
        .map(|(packet, _)| 1 + packet.chain().len() as u64)
        .sum();
    assert_eq!(counters.packets_in, arrivals.len() as u64);
    assert_eq!(counters.bytes_in, arrivals.iter().map(|a| a.bytes.len() as u64).sum::<u64>());
    assert_eq!(counters.packets_in, passed + segments + held, "a packet is lost or doubled");
    assert_eq!(counters.passed, passed);
    assert_eq!(counters.packets_out, passed + flushed);
    assert_eq!(counters.flushed.total(), flushed);
    assert_eq!((counters.segments.count(), counters.hold_ns.count()), (flushed, flushed));
    assert_eq!(counters.merged, counters.packets_in - counters.packets_out - held);
    // Packets without data are refused once, and leave for that reason.
    for reason in [Refusal::NoPayload, Refusal::Fragment, Refusal::NotIp] {
        let times = real.out.iter().filter(|(_, exit)| *exit == Exit::Passed(reason)).count();
        assert_eq!(counters.refused.of(reason), times as u64, "{reason:?}");
    }
    for reason in Flush::ALL {
        let times = real.out.iter().filter(|(_, exit)| *exit == Exit::Flushed(*reason)).count();
        assert_eq!(counters.flushed.of(*reason), times as u64, "{reason:?}");
    }
}

/// Every packet leaves once, as it came, after segmenting; in order in its flow; and what shows no
/// ports does not overtake anything between its two ends.
pub fn check_round_trip(real: &Real, arrivals: &[Arrival]) {
    let mut seen = vec![false; arrivals.len()];
    let mut room = vec![0xCC; 70_000];
    for (packet, _) in &real.out {
        let numbers = numbers(packet);
        for number in &numbers {
            assert!(!core::mem::replace(&mut seen[*number], true), "packet {number} left twice");
        }
        let Some(gso) = packet.meta.gso.filter(|_| packet.is_merged()) else {
            assert_eq!(packet.bytes(), arrivals[numbers[0]].bytes, "packet {} changed", numbers[0]);
            continue;
        };
        assert_eq!(usize::from(gso.segments), numbers.len());
        check_layout(packet);
        let mut segments = segment(packet, gso).expect("a merged packet can be segmented");
        for number in &numbers {
            let written = segments.write_next(&mut room).expect("room").expect("a segment");
            let original = &arrivals[*number].bytes;
            assert!(room[..written.len] == **original, "packet {number} is not given back");
        }
        assert!(segments.write_next(&mut room).expect("room").is_none(), "one segment too many");
    }
    let missing = seen.iter().position(|seen| !seen);
    assert_eq!(missing, None, "a packet never left");
    let config = real.coalescer.config();
    let left = real.out.iter().flat_map(|(packet, _)| numbers(packet));
    check_order(left, arrivals, config.flush_at_batch_end && config.restore_order);
}

/// Parsing a merged packet again finds the same headers.
fn check_layout(packet: &Packet<Buffer>) {
    let bytes = whole(packet);
    let (layout, held) = (Layout::parse(packet.buffer().link, &bytes), packet.layout());
    assert_eq!((layout.form(), layout.end()), (Form::Datagram, bytes.len()));
    assert!(layout.layers().eq(held.layers()) && layout.header_len() == held.header_len());
}

/// Packets that left in this order are in order in their flow, and no packet without visible ports
/// overtook one between its ends. Where the order is restored, data of TCP may overtake what follows
/// them, and what has no data.
pub fn check_order(left: impl Iterator<Item = usize>, arrivals: &[Arrival], restored: bool) {
    let mut last: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut waiting: HashMap<Vec<Vec<u8>>, BTreeSet<usize>> = HashMap::new();
    let views: Vec<_> = arrivals.iter().map(|a| plain::view(a.link, &a.bytes)).collect();
    let ends = |n: usize| plain::ends(&arrivals[n].bytes, &views[n], arrivals[n].meta.lane);
    // A packet waits under all ends it shows: those of its outermost header, of the first two...
    let levels = |ends: Vec<Vec<u8>>| (1..=ends.len()).map(move |level| ends[..level].to_vec());
    for number in 0..arrivals.len() {
        for level in levels(ends(number)) {
            waiting.entry(level).or_default().insert(number);
        }
    }
    for number in left {
        let arrival = &arrivals[number];
        let (view, ends) = (&views[number], ends(number));
        let key = plain::flow_key(&arrival.bytes, view, arrival.meta.lane);
        if key.is_none() && plain::is_carrier(view.protocol) && !ends.is_empty() {
            let first = waiting[&ends].first().copied();
            assert_eq!(first, Some(number), "packet {number} overtook one of its ends");
        }
        for level in levels(ends) {
            waiting.get_mut(&level).expect("entered above").remove(&number);
        }
        if let Some(key) = key {
            let sequence = |number: usize| {
                let (bytes, view) = (&arrivals[number].bytes, &views[number]);
                let has_data = view.is_tcp() && view.payload_len() > 0;
                has_data.then(|| be32(bytes, view.transport + 4))
            };
            let before = last.insert(key, number);
            let follows = |before: usize| {
                let earlier = sequence(before).expect("only data overtake");
                let is_later = |own: u32| (own.wrapping_sub(earlier) as i32) > 0;
                restored && sequence(number).is_none_or(is_later)
            };
            let right = before.is_none_or(|before| before < number || follows(before));
            assert!(right, "{number} came after {before:?}");
        }
    }
}

/// Gives frames to a coalescer at one moment and lets everything go behind the last.
pub fn coalesce(config: Config, frames: &[Frame]) -> Real {
    let mut real = Real::new(config);
    let arrivals = arrivals(frames);
    arrivals.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.stop();
    real
}

/// [`coalesce`] with the defaults: the packets in each that left, after checking that everything
/// is given back in order.
pub fn groups(frames: &[Frame]) -> Vec<Vec<usize>> {
    let real = coalesce(Config::default(), frames);
    let arrivals = arrivals(frames);
    check_round_trip(&real, &arrivals);
    check_counters(&real, &arrivals);
    real.outs().into_iter().map(|out| out.packets).collect()
}

pub fn arrivals(frames: &[Frame]) -> Vec<Arrival> {
    frames.iter().map(|frame| arrival(frame, 0)).collect()
}

pub fn arrival(frame: &Frame, now: u64) -> Arrival {
    let (link, now) = (frame.link, Instant::from_ns(now));
    Arrival { link, bytes: frame.bytes(), meta: Meta { timestamp: now, ..Meta::default() }, now }
}
