//! Simulates messages through an adapter, with the times of buses, memory, firmware and wire.

use super::device::{Descriptor, Fragment, fetch};
use super::firmware::{Message, image};
use super::memory::Memories;
use super::receive::receive;
use super::{
    AdapterError, AdapterResults, Config, HEADER_SLOTS, Kind, MAX_MESSAGE, PAYLOAD_BUFFERS, Path,
    segments,
};
use crate::{Clock, Events, Ps};
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;
use linecard::packet::MAX_HEADER_LEN;
use linecard_config::{ConfigError, Rate};

/// Bytes on the wire beside the frame: preamble 8, CRC 4, gap 12.
pub(super) const WIRE_OVERHEAD: u64 = 24;
/// Where payload begins in embedded memory.
const PAYLOAD_BASE: usize = HEADER_SLOTS * MAX_HEADER_LEN;

/// Sends messages, which are in host memory from the start, as fast as the adapter can: those of
/// [`Load::all`] or others.
///
/// [`Load::all`]: super::Load::all
///
/// ```
/// use linecard_model::adapter::{Config, simulate};
/// let outcome = simulate(&Config::default(), &[])?;
/// assert!(outcome.frames.is_empty());
/// # Ok::<(), linecard_model::adapter::AdapterError>(())
/// ```
///
/// # Errors
/// A parameter out of its range, a message that is not TCP over IPv4 or is too long.
pub fn simulate(config: &Config, messages: &[Vec<u8>]) -> Result<AdapterResults, AdapterError> {
    linecard_config::check(config)?;
    if config.load.path == Path::Receive {
        let frames = segments(messages, config.adapter.mtu);
        return receive(config, &image(), &frames.map_err(|_| AdapterError::Message(0))?);
    }
    let mut parsed = Vec::with_capacity(messages.len());
    let mut host = Vec::new();
    for (index, bytes) in messages.iter().enumerate() {
        if bytes.len() > MAX_MESSAGE {
            return Err(AdapterError::TooLong { index, len: bytes.len() });
        }
        let message = Message::take(index, bytes, config.adapter.mtu)?;
        parsed.push(Job { address: host.len() as u64, message, buffer: 0 });
        host.extend_from_slice(bytes);
    }
    let mut simulation = Simulation::new(config, parsed, host)?;
    simulation.stage();
    simulation.build();
    while let Some((now, event)) = simulation.events.next() {
        simulation.now = now;
        simulation.step(event);
    }
    Ok(simulation.finish())
}

/// A resource with one user at a time, in the order of requests, which come in the order of time.
#[derive(Debug, Default)]
pub(super) struct Resource {
    free: Ps,
    bits_per_second: u64,
}

impl Resource {
    pub(super) const fn new(rate: Rate) -> Self {
        Self { free: Ps::ZERO, bits_per_second: rate.bits_per_second() }
    }

    pub(super) fn is_free(&self, now: Ps) -> bool {
        self.free <= now
    }

    /// Moves bytes from `now` on; returns when they have been moved. No bytes wait for nothing.
    pub(super) fn take(&mut self, now: Ps, bytes: u64) -> Ps {
        if bytes == 0 {
            return now;
        }
        self.free = self.free.max(now) + Ps::of_bits(bytes * 8, self.bits_per_second);
        self.free
    }
}

/// The firmware's.
pub(super) fn clock(config: &Config) -> Result<Clock, ConfigError> {
    Clock::new(config.firmware.mhz.hz(), Ps::ZERO)
        .map_err(|error| ConfigError::of_parameter("firmware.mhz", error.to_string()))
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A part of a message has been copied to embedded memory.
    Staged { message: usize, bytes: usize },
    /// A header is built.
    Built { message: usize, index: usize },
    /// The device can take its next frame; the current one was the last of the message in a buffer.
    Fetched { buffer: Option<usize> },
    /// A message was dropped.
    Dropped { buffer: Option<usize> },
}

/// A message to be sent.
#[derive(Debug)]
struct Job {
    /// Its address in host memory.
    address: u64,
    message: Message,
    /// Its buffer in embedded memory, if it is copied there.
    buffer: usize,
}

