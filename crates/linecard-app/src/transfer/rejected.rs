//! Lines about rejected peers, of which a flood causes only a bounded number.

use super::Log;
use super::error::{of_control, of_receive};
use crate::Error;
use linecard_transfer_net::control::{ControlError, Protocol};
use linecard_transfer_net::keys::Fingerprint;
use linecard_transfer_net::receive::{ReceiveError, TurnedAway};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines in [`SPAN`], at most: any host that reaches the port can cause one.
const MAX_LINES: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

/// Why a peer that had connected to send was rejected.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("its key {found} is not authorized")]
    NotAuthorized { found: Fingerprint },
    #[error(
        "it does not know the key of this end: if it should, its user must compare the key with {own}, and send with \
         --accept-new once"
    )]
    NotAccepted { own: Fingerprint },
    #[error("it has closed the connection before it sent anything")]
    Closed,
    #[error(
        "received data is not TLS: the peer is another program, or a sender with --insecure-none"
    )]
    NotTls,
    #[error(
        "received data is not linecard's protocol without keys: the peer is another program, or a sender without \
         --insecure-none"
    )]
    NotLinecard,
    #[error("another transfer runs, from {with}")]
    Busy { with: SocketAddr },
    #[error(transparent)]
    Other(Error),
}

impl From<ReceiveError> for Reason {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Control(ControlError::UnknownPeer { found, .. }) => {
                Self::NotAuthorized { found }
            }
            ReceiveError::Control(ControlError::NotAccepted { own }) => Self::NotAccepted { own },
            ReceiveError::Control(
                ControlError::Closed | ControlError::ClosedEarly | ControlError::PathLost,
            ) => Self::Closed,
            ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Tls }) => {
                Self::NotTls
            }
            ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Linecard }) => {
                Self::NotLinecard
            }
            ReceiveError::Control(error) => Self::Other(of_control(error, "it")),
            ReceiveError::Busy(with) => Self::Busy { with },
            error => Self::Other(of_receive(error)),
        }
    }
}

/// Logs them.
pub(super) struct Rejected {
    /// The command that allows a key, up to the fingerprint.
    authorize: String,
    /// And behind it.
    list: String,
    log: Log,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    lines: u32,
    /// Peers without a line.
    more: u64,
}

impl Rejected {
    /// `authorize` and `list` are the command that allows a key, before and behind it.
    pub(super) fn new((authorize, list): (String, String), log: Log) -> Self {
        let state = State { since: Instant::now(), lines: 0, more: 0 };
        Self { authorize, list, log, state: Mutex::new(state) }
    }

    /// Logs a peer, and how to allow it.
    pub(super) fn add(&self, TurnedAway { from, why }: TurnedAway) {
        let hint = match &why {
            ReceiveError::Control(ControlError::UnknownPeer { found, .. }) => {
                format!("; to let it send: {}{found}{}", self.authorize, self.list)
            }
            _ => String::new(),
        };
        let what = match why {
            ReceiveError::DryRun => "a dry run of",
            ReceiveError::Probed { .. } => "a probe of",
            _ => "turned away",
        };
        // Few, and not to be hidden by a flood of others.
        let is_guess = matches!(why, ReceiveError::Control(ControlError::WrongCode { .. }));
        let line = format!("{what} {from}: {}{hint}", Reason::from(why));
        match is_guess {
            true => (self.log)(&line),
            false => self.log_at(&line, Instant::now()),
        }
    }

    fn log_at(&self, line: &str, now: Instant) {
        let mut state = self.state();
        if now.duration_since(state.since) >= SPAN {
            let more = std::mem::take(&mut state.more);
            (state.since, state.lines) = (now, 0);
            if more > 0 {
                self.log_more(more);
            }
        }
        if state.lines >= MAX_LINES {
            state.more += 1;
            return;
        }
        state.lines += 1;
        (self.log)(line);
    }

    fn log_more(&self, more: u64) {
        (self.log)(&format!("and {more} more were turned away"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Rejected {
    fn drop(&mut self) {
        let more = self.state().more;
        if more > 0 {
            self.log_more(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_flood_hides_no_guess_at_a_pairing_code() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let log: Log = Arc::new(move |line| log.lock().expect("no panic").push(line.to_owned()));
        let rejected = Rejected::new((String::new(), String::new()), log);
        let from = ([10, 0, 0, 1], 4_000).into();
        let add = |why| rejected.add(TurnedAway { from, why: ReceiveError::Control(why) });
        (0..100).for_each(|_| add(ControlError::ClosedEarly));
        add(ControlError::WrongCode { left: 0 });
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), MAX_LINES as usize + 1);
        assert!(lines.iter().any(|line| line.contains("the code is void")), "{lines:?}");
    }

    #[test]
    fn a_flood_is_counted() {
        let rejected = Rejected::new((String::new(), String::new()), Arc::new(|_| {}));
        let counted = || {
            let state = rejected.state();
            (state.lines, state.more)
        };
        let now = Instant::now();
        for _ in 0..MAX_LINES + 5 {
            rejected.log_at("turned away", now);
        }
        assert_eq!(counted(), (MAX_LINES, 5));
        rejected.log_at("turned away", now + SPAN);
        assert_eq!(counted(), (1, 0));
    }
}
