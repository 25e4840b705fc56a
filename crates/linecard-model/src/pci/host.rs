//! The server: frames in buffers, an interrupt handler, deferred tasks, the application.
//!
//! The interrupt goes to processor 0, which handles frames as long as there are any. Protocol work
//! is one stage, done by one processor at a time. Answers are sent when all of it is done, as
//! Windows NT sends them at the end of a receive. The application runs on processors that do
//! neither; with a single processor it has the lowest priority.

use super::config::{Config, Costs, Load, Protocol, Server};
use super::load::Frame;
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A task that a processor runs to completion.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    /// The interrupt handler, for one frame.
    Handle(Frame),
    /// Protocol work for one.
    Receive(Frame),
    /// Protocol work to request the next file.
    Request(usize),
    /// The application reads the data.
    Take(Frame),
}

/// An answer of the server: frames acknowledged, and whether the next file is requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) session: usize,
    pub(super) frames: u32,
    pub(super) asks: bool,
}

/// The result of a completed task.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Answers to send.
    pub(super) answers: Vec<Answer>,
    /// All deferred work is done.
    pub(super) phase: bool,
    /// A frame is handled: its buffer is free.
    pub(super) handled: bool,
    /// No frame waits.
    pub(super) caught_up: bool,
    /// Bytes that the application read.
    pub(super) taken: Option<u32>,
}

/// Queues and processors.
#[derive(Debug)]
pub(super) struct Host {
    server: Server,
    costs: Costs,
    file_bytes: u32,
    sessions: Vec<Session>,
    /// Frames in buffers, waiting for the handler.
    ring: VecDeque<Frame>,
    deferred: VecDeque<Task>,
    application: VecDeque<Frame>,
    /// Sessions with two or more frames to acknowledge.
    to_answer: Vec<usize>,
    running: Vec<Option<Task>>,
}

#[derive(Debug, Clone, Default)]
struct Session {
    unanswered: u32,
    file_taken: u32,
}

impl Host {
    pub(super) fn new(config: &Config) -> Self {
        let Load { clients, sessions, file_bytes, .. } = config.load;
        Self {
            server: config.server,
            costs: config.costs,
            file_bytes,
            sessions: vec![Session::default(); (clients * sessions) as usize],
            ring: VecDeque::new(),
            deferred: VecDeque::new(),
            application: VecDeque::new(),
            to_answer: Vec::new(),
            running: vec![None; usize::from(config.server.cpus)],
        }
    }

    /// A frame and its status have been stored in memory.
    pub(super) fn received(&mut self, frame: Frame) {
        self.ring.push_back(frame);
    }

    /// Frames in the server.
    pub(super) fn held(&self) -> u64 {
        let is_frame = |task: &&Task| !matches!(task, Task::Request(_));
        let deferred = self.deferred.iter().filter(is_frame).count();
        let running = self.running.iter().flatten().filter(is_frame).count();
        (self.ring.len() + deferred + self.application.len() + running) as u64
    }

    /// Assigns a task to an idle processor; returns it with its duration.
    pub(super) fn start(&mut self, cpu: usize) -> Option<(Task, Ps)> {
        if self.running[cpu].is_some() {
            return None;
        }
        let task = self.choose(cpu)?;
        self.running[cpu] = Some(task);
        Some((task, self.time_of(task)))
    }

    fn choose(&mut self, cpu: usize) -> Option<Task> {
        if cpu == 0
            && let Some(frame) = self.ring.pop_front()
        {
            return Some(Task::Handle(frame));
        }
        let last = self.running.len() - 1;
        let protocol_cpu = last.min(usize::from(self.server.protocol == Protocol::Parallel));
        if cpu == protocol_cpu
            && let Some(task) = self.deferred.pop_front()
        {
            return Some(task);
        }
        if cpu <= protocol_cpu && cpu != last {
            return None;
        }
        self.application.pop_front().map(Task::Take)
    }

    fn time_of(&self, task: Task) -> Ps {
        let costs = &self.costs;
        let in_handler = self.server.protocol == Protocol::InHandler;
        let (cycles, copied) = match task {
            Task::Handle(frame) => {
                let protocol = if in_handler { u64::from(costs.protocol_cycles) } else { 0 };
                let copied = if self.server.copies.0 { frame.len() } else { 0 };
                (u64::from(costs.handler_cycles) + protocol, copied)
            }
            Task::Receive(_) | Task::Request(_) => (costs.protocol_cycles.into(), 0),
            Task::Take(_) => (costs.application_cycles.into(), 0),
        };
        let copy = Ps(u64::from(copied) * u64::from(costs.copy_ps_per_byte));
        // A million cycles a second to a MHz: a cycle is 10⁶ ps by the MHz.
        Ps(cycles * 1_000_000 / u64::from(self.server.mhz)) + copy
    }

    /// A processor has completed its task.
    pub(super) fn finish(&mut self, cpu: usize) -> Done {
        let mut done = Done::default();
        match self.running[cpu].take() {
            Some(Task::Handle(frame)) => {
                done.handled = true;
                done.caught_up = self.ring.is_empty();
                if self.server.protocol == Protocol::InHandler {
                    self.receive(frame, &mut done);
                } else {
                    self.deferred.push_back(Task::Receive(frame));
                }
            }
            Some(Task::Receive(frame)) => self.receive(frame, &mut done),
            Some(Task::Request(session)) => {
                let frames = core::mem::take(&mut self.sessions[session].unanswered);
                self.to_answer.retain(|&other| other != session);
                done.answers.push(Answer { session, frames, asks: true });
                self.answer(&mut done);
            }
            Some(Task::Take(frame)) => self.take(frame, &mut done),
            None => {}
        }
        done
    }

    fn receive(&mut self, frame: Frame, done: &mut Done) {
        let session = &mut self.sessions[frame.session];
        session.unanswered += 1;
        // Every second segment is answered (RFC 9293, section 3.8.6.3); the last of a file, with the next request.
        if session.unanswered == 2 {
            self.to_answer.push(frame.session);
        }
        self.application.push_back(frame);
        self.answer(done);
    }

    /// Answers are sent once no deferred work is left.
    fn answer(&mut self, done: &mut Done) {
        if !self.deferred.is_empty() {
            return;
        }
        done.phase = true;
        for session in self.to_answer.drain(..) {
            let frames = core::mem::take(&mut self.sessions[session].unanswered);
            done.answers.push(Answer { session, frames, asks: false });
        }
    }

    fn take(&mut self, frame: Frame, done: &mut Done) {
        done.taken = Some(frame.payload);
        let session = &mut self.sessions[frame.session];
        session.file_taken += frame.payload;
        if session.file_taken >= self.file_bytes {
            session.file_taken = 0;
            self.deferred.push_back(Task::Request(frame.session));
        }
    }
}
