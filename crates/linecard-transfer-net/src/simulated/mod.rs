//! Transfers in virtual time: both ends as they are shipped, with their control messages, files, keys and packets.
//!
//! Only what a host gives is in memory: lanes over UDP ([`udp`]), the connections of those over TCP ([`tcp`]) and of control
//! messages ([`connection`]), and the clock. Threads for
//! files have their turn behind that of the driver which asked them. So a seed gives the same run, to the last packet, and
//! ten seconds of silence take no time.

mod connection;
mod lane;
mod scenario;
mod tcp;
mod tests;
mod udp;

use crate::control::Control;
use crate::end::{Next, SealedSocket};
use crate::receive::simulated::{OpenedInMemory, ReceivingEnd};
use crate::receive::{ReceiveError, ReceiveProgress};
use crate::seal::{Direction, LaneSecret, Opener, Sealer};
use crate::send::simulated::SendingEnd;
use crate::send::{SendError, SendProgress};
use connection::{Connection, ConnectionSettings};
use lane::Wire;
use linecard::progress::Progress;
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::control::{Suite, VERSION};
use linecard_transfer::sim::LinkCounters;
use scenario::{EarlyEnd, Scenario};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time that a turn takes, in ns: without, two ends could wait for each other at one moment without end.
const TURN_NS: u64 = 2_000;
/// The rate of the control connection.
const CONTROL_BITS_PER_SECOND: u64 = 1_000_000_000;
/// Virtual time after which a run is stuck, in ns.
const STUCK_NS: u64 = 600_000_000_000;

/// The clock of a run.
#[derive(Debug, Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn start() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000_000)))
    }

    fn now(&self) -> Instant {
        Instant::from_ns(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, now: Instant) {
        self.0.store(now.as_ns(), Ordering::Relaxed);
    }
}

/// How a run ended.
#[derive(Debug)]
struct RunResults {
    /// None for an end that has vanished.
    sender: Option<Result<(), SendError>>,
    receiver: Option<Result<(), ReceiveError>>,
    /// In virtual time.
    end: Instant,
    sent: SendProgress,
    received: ReceiveProgress,
    /// Of the links, towards the receiver.
    links: Vec<LinkCounters>,
    /// Of each lane: probes that strangers have sent to the receiver, answers that it has sent to them, and all packets.
    strangers: Vec<[u64; 3]>,
    /// Of each lane over TCP: those that the sender has made.
    connections: Vec<u64>,
    /// Bytes that came in this run and are written.
    written_bytes: u64,
    /// Turns of both ends.
    turns: u64,
}

/// An end of a transfer.
pub(crate) trait End {
    /// A turn of its driver. Then its thread for files has one, which takes `disk_ns` if there is something to do.
    fn take_turn(&mut self, now: Instant, disk_ns: u64) -> Due;

    /// When it is due for one by itself.
    fn next_wakeup(&self) -> Instant;

    /// Whether it waits for its control connection.
    fn has_control(&self) -> bool;

    /// Whether it waits for a lane.
    fn has_lane(&self, lane: usize) -> bool;
}

/// When an end has its next turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    At(Instant),
    /// Not before this, and when something has come or is due.
    After(Instant),
    Over,
}

impl Due {
    /// Follows a turn; files that were worked on are a reason for another.
    pub(crate) fn of<E>(next: &Next<E>, has_worked: bool, (now, disk_ns): (Instant, u64)) -> Self {
        match next {
            Next::Over(_) => Self::Over,
            Next::Turn => Self::At(now),
            Next::Pause(time) => Self::At(now.plus_ns(time.as_nanos() as u64)),
            Next::Wait(_) if has_worked => Self::At(now.plus_ns(disk_ns)),
            Next::Wait(time) => Self::After(now.plus_ns(time.as_nanos() as u64)),
        }
    }
}

/// Lanes and control connection between the ends.
struct Network {
    time: Time,
    wires: Vec<Wire>,
    connection: Connection,
    /// Messages are compressed: not by ends of earlier versions.
    is_packed: bool,
}

impl Network {
    fn new(scenario: &Scenario) -> Self {
        let time = Time::start();
        let mut rng = Rng::new(scenario.seed ^ 3);
        let paths = scenario.paths.iter().zip(0..);
        let wires = paths.map(|(path, lane)| Wire::new(lane, path, &time, &mut rng)).collect();
        let settings = ConnectionSettings {
            delay_ns: scenario.control_delay_ns,
            rate_bits_per_second: CONTROL_BITS_PER_SECOND,
            open: [time.now(); 2],
            fault: scenario.control,
        };
        let connection = Connection::new(&time, settings);
        Self { time, wires, connection, is_packed: !scenario.seed.is_multiple_of(4) }
    }

    /// When something comes to an end that waits for it.
    fn next_arrival(&self, end: usize, who: &dyn End) -> Instant {
        let wires = self.wires.iter().enumerate().filter(|(lane, _)| who.has_lane(*lane));
        let lanes = wires.map(|(_, wire)| wire.next_event(end));
        let control = who.has_control().then(|| self.connection.next_event(end));
        lanes.fold(control.unwrap_or(Instant::NEVER), Instant::min)
    }

