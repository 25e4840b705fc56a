//! A core's environment: sending buffer, registers, DMA, and accounting of its cycles.

use super::design::{Design, HeaderPath};
use super::line::{Line, PacketTrace, Ready, Room, Stall};
use super::map;
use super::message::{Kind, Message};
use crate::Ps;
use crate::cell::{Cell, Window};
use crate::dma::{Dma, Transfer};
use crate::rv32::{AccessError, Bus, Reply, Wake, Width};
use alloc::boxed::Box;
use alloc::vec::Vec;
use linecard::offload::segment::Class;

/// The pending request of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingRequest {
    /// None: it runs.
    None,
    /// It waits for a message, from this time on.
    Message(Ps),
    /// It waits for room for this many bytes in the line-interface buffer.
    Room(usize),
}

/// One core's environment.
#[derive(Debug)]
pub(super) struct Unit {
    number: usize,
    dma: Dma,
    design: Design,
    sb: Vec<u8>,
    sbi_header: [u8; map::SBI_HEADER_LEN],
    /// Bytes of it that have been written for the next packet.
    sbi_header_len: usize,
    registers: Registers,
    vectors: [u32; 2],
    /// The message in the buffer.
    work: Option<Work>,
    /// The cycle in which the core wakes to it.
    granted: Option<u64>,
    pub(super) pending: PendingRequest,
    moving: Option<Moving>,
    /// From this cycle on the DMA is free.
    free_from: u64,
    window: Window,
    /// Of the packet in the window, where packets are traced.
    tracing: Option<Tracing>,
    pub(super) counters: UnitCounters,
}

/// Waits that are recorded for a packet: far more than firmware for its header has accesses.
const MAX_STALLS: usize = 64;

/// The trace of a packet so far.
#[derive(Debug, Default)]
struct Tracing {
    /// The instruction that is being executed.
    pc: u32,
    packet: PacketTrace,
}

impl Tracing {
    /// Ends the packet's trace: this instruction is the next packet's first.
    fn close(&mut self) -> Box<PacketTrace> {
        let next = PacketTrace { begun_at: Some(self.pc), ..PacketTrace::default() };
        Box::new(core::mem::replace(&mut self.packet, next))
    }

    /// Wakes: the next instruction is a packet's first.
    fn wake(&mut self) {
        self.packet = PacketTrace { asleep_at: Some(self.pc), ..PacketTrace::default() };
    }
}

/// Counters of a core's time and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCounters {
    /// Messages taken.
    pub messages: u64,
    /// Packets moved to the line interface.
    pub packets: u64,
    /// Payload bytes of messages taken.
    pub payload_in: u64,
    /// Payload bytes moved.
    pub payload_out: u64,
    /// DMA words moved.
    pub words: u64,
    /// Cycles without a message.
    pub waited: u64,
    /// Headers written while the DMA was moving them: either version may be sent.
    pub hazards: u64,
    /// The last cycle with work.
    pub busy_until: u64,
}

#[derive(Debug, Default)]
struct Registers {
    shap: u32,
    ehap: u32,
    spp: u32,
}

#[derive(Debug)]
struct Work {
    message: u64,
    kind: Kind,
    len: u32,
    header_end: u32,
    mss: u32,
    last_flags: u16,
    /// Packets before it.
    packets_before: u64,
}

/// A transfer in progress, or a completed one that was not passed to the line yet.
#[derive(Debug)]
struct Moving {
    transfer: Transfer,
    /// Until then headers are being moved, over the bus.
    header_until: Ps,
    bytes: Vec<u8>,
    message: u64,
    class: Class,
    moved_from: Ps,
    /// The packet's cycles up to START.
    before: u64,
    /// Known once the next packet begins.
    cell: Option<Cell>,
    trace: Option<Box<PacketTrace>>,
}

/// A core's port to its environment, and to what all cores share.
#[derive(Debug)]
pub(super) struct BusPort<'a> {
    pub(super) unit: &'a mut Unit,
    pub(super) line: &'a mut Line,
}

impl Unit {
    pub(super) fn new(number: usize, design: &Design) -> Self {
        Self {
            number,
            dma: design.timing(),
            design: design.clone(),
            sb: alloc::vec![0; map::SB_LEN],
            sbi_header: [0; map::SBI_HEADER_LEN],
            sbi_header_len: 0,
            registers: Registers::default(),
            vectors: [0; 2],
            work: None,
            granted: None,
            pending: PendingRequest::None,
            moving: None,
            free_from: 0,
            window: Window::default(),
            tracing: None,
            counters: UnitCounters::default(),
        }
    }

