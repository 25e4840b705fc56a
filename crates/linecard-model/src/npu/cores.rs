//! Cores whose threads share a pipeline and hide the latency of memory.
//!
//! A thread issues instructions until its next access to memory, then waits; meanwhile the pipeline belongs to the next
//! thread of its core that is ready. So threads hide latency, until the pipeline or the memory is saturated.

use super::config::{Config, Core};
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Steps that a thread has to do, accesses spread evenly among instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) instructions: u64,
    pub(super) accesses: u64,
}

/// The state of a thread whose instructions were issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Its data is there at this time.
    Waits(Ps),
    /// Its task is done.
    Done,
}

/// The cores of a unit.
#[derive(Debug)]
pub(super) struct Cores {
    cycle: u64,
    switch: u64,
    latency: Ps,
    line: Ps,
    pipelines: Vec<Pipeline>,
    /// By thread.
    tasks: Vec<Task>,
    /// When the memory has moved what was asked for.
    memory_free: Ps,
    /// Time in which pipelines issued or switched, and the memory moved lines.
    pub(super) issuing: Ps,
    pub(super) moving: Ps,
}

#[derive(Debug, Clone, Default)]
struct Pipeline {
    /// The thread whose instructions are issued.
    issues: Option<u16>,
    /// The thread that issued last: no other has to be switched to.
    last: Option<u16>,
    ready: VecDeque<u16>,
}

impl Task {
    /// The steps of a packet of `len` bytes, of whose connection `held` are waiting to be merged; none if it is only
    /// passed on.
    pub(super) fn of(core: &Core, len: usize, held: Option<u64>) -> Self {
        let Some(held) = held else {
            let (instructions, accesses) =
                (core.pass_instructions.into(), core.pass_accesses.into());
            return Self { instructions, accesses };
        };
        let len = len as u64;
        let sum = len.div_ceil(SUMMED) * u64::from(core.sum_instructions);
        let (walk, nodes) = (core.held_instructions, core.held_accesses);
        let lines = len.div_ceil(core.line.into());
        Self {
            instructions: u64::from(core.instructions) + sum + held * u64::from(walk),
            accesses: u64::from(core.accesses) + lines + held * u64::from(nodes),
        }
    }
}

/// Bytes of which [`Core::sum_instructions`] is the cost.
const SUMMED: u64 = 32;

impl Cores {
    pub(super) fn new(config: &Config) -> Self {
        let core = &config.core;
        let cycle = 1_000_000 / u64::from(core.mhz);
        Self {
            cycle,
            switch: u64::from(core.switch_cycles) * cycle,
            latency: Ps::from_ns(core.latency_ns),
            line: Ps::of_bits(8 * u64::from(core.line), core.memory_rate.bits_per_second()),
            pipelines: vec![Pipeline::default(); config.npu.cores.into()],
            tasks: vec![Task::default(); config.npu.receive_threads().into()],
            memory_free: Ps::ZERO,
            issuing: Ps::ZERO,
            moving: Ps::ZERO,
        }
    }

    /// Gives an idle thread a task; it begins once the thread is [`Cores::ready`].
    pub(super) fn assign(&mut self, thread: u16, task: Task) {
        self.tasks[usize::from(thread)] = task;
    }

    /// A thread may issue; returns until when it does, if its pipeline is free.
    pub(super) fn ready(&mut self, thread: u16, now: Ps) -> Option<(u16, Ps)> {
        let core = self.core(thread);
        self.pipelines[core].ready.push_back(thread);
        self.issue(core, now)
    }

    /// A thread has issued what it could; returns what becomes of it, and which thread issues now, until when.
    pub(super) fn issued(&mut self, thread: u16, now: Ps) -> (Next, Option<(u16, Ps)>) {
        let core = self.core(thread);
        self.pipelines[core].issues = None;
        let task = &mut self.tasks[usize::from(thread)];
        let next = match task.accesses.checked_sub(1) {
            None => Next::Done,
            Some(left) => {
                task.accesses = left;
                self.memory_free = self.memory_free.max(now) + self.line;
                self.moving += self.line;
                Next::Waits(self.memory_free + self.latency)
            }
        };
        (next, self.issue(core, now))
    }

    /// Lets the next thread of a core issue until its next access.
    fn issue(&mut self, core: usize, now: Ps) -> Option<(u16, Ps)> {
        let pipeline = &mut self.pipelines[core];
        if pipeline.issues.is_some() {
            return None;
        }
        let thread = pipeline.ready.pop_front()?;
        let switches = pipeline.last.replace(thread).is_some_and(|last| last != thread);
        pipeline.issues = Some(thread);
        let task = &mut self.tasks[usize::from(thread)];
        let burst = task.instructions / (task.accesses + 1);
        task.instructions -= burst;
        let time = Ps(burst * self.cycle + if switches { self.switch } else { 0 });
        self.issuing += time;
        Some((thread, now + time))
    }

    /// Threads are spread evenly over cores.
    fn core(&self, thread: u16) -> usize {
        usize::from(thread) % self.pipelines.len()
    }
}
