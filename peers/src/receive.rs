//! All receivers, on one input, rounds in turn.

use crate::buffers::{HEADROOM, PAGE, Slot, aligned, room, stride};
use crate::check::{Account, Digest, Late, total_len};
#[cfg(dpdk)]
use crate::dpdk;
use crate::floors::{self, Work};
use crate::inputs::{Input, Ready};
use crate::measure::{BURST, COLD, CacheState, Receiver, Stock, Times};
use crate::options::Options;
use crate::ours::{self, Coalesce};
use crate::packet::ETHERNET;
use crate::report::{Class, Line, Report, Who};
use crate::trace::Trace;
use crate::tun;

/// Most rounds on inputs whose size makes a round take seconds.
const MANY_ROUNDS: usize = 5;

/// Buffers for everybody.
struct Stocks<'a> {
    slots: Stock<Slot<'a>>,
    /// Of 64 KiB each.
    large: Stock<Slot<'a>>,
    #[cfg(dpdk)]
    mbufs: Stock<dpdk::Mbuf<'a>>,
}

/// A receiver, and whose buffers it takes.
enum Subject<'a> {
    Slots(Box<dyn Receiver<Slot<'a>> + 'a>),
    Large(Box<dyn Receiver<Slot<'a>> + 'a>),
    #[cfg(dpdk)]
    Mbufs(Box<dyn Receiver<dpdk::Mbuf<'a>> + 'a>),
}

/// One row of the table.
struct Row<'a> {
    who: Who,
    class: Class,
    subject: Subject<'a>,
    times: [Times; CacheState::ALL.len()],
    checked: Account,
}

impl<'a> Row<'a> {
    fn new(who: Who, class: Class, subject: Subject<'a>) -> Self {
        let times = [Times::default(), Times::default()];
        Self { who, class, subject, times, checked: Account::default() }
    }

    /// One round.
    fn round(
        &mut self,
        stocks: &mut Stocks<'a>,
        frames: (&Trace, core::ops::Range<usize>),
        place: CacheState,
        account: &mut Account,
    ) -> Vec<u64> {
        match &mut self.subject {
            Subject::Slots(subject) => stocks.slots.round(frames, subject.as_mut(), place, account),
            Subject::Large(subject) => stocks.large.round(frames, subject.as_mut(), place, account),
            #[cfg(dpdk)]
            Subject::Mbufs(subject) => stocks.mbufs.round(frames, subject.as_mut(), place, account),
        }
    }

    fn remembers(&self) -> bool {
        matches!(&self.subject, Subject::Slots(subject) if subject.remembers())
    }

    fn refused(&self) -> u64 {
        match &self.subject {
            Subject::Slots(subject) | Subject::Large(subject) => subject.refused(),
            #[cfg(dpdk)]
            Subject::Mbufs(subject) => subject.refused(),
        }
    }
}

/// Times everybody on one input.
pub fn time(input: &Input, ready: &Ready, options: &Options) -> Report {
    let trace = &ready.trace;
    let room = room(trace.max_len());
    let held = if ready.flows == 0 { ours::HELD } else { ours::MANY_HELD };
    let (count, large_stride) = (COLD + BURST + held, tun::ROOM + HEADROOM + 64);
    let mut arena = vec![0; count * stride(room) + PAGE];
    let mut large = vec![0; (COLD + BURST) * large_stride + PAGE];
    #[cfg(dpdk)]
    let pool = dpdk::version().is_ok().then(|| dpdk::Pool::new("receive", count, room));
    let scattered = options.scattered;
    let mut stocks = Stocks {
        slots: Stock::new(Slot::divide(aligned(&mut arena), stride(room)), scattered),
        large: Stock::new(Slot::divide(aligned(&mut large), large_stride), scattered),
        #[cfg(dpdk)]
        mbufs: Stock::new(pool.as_ref().map_or(Vec::new(), |p| p.mbufs(count)), scattered),
    };
    let mut rows = rows(ready, options);
    let timed = trace.timed_from..trace.frames.len();
    let rounds = if ready.flows == 0 { options.rounds } else { options.rounds.min(MANY_ROUNDS) };
    check(&mut rows, &mut stocks, trace);
    for _ in 0..rounds {
        for row in &mut rows {
            for (index, place) in CacheState::ALL.into_iter().enumerate() {
                let frames = (trace, timed.clone());
                let bursts = row.round(&mut stocks, frames, place, &mut Account::default());
                row.times[index].record(&bursts, timed.len());
            }
        }
    }
    let (digest, late) = expected(trace);
    let payload = digest.bytes as f64 / timed.len() as f64;
    let lines = rows.into_iter().map(|row| line(row, &digest)).collect();
    Report {
        direction: "receive",
        name: input.name.clone(),
        what: format!("{} ({}, {late} packets late)", input.what, ready.origin),
        unit: "packet",
        units: timed.len(),
        payload,
        lines,
    }
    .with_ratios()
}

