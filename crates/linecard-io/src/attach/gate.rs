//! Threads wait here with open ports until all have theirs, and the rights to open them are given up.

use super::{AttachError, Side};
use crate::engine::Stopper;
use linecard::packet::LinkType;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What a thread tells while it opens its ports, and about captures when it ends.
#[derive(Debug)]
pub(super) enum Told {
    /// A port is open: which, what it is, in words, and its link type where it has one.
    Opened(Side, String, Option<LinkType>),
    /// All its ports are.
    Ready,
    /// One is not, or a capture could not be read or written.
    Failed(AttachError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    Broken,
}

/// Where threads wait, and how they tell.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    told: Sender<Told>,
}

impl Gate {
    pub(super) fn new(told: Sender<Told>) -> Self {
        Self { state: Mutex::new(State::Closed), changed: Condvar::new(), told }
    }

    /// Nobody listens any more when something has failed already.
    pub(super) fn tell(&self, what: Told) {
        let _heard = self.told.send(what);
    }

    /// Waits until it opens; false when it will not.
    pub(super) fn wait(&self) -> bool {
        self.tell(Told::Ready);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |state| *state == State::Closed);
        *state.unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// All begin.
    pub(super) fn open(&self) {
        self.set(State::Open);
    }

    /// Whether they have begun.
    pub(super) fn is_open(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// All end without having begun, if they have not.
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

/// Who opens the gate or gives it up. Without one, nobody waits any more, and who has begun ends.
#[derive(Debug)]
pub(super) struct Keeper {
    gate: Arc<Gate>,
    stopper: Stopper,
}

impl Keeper {
    pub(super) fn new(gate: Arc<Gate>, stopper: Stopper) -> Self {
        Self { gate, stopper }
    }

    /// All begin.
    pub(super) fn open(&self) {
        self.gate.open();
    }

    /// All end, whether or not they have begun.
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
