//! Lines about rejected peers, of which a flood causes only a bounded number.

use super::Log;
use super::error::{of_control, of_receive};
use crate::Error;
use linecard_transfer_net::control::{ControlError, Protocol};
use linecard_transfer_net::keys::Fingerprint;
use linecard_transfer_net::receive::{ReceiveError, TurnedAway};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines in [`SPAN`], at most: any host that reaches the port can cause one.
const MAX_LINES: u32 = 20;
/// Hosts that wait and are remembered.
const MAX_WAITING: usize = 1_000;
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
            ReceiveError::Busy { with, .. } => Self::Busy { with },
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
    /// Of peers that have shown no key: a flood of these hides no other.
    strangers: Mutex<State>,
    others: Mutex<State>,
    waiting: Mutex<Waiting>,
}

/// Hosts that were told to ask again, which has a line once for each, while something is received from the same sender.
#[derive(Debug, Default)]
struct Waiting {
    with: Option<SocketAddr>,
    hosts: HashSet<IpAddr>,
}

impl Waiting {
    /// Whether a host is told so for the first time.
    fn add(&mut self, host: IpAddr, with: SocketAddr) -> bool {
        if self.with != Some(with) || self.hosts.len() >= MAX_WAITING {
            *self = Self { with: Some(with), hosts: HashSet::new() };
        }
        self.hosts.insert(host)
    }
}

#[derive(Debug)]
struct State {
    since: Instant,
    lines: u32,
    /// Peers without a line.
    more: u64,
    /// Of which kind they are.
    of: &'static str,
}

impl State {
    fn new(of: &'static str) -> Mutex<Self> {
        Mutex::new(Self { since: Instant::now(), lines: 0, more: 0, of })
    }

    /// Those that were not logged.
    fn take_more(&mut self) -> Option<String> {
        let more = std::mem::take(&mut self.more);
        (more > 0).then(|| format!("and {more} more{} were turned away", self.of))
    }
}

impl Rejected {
    /// `authorize` and `list` are the command that allows a key, before and behind it.
    pub(super) fn new((authorize, list): (String, String), log: Log) -> Self {
        let (strangers, others) = (State::new(""), State::new(" with keys"));
        let waiting = Mutex::default();
        Self { authorize, list, log, strangers, others, waiting }
    }

    /// Logs a peer, and how to allow it.
    pub(super) fn add(&self, TurnedAway { from, why }: TurnedAway) {
        if let ReceiveError::Busy { with, is_kept: true } = why
            && !locked(&self.waiting).add(from.ip(), with)
        {
            return;
        }
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
        let within = match &why {
            // Few, and not to be hidden by a flood of others.
            ReceiveError::Control(ControlError::WrongCode { .. }) => None,
            ReceiveError::Control(ControlError::UnknownPeer { .. }) => Some(&self.others),
            ReceiveError::Control(_) | ReceiveError::Crowded(_) | ReceiveError::Wait(_) => {
                Some(&self.strangers)
            }
            _ => Some(&self.others),
        };
        let line = format!("{what} {from}: {}{hint}", Reason::from(why));
        match within {
            Some(state) => self.log_at(&line, state, Instant::now()),
            None => (self.log)(&line),
        }
    }

    fn log_at(&self, line: &str, state: &Mutex<State>, now: Instant) {
        let mut state = locked(state);
        if now.duration_since(state.since) >= SPAN {
            (state.since, state.lines) = (now, 0);
            state.take_more().iter().for_each(|more| (self.log)(more));
        }
        if state.lines >= MAX_LINES {
            state.more += 1;
            return;
        }
        state.lines += 1;
        (self.log)(line);
    }
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Rejected {
    fn drop(&mut self) {
        for state in [&self.strangers, &self.others] {
            locked(state).take_more().iter().for_each(|more| (self.log)(more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_flood_hides_neither_guesses_at_a_pairing_code_nor_keys() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let log: Log = Arc::new(move |line| log.lock().expect("no panic").push(line.to_owned()));
        let rejected = Rejected::new((String::new(), String::new()), log);
        let from = ([10, 0, 0, 1], 4_000).into();
        let add = |why| rejected.add(TurnedAway { from, why: ReceiveError::Control(why) });
        (0..100).for_each(|_| add(ControlError::ClosedEarly));
        add(ControlError::WrongCode { left: 0 });
        let found = Fingerprint::of(b"a key");
        let unknown = || ControlError::UnknownPeer { name: "it".into(), found };
        add(unknown());
        let shown = lines.lock().expect("no panic").clone();
        assert_eq!(shown.len(), MAX_LINES as usize + 2);
        for text in ["the code is void", &found.to_string()] {
            assert!(shown.iter().any(|line| line.contains(text)), "{shown:?}");
        }
        (0..30).for_each(|_| add(unknown()));
        drop(rejected);
        let lines = lines.lock().expect("no panic");
        let counts = &lines[lines.len() - 2..];
        assert_eq!(
            counts,
            ["and 80 more were turned away", "and 11 more with keys were turned away"]
        );
    }

    /// A sender that waits asks every few seconds.
    #[test]
    fn a_host_that_waits_has_one_line_for_each_transfer() {
        let lines = Arc::new(Mutex::new(0));
        let log = Arc::clone(&lines);
        let log: Log = Arc::new(move |_| *log.lock().expect("no panic") += 1);
        let rejected = Rejected::new((String::new(), String::new()), log);
        let ask = |host: u8, port: u16, with: u16| {
            let with = ([10, 0, 0, 9], with).into();
            let why = ReceiveError::Busy { with, is_kept: true };
            rejected.add(TurnedAway { from: ([10, 0, 0, host], port).into(), why });
            *lines.lock().expect("no panic")
        };
        assert_eq!([ask(1, 1, 1), ask(1, 2, 1), ask(2, 3, 1), ask(1, 4, 1)], [1, 1, 2, 2]);
        assert_eq!([ask(1, 5, 2), ask(1, 6, 2)], [3, 3]);
    }

    #[test]
    fn a_flood_is_counted() {
        let rejected = Rejected::new((String::new(), String::new()), Arc::new(|_| {}));
        let counted = || {
            let state = locked(&rejected.strangers);
            (state.lines, state.more)
        };
        let now = Instant::now();
        for _ in 0..MAX_LINES + 5 {
            rejected.log_at("turned away", &rejected.strangers, now);
        }
        assert_eq!(counted(), (MAX_LINES, 5));
        rejected.log_at("turned away", &rejected.strangers, now + SPAN);
        assert_eq!(counted(), (1, 0));
    }
}
