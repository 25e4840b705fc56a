//! Runs the same stages on the engine, mapped to cores, to observe their joint throughput.
//!
//! Each thread counts the packets that pass and records the count every few milliseconds, or over as many large
//! packets as a share needs where few are offered. The result is the median of those windows in which the thread was
//! not preempted and packets passed.

use super::clock::{Pauses, lower_priority};
use super::measure::median;
use super::offload::{self, Discard, Replay, Wire};
use crate::engine::{Engine, Failure, Idle, Task, Thread};
use crate::port::Buffer;
use crate::workload::Application;
use linecard::packet::Batch;
use linecard::pipeline::{Pipeline, Turn};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::time::Duration;

/// Length of a window, unless packets are offered so slowly that it holds fewer than [`WINDOW_GROUPS`].
const WINDOW_NS: u64 = 4_000_000;
/// Large packets in a window, at least: packets pass in such groups, so a count is off by up to one of them.
const WINDOW_GROUPS: f64 = 100.0;
/// Length of a window at most.
const MOST_WINDOW_NS: u64 = 500_000_000;
/// Windows without preemption in which packets passed: a run goes on until it has so many, as other programs may have
/// the cores for longer than it lasts.
const FEWEST_WINDOWS: usize = 2;
/// By how much a run may exceed its time for that.
const MOST_EXTRA: Duration = Duration::from_secs(2);
/// Time before the first window: start-up and warm-up.
const WARM_UP_NS: u64 = 10_000_000;
/// Turns that take longer were preempted: a full one of 32 jumbo frames takes 0.2 ms at worst.
const LONG_TURN_NS: u64 = 1_000_000;

/// The stages to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stages {
    /// Large packets are made and segmented: application, segment, discard.
    Segment,
    /// Packets are received and merged: replay, coalesce, release.
    Coalesce,
    /// Everything: application, segment, wire, take, coalesce, verify.
    Both,
}

/// The stages to run, and their cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deployment {
    /// Which stages.
    pub stages: Stages,
    /// Bytes of IP packets.
    pub packet: u32,
    /// Packets in a call, 1 to 64.
    pub batch: u32,
    /// The cores: one; or two, on which `Segment` and `Coalesce` have a replica each, and `Both`
    /// its sending and its receiving half.
    pub cores: [usize; 2],
    /// How many of the cores are used.
    pub used_cores: usize,
    /// Offered load in packets per second; none for as many as possible.
    pub offered: Option<f64>,
    /// Duration, at least; longer where windows are long or other programs have the cores.
    pub time: Duration,
}

impl Deployment {
    fn window_ns(&self) -> u64 {
        let Some(offered) = self.offered else { return WINDOW_NS };
        let groups = offered / f64::from(offload::group(self.packet));
        ((WINDOW_GROUPS / groups * 1e9) as u64).clamp(WINDOW_NS, MOST_WINDOW_NS)
    }
}

/// The observed performance.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Windows that count, and all windows.
    pub windows: [usize; 2],
    /// Packets that failed verification, if there is any.
    pub wrong: u64,
    /// Time per packet in full turns of each thread, nanoseconds: that of a core that never waits.
    /// 0 if no turn was full.
    pub busy_ns: Vec<f64>,
}

/// The measurements of a thread.
#[derive(Debug, Default)]
struct Notes {
    /// Packets per second, and whether they count: packets passed, and the thread was not preempted.
    windows: Vec<(f64, bool)>,
    wrong: u64,
    /// Whether its packets count for the deployment.
    counts: bool,
    /// Time and packets of full turns.
    busy: (u64, u64),
}

/// Runs a deployment.
///
/// # Errors
///
/// If a thread cannot be started or pinned, or has panicked.
pub fn run(deployment: &Deployment) -> Result<Observed, Failure> {
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
    // Threads end by themselves: the waiting thread might not get a core earlier.
    let threads: Result<Vec<Notes>, Failure> = engine.join().into_iter().collect();
    result?;
    Ok(seen(&threads?))
}

/// Combines the threads' measurements; replicas add up.
fn seen(threads: &[Notes]) -> Observed {
    let mut seen =
        Observed { packets_per_second: 0.0, windows: [0, 0], wrong: 0, busy_ns: Vec::new() };
    for notes in threads {
        seen.wrong += notes.wrong;
        let (ns, packets) = notes.busy;
        seen.busy_ns.push(if packets > 0 { ns as f64 / packets as f64 } else { 0.0 });
        if !notes.counts {
            continue;
        }
        let rates = |of: fn(&(f64, bool)) -> bool| -> Vec<f64> {
            notes.windows.iter().filter(|window| of(window)).map(|window| window.0).collect()
        };
        let quiet = rates(|window| window.1);
        seen.windows[0] += quiet.len();
        seen.windows[1] += notes.windows.len();
        let rate = median(quiet).or_else(|| median(rates(|window| window.0 > 0.0)));
        seen.packets_per_second += rate.unwrap_or(0.0);
    }
    seen
}

/// A task whose packets are counted.
struct Watched<P, F> {
    body: P,
    /// Returns the number of packets that have passed.
    count: F,
    begun: Option<(Instant, u64, Pauses)>,
    /// Start of the last turn, if it was a full one, and the packets until then.
    full: Option<(Instant, u64)>,
    /// Packets moved by a full turn, at least.
    most: usize,
    window_ns: u64,
    /// When it stops, at the earliest and at the latest; none once it was told to, or where it ends with what feeds it.
    until: Option<[Instant; 2]>,
    notes: Notes,
}

