//! The core's environment: receive buffer, CAM, registers, DMA, and accounting of its cycles.

use super::cam::Cam;
use super::design::Design;
use super::host::Host;
use super::line::{Line, Packet};
use super::map;
use crate::Ps;
use crate::cell::{Cell, Window};
use crate::dma::{Dma, Transfer};
use crate::rv32::{AccessError, Bus, Reply, Wake, Width};
use linecard::offload::segment::Class;

/// Counters of the core's time and packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCounters {
    /// Packets moved to the host's buffers.
    pub packets: u64,
    /// Packets dropped by the firmware, which had no empty node for them.
    pub given_up: u64,
    /// DMA words moved.
    pub words: u64,
    /// Cycles without a packet.
    pub waited: u64,
    /// Keys looked up in the CAM.
    pub lookups: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not inserted because the CAM was full.
    pub cam_overflows: u64,
    /// The last cycle with work.
    pub busy_until: u64,
}

/// A transfer in progress, or a completed one whose successor is unknown.
#[derive(Debug)]
struct Moving {
    transfer: Transfer,
    packet: Packet,
    range: (usize, usize),
    node: u32,
    class: Class,
    moved_from: Ps,
    /// The packet's cycles up to START.
    before: u64,
    /// Known once the next packet begins.
    cell: Option<Cell>,
}

/// The core's environment without the line.
#[derive(Debug)]
pub(super) struct Unit {
    design: Design,
    dma: Dma,
    cam: Cam,
    pub(super) host: Host,
    vectors: [u32; 2],
    spp: u32,
    taken: u32,
    moving: Option<Moving>,
    /// From this cycle on the DMA is free.
    free_from: u64,
    window: Window,
    is_open: bool,
    counters: UnitCounters,
}

/// The core's port to its environment.
pub(super) struct BusPort<'u, 'l, 's> {
    pub(super) unit: &'u mut Unit,
    pub(super) line: &'l mut Line<'s>,
}

