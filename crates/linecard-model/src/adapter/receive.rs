//! Frames that are received: the device puts headers into embedded memory, sums payload, and, once the firmware accepts the
//! frame, moves it to where the firmware's sequence number lies in the stream in host memory. The storing adapter has it in
//! embedded memory meanwhile. Accesses take memories and buses in the order of time.

use super::firmware::{self, plain};
use super::simulation::{Resource, WIRE_OVERHEAD, clock};
use super::{AdapterError, AdapterResults, Config, HEADER_SLOTS, Kind, MAX_MESSAGE, Mismatch};
use crate::rv32::Image;
use crate::{Clock, Events, Ps};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::header::{self, Tcp};

/// Receives frames that come one behind the other, those of a stream in its order. Those with wrong checksums are dropped,
/// and what has no room in the window of host memory is a fault.
pub(super) fn receive(
    config: &Config,
    image: &Image,
    frames: &[Vec<u8>],
) -> Result<AdapterResults, AdapterError> {
    let (arrivals, end) = Arrival::all(frames)?;
    let mut receiver = Receiver {
        now: Ps::ZERO,
        events: Events::default(),
        clock: clock(config)?,
        wire: Resource::new(config.adapter.wire),
        embedded: Resource::new(config.adapter.embedded),
        host_bus: Resource::new(config.host.bus),
        image,
        stores: config.adapter.kind == Kind::StoreAndForward,
        host: vec![0; end.min(config.host.window) as usize],
        arrivals,
        next: 0,
        slots: HEADER_SLOTS,
        waiting: VecDeque::new(),
        core_busy: false,
        outcome: AdapterResults::default(),
    };
    receiver.arrive();
    while let Some((now, event)) = receiver.events.next() {
        receiver.now = now;
        receiver.step(event)?;
    }
    Ok(receiver.outcome)
}

/// A frame, and its stream: what the sender sends of one connection, [`MAX_MESSAGE`] bytes at most.
struct Arrival<'f> {
    header: &'f [u8],
    payload: &'f [u8],
    /// Sequence number of its payload, if its checksums are right.
    sequence: Option<u32>,
    /// The first sequence number of the stream, and its address in host memory.
    base: u32,
    address: u64,
}

impl<'f> Arrival<'f> {
    /// All frames, and the end of the last stream in host memory.
    fn all(frames: &'f [Vec<u8>]) -> Result<(Vec<Self>, u64), AdapterError> {
        let mut arrivals = Vec::with_capacity(frames.len());
        let (mut connection, mut base, mut address, mut end) = (None, 0, 0, 0);
        for (index, frame) in frames.iter().enumerate() {
            let parsed = plain(frame).and_then(|layout| {
                let (network, transport) = layout.network().zip(layout.transport())?;
                Some((layout, network.at(), transport.at()))
            });
            let (layout, network, transport) = parsed.ok_or(AdapterError::Message(index))?;
            let (header, rest) = frame.split_at(layout.header_len());
            let payload = &rest[..layout.payload().len()];
            let pseudo = layout.pseudo_sum(frame, payload.len()).unwrap_or_default();
            let covered = Sum::of(&frame[transport..layout.end()]).plus(pseudo);
            let is_right = Sum::of(&frame[network..transport]).is_valid();
            let sequence = (is_right && covered.is_valid())
                .then(|| header::at::<Tcp>(frame, transport).sequence);
            if let Some(sequence) = sequence {
                let ends = Some((&frame[network + 12..][..8], &frame[transport..][..4]));
                let goes_on = end - address..MAX_MESSAGE as u64;
                if connection != ends || !goes_on.contains(&sequence.wrapping_sub(base).into()) {
                    (connection, base, address) = (ends, sequence, end);
                }
                end = address + u64::from(sequence.wrapping_sub(base)) + payload.len() as u64;
            }
            arrivals.push(Self { header, payload, sequence, base, address });
        }
        Ok((arrivals, end))
    }

    /// Where payload with this sequence number lies in host memory of this many bytes.
    fn place(&self, sequence: u32, room: usize) -> Option<usize> {
        let at = self.address + u64::from(sequence.wrapping_sub(self.base));
        (at + self.payload.len() as u64 <= room as u64).then_some(at as usize)
    }

