//! The same stages on the engine, mapped on cores, to see what they do together.
//!
//! Each thread counts the packets that have passed and takes note of them every few milliseconds. What
//! counts is the median of the times in which no thread was put aside for another program's.

use super::clock::{Pauses, lower};
use super::measure::median;
use super::offload::{self, Discard, Replay, Wire};
use crate::engine::{Body, Engine, Failure, Idle, Thread};
use linecard::packet::{Batch, PoolBuffer};
use linecard::pipeline::{Pipeline, Turn};
use linecard::port::{Application, Port, PortState};
use linecard::time::Instant;
use std::time::Duration;

/// How long packets are counted in one piece.
const WINDOW_NS: u64 = 4_000_000;
/// What is not counted: everything starts and warms up.
const WARM_UP_NS: u64 = 10_000_000;
/// Turns that take longer were put aside: a full one of 32 jumbo frames takes 0.2 ms at worst.
const LONG_TURN_NS: u64 = 1_000_000;

/// Which stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stages {
    /// Large packets are made and cut: application, segment, discard.
    Segment,
    /// Packets are taken and merged: replay, coalesce, release.
    Coalesce,
    /// All of it: application, segment, wire, take, coalesce, verify.
    Both,
}

/// What runs, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deployment {
    /// Which stages.
    pub stages: Stages,
    /// Bytes of IP packets.
    pub packet: u32,
    /// Packets in a call, 1 to 64.
    pub batch: u32,
    /// The cores: one; or two, on which `Segment` and `Coalesce` have a replica each, and `Both` its
    /// sending half and its receiving half.
    pub cores: [usize; 2],
    /// How many of them.
    pub used_cores: usize,
    /// Packets per second that come in; none for as many as can be done.
    pub offered: Option<f64>,
    /// How long.
    pub time: Duration,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Windows that count, and all.
    pub windows: [usize; 2],
    /// Packets that failed the check of every byte, where there is one.
    pub wrong: u64,
    /// Time of a packet in full turns of each thread, nanoseconds: that of a core which is never kept
    /// waiting. 0 where no turn was full.
    pub busy_ns: Vec<f64>,
}

/// What a thread took note of.
#[derive(Debug, Default)]
struct Notes {
    /// Packets per second, and whether the thread ran all the time.
    windows: Vec<(f64, bool)>,
    wrong: u64,
    /// Whether its packets are those of the deployment.
    counts: bool,
    /// Time and packets of full turns.
    busy: (u64, u64),
}

/// Runs a deployment.
///
/// # Errors
///
/// When a thread cannot be started or pinned, or has panicked.
pub fn run(deployment: &Deployment) -> Result<Seen, Failure> {
    let mut engine = Engine::new();
    let [first, second] = deployment.cores;
    let result = match (deployment.stages, deployment.used_cores) {
        (Stages::Both, 1) => spawn_whole(&mut engine, deployment, first),
        (Stages::Both, _) => spawn_halves(&mut engine, deployment, [first, second]),
        (_, used) => [first, second][..used.clamp(1, 2)]
            .iter()
            .try_for_each(|core| spawn_replica(&mut engine, deployment, *core)),
    };
    if result.is_err() {
        engine.stop();
    }
    // Threads end by themselves: who waits may not get a core before.
    let threads: Result<Vec<Notes>, Failure> = engine.join().into_iter().collect();
    result?;
    Ok(seen(&threads?))
}

/// Replicas add up.
fn seen(threads: &[Notes]) -> Seen {
    let mut seen = Seen { packets_per_second: 0.0, windows: [0, 0], wrong: 0, busy_ns: Vec::new() };
    for notes in threads {
        seen.wrong += notes.wrong;
        let (ns, packets) = notes.busy;
        seen.busy_ns.push(if packets > 0 { ns as f64 / packets as f64 } else { 0.0 });
        if !notes.counts {
            continue;
        }
        let quiet = notes.windows.iter().filter(|window| window.1);
        let quiet: Vec<f64> = quiet.map(|window| window.0).collect();
        seen.windows[0] += quiet.len();
        seen.windows[1] += notes.windows.len();
        let all = || notes.windows.iter().map(|window| window.0).collect();
        let rate = median(quiet).or_else(|| median(all()));
        seen.packets_per_second += rate.unwrap_or(0.0);
    }
    seen
}

/// A body whose packets are counted.
struct Watched<P, F> {
    body: P,
    /// Packets that have passed so far.
    count: F,
    begun: Option<(Instant, u64, Pauses)>,
    /// When the last turn began, if it was a full one, and packets until then.
    full: Option<(Instant, u64)>,
    /// What a full turn moves at least.
    most: usize,
    /// When it stops; none when that has been said.
    until: Option<Instant>,
    notes: Notes,
}