impl Unit {
    pub(super) fn new(design: &Design) -> Self {
        Self {
            dma: design.timing(),
            cam: Cam::new(design.cam_entries, design.cam_latency),
            host: Host::new(design),
            design: design.clone(),
            vectors: [0; 2],
            spp: 0,
            taken: 0,
            moving: None,
            free_from: 0,
            window: Window::default(),
            is_open: false,
            counters: UnitCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> UnitCounters {
        let (lookups, hits) = (self.cam.lookups, self.cam.hits);
        UnitCounters { lookups, hits, cam_overflows: self.cam.overflows, ..self.counters }
    }

    fn load_register(&self, cycle: u64, address: u32) -> Option<Reply> {
        let value = match address {
            map::VECTOR => self.vectors[0],
            map::VECTOR_FULL => self.vectors[1],
            map::SPP => self.spp,
            map::NODE => self.host.next_empty().unwrap_or(0),
            map::TAKEN => self.taken,
            map::BUSY => self.is_moving(cycle).into(),
            map::SIZE => self.cam.size(),
            map::RESULT => {
                let (value, stall) = self.cam.result(cycle);
                return Some(Reply::Done { value, stall });
            }
            map::NODES.. => self.host.load(address)?,
            _ => return None,
        };
        Some(Reply::Done { value, stall: 0 })
    }

    fn store_register(&mut self, cycle: u64, address: u32, value: u32) -> bool {
        match address {
            map::VECTOR => self.vectors[0] = value,
            map::VECTOR_FULL => self.vectors[1] = value,
            map::SPP => self.spp = value,
            map::SOURCE => self.cam.source = value,
            map::DESTINATION => self.cam.destination = value,
            map::PROTOCOL => self.cam.protocol = value,
            map::FIND_CONNECTION => self.cam.find_connection(cycle, value),
            map::FIND_DATAGRAM => self.cam.find_datagram(cycle, value),
            map::INSERT => self.cam.insert(cycle, value),
            map::REMOVE => self.cam.remove(),
            map::EVENT => {
                let now = self.dma.core.edge(cycle);
                let known = self.host.hand_over(value, now);
                if self.moving.is_none() {
                    self.host.settle(now);
                }
                return known;
            }
            map::NODES.. => return self.host.store(address, value),
            _ => return false,
        }
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
        self.window.idle += granted - cycle;
        self.close(granted);
        granted - cycle
    }

    /// The cycle in which the last transfer is complete, while its packet's window is open.
    fn open_end(&self) -> Option<u64> {
        let open = self.moving.as_ref().filter(|moving| moving.cell.is_none());
        open.map(|moving| moving.transfer.end_cycle)
    }

    /// Ends the window of the packet moved last, if it is open.
    fn close(&mut self, end: u64) {
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.cell.is_none()) else {
            return;
        };
        let packet = (moving.class, moving.before, (moving.moved_from, moving.moved_from));
        moving.cell = Some(self.window.close(&self.dma.core, end, packet));
    }

    /// Hands the packet of the last transfer to the host, at the latest when the next transfer can
    /// start.
    fn finish(&mut self, cycle: u64, line: &mut Line<'_>) {
        let Some(end) = self.moving.as_ref().map(|moving| moving.transfer.end) else {
            return;
        };
        self.free_from = self.dma.core.at_or_after(end);
        self.close(self.free_from.max(cycle));
        if let Some(Moving { packet, node, range, cell: Some(cell), .. }) = self.moving.take() {
            line.release(end, packet.bytes.len());
            self.host.place(node, packet, range, Cell { moved_to: end, ..cell });
        }
        self.host.settle(end);
    }

    /// START: waits for the DMA, and begins a transfer.
    fn start(&mut self, cycle: u64, (class, epp): (Class, u32), line: &mut Line<'_>) -> Reply {
        let range = (self.spp as usize, epp as usize);
        let head = line.head(self.dma.core.edge(cycle));
        if head.is_none_or(|packet| packet.bytes.get(range.0..range.1).is_none()) {
            return Reply::Denied(NO_PACKET);
        }
        if let Some(end) = self.open_end() {
            self.window.idle += end.saturating_sub(cycle);
        }
        self.finish(cycle, line);
        let free = self.free_from.max(cycle);
        let (Some(node), Some(packet)) = (self.host.take_empty(), line.take()) else {
            return Reply::Denied(NO_NODE);
        };
        self.window.idle += free - cycle.max(self.window.begun);
        let from = free + 1;
        let cycles = self.design.transfer_cycles(range.1 - range.0);
        let transfer = self.dma.begin(self.dma.core.edge(from), cycles);
        self.counters.packets += 1;
        self.counters.words += cycles / self.design.cycles_per_word;
        self.taken = node;
        self.moving = Some(Moving {
            moved_from: self.dma.start(&transfer),
            transfer,
            packet,
            range,
            node,
            class,
            before: from - self.window.begun - self.window.idle,
            cell: None,
        });
        Reply::Done { value: 0, stall: free - cycle }
    }

    /// DROP: drops the packet at the head.
    fn give_up(&mut self, cycle: u64, line: &mut Line<'_>) -> Reply {
        let now = self.dma.core.edge(cycle);
        if line.head(now).is_none() {
            return Reply::Denied(NO_PACKET);
        }
        if let Some(packet) = line.take() {
            line.release(now, packet.bytes.len());
            self.counters.given_up += 1;
        }
        Reply::Done { value: 0, stall: 0 }
    }

    /// The core sleeps from `cycle` until `wake`: assigns these cycles.
    fn sleep(&mut self, cycle: u64, wake: u64) {
        let from = cycle + 1;
        match self.open_end() {
            Some(end) if wake <= end => self.window.idle += wake - from,
            open => {
                let until = open.map_or(from, |end| end.max(from));
                self.window.idle += until - from;
                self.close(until);
                self.counters.waited += wake - until;
                self.window = Window { begun: wake, idle: 0 };
            }
        }
    }

    /// No more packets arrive.
    fn end(&mut self, cycle: u64, line: &mut Line<'_>) {
        if let Some(end) = self.open_end() {
            self.window.idle += end.saturating_sub(cycle + 1);
        }
        self.finish(cycle + 1, line);
        self.counters.busy_until = self.free_from.max(cycle);
    }
}

const NO_PACKET: AccessError = AccessError::Cannot("there is no packet, or it ends before");
const NO_NODE: AccessError = AccessError::Cannot("there is no empty node");
const NO_LIST: AccessError =
    AccessError::Cannot("no node has this address, or all are handed over already");

/// Write-only registers.
fn is_written(address: u32) -> bool {
    match address {
        map::DROP | map::EVENT | map::SOURCE..map::RESULT | map::INSERT | map::REMOVE => true,
        _ => (map::START..map::START + 16).contains(&address),
    }
}

impl Bus for BusPort<'_, '_, '_> {
    fn load(&mut self, cycle: u64, address: u32, width: Width) -> Reply {
        if (map::RBI..map::VECTOR).contains(&address) {
            let stall = self.unit.take_bus(cycle);
            let now = self.unit.dma.core.edge(cycle + stall);
            let (at, len) = ((address - map::RBI) as usize, width.bytes() as usize);
            let bytes = self.line.head(now).and_then(|packet| packet.bytes.get(at..at + len));
            let Some(bytes) = bytes else { return Reply::Denied(NO_PACKET) };
            let value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
            return Reply::Done { value, stall };
        }
        match self.unit.load_register(cycle, address) {
            Some(reply) if width == Width::Word => reply,
            Some(_) => Reply::Denied(AccessError::WordsOnly),
            None if is_written(address) => Reply::Denied(AccessError::WriteOnly),
            None => Reply::Refused,
        }
    }

