//! Section V.B: can new connections be made beside a few busy flows?

use super::super::Say;
use super::scenario::{Scenario, Starvation};
use super::session::{Session, failed, median};
use crate::Error;
use linecard_io::attach::{Deployment, Merge, Settings};
use linecard_io::engine::Order;
use linecard_io::lab::Host;
use linecard_report::Item;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Payload of a busy flow's packets: many packets, so that the output is short of time, not of room.
const PAYLOAD: usize = 64;
/// The port that busy flows go to; no program reads it.
const NOBODY: u16 = 9;
/// How long busy flows have before others come.
const HEAD_START: Duration = Duration::from_millis(300);

/// Measurements with one order of output.
#[derive(Serialize, JsonSchema)]
pub(super) struct Seen {
    made: usize,
    tried: usize,
    median_ms: f64,
    most_waiting: usize,
    #[serde(skip)]
    paper: &'static str,
}

/// Measures each order of the scenario.
pub(super) fn measure(scenario: &Scenario, say: Say<'_>) -> Result<Vec<Item<Seen>>, Error> {
    let each = scenario.starvation.orders.iter().map(|order| {
        let name = order.name();
        let seen = once(scenario, order.of_engine())?;
        say(&format!("{name}: {} of {} connections made", seen.made, seen.tried));
        Ok(Item { label: name.to_owned(), value: seen })
    });
    each.collect()
}

impl Seen {
    pub(super) fn text(&self) -> String {
        format!(
            "{} of {} made, median {:.1} ms, {} requests waited at most; {}",
            self.made, self.tried, self.median_ms, self.most_waiting, self.paper
        )
    }
}

fn once(scenario: &Scenario, order: Order) -> Result<Seen, Error> {
    let wanted = &scenario.starvation;
    let change = |settings: &mut Settings| {
        // The output has a thread for itself, as the paper's DMA engine is a unit of its own.
        settings.deployment = Deployment::Dedicated;
        // Each packet is a request then.
        settings.merge = Merge::default();
        settings.engine.workers = wanted.workers;
        settings.engine.ring_capacity = wanted.ring;
        settings.engine.order = order;
        settings.engine.cores.clone_from(&wanted.cores);
    };
    let session = Session::start(scenario, false, change)?;
    let stop = AtomicBool::new(false);
    let times = thread::scope(|scope| {
        let busy = scope.spawn(|| {
            session.lab.enter(Host::Peer, || keep_busy(wanted.flows, &stop)).map_err(failed)
        });
        let listener = session.lab.enter(Host::Own, listener).map_err(failed)?.map_err(failed);
        let times = listener.and_then(|listener| {
            thread::sleep(HEAD_START);
            let port = listener.local_addr().map_err(failed)?.port();
            session.lab.enter(Host::Peer, || connect(wanted, port)).map_err(failed)
        });
        stop.store(true, Ordering::Relaxed);
        busy.join().map_err(|_| failed("the busy flows failed"))??.map_err(failed)?;
        times
    })?;
    let account = session.finish()?;
    let (made, tried) = (times.len(), wanted.attempts);
    Ok(Seen {
        made,
        tried,
        median_ms: median(times.iter().map(|time| time.as_secs_f64() * 1e3).collect()),
        most_waiting: account.gather.most_waiting,
        paper: match order {
            Order::RoundRobin => "paper: all are made",
            Order::Fifo => "not in the paper",
            Order::Stack if 2 * made < tried => "paper: most time out, as here",
            Order::Stack => {
                "paper: most time out; here the output empties its stack often enough that they pass"
            }
        },
    })
}

/// The kernel completes connections that no program accepts.
fn listener() -> std::io::Result<TcpListener> {
    TcpListener::bind((Host::Own.address(), 0))
}

/// Sends packets of this many flows in turn until stopped.
fn keep_busy(flows: usize, stop: &AtomicBool) -> std::io::Result<()> {
    let socket = |_| {
        let socket = UdpSocket::bind((Host::Peer.address(), 0))?;
        socket.connect((Host::Own.address(), NOBODY))?;
        Ok(socket)
    };
    let sockets = (0..flows).map(socket).collect::<std::io::Result<Vec<_>>>()?;
    while !stop.load(Ordering::Relaxed) && !sockets.is_empty() {
        for socket in &sockets {
            // An error means that no socket listens, or that the queue is full: both are expected.
            let _sent = socket.send(&[0; PAYLOAD]);
        }
    }
    Ok(())
}

/// Tries to make connections; the times of those that were made.
fn connect(wanted: &Starvation, port: u16) -> Vec<Duration> {
    let to = SocketAddr::from((Host::Own.address(), port));
    let attempt = |_| {
        let start = Instant::now();
        TcpStream::connect_timeout(&to, wanted.timeout.into()).ok().map(|_| start.elapsed())
    };
    (0..wanted.attempts).filter_map(attempt).collect()
}