impl<P: Body, F: Fn(&P) -> u64> Watched<P, F> {
    /// Packets pass a part in two moves: into it and out of it.
    fn new(body: P, deployment: &Deployment, count: F) -> Self {
        let most = 2 * deployment.batch as usize;
        let until = Some(Instant::from_ns(WARM_UP_NS).plus(deployment.time));
        lower();
        Self { body, count, begun: None, full: None, most, until, notes: Notes::default() }
    }

    /// The turn that has just ended, if it was a full one. What was put aside in it is none.
    fn add_full(&mut self, now: Instant) {
        let Some((begun, count)) = self.full.take() else { return };
        let ns = now.ns_since(begun);
        if begun.as_ns() > WARM_UP_NS && ns < LONG_TURN_NS {
            self.notes.busy.0 += ns;
            self.notes.busy.1 += (self.count)(&self.body) - count;
        }
    }

    /// Whether it took time.
    fn note(&mut self, now: Instant) -> bool {
        match self.begun {
            None if now.as_ns() < WARM_UP_NS => return false,
            None => self.begin(now),
            Some((begun, count, pauses)) => {
                let ns = now.ns_since(begun);
                if ns < WINDOW_NS {
                    return false;
                }
                let rate = ((self.count)(&self.body) - count) as f64 * 1e9 / ns as f64;
                self.notes.windows.push((rate, Pauses::so_far() == pauses));
                // The next begins with the next turn, behind what this has cost.
                self.begun = None;
            }
        }
        true
    }

    fn begin(&mut self, now: Instant) {
        self.begun = Some((now, (self.count)(&self.body), Pauses::so_far()));
    }
}

impl<P: Body, F: Fn(&P) -> u64> Body for Watched<P, F> {
    fn run_once(&mut self, now: Instant) -> Turn {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
            self.body.stop();
        }
        self.add_full(now);
        let before = (self.count)(&self.body);
        let looked_at = self.note(now);
        let turn = self.body.run_once(now);
        // Taking notes takes time.
        self.full = (turn.moved >= self.most && !looked_at).then_some((now, before));
        turn
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.body.next_wakeup()
    }

    fn stop(&mut self) {
        self.body.stop();
    }

    fn is_blocked(&self) -> bool {
        self.body.is_blocked()
    }
}

/// Two bodies on one core, in turn.
struct Pair<P, Q> {
    first: P,
    second: Q,
    first_ended: bool,
}

impl<P: Body, Q: Body> Body for Pair<P, Q> {
    fn run_once(&mut self, now: Instant) -> Turn {
        let mut moved = 0;
        if !self.first_ended {
            let turn = self.first.run_once(now);
            (self.first_ended, moved) = (turn.ended, turn.moved);
        }
        let turn = self.second.run_once(now);
        if self.first_ended && turn.moved + moved == 0 {
            // The ring has no more: what is held goes out.
            self.second.stop();
        }
        Turn { moved: moved + turn.moved, ended: self.first_ended && turn.ended }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        [self.first.next_wakeup(), self.second.next_wakeup()].into_iter().flatten().min()
    }

    fn stop(&mut self) {
        self.first.stop();
    }

    fn is_blocked(&self) -> bool {
        self.second.is_blocked()
    }
}

/// A source that gives no more than so many packets per second, each of which stands for several.
struct Paced<S> {
    source: S,
    /// Of these packets, per second.
    rate: f64,
    begun: Option<Instant>,
    given: f64,
    one: Batch<PoolBuffer>,
}

impl<S> Paced<S> {
    fn new(source: S, rate: f64) -> Self {
        Self { source, rate, begun: None, given: 0.0, one: Batch::bounded(1) }
    }
}

impl<S: Port<PoolBuffer>> Port<PoolBuffer> for Paced<S> {
    fn receive(&mut self, batch: &mut Batch<PoolBuffer>, now: Instant) -> PortState {
        let begun = *self.begun.get_or_insert(now);
        let due = self.rate * now.ns_since(begun) as f64 / 1e9;
        while self.given < due && batch.room() > 0 {
            let state = self.source.receive(&mut self.one, now);
            let Some(packet) = self.one.pop() else { return state };
            self.given += 1.0;
            let _fits = batch.push(packet);
        }
        PortState::Open
    }

    fn transmit(&mut self, batch: &mut Batch<PoolBuffer>, now: Instant) {
        self.source.transmit(batch, now);
    }
}

/// Packets from a source, as fast as they are asked for or at a rate.
fn source(source: impl Port<PoolBuffer> + 'static, rate: Option<f64>) -> Box<dyn Port<PoolBuffer>> {
    match rate {
        Some(rate) => Box::new(Paced::new(source, rate)),
        None => Box::new(source),
    }
}