    fn store(&mut self, cycle: u64, address: u32, width: Width, value: u32) -> Reply {
        let Self { unit, line } = self;
        let is_read = |unit: &Unit| unit.load_register(cycle, address).is_some();
        if width != Width::Word && (is_read(unit) || is_written(address)) {
            return Reply::Denied(AccessError::WordsOnly);
        }
        let classes = [Class::Ssm, Class::Bom, Class::Com, Class::Eom];
        let class = address.checked_sub(map::START).and_then(|at| classes.get(at as usize / 4));
        if let Some(class) = class {
            return unit.start(cycle, (*class, value), line);
        }
        if address == map::DROP {
            return unit.give_up(cycle, line);
        }
        match unit.store_register(cycle, address, value) {
            true => Reply::Done { value: 0, stall: 0 },
            false if address == map::EVENT => Reply::Denied(NO_LIST),
            false if is_read(unit) => Reply::Denied(AccessError::ReadOnly),
            false => Reply::Refused,
        }
    }

    /// The next packet wakes the core; it may have arrived already.
    fn wait(&mut self, cycle: u64) -> Wake {
        let Self { unit, line } = self;
        let clock = unit.dma.core;
        if !unit.is_open {
            line.open(clock.edge(cycle));
            unit.is_open = true;
        }
        let now = clock.edge(cycle);
        let Some(at) = line.next_at(now) else {
            unit.end(cycle, line);
            return Wake::Blocked;
        };
        let ready = if at > now { clock.at_or_after(at + unit.design.interrupt) } else { cycle };
        let wake = ready.max(cycle + 1);
        unit.sleep(cycle, wake);
        if !unit.is_moving(wake) {
            unit.finish(wake, line);
        }
        let vector = unit.vectors[usize::from(unit.host.next_empty().is_none())];
        Wake::At { cycle: wake, vector: (vector != 0).then_some(vector) }
    }
}