    /// A wrong answer of the firmware.
    fn mismatch(&self, index: usize, answers: &[Option<u32>]) -> Option<Mismatch> {
        let (field, expected, got) = match (self.sequence, answers) {
            (expected, [got]) if expected == *got => return None,
            (Some(expected), [Some(got)]) => ("TCP sequence number", expected, *got),
            (expected, [got]) => ("deliveries", expected.is_some().into(), got.is_some().into()),
            (_, answers) => ("answers", 1, answers.len() as u32),
        };
        Some(Mismatch { frame: index as u64, field, expected, got })
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A frame has come from the wire.
    Arrived(usize),
    /// Its header is in embedded memory.
    Stored(usize),
    /// The firmware delivers it with a sequence number, or not.
    Judged(usize, Option<u32>),
    /// Its payload is on its way to this place in host memory.
    Read(usize, usize),
    /// Its payload is in host memory.
    Delivered(usize, usize),
}

struct Receiver<'f> {
    now: Ps,
    events: Events<Event>,
    clock: Clock,
    wire: Resource,
    embedded: Resource,
    host_bus: Resource,
    image: &'f Image,
    stores: bool,
    host: Vec<u8>,
    arrivals: Vec<Arrival<'f>>,
    /// The next frame on the wire, and how many more the adapter has room for.
    next: usize,
    slots: usize,
    /// Frames that the firmware has not seen.
    waiting: VecDeque<usize>,
    core_busy: bool,
    outcome: AdapterResults,
}

impl Receiver<'_> {
    fn step(&mut self, event: Event) -> Result<(), AdapterError> {
        match event {
            Event::Arrived(index) => {
                let header = self.arrivals[index].header.len() as u64;
                let there = self.access(header, self.stored(index));
                self.events.add(there, Event::Stored(index));
                self.arrive();
            }
            Event::Stored(index) => {
                self.waiting.push_back(index);
                self.look()?;
            }
            Event::Judged(index, sequence) => {
                self.core_busy = false;
                self.accept(index, sequence);
                self.look()?;
            }
            Event::Read(index, at) => {
                let bytes = self.arrivals[index].payload.len() as u64;
                self.outcome.host_bus_bytes += bytes;
                let done = self.host_bus.take(self.now, bytes);
                self.events.add(done, Event::Delivered(index, at));
            }
            Event::Delivered(index, at) => self.deliver(index, at),
        }
        Ok(())
    }

    /// The next frame comes, unless the adapter is full: then the sender pauses (IEEE 802.3, annex 31B).
    fn arrive(&mut self) {
        let Some(arrival) = self.arrivals.get(self.next) else { return };
        if self.slots > 0 && self.wire.is_free(self.now) {
            let bytes = (arrival.header.len() + arrival.payload.len()) as u64;
            let at = self.wire.take(self.now, bytes + WIRE_OVERHEAD);
            self.events.add(at, Event::Arrived(self.next));
            self.slots -= 1;
            self.next += 1;
        }
    }

    /// The firmware looks at the next header, if it is idle.
    fn look(&mut self) -> Result<(), AdapterError> {
        let next = if self.core_busy { None } else { self.waiting.pop_front() };
        let Some(index) = next else { return Ok(()) };
        let arrival = &self.arrivals[index];
        let found = firmware::receive(self.image, arrival.header, arrival.payload)
            .map_err(|end| AdapterError::Firmware { index, end })?;
        let mismatch = self.outcome.mismatch.take();
        self.outcome.mismatch = mismatch.or_else(|| arrival.mismatch(index, &found.answers));
        self.core_busy = true;
        self.outcome.core_cycles += found.cycles;
        self.outcome.single_packets += 1;
        let read = self.access(arrival.header.len() as u64, 0);
        let answer = found.answers.first().copied().flatten();
        self.events.add(read + self.clock.cycles(found.cycles), Event::Judged(index, answer));
        Ok(())
    }

    /// The device reads the payload of a frame that is delivered, and forgets another.
    fn accept(&mut self, index: usize, sequence: Option<u32>) {
        let place = |sequence| self.arrivals[index].place(sequence, self.host.len());
        let at = sequence.and_then(place);
        self.outcome.faults += u64::from(sequence.is_some() && at.is_none());
        if let Some(at) = at {
            let read = self.access(0, self.stored(index));
            self.events.add(read, Event::Read(index, at));
        } else {
            self.outcome.dropped += 1;
            self.slots += 1;
            self.arrive();
        }
    }

    fn deliver(&mut self, index: usize, at: usize) {
        let arrival = &self.arrivals[index];
        let bytes = arrival.payload.len();
        self.host[at..][..bytes].copy_from_slice(arrival.payload);
        // The stream's bytes where this payload belongs.
        let place = arrival.sequence.and_then(|right| arrival.place(right, self.host.len()));
        let payload = &self.host[place.unwrap_or(at)..][..bytes];
        if self.outcome.frames.is_empty() {
            self.outcome.first = self.now;
        }
        self.outcome.last = self.now;
        self.outcome.payload_bytes += bytes as u64;
        self.outcome.frames.push([arrival.header, payload].concat());
        self.slots += 1;
        self.arrive();
    }

    /// Bytes of payload that pass embedded memory.
    fn stored(&self, index: usize) -> u64 {
        if self.stores { self.arrivals[index].payload.len() as u64 } else { 0 }
    }

    /// An access to embedded memory from now on: its end.
    fn access(&mut self, header: u64, payload: u64) -> Ps {
        self.outcome.embedded_bytes += header + payload;
        self.outcome.embedded_payload_bytes += payload;
        self.embedded.take(self.now, header + payload)
    }
}
