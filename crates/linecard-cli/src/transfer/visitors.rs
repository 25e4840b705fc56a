//! Peers that were turned away: a line for each, but not for each of a flood.

use super::ending;
use crate::say;
use indicatif::ProgressBar;
use linecard_transfer_net::control::ControlError;
use linecard_transfer_net::receive::{ReceiveError, TurnedAway};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines in [`SPAN`], at most: whoever reaches the port can cause one.
const MAX_LINES: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

/// Prints them, above the bar of a transfer that runs.
#[derive(Debug)]
pub(super) struct Visitors {
    /// How a peer with a key that is not known is allowed, up to its fingerprint.
    authorize: Box<str>,
    /// And behind its fingerprint.
    list: Box<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bar: Option<ProgressBar>,
    since: Instant,
    lines: u32,
    /// Peers about which nothing was printed.
    more: u64,
}

impl Visitors {
    /// `authorize` and `list` are the command that allows a key, before and behind it.
    pub(super) fn new(authorize: &str, list: &str) -> Self {
        let state = State { bar: None, since: Instant::now(), lines: 0, more: 0 };
        Self { authorize: authorize.into(), list: list.into(), state: Mutex::new(state) }
    }

    /// The bar that is shown from now on.
    pub(super) fn set_bar(&self, bar: Option<ProgressBar>) {
        self.state().bar = bar;
    }

    /// Says that a peer was turned away, and what to do if it should not have been.
    pub(super) fn turned_away(&self, visitor: TurnedAway) {
        let TurnedAway { from, why } = visitor;
        let hint = match &why {
            ReceiveError::Control(ControlError::UnknownPeer { found, .. }) => {
                format!("; to let it send: {}{found}{}", self.authorize, self.list)
            }
            _ => String::new(),
        };
        self.say(&format!("turned away {from}: {}{hint}", ending::of_visitor(why)), Instant::now());
    }

    fn say(&self, line: &str, now: Instant) {
        let mut state = self.state();
        if now.duration_since(state.since) >= SPAN {
            let more = std::mem::take(&mut state.more);
            (state.since, state.lines) = (now, 0);
            if more > 0 {
                state.print(&format!("and {more} more were turned away"));
            }
        }
        if state.lines >= MAX_LINES {
            state.more += 1;
            return;
        }
        state.lines += 1;
        state.print(line);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        let state = self.state();
        if state.more > 0 {
            state.print(&format!("and {} more were turned away", state.more));
        }
    }
}

impl State {
    fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(line)),
            None => say(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted() {
        let visitors = Visitors::new("", "");
        let counted = || {
            let state = visitors.state();
            (state.lines, state.more)
        };
        let now = Instant::now();
        for _ in 0..MAX_LINES + 5 {
            visitors.say("turned away", now);
        }
        assert_eq!(counted(), (MAX_LINES, 5));
        visitors.say("turned away", now + SPAN);
        assert_eq!(counted(), (1, 0));
    }
}
