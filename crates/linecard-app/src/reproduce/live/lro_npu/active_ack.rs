//! Section V.C: merging waits for more than the sender may have outstanding.

use super::super::Say;
use super::scenario::Scenario;
use super::session::{Session, failed, median};
use crate::Error;
use linecard::offload::active_ack::{Config, Mode};
use linecard_io::attach::Settings;
use linecard_io::lab::Host;
use linecard_report::Item;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A transfer that takes longer has failed: the missing data is never sent again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Transfers in one mode.
#[derive(Serialize, JsonSchema)]
pub(super) struct Seen {
    done: usize,
    tried: usize,
    median_ms: f64,
    retransmitted: u64,
    answered: u64,
    #[serde(skip)]
    paper: &'static str,
}

/// Measures without active acknowledgment, and with each of its modes.
pub(super) fn measure(scenario: &Scenario, say: Say<'_>) -> Result<Vec<Item<Seen>>, Error> {
    let modes = [
        ("without active ACK", None, "paper: the sender stalls until a timer fires"),
        ("with it, window of the receiver", Some(Mode::WindowHonest), "not in the paper"),
        ("with it, window 0xFFFF", Some(Mode::Paper), "paper: no stall"),
    ];
    let each = modes.into_iter().map(|(name, mode, paper)| {
        let seen = Seen { paper, ..once(scenario, mode)? };
        say(&format!("{name}: {:.1} ms", seen.median_ms));
        Ok(Item { label: name.to_owned(), value: seen })
    });
    each.collect()
}

impl Seen {
    pub(super) fn text(&self) -> String {
        let Self { done, tried, median_ms, retransmitted, answered, paper } = self;
        format!(
            "{done} of {tried} done, median {median_ms:.1} ms, {retransmitted} segments sent again, \
             {answered} answered; {paper}"
        )
    }
}

fn once(scenario: &Scenario, mode: Option<Mode>) -> Result<Seen, Error> {
    let wanted = &scenario.active_ack;
    let change = |settings: &mut Settings| {
        settings.coalesce.hold_budget = wanted.hold.into();
        // No flow is flushed because it pauses: its sender would pause for nothing else.
        settings.coalesce.idle_floor = wanted.hold.into();
        settings.active_ack = mode.map(|mode| Config { mode, every: 1, ..Config::default() });
    };
    // Newer senders ask for each burst to be handed on (PSH), and never stall.
    let session = Session::start(scenario, true, change)?;
    let listener = session.lab.enter(Host::Own, || TcpListener::bind((Host::Own.address(), 0)));
    let listener = listener.map_err(failed)?.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let mut times = Vec::new();
    for _ in 0..wanted.transfers {
        let time = thread::scope(|scope| {
            scope.spawn(|| receive(&listener, wanted.block.get() as usize));
            session
                .lab
                .enter(Host::Peer, || transfer(port, wanted.block.get() as usize))
                .map_err(failed)
        })?;
        times.extend(time.ok());
    }
    let retransmitted = session.retransmitted(Host::Peer)?;
    let account = session.finish()?;

    Ok(Seen {
        done: times.len(),
        tried: wanted.transfers,
        median_ms: median(times.iter().map(|time| time.as_secs_f64() * 1e3).collect()),
        retransmitted,
        answered: account.active_ack.sent,
        paper: "",
    })
}

/// Sends a block on a new connection, and waits for the answer.
fn transfer(port: u16, len: usize) -> io::Result<Duration> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&(Host::Own.address(), port).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&vec![0x5A; len])?;
    stream.read_exact(&mut [0])?;
    Ok(start.elapsed())
}

/// Takes one block, and answers.
fn receive(listener: &TcpListener, len: usize) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut left = vec![0; len];
    stream.read_exact(&mut left)?;
    stream.write_all(&[1])
}