    /// Records from when to when the core waits, and at which instructions.
    pub(super) fn start_trace(&mut self) {
        self.tracing = Some(Tracing::default());
    }

    /// Records that the core waits from one cycle to another, in this window.
    #[inline]
    fn wait_for(&mut self, from: u64, to: u64) {
        self.window.idle += to.saturating_sub(from);
        let Some(Tracing { pc, packet }) = self.tracing.as_mut().filter(|_| to > from) else {
            return;
        };
        if packet.stalls.len() < MAX_STALLS {
            let (from, to) = (self.dma.core.edge(from), self.dma.core.edge(to));
            packet.stalls.push(Stall { from, to, pc: *pc });
        }
    }

    /// Whether a packet that had no room has room now.
    pub(super) fn has_room(&self, len: usize, line: &mut Line) -> bool {
        let now = self.dma.core.edge(self.free_from);
        line.room(self.number, len, now) != Room::Unknown
    }

    /// Stores a message in the buffer; the core wakes when the interrupt has arrived.
    pub(super) fn grant(&mut self, number: u64, message: &Message, mss: usize) {
        let asked = if let PendingRequest::Message(at) = self.pending { at } else { Ps::ZERO };
        let bytes = message.bytes();
        self.sb[..bytes.len()].copy_from_slice(bytes);
        let mut last_flags = 0;
        if let Some((others, last)) = message.flags() {
            last_flags = last;
            if bytes.len() > usize::from(self.design.mtu) {
                self.sb[32..34].copy_from_slice(&others.to_be_bytes());
            }
        }
        let small = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        self.work = Some(Work {
            message: number,
            kind: message.kind(),
            len: small(bytes.len()),
            header_end: small(message.header_len()),
            mss: small(mss),
            last_flags,
            packets_before: self.counters.packets,
        });
        self.counters.messages += 1;
        self.counters.payload_in += (bytes.len() - message.header_len()) as u64;
        let at = asked.max(message.ready) + self.design.interrupt;
        self.granted = Some(self.dma.core.at_or_after(at));
        self.pending = PendingRequest::None;
    }

    /// Whether the message does not have more packets than bytes: firmware that starts more would
    /// do so endlessly.
    pub(super) fn is_within_message(&self) -> bool {
        let work = self.work.as_ref();
        work.is_none_or(|work| self.counters.packets - work.packets_before <= work.len.into())
    }

    fn load_register(&self, cycle: u64, address: u32) -> Option<u32> {
        let work = self.work.as_ref();
        Some(match address {
            map::KIND => work.map_or(0, |work| if work.kind == Kind::Tcp { 1 } else { 2 }),
            map::HEADER_END => work.map_or(0, |work| work.header_end),
            map::LENGTH => work.map_or(0, |work| work.len),
            map::MTU => self.design.mtu.into(),
            map::MSS => work.map_or(0, |work| work.mss),
            map::LAST_FLAGS => work.map_or(0, |work| work.last_flags.into()),
            map::VECTOR_TCP => self.vectors[0],
            map::VECTOR_UDP => self.vectors[1],
            map::SHAP => self.registers.shap,
            map::EHAP => self.registers.ehap,
            map::SPP => self.registers.spp,
            map::BUSY => self.is_moving(cycle).into(),
            _ => return None,
        })
    }

    fn store_register(&mut self, address: u32, value: u32) -> bool {
        let register = match address {
            map::VECTOR_TCP => &mut self.vectors[0],
            map::VECTOR_UDP => &mut self.vectors[1],
            map::SHAP => &mut self.registers.shap,
            map::EHAP => &mut self.registers.ehap,
            map::SPP => &mut self.registers.spp,
            _ => return false,
        };
        *register = value;
        true
    }

