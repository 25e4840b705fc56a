//! Pipelines: a source port, a stage (or a chain of stages) and a sink port.

use crate::packet::Batch;
use crate::port::{Port, PortState};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::boxed::Box;

/// The parts of a pipeline, for [`Meter`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Receiving from the source.
    Source,
    /// The stage's work.
    Stage,
    /// Transmitting to the sink.
    Sink,
}

/// Measures the time that each part of a pipeline takes. The pipeline itself reads no clock.
pub trait Meter {
    /// Called when `part` has finished and has moved `packets` packets.
    fn lap(&mut self, part: Part, packets: usize);
}

/// Measures nothing, at no cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn lap(&mut self, _part: Part, _packets: usize) {}
}

/// The result of one turn of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Packets moved between parts; 0 means that there was nothing to do.
    pub moved: usize,
    /// Packets received from the source.
    pub received: usize,
    /// The source has ended and every packet has left through the sink.
    pub ended: bool,
}

/// A source, a stage and a sink. Compose several stages by [`Chain`], or box them.
///
/// ```
/// use linecard::offload::coalesce::Config;
/// use linecard::pipeline::{NoMeter, Pipeline};
/// use linecard::port::link;
/// use linecard::stages::Coalesce;
/// use linecard::time::Instant;
///
/// let (wire, _) = link::<Vec<u8>>(64);
/// let (stack, _) = link::<Vec<u8>>(64);
/// let mut pipeline = Pipeline::new(wire, Coalesce::new(Config::default()), stack);
/// let turn = pipeline.run_once(Instant::ZERO, &mut NoMeter);
/// assert!(turn.ended);
/// ```
#[derive(Debug)]
pub struct Pipeline<B, S, T, K> {
    /// The port that packets are received from.
    pub source: S,
    /// The stage that processes them.
    pub stage: T,
    /// The port that they are transmitted to.
    pub sink: K,
    input: Batch<B>,
    output: Batch<B>,
    ended: bool,
}

impl<B, S: Port<B>, T: Stage<B>, K: Port<B>> Pipeline<B, S, T, K> {
    /// Connects a source, a stage and a sink.
    pub fn new(source: S, stage: T, sink: K) -> Self {
        Self { source, stage, sink, input: Batch::new(), output: Batch::new(), ended: false }
    }

    /// Takes at most `limit` packets at a time from the source, 1 to [`BATCH`](crate::packet::BATCH).
    #[must_use]
    pub fn with_batch(self, limit: usize) -> Self {
        Self { input: Batch::bounded(limit), ..self }
    }

    /// Gives the sink at most `limit` packets at a time, 1 to [`BATCH`](crate::packet::BATCH).
    #[must_use]
    pub fn with_output(self, limit: usize) -> Self {
        Self { output: Batch::bounded(limit), ..self }
    }

    /// Runs the pipeline once. The rest of the last turn goes first, so that there is room; then
    /// what the source has passes through the stage to the sink in the same turn: the next one may
    /// come later, after other pipelines of the thread.
    pub fn run_once<M: Meter>(&mut self, now: Instant, meter: &mut M) -> Turn {
        let mut moved = 0;
        if !self.output.is_empty() {
            moved += self.send(now, meter);
        }
        if !self.input.is_empty() {
            moved += self.process(now, meter);
        }
        let before = self.input.len();
        if !self.ended && self.source.receive(&mut self.input, now) == PortState::Ended {
            self.ended = true;
            self.stage.stop();
        }
        let received = self.input.len() - before;
        meter.lap(Part::Source, received);
        moved += received + self.process(now, meter) + self.send(now, meter);
        Turn { moved, received, ended: self.ended && self.is_empty() }
    }

    /// Has the stage process its input; returns how many packets moved.
    fn process<M: Meter>(&mut self, now: Instant, meter: &mut M) -> usize {
        let (given, filled) = (self.input.len(), self.output.len());
        self.stage.process(&mut self.input, now, &mut self.output);
        let taken = given - self.input.len();
        meter.lap(Part::Stage, taken);
        taken + (self.output.len() - filled)
    }

    /// Transmits the output; returns how many packets left.
    fn send<M: Meter>(&mut self, now: Instant, meter: &mut M) -> usize {
        let waiting = self.output.len();
        self.sink.transmit(&mut self.output, now);
        let sent = waiting - self.output.len();
        meter.lap(Part::Sink, sent);
        sent
    }

    /// When the pipeline has to run again even if no packet arrives.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.stage.next_wakeup()
    }

    /// Declares the end of input, even if the source does not report it.
    pub fn stop(&mut self) {
        self.ended = true;
        self.stage.stop();
    }

    /// Whether packets wait for room in the sink.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether no packet is inside the pipeline.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty() && self.stage.held() == 0
    }
}

/// Two stages as one, with a batch between them.
#[derive(Debug)]
pub struct Chain<B, A, C> {
    /// The stage that comes first.
    pub first: A,
    /// The stage behind it.
    pub second: C,
    between: Batch<B>,
    stopping: bool,
}

impl<B, A: Stage<B>, C: Stage<B>> Chain<B, A, C> {
    /// A chain that runs `first`, then `second`.
    pub fn new(first: A, second: C) -> Self {
        Self { first, second, between: Batch::new(), stopping: false }
    }
}

impl<B, A: Stage<B>, C: Stage<B>> Stage<B> for Chain<B, A, C> {
    fn name(&self) -> &'static str {
        self.second.name()
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        self.second.process(&mut self.between, now, output);
        self.first.process(input, now, &mut self.between);
        if self.stopping && self.first.held() == 0 && self.between.is_empty() {
            self.second.stop();
        }
        self.second.process(&mut self.between, now, output);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if !self.between.is_empty() {
            return Some(Instant::ZERO);
        }
        [self.first.next_wakeup(), self.second.next_wakeup()].into_iter().flatten().min()
    }

    /// The second stage is stopped once the first has nothing left.
    fn stop(&mut self) {
        self.first.stop();
        self.stopping = true;
    }

    fn held(&self) -> usize {
        self.first.held() + self.between.len() + self.second.held()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.first.counters(visit);
        self.second.counters(visit);
    }
}

impl<B, T: Stage<B> + ?Sized> Stage<B> for Box<T> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
        (**self).process(input, now, output);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        (**self).next_wakeup()
    }

    fn stop(&mut self) {
        (**self).stop();
    }

    fn held(&self) -> usize {
        (**self).held()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        (**self).counters(visit);
    }
}