    /// The process of an end is gone, which its kernel says; of the control connection, if `is_said`, it has done so.
    fn close(&self, end: usize, is_said: bool) {
        self.connection.close(end, is_said);
        self.wires.iter().for_each(|wire| wire.close(end));
    }

    /// The lanes of an end, with their keys.
    fn sockets(&self, end: usize, connection: u32) -> Vec<SealedSocket> {
        let lanes = self.wires.iter().zip(0_u16..);
        let secret =
            |lane: u16, from: usize| LaneSecret::new([lane as u8 + 1 + 128 * from as u8; 32]);
        let suite = Suite::Aes128Gcm;
        lanes
            .map(|(wire, lane)| {
                let sealer = Sealer::new(suite, secret(lane, end)).expect("a known suite");
                let opener = Opener::new(suite, &secret(lane, 1 - end), lane, connection);
                SealedSocket::new(wire.lane(end), (sealer, opener.expect("a known suite")))
            })
            .collect()
    }

    /// Of both ends.
    fn addresses(&self) -> [SocketAddr; 2] {
        [([192, 0, 2, 1], 50_000).into(), ([203, 0, 113, 1], 7_000).into()]
    }

    fn control(&self, end: usize) -> Control {
        let addresses = self.addresses();
        let direction = if end == 0 { Direction::FromClient } else { Direction::FromServer };
        let stream = Box::new(self.connection.end(end));
        let mut control =
            Control::in_memory(stream, (addresses[end], addresses[1 - end]), direction);
        if self.is_packed {
            control.pack(VERSION);
        }
        control
    }
}

/// Sends the files of `from` to the folder `into`.
fn run(scenario: &Scenario, (from, into): (&Path, &Path)) -> RunResults {
    let network = Network::new(scenario);
    let start = network.time.now();
    let (send, receive) = (scenario.send_options(from), scenario.receive_options(into));
    let (mut sent, mut received) = (SendProgress::default(), ReceiveProgress::default());
    let mut watch_sender = |progress: &SendProgress| sent = progress.clone();
    let mut watch_receiver = |progress: &ReceiveProgress| received = progress.clone();
    let listeners = network.wires.iter().map(Wire::listener);
    let settings = scenario.receive_settings();
    let sockets = network.sockets(1, settings.connection).into_iter().zip(listeners).collect();
    let lanes = (network.control(1), sockets, network.addresses()[0]);
    let flags = (scenario.seed ^ 1, scenario.is_dry, scenario.delete);
    let mut opened =
        OpenedInMemory::new(settings, lanes, flags).expect("the resources of a receiving end");
    let agreement = scenario.agreement(opened.first_window());
    let peers = network.wires.iter().map(|wire| (wire.receiver(), wire.connect()));
    let sockets = network.sockets(0, agreement.connection).into_iter().zip(peers).collect();
    let lanes = (network.control(0), sockets);
    let mut sender = SendingEnd::new(&send, &agreement, lanes, (&mut watch_sender, start))
        .expect("a sending end");
    let mut receiver = ReceivingEnd::new(&receive, &mut opened, (&mut watch_receiver, start))
        .expect("a receiving end");
    let stops = [&*send.stop, &*receive.stop];
    let (end, turns) = take_turns(scenario, &network, ([&mut sender, &mut receiver], stops));
    let written_bytes = receiver.written_bytes();
    let (sender, receiver) = (sender.result.take(), receiver.result.take());
    let links = network.wires.iter().map(Wire::counters).collect();
    let strangers = network.wires.iter().map(Wire::strangers).collect();
    let connections = network.wires.iter().map(Wire::made).collect();
    RunResults {
        sender,
        receiver,
        end,
        sent,
        received,
        links,
        strangers,
        connections,
        written_bytes,
        turns,
    }
}

/// Gives both ends their turns until they are over. When that was, and how many turns they had.
fn take_turns(
    scenario: &Scenario,
    network: &Network,
    (ends, stops): ([&mut dyn End; 2], [&Progress; 2]),
) -> (Instant, u64) {
    let start = network.time.now();
    let (mut now, mut dues, mut turns) = (start, [Due::At(start); 2], 0);
    while dues.iter().any(|due| !matches!(due, Due::Over)) {
        let at = [0, 1].map(|end| match dues[end] {
            Due::At(at) => scenario.running_from(end, at),
            Due::After(at) => {
                let arrival = network.next_arrival(end, &*ends[end]);
                scenario.running_from(end, at.max(arrival.min(ends[end].next_wakeup())))
            }
            Due::Over => Instant::NEVER,
        });
        let end = usize::from(at[1] < at[0]);
        now = now.max(at[end]);
        assert!(now.ns_since(start) < STUCK_NS, "stuck: {dues:?}, {scenario:#?}");
        network.time.set(now);
        dues[end] = match scenario.departure {
            Some((EarlyEnd::Vanishes { is_heard }, who, when)) if who == end && when <= now => {
                if is_heard {
                    network.close(end, false);
                }
                Due::Over
            }
            departure => {
                if let Some((EarlyEnd::Stops, who, when)) = departure
                    && who == end
                    && when <= now
                {
                    stops[end].stop();
                }
                now = now.plus_ns(TURN_NS);
                turns += 1;
                let due = ends[end].take_turn(now, scenario.disk_ns);
                if matches!(due, Due::Over) {
                    network.close(end, true);
                }
                due
            }
        };
    }
    (now, turns)
}