impl<P: Task, F: Fn(&P) -> u64> Watched<P, F> {
    /// Packets pass a part in two moves: in and out.
    fn new(body: P, deployment: &Deployment, count: F) -> Self {
        let most = 2 * deployment.batch as usize;
        let window_ns = deployment.window_ns();
        let time = deployment.time.max(Duration::from_nanos(window_ns * FEWEST_WINDOWS as u64));
        let early = Instant::from_ns(WARM_UP_NS).plus(time);
        let until = [early, early.plus(MOST_EXTRA)];
        lower_priority();
        let notes = Notes::default();
        Self { body, count, begun: None, full: None, most, window_ns, until: Some(until), notes }
    }

    /// Ends with what feeds it instead of at a time.
    fn fed(self) -> Self {
        Self { until: None, ..self }
    }

    /// Whether its time is over: with windows that count, or without them at the latest.
    fn is_over(&self, now: Instant) -> bool {
        let enough =
            || self.notes.windows.iter().filter(|window| window.1).count() >= FEWEST_WINDOWS;
        self.until.is_some_and(|[early, late]| now >= late || now >= early && enough())
    }

    /// Counts the turn that has just ended, if it was a full one and not preempted.
    fn add_full(&mut self, now: Instant) {
        let Some((begun, count)) = self.full.take() else { return };
        let ns = now.ns_since(begun);
        if begun.as_ns() > WARM_UP_NS && ns < LONG_TURN_NS {
            self.notes.busy.0 += ns;
            self.notes.busy.1 += (self.count)(&self.body) - count;
        }
    }

    /// Records a window; returns whether that took time.
    fn note(&mut self, now: Instant) -> bool {
        match self.begun {
            None if now.as_ns() < WARM_UP_NS => return false,
            None => self.begin(now),
            Some((begun, count, pauses)) => {
                let ns = now.ns_since(begun);
                if ns < self.window_ns {
                    return false;
                }
                let rate = ((self.count)(&self.body) - count) as f64 * 1e9 / ns as f64;
                // A slow load catches up after a pause.
                let is_long = self.window_ns > WINDOW_NS;
                let counts = rate > 0.0 && (is_long || Pauses::so_far() == pauses);
                self.notes.windows.push((rate, counts));
                // The next window begins with the next turn, after the cost of recording.
                self.begun = None;
            }
        }
        true
    }

    fn begin(&mut self, now: Instant) {
        self.begun = Some((now, (self.count)(&self.body), Pauses::so_far()));
    }
}

impl<P: Task, F: Fn(&P) -> u64> Task for Watched<P, F> {
    fn run_once(&mut self, now: Instant) -> Turn {
        if self.is_over(now) {
            self.until = None;
            self.body.stop();
        }
        self.add_full(now);
        let before = (self.count)(&self.body);
        let looked_at = self.note(now);
        let turn = self.body.run_once(now);
        // Recording takes time.
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

/// Two tasks on one core, in turn.
struct Pair<P, Q> {
    first: P,
    second: Q,
    first_ended: bool,
}

impl<P: Task, Q: Task> Task for Pair<P, Q> {
    fn run_once(&mut self, now: Instant) -> Turn {
        let mut moved = 0;
        if !self.first_ended {
            let turn = self.first.run_once(now);
            (self.first_ended, moved) = (turn.ended, turn.moved);
        }
        let turn = self.second.run_once(now);
        if self.first_ended && turn.moved + moved == 0 {
            // The ring has ended, so held packets are flushed.
            self.second.stop();
        }
        Turn { moved: moved + turn.moved, ended: self.first_ended && turn.ended, ..turn }
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

/// A source limited to a rate; each of its packets stands for several.
struct Paced<S> {
    source: S,
    /// Packets per second.
    rate: f64,
    begun: Option<Instant>,
    given: f64,
    one: Batch<Buffer>,
}

impl<S> Paced<S> {
    fn new(source: S, rate: f64) -> Self {
        Self { source, rate, begun: None, given: 0.0, one: Batch::bounded(1) }
    }
}

impl<S: Port<Buffer>> Port<Buffer> for Paced<S> {
    fn receive(&mut self, batch: &mut Batch<Buffer>, now: Instant) -> PortState {
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

    fn transmit(&mut self, batch: &mut Batch<Buffer>, now: Instant) {
        self.source.transmit(batch, now);
    }
}

/// Packets from a source, at full speed or at a rate.
fn source(source: impl Port<Buffer> + 'static, rate: Option<f64>) -> Box<dyn Port<Buffer>> {
    match rate {
        Some(rate) => Box::new(Paced::new(source, rate)),
        None => Box::new(source),
    }
}

/// Large packets, at a rate given in the packets that they are segmented into.
fn applications(deployment: &Deployment) -> Box<dyn Port<Buffer>> {
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

/// Applications, and the segmenter.
type Sending<K> = Pipeline<Buffer, Box<dyn Port<Buffer>>, linecard::stages::Segment<Buffer>, K>;

fn sending<K: Port<Buffer>>(deployment: &Deployment, sink: K) -> Sending<K> {
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
        let watched = Watched::new(pipeline, &deployment, |p: &Pipeline<_, _, _, _>| {
            p.stage.offload_counters().packets_in
        });
        Some(watched.fed())
    };
    engine.spawn(thread("receiving", cores[1], false), second, |body| {
        body.map_or_else(Notes::default, |body| {
            let verified = body.body.sink.counters();
            let wrong = verified.bad + verified.bad_checksum;
            Notes { counts: true, wrong, ..body.notes }
        })
    })
}