/// Floors, ours, and those of the others that are asked for.
fn rows<'a>(ready: &Ready, options: &Options) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let floors = [
        ("floor: parse", Work::Parse),
        ("floor: checksum", Work::Sum),
        ("floor: parse + checksum", Work::ParseSum),
        ("floor: copy", Work::Copy),
        ("floor: copy + checksum", Work::CopySum),
    ];
    for (name, work) in floors {
        let floor = floors::Receive::new(work, &ready.trace);
        rows.push(Row::new(Who::Floor(name), Class::None, Subject::Slots(Box::new(floor))));
    }
    // As many places again as flows, so that the table is not what limits.
    let flows = if ready.flows == 0 { 0 } else { (ready.flows * 2).next_power_of_two() };
    for class in Class::RECEIVE {
        let (verify, held) = class.receive();
        let mode = ours::Mode { verify, held, flows };
        let subject = Subject::Slots(Box::new(Coalesce::new(mode)));
        rows.push(Row::new(Who::Linecard, class, subject));
    }
    if "tun-rs".contains(&options.peer) {
        let subject = Subject::Large(Box::new(tun::Gro::new()));
        rows.push(Row::new(Who::TunRs, Class::Verified, subject));
    }
    #[cfg(dpdk)]
    if "dpdk".contains(&options.peer) && dpdk::version().is_ok() {
        for class in Class::RECEIVE {
            let (verify, held) = class.receive();
            // The table looks at all its flows for each packet, so it is emptied as soon as the
            // traffic allows.
            let every = if ready.window > BURST { 64 } else { 8 };
            let (every, flows) = (if held { every } else { 0 }, every * BURST);
            let mode = dpdk::Mode { verify, every, flows: flows.max(BURST), items: BURST };
            let subject = Subject::Mbufs(Box::new(dpdk::Gro::new(mode)));
            rows.push(Row::new(Who::Dpdk, class, subject));
        }
    }
    rows
}

/// The first round, which is not timed: it makes flows known, and checks what comes out.
fn check<'a>(rows: &mut [Row<'a>], stocks: &mut Stocks<'a>, trace: &Trace) {
    let (known, timed) = (0..trace.timed_from, trace.timed_from..trace.frames.len());
    for row in rows {
        if row.remembers() && !known.is_empty() {
            row.round(stocks, (trace, known.clone()), CacheState::Hot, &mut Account::default());
        }
        let mut account = Account::checking();
        row.round(stocks, (trace, timed.clone()), CacheState::Hot, &mut account);
        row.checked = account;
        // Memory that is first used in the other place is asked for here, not while time counts.
        row.round(stocks, (trace, timed.clone()), CacheState::Cold, &mut Account::default());
    }
}

/// The sums of the input packets, and how many of them are out of order.
fn expected(trace: &Trace) -> (Digest, usize) {
    let (mut digest, mut late) = (Digest::default(), Late::default());
    let mut frame = vec![0; trace.max_len()];
    for index in trace.timed_from..trace.frames.len() {
        let len = trace.write(index, &mut frame);
        let end = len.min(ETHERNET + total_len(&frame[ETHERNET..]));
        digest.add(&frame[ETHERNET..end], core::iter::empty());
        late.see(&frame[ETHERNET..end]);
    }
    (digest, late.packets)
}

fn line(row: Row<'_>, expected: &Digest) -> Line {
    let refused = row.refused();
    let right = row.checked.digest.as_ref() == Some(expected) && refused == 0;
    let floor = matches!(row.who, Who::Floor(_));
    Line {
        aggregate: (!floor).then(|| row.checked.aggregate()),
        right: (!floor).then_some(right),
        ..Line::new(row.who, row.class, row.times)
    }
}
