//! Drives the coalescer through an attack, and checks everything that leaves.

use crate::counting::allocations;
use crate::traffic::{Attack, FLOWS, Who, is_targeted, packets, who};
use linecard::offload::coalesce::{Coalescer, Config, Exit, Flush};
use linecard::offload::segment::segment;
use linecard::packet::{BATCH, Batch, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;

/// Between packets, hostile ones or gaps where they would be: about as at 33 Mpps.
const SPACING_NS: u64 = 30;
/// One in this many packets that leave is compared byte for byte.
const SAMPLE: usize = 7;

#[derive(Debug)]
pub(crate) struct Buffer {
    number: usize,
    bytes: Vec<u8>,
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

/// Results of one established flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Its packets that left, and in how many.
    pub(crate) packets: usize,
    pub(crate) aggregates: usize,
    /// Times its place was given to another flow while it held data.
    pub(crate) lost_place: usize,
    /// Times it made way for a fragment between its ends.
    pub(crate) made_way: usize,
}

/// An attack, and what it has done so far.
pub(crate) struct Run<'a> {
    attack: &'a Attack,
    config: Config,
    pub(crate) coalescer: Coalescer<Buffer>,
    out: Vec<(Packet<Buffer>, Exit)>,
    free: Vec<Buffer>,
    seen: Vec<bool>,
    held_bytes: usize,
    left: usize,
    pub(crate) fates: [Fate; FLOWS],
    /// Most flows there were at once.
    pub(crate) most_flows: usize,
    /// Times the coalescer took memory after it was made.
    pub(crate) taken: u64,
    again: Vec<u8>,
    room: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(attack: &'a Attack, config: Config, total: usize) -> Self {
        Self {
            attack,
            coalescer: Coalescer::new(config.clone()),
            config,
            out: Vec::with_capacity(1 << 16),
            free: Vec::new(),
            seen: vec![false; total],
            held_bytes: 0,
            left: 0,
            fates: [Fate::default(); FLOWS],
            most_flows: 0,
            taken: 0,
            again: Vec::new(),
            room: vec![0; 2_000],
        }
    }

    /// The established flows, with or without `hostile` packets of others between theirs, which
    /// come at the same times in both cases.
    pub(crate) fn of(attack: &'a Attack, config: Config, hostile: usize, attacked: bool) -> Self {
        let total = packets(hostile);
        let mut run = Self::new(attack, config, total);
        let mut batch = Batch::new();
        let mut expected = 0;
        for first in (0..total).step_by(BATCH) {
            let now = Instant::from_ns(first as u64 * SPACING_NS);
            for number in first..total.min(first + BATCH) {
                if attacked || matches!(who(number), Who::Established { .. }) {
                    expected += 1;
                    batch.push(run.packet(number, now)).expect("no more than a batch");
                }
            }
            run.take(&mut batch, now);
            run.check_bounds();
            run.settle();
        }
        run.coalescer.flush_all(Flush::Stop, &mut |packet, exit| run.out.push((packet, exit)));
        run.settle();
        assert_eq!((run.left, run.held_bytes), (expected, 0), "packets were lost");
        run
    }

    fn packet(&mut self, number: usize, now: Instant) -> Packet<Buffer> {
        let mut buffer = self.free.pop().unwrap_or(Buffer { number, bytes: Vec::new() });
        buffer.number = number;
        self.attack.write(number, &mut buffer.bytes);
        self.held_bytes += buffer.bytes.len();
        Packet::new(buffer, LinkType::Ethernet, Meta { timestamp: now, ..Meta::default() })
    }

    /// Gives a batch to the coalescer, which is woken when it asked for it.
    fn take(&mut self, batch: &mut Batch<Buffer>, now: Instant) {
        let Self { coalescer, out, .. } = self;
        let before = allocations();
        let mut out = |packet, exit| out.push((packet, exit));
        while let Some(wakeup) = coalescer.next_wakeup().filter(|wakeup| *wakeup <= now) {
            coalescer.advance(wakeup, &mut out);
        }
        coalescer.push_batch(batch, now, &mut out);
        self.taken += allocations() - before;
    }

    fn check_bounds(&mut self) {
        let (config, coalescer) = (&self.config, &self.coalescer);
        let leaving = self.out.iter().flat_map(|(packet, _)| buffers(packet));
        let held_bytes = self.held_bytes - leaving.map(|b| b.bytes.len()).sum::<usize>();
        assert!(coalescer.held() <= config.max_held_packets);
        assert!(held_bytes <= config.max_held_bytes);
        assert!(coalescer.flows() <= config.max_flows);
        assert!(u128::from(coalescer.counters().hold_ns.max()) <= config.hold_budget.as_nanos());
        self.most_flows = self.most_flows.max(coalescer.flows());
    }

    /// Checks what has left, and gives buffers and lists back.
    fn settle(&mut self) {
        let mut out = core::mem::take(&mut self.out);
        for (packet, exit) in out.drain(..) {
            self.account(&packet, exit);
            if self.left.is_multiple_of(SAMPLE) {
                self.compare(&packet);
            }
            let (buffer, mut chain) = packet.into_parts();
            self.free.push(buffer);
            self.free.extend(chain.drain(..).map(Piece::into_buffer));
            self.coalescer.recycle(chain);
        }
        self.out = out;
    }

    /// Every packet leaves once, those of an established flow in order.
    fn account(&mut self, packet: &Packet<Buffer>, exit: Exit) {
        for buffer in buffers(packet) {
            let seen = core::mem::replace(&mut self.seen[buffer.number], true);
            assert!(!seen, "packet {} left twice", buffer.number);
            self.left += 1;
            self.held_bytes -= buffer.bytes.len();
            if let Who::Established { flow, index } = who(buffer.number) {
                assert_eq!(index, self.fates[flow].packets, "flow {flow} is out of order");
                self.fates[flow].packets += 1;
            }
        }
        if let Who::Established { flow, .. } = who(packet.buffer().number) {
            let fate = &mut self.fates[flow];
            fate.aggregates += 1;
            fate.lost_place += usize::from(exit == Exit::Flushed(Flush::TableFull));
            fate.made_way += usize::from(exit == Exit::Flushed(Flush::Bypass));
        }
    }

    /// Cuts what was merged, and compares it with what came.
    fn compare(&mut self, packet: &Packet<Buffer>) {
        let Self { attack, again, room, .. } = self;
        let Some(gso) = packet.meta.gso else {
            attack.write(packet.buffer().number, again);
            assert_eq!(packet.bytes(), again, "packet {} changed", packet.buffer().number);
            return;
        };
        let mut segments = segment(packet, gso).expect("a merged packet can be cut");
        for buffer in buffers(packet) {
            attack.write(buffer.number, again);
            let written = segments.write_next(room).expect("room").expect("a segment");
            assert_eq!(room[..written.len], again[..], "packet {} changed", buffer.number);
        }
        assert!(segments.write_next(room).expect("room").is_none(), "one segment too many");
    }

    /// Fragments between the ends of established flows in the whole run.
    pub(crate) fn targeted(&self) -> usize {
        let targeted = |number: &usize| match who(*number) {
            Who::Hostile(hostile) => is_targeted(hostile),
            Who::Established { .. } => false,
        };
        (0..self.seen.len()).filter(targeted).count()
    }
}

fn buffers(packet: &Packet<Buffer>) -> impl Iterator<Item = &Buffer> {
    core::iter::once(packet.buffer()).chain(packet.chain().iter().map(Piece::buffer))
}

/// Packets per aggregate over all established flows.
pub(crate) fn mean(fates: &[Fate]) -> f64 {
    let packets: usize = fates.iter().map(|fate| fate.packets).sum();
    let aggregates: usize = fates.iter().map(|fate| fate.aggregates).sum();
    packets as f64 / aggregates as f64
}