/// Large packets, at a rate of those that they are cut into.
fn applications(deployment: &Deployment) -> Box<dyn Port<PoolBuffer>> {
    let Deployment { packet, batch, offered, .. } = *deployment;
    let application: Application = offload::application(packet, batch);
    source(application, offered.map(|rate| rate / f64::from(offload::group(packet))))
}

fn thread(name: &str, core: usize, stops: bool) -> Thread {
    Thread { name: name.to_owned(), core: Some(core), idle: Idle::Spin, stops }
}

fn spawn_replica(
    engine: &mut Engine<Notes>,
    deployment: &Deployment,
    core: usize,
) -> Result<(), Failure> {
    let replicas = deployment.used_cores as f64;
    let each = Deployment { offered: deployment.offered.map(|r| r / replicas), ..*deployment };
    let Deployment { packet, batch, .. } = each;
    let notes = |notes| Notes { counts: true, ..notes };
    match deployment.stages {
        Stages::Coalesce => engine.spawn(
            thread("coalesce", core, true),
            move || {
                let replay = source(Replay::new(packet), each.offered);
                let pipeline = Pipeline::new(replay, offload::coalesce(), Discard);
                let pipeline = pipeline.with_batch(batch as usize);
                Some(Watched::new(pipeline, &each, |p: &Pipeline<_, _, _, _>| {
                    p.stage.offload_counters().packets_in
                }))
            },
            move |body| body.map_or_else(Notes::default, |body| notes(body.notes)),
        ),
        _ => engine.spawn(
            thread("segment", core, true),
            move || {
                let pipeline = sending(&each, Discard);
                Some(Watched::new(pipeline, &each, |p: &Pipeline<_, _, _, _>| {
                    p.stage.offload_counters().segments()
                }))
            },
            move |body| body.map_or_else(Notes::default, |body| notes(body.notes)),
        ),
    }
}

/// Applications, and what cuts.
type Sending<K> = Pipeline<PoolBuffer, Box<dyn Port<PoolBuffer>>, linecard::stages::Segment, K>;

fn sending<K: Port<PoolBuffer>>(deployment: &Deployment, sink: K) -> Sending<K> {
    let Deployment { packet, batch, .. } = *deployment;
    let groups = offload::groups(packet, batch) as usize;
    let pipeline = Pipeline::new(applications(deployment), offload::segment(packet), sink);
    pipeline.with_batch(groups).with_output(batch as usize)
}

fn spawn_whole(
    engine: &mut Engine<Notes>,
    deployment: &Deployment,
    core: usize,
) -> Result<(), Failure> {
    let deployment = *deployment;
    let make = move || {
        let Deployment { packet, batch, .. } = deployment;
        let (wire, receiver) = Wire::new(packet);
        let first = sending(&deployment, wire);
        let second = Pipeline::new(receiver, offload::coalesce(), offload::verify(packet))
            .with_batch(batch as usize);
        let pair = Pair { first, second, first_ended: false };
        Some(Watched::new(pair, &deployment, |pair: &Pair<_, Pipeline<_, _, _, _>>| {
            pair.second.stage.offload_counters().packets_in
        }))
    };
    engine.spawn(thread("whole", core, true), make, |body| {
        body.map_or_else(Notes::default, |body| {
            let verified = body.body.second.sink.counters();
            let wrong = verified.bad + verified.bad_checksum;
            Notes { counts: true, wrong, ..body.notes }
        })
    })
}

fn spawn_halves(
    engine: &mut Engine<Notes>,
    deployment: &Deployment,
    cores: [usize; 2],
) -> Result<(), Failure> {
    let deployment = *deployment;
    let Deployment { packet, batch, .. } = deployment;
    let (wire, receiver) = Wire::new(packet);
    let first = move || {
        Some(Watched::new(sending(&deployment, wire), &deployment, |p: &Sending<Wire>| {
            p.stage.offload_counters().segments()
        }))
    };
    let notes = |body: Option<Watched<_, _>>| body.map(|body| body.notes).unwrap_or_default();
    engine.spawn(thread("sending", cores[0], true), first, notes)?;
    let second = move || {
        let pipeline = Pipeline::new(receiver, offload::coalesce(), offload::verify(packet));
        let pipeline = pipeline.with_batch(batch as usize);
        Some(Watched::new(pipeline, &deployment, |p: &Pipeline<_, _, _, _>| {
            p.stage.offload_counters().packets_in
        }))
    };
    engine.spawn(thread("receiving", cores[1], false), second, |body| {
        body.map_or_else(Notes::default, |body| {
            let verified = body.body.sink.counters();
            let wrong = verified.bad + verified.bad_checksum;
            Notes { counts: true, wrong, ..body.notes }
        })
    })
}