    fn is_moving(&self, cycle: u64) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.transfer.end_cycle > cycle)
    }

    /// The core requests the bus in `cycle`; returns how long it waits. This begins the next
    /// packet.
    fn take_bus(&mut self, cycle: u64) -> u64 {
        let granted = match &mut self.moving {
            Some(moving) => self.dma.access(&mut moving.transfer, cycle).max(cycle),
            None => cycle,
        };
        self.wait_for(cycle, granted);
        self.close(granted);
        granted - cycle
    }

    /// Ends the window of the packet moved last, if it is open.
    fn close(&mut self, end: u64) {
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.cell.is_none()) else {
            return;
        };
        let packet = (moving.class, moving.before, (moving.moved_from, moving.header_until));
        moving.cell = Some(self.window.close(&self.dma.core, end, packet));
        moving.trace = self.tracing.as_mut().map(Tracing::close);
    }

    /// Passes the packet that was moved to the line, at the latest when the next transfer can
    /// start.
    fn finish(&mut self, cycle: u64, line: &mut Line) {
        let Some(moving) = &self.moving else { return };
        self.free_from = moving.transfer.end_cycle;
        self.close(self.free_from.max(cycle));
        let Some(Moving { transfer, bytes, message, cell: Some(cell), trace, .. }) =
            self.moving.take()
        else {
            return;
        };
        let cell = Cell { moved_to: transfer.end, ..cell };
        line.offer(message, Ready { core: self.number, bytes, cell, trace });
    }

    /// START: waits for the DMA and for room, and begins a transfer.
    fn start(&mut self, cycle: u64, epp: u32, line: &mut Line) -> Reply {
        let open = self.moving.as_ref().is_some_and(|moving| moving.cell.is_none());
        let Some(len) = self.packet_len(epp) else { return Reply::Denied(NO_PACKET) };
        if open {
            let end = self.moving.as_ref().map_or(cycle, |moving| moving.transfer.end_cycle);
            self.wait_for(cycle, end);
        }
        self.finish(cycle, line);
        let free = self.free_from.max(cycle);
        let now = self.dma.core.edge(free);
        let room = match line.room(self.number, len, now) {
            Room::At(time) if time <= now => free,
            Room::At(time) => self.dma.core.at_or_after(time),
            Room::Never => return Reply::Denied(NO_ROOM),
            Room::Unknown => {
                self.pending = PendingRequest::Room(len);
                return Reply::Blocked;
            }
        };
        self.wait_for(cycle.max(self.window.begun), room);
        if let Some(tracing) = &mut self.tracing {
            tracing.packet.started_at = Some(tracing.pc);
        }
        let mut bytes = line.buffer();
        bytes.extend_from_slice(self.header().unwrap_or_default());
        bytes.extend_from_slice(&self.sb[self.registers.spp as usize..epp as usize]);
        self.begin(room + 1, bytes, epp);
        Reply::Done { value: 0, stall: room - cycle }
    }

    /// The transfer itself, from the core's cycle `from` on.
    fn begin(&mut self, from: u64, bytes: Vec<u8>, epp: u32) {
        let Registers { shap, ehap, spp } = self.registers;
        let payload = (epp - spp) as usize;
        let header = (ehap - shap) as usize;
        let now = self.dma.core.edge(from);
        let cycles = self.design.transfer_cycles(header, payload);
        let transfer = self.dma.begin(now, cycles);
        let header_cycles = cycles - self.design.transfer_cycles(0, payload);
        let (first, last, message) = match &self.work {
            Some(work) => (spp == work.header_end, epp == work.len, work.message),
            None => (false, false, 0),
        };
        self.counters.packets += 1;
        self.counters.payload_out += payload as u64;
        self.counters.words += cycles / self.design.cycles_per_word;
        self.sbi_header_len = 0;
        let moved_from = self.dma.start(&transfer);
        self.moving = Some(Moving {
            header_until: match header_cycles {
                0 => moved_from,
                _ => self.dma.begin(now, header_cycles).end,
            },
            moved_from,
            transfer,
            bytes,
            message,
            class: class(first, last),
            before: from - self.window.begun - self.window.idle,
            cell: None,
            trace: None,
        });
    }

    /// The header that the registers describe.
    fn header(&self) -> Option<&[u8]> {
        let Registers { shap, ehap, .. } = self.registers;
        match shap == ehap {
            true => self.sbi_header.get(..self.sbi_header_len),
            false => self.sb.get(shap as usize..ehap as usize),
        }
    }

    /// Bytes of the packet that the registers describe, if they do.
    fn packet_len(&self, epp: u32) -> Option<usize> {
        let payload = self.sb.get(self.registers.spp as usize..epp as usize)?;
        self.work.as_ref()?;
        Some(self.header()?.len() + payload.len())
    }

    /// The buffer and offset of an address on the bus.
    fn on_bus(address: u32, width: Width) -> Option<(Buffer, usize)> {
        let within = |base: u32, len: usize| {
            let at = address.checked_sub(base)? as usize;
            (at + width.bytes() as usize <= len).then_some(at)
        };
        let sb = within(map::SB, map::SB_LEN).map(|at| (Buffer::Sb, at));
        sb.or_else(|| within(map::SBI_HEADER, map::SBI_HEADER_LEN).map(|at| (Buffer::Header, at)))
    }

    fn write(&mut self, (buffer, at): (Buffer, usize), width: Width, value: u32) {
        let bytes = value.to_be_bytes();
        let len = width.bytes() as usize;
        let bytes = &bytes[4 - len..];
        match buffer {
            Buffer::Sb => self.sb[at..at + len].copy_from_slice(bytes),
            Buffer::Header => {
                self.sbi_header[at..at + len].copy_from_slice(bytes);
                self.sbi_header_len = self.sbi_header_len.max(at + len);
            }
        }
    }

    /// Whether the DMA is moving the header that is being written.
    fn is_hazard(&self, cycle: u64, (buffer, at): (Buffer, usize)) -> bool {
        let header = self.registers.shap as usize..self.registers.ehap as usize;
        let now = self.dma.core.edge(cycle);
        buffer == Buffer::Sb
            && self.design.header == HeaderPath::Bus
            && header.contains(&at)
            && self.moving.as_ref().is_some_and(|moving| now < moving.header_until)
    }
}