struct Simulation<'c> {
    config: &'c Config,
    now: Ps,
    events: Events<Event>,
    clock: Clock,
    memories: Memories,
    messages: Vec<Job>,
    host_bus: Resource,
    embedded: Resource,
    wire: Resource,
    /// The next message to copy to embedded memory, and free buffers for it.
    next_staged: usize,
    is_staging: bool,
    buffers: Vec<usize>,
    /// Messages whose headers can be built, with the next packet of the first.
    ready: VecDeque<usize>,
    next_packet: usize,
    firmware_busy: bool,
    slots: usize,
    next_slot: usize,
    /// Frames described to the device, and the buffers that become free after them.
    described: VecDeque<(Descriptor, Option<usize>)>,
    device_busy: bool,
    outcome: AdapterResults,
}

impl<'c> Simulation<'c> {
    fn new(config: &'c Config, messages: Vec<Job>, host: Vec<u8>) -> Result<Self, AdapterError> {
        let clock = clock(config)?;
        let staged = config.adapter.kind == Kind::StoreAndForward;
        let ready = if staged { 0..0 } else { 0..messages.len() };
        Ok(Self {
            config,
            now: Ps::ZERO,
            events: Events::default(),
            clock,
            memories: Memories::new(
                host,
                config.host.window,
                PAYLOAD_BASE + PAYLOAD_BUFFERS * MAX_MESSAGE,
            ),
            host_bus: Resource::new(config.host.bus),
            embedded: Resource::new(config.adapter.embedded),
            wire: Resource::new(config.adapter.wire),
            next_staged: 0,
            is_staging: false,
            buffers: (0..PAYLOAD_BUFFERS).collect(),
            ready: ready.collect(),
            messages,
            next_packet: 0,
            firmware_busy: false,
            slots: HEADER_SLOTS,
            next_slot: 0,
            described: VecDeque::new(),
            device_busy: false,
            outcome: AdapterResults::default(),
        })
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Staged { message, bytes } => self.stage_more(message, bytes),
            Event::Built { message, index } => {
                self.firmware_busy = false;
                self.describe(message, index);
                self.build();
            }
            Event::Fetched { buffer } => {
                self.device_busy = false;
                self.slots += 1;
                self.release(buffer);
            }
            Event::Dropped { buffer } => self.release(buffer),
        }
        self.send();
    }

    /// There may be room: resumes what waited for it.
    fn release(&mut self, buffer: Option<usize>) {
        self.buffers.extend(buffer);
        self.stage();
        self.build();
    }

    /// Begins to copy the next message to embedded memory, if the previous one is done and a buffer
    /// is free.
    fn stage(&mut self) {
        let is_last = self.next_staged == self.messages.len();
        if self.config.adapter.kind == Kind::ZeroCopy || is_last || self.is_staging {
            return;
        }
        if let Some(buffer) = self.buffers.pop() {
            let message = self.next_staged;
            self.next_staged += 1;
            self.is_staging = true;
            self.messages[message].buffer = buffer;
            self.stage_more(message, 0);
        }
    }

    /// Copies one packet's worth of a message; bursts of this length alternate with the device.
    fn stage_more(&mut self, message: usize, done: usize) {
        let Job { address, message: ref what, buffer } = self.messages[message];
        let end = what.packets() - 1;
        let len = what.header_len() + what.part(end).0 + what.part(end).1;
        if done == len {
            self.is_staging = false;
            self.ready.push_back(message);
            return self.release(None);
        }
        let bytes = self.config.adapter.mtu.min(len - done);
        let to = buffer_at(buffer) + done;
        if self.memories.copy_in(address + done as u64, to, bytes).is_err() {
            self.is_staging = false;
            self.outcome.dropped += 1;
            self.events.add(self.now, Event::Dropped { buffer: Some(buffer) });
            return;
        }
        let payload = (done + bytes).saturating_sub(done.max(what.header_len()));
        self.outcome.embedded_payload_bytes += payload as u64;
        let from_host =
            self.host_bus.take(self.now + self.config.host.latency.into(), bytes as u64);
        let stored = self.embedded.take(self.now, bytes as u64);
        self.events.add(from_host.max(stored), Event::Staged { message, bytes: done + bytes });
    }

    /// Builds the next header, if the firmware is idle and a slot is free.
    fn build(&mut self) {
        let Some(&message) = self.ready.front().filter(|_| !self.firmware_busy && self.slots > 0)
        else {
            return;
        };
        let index = self.next_packet;
        let Job { address, message: ref what, .. } = self.messages[message];
        let cycles = what.header(index).1;
        let mut begin = self.now;
        if index == 0 && self.config.adapter.kind == Kind::ZeroCopy {
            let len = what.header_len();
            if self.memories.read(address, len).is_err() {
                self.outcome.dropped += 1;
                self.ready.pop_front();
                self.events.add(self.now, Event::Dropped { buffer: None });
                return;
            }
            begin = self.host_bus.take(self.now + self.config.host.latency.into(), len as u64);
        }
        self.outcome.core_cycles += cycles;
        self.slots -= 1;
        self.firmware_busy = true;
        if index + 1 < what.packets() {
            self.next_packet += 1;
        } else {
            self.next_packet = 0;
            self.ready.pop_front();
        }
        self.events.add(begin + self.clock.cycles(cycles), Event::Built { message, index });
    }

    /// Stores the header in embedded memory and describes the frame to the device.
    fn describe(&mut self, message: usize, index: usize) {
        let Job { address, message: ref what, buffer } = self.messages[message];
        let header = what.header(index).0;
        let offset = self.next_slot * MAX_HEADER_LEN;
        self.next_slot = (self.next_slot + 1) % HEADER_SLOTS;
        self.embedded.take(self.now, header.len() as u64);
        self.memories.write_embedded(offset, header);
        let (start, len) = what.part(index);
        let embedded = self.memories.map.embedded.base;
        let is_last = index + 1 == what.packets();
        let (data, freed) = match self.config.adapter.kind {
            Kind::ZeroCopy => (address, None),
            Kind::StoreAndForward => {
                (embedded + buffer_at(buffer) as u64, Some(buffer).filter(|_| is_last))
            }
        };
        let descriptor = Descriptor {
            header: Fragment { address: embedded + offset as u64, len: header.len() },
            payload: Fragment { address: data + (header.len() + start) as u64, len },
            checksum_at: what.checksum_at(),
        };
        self.outcome.single_packets += u64::from(what.packets() == 1);
        self.described.push_back((descriptor, freed));
    }

    /// The device fetches its next frame, while the one before is on the wire.
    fn send(&mut self) {
        if self.device_busy {
            return;
        }
        let Some((descriptor, buffer)) = self.described.pop_front() else { return };
        self.device_busy = true;
        let mut begins = self.now;
        match fetch(&mut self.memories, &descriptor) {
            Err(_) => self.outcome.dropped += 1,
            Ok((frame, fetched)) => {
                let embedded = self.embedded.take(self.now, fetched.embedded);
                let asked = self.now + self.config.host.latency.into();
                let host = if fetched.host > 0 {
                    self.host_bus.take(asked, fetched.host)
                } else {
                    self.now
                };
                self.outcome.embedded_payload_bytes += fetched.embedded_payload;
                begins = embedded.max(host).max(self.wire.free);
                let left = self.wire.take(begins, frame.len() as u64 + WIRE_OVERHEAD);
                if self.outcome.frames.is_empty() {
                    self.outcome.first = left;
                }
                self.outcome.last = left;
                self.outcome.payload_bytes += descriptor.payload.len as u64;
                self.outcome.frames.push(frame);
            }
        }
        self.events.add(begins, Event::Fetched { buffer });
    }

    fn finish(mut self) -> AdapterResults {
        self.outcome.host_bus_bytes = self.memories.host_bytes;
        self.outcome.embedded_bytes = self.memories.embedded_bytes;
        self.outcome.faults = self.memories.faults;
        self.outcome
    }
}

/// Offset of a buffer in embedded memory.
const fn buffer_at(buffer: usize) -> usize {
    PAYLOAD_BASE + buffer * MAX_MESSAGE
}
