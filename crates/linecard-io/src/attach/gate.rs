//! A gate at which threads wait with open ports until all have opened theirs and privileges are
//! dropped.

use super::{AttachError, Side};
use crate::engine::{Class, StopHandle};
use linecard::packet::LinkType;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Reports of a thread while it opens its ports, and about captures when it ends.
#[derive(Debug)]
pub(super) enum ThreadEvent {
    /// A port is open: which one, its description, and its link type if it has one.
    Opened(Side, String, Option<LinkType>),
    /// A queue of a TUN or TAP device that is a port.
    Queue(Side, OwnedFd),
    /// Its scheduling class.
    Scheduled(Class),
    /// All its ports are open.
    Ready,
    /// A port could not be opened, or a capture could not be read or written.
    Failed(AttachError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    Broken,
}

/// The threads' side of the gate, and their channel for reports.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    told: Sender<ThreadEvent>,
}

impl Gate {
    pub(super) fn new(told: Sender<ThreadEvent>) -> Self {
        Self { state: Mutex::new(State::Closed), changed: Condvar::new(), told }
    }

    /// The receiver may be gone if something has failed already.
    pub(super) fn tell(&self, what: ThreadEvent) {
        let _heard = self.told.send(what);
    }

    /// Waits until the gate opens; false if it never will.
    pub(super) fn wait(&self) -> bool {
        self.tell(ThreadEvent::Ready);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |state| *state == State::Closed);
        *state.unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// Lets all threads start.
    pub(super) fn open(&self) {
        self.set(State::Open);
    }

    /// Whether the threads have started.
    pub(super) fn is_open(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// Ends all threads that have not started.
    pub(super) fn give_up(&self) {
        if !self.is_open() {
            self.set(State::Broken);
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }
}

/// Opens or abandons the gate. When it is dropped, waiting threads end, and started ones stop.
#[derive(Debug)]
pub(super) struct Keeper {
    gate: Arc<Gate>,
    stopper: StopHandle,
}

impl Keeper {
    pub(super) fn new(gate: Arc<Gate>, stopper: StopHandle) -> Self {
        Self { gate, stopper }
    }

    /// Lets all threads start.
    pub(super) fn open(&self) {
        self.gate.open();
    }

    /// Ends all threads, whether or not they have started.
    pub(super) fn give_up(&self) {
        self.gate.give_up();
        self.stopper.stop();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.give_up();
    }
}