/// Why START refuses.
const NO_PACKET: AccessError = AccessError::Cannot(
    "there is no message, or SHAP, EHAP, SPP and EPP do not lie in the sending buffer in this order",
);
const NO_ROOM: AccessError =
    AccessError::Cannot("the packet is longer than the line interface's buffer (line.sbi)");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buffer {
    Sb,
    Header,
}

fn class(first: bool, last: bool) -> Class {
    match (first, last) {
        (true, true) => Class::Ssm,
        (true, false) => Class::Bom,
        (false, false) => Class::Com,
        (false, true) => Class::Eom,
    }
}

impl Bus for BusPort<'_> {
    fn load(&mut self, cycle: u64, address: u32, width: Width) -> Reply {
        if let Some((buffer, at)) = Unit::on_bus(address, width) {
            let stall = self.unit.take_bus(cycle);
            let bytes = match buffer {
                Buffer::Sb => &self.unit.sb[at..],
                Buffer::Header => &self.unit.sbi_header[at..],
            };
            let len = width.bytes() as usize;
            let value = bytes[..len].iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
            return Reply::Done { value, stall };
        }
        match self.unit.load_register(cycle, address) {
            Some(value) if width == Width::Word => Reply::Done { value, stall: 0 },
            Some(_) => Reply::Denied(AccessError::WordsOnly),
            None if address == map::START => Reply::Denied(AccessError::WriteOnly),
            None => Reply::Refused,
        }
    }

    fn store(&mut self, cycle: u64, address: u32, width: Width, value: u32) -> Reply {
        if let Some(place) = Unit::on_bus(address, width) {
            let stall = self.unit.take_bus(cycle);
            self.unit.counters.hazards += u64::from(self.unit.is_hazard(cycle + stall, place));
            self.unit.write(place, width, value);
            return Reply::Done { value: 0, stall };
        }
        let is_read = |unit: &Unit| unit.load_register(cycle, address).is_some();
        if width != Width::Word && (is_read(self.unit) || address == map::START) {
            return Reply::Denied(AccessError::WordsOnly);
        }
        if address == map::START {
            return self.unit.start(cycle, value, self.line);
        }
        match self.unit.store_register(address, value) {
            true => Reply::Done { value: 0, stall: 0 },
            false if is_read(self.unit) => Reply::Denied(AccessError::ReadOnly),
            false => Reply::Refused,
        }
    }

    fn fetched(&mut self, pc: u32) {
        if let Some(tracing) = &mut self.unit.tracing {
            tracing.pc = pc;
            tracing.packet.begun_at.get_or_insert(pc);
        }
    }

    /// The message ends with the last transfer; the next one wakes the core.
    fn wait(&mut self, cycle: u64) -> Wake {
        let unit = &mut *self.unit;
        if let Some(at) = unit.granted.take() {
            let kind = unit.work.as_ref().map_or(Kind::Tcp, |work| work.kind);
            let vector = unit.vectors[usize::from(kind == Kind::Udp)];
            unit.counters.waited += at.saturating_sub(unit.free_from);
            unit.window = Window { begun: at.max(cycle + 1), idle: 0 };
            unit.tracing.iter_mut().for_each(Tracing::wake);
            return Wake::At { cycle: at, vector: (vector != 0).then_some(vector) };
        }
        if unit.pending == PendingRequest::None {
            if let Some(moving) = &unit.moving {
                let end = moving.transfer.end_cycle;
                unit.wait_for(cycle, end);
            }
            unit.free_from = cycle;
            unit.finish(cycle, self.line);
            if let Some(work) = unit.work.take() {
                self.line.complete(work.message);
            }
            unit.free_from = unit.free_from.max(cycle);
            unit.counters.busy_until = unit.free_from;
            unit.pending = PendingRequest::Message(unit.dma.core.edge(unit.free_from));
        }
        Wake::Blocked
    }
}
