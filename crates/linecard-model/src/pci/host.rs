//! The server: frames in buffers, an interrupt handler, deferred tasks, the application.
//!
//! The interrupt goes to processor 0, which handles frames as long as there are any. Protocol work
//! is a queue of deferred calls, done by one processor at a time: once it began with them, up to a
//! budget of them run before it looks for frames again. An answer is a call, too, behind those that
//! wait already, so that a long queue is done before the first answer leaves, and answers clock the
//! senders otherwise. The application runs on processors that do neither; with a single processor
//! it has the lowest priority.

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
    /// A session's frames are acknowledged; its cost is part of that of the frames.
    Answer(usize),
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
    /// Deferred calls end: all are done, or frames are looked for again.
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
    /// Deferred calls that may run before frames are looked for again.
    budget_left: u32,
    application: VecDeque<Frame>,
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
            budget_left: 0,
            application: VecDeque::new(),
            running: vec![None; usize::from(config.server.cpus)],
        }
    }

    /// A frame and its status have been stored in memory.
    pub(super) fn received(&mut self, frame: Frame) {
        self.ring.push_back(frame);
    }

    /// Frames in the server.
    pub(super) fn held(&self) -> u64 {
        let is_frame = |task: &&Task| !matches!(task, Task::Request(_) | Task::Answer(_));
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
        let last = self.running.len() - 1;
        let protocol_cpu = last.min(usize::from(self.server.protocol == Protocol::Parallel));
        let is_at_calls = cpu == protocol_cpu && self.budget_left > 0 && !self.deferred.is_empty();
        if cpu == 0
            && !is_at_calls
            && let Some(frame) = self.ring.pop_front()
        {
            self.budget_left = 0;
            return Some(Task::Handle(frame));
        }
        if cpu == protocol_cpu
            && let Some(task) = self.deferred.pop_front()
        {
            if !matches!(task, Task::Answer(_)) {
                let left = self.budget_left.checked_sub(1);
                self.budget_left = left.unwrap_or(self.server.budget - 1);
            }
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
            Task::Answer(_) => (0, 0),
            Task::Take(_) => (costs.application_cycles.into(), 0),
        };
        let copy = Ps(u64::from(copied) * u64::from(costs.copy_ps_per_byte));
        // A million cycles a second to a MHz: a cycle is 10⁶ ps by the MHz.
        Ps(cycles * 1_000_000 / u64::from(self.server.mhz)) + copy
    }

    /// A processor has completed its task.
    pub(super) fn finish(&mut self, cpu: usize) -> Done {
        let mut done = Done::default();
        let task = self.running[cpu].take();
        let in_handler = self.server.protocol == Protocol::InHandler;
        let was_at_calls = match task {
            Some(Task::Handle(_)) => in_handler,
            Some(Task::Take(_)) | None => false,
            Some(_) => true,
        };
        match task {
            Some(Task::Handle(frame)) => {
                done.handled = true;
                done.caught_up = self.ring.is_empty();
                if in_handler {
                    self.receive(frame, &mut done);
                } else {
                    self.deferred.push_back(Task::Receive(frame));
                }
            }
            Some(Task::Receive(frame)) => self.receive(frame, &mut done),
            Some(Task::Request(session)) => done.answers.extend(self.answer(session, true)),
            Some(Task::Answer(session)) => done.answers.extend(self.answer(session, false)),
            Some(Task::Take(frame)) => self.take(frame, &mut done),
            None => {}
        }
        let gives_way = self.server.protocol == Protocol::Deferred
            && self.budget_left == 0
            && !self.ring.is_empty();
        done.phase = was_at_calls && (self.deferred.is_empty() || gives_way);
        done
    }

    fn receive(&mut self, frame: Frame, done: &mut Done) {
        let session = &mut self.sessions[frame.session];
        session.unanswered += 1;
        // Every second segment is answered (RFC 9293, section 3.8.6.3); the last of a file, with the next request.
        if session.unanswered == 2 && self.server.protocol == Protocol::InHandler {
            done.answers.extend(self.answer(frame.session, false));
        } else if session.unanswered == 2 {
            self.deferred.push_back(Task::Answer(frame.session));
        }
        self.application.push_back(frame);
    }

    /// The acknowledgment of all of a session's frames, if there are any, or the request for a file.
    fn answer(&mut self, session: usize, asks: bool) -> Option<Answer> {
        let frames = core::mem::take(&mut self.sessions[session].unanswered);
        (frames > 0 || asks).then_some(Answer { session, frames, asks })
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
