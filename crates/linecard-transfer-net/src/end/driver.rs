//! The endpoint driver: the loop of the thread that moves the control messages and packets of a transfer.
//!
//! A turn takes what has come (messages, results of the files' thread, packets), lets the protocol act on it, sends
//! due packets, and waits for sockets or time. Differences between sending and receiving are in a [`Role`].

use super::endpoint::Endpoint;
use super::goodbye::{LOOK, Leaving};
use super::{
    Clock, Crew, Done, FlushError, Inbox, Interest, MAX_TOKENS, Ready, Relay, SealedSocket, Task,
    WOKEN, Waiter, Waker, say_goodbye,
};
use crate::control::ControlError;
use crate::lane::LaneError;
use crate::seal::SealError;
use linecard::progress::Progress;
use linecard::time::Instant;
use linecard_transfer::control::Message;
use linecard_transfer::wire::{Header, MAX_LANES};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How often progress is shown, in ns.
const SHOW_NS: u64 = 100_000_000;
/// The token of the control connection among those waited for; tokens of lanes are their numbers.
const CONTROL: usize = MAX_LANES;
const _: () = assert!(CONTROL < MAX_TOKENS);
/// Most consecutive calls to receive from a lane, before other lanes have their turn.
const MAX_ROUNDS: usize = 4;

/// One of the two ends.
pub(crate) trait Role {
    /// Why the transfer ends early.
    type Error: From<ControlError> + From<SealError> + From<io::Error> + Display;

    /// Wakeups are rounded up to multiples of this, in ns: lanes that are due at about the same time share a turn.
    const GRID_NS: u64;

    /// Whether nothing is left to be done.
    fn is_over(&self, endpoint: &Endpoint, now: Instant) -> bool;

    /// The user has stopped the transfer.
    fn stopped(&self) -> Result<(), Self::Error>;

    /// Whether the other end knows of an error already.
    fn is_known_there(error: &Self::Error) -> bool;

    /// Takes a control message.
    fn message(
        &mut self,
        endpoint: &mut Endpoint,
        message: Message,
        now: Instant,
    ) -> Result<(), Self::Error>;

    /// The control connection has failed, and lanes do not carry messages in its place.
    fn disconnected(&mut self, error: ControlError) -> Result<(), Self::Error>;

    /// Takes what the files' thread has done.
    fn take_results(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// Whether a lane has a socket to read from.
    fn is_up(&self, lane: usize) -> bool;

    /// Takes a packet; whether it is one with control messages that is new.
    fn packet(&mut self, packet: &Packet<'_>, now: Instant) -> bool;

    /// After the packets of a lane were taken.
    fn after_packets(&mut self, endpoint: &mut Endpoint, lane: usize, now: Instant) {
        let _ = (endpoint, lane, now);
    }

    /// A lane's socket has failed.
    fn lane_failed(
        &mut self,
        lane: usize,
        error: &LaneError,
        now: Instant,
    ) -> Result<(), Self::Error>;

    /// The other end has not answered over lanes that seem to work: their addresses may have changed.
    fn doubt_lanes(&mut self) {}

    /// After the packets of all lanes were taken.
    fn process(&mut self, endpoint: &mut Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// The header of a packet with control messages; nothing where the lane must not carry one.
    fn control_header(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Option<Header>;

    /// Adds the due packets of a lane.
    fn fill(
        &mut self,
        lane: usize,
        socket: &mut SealedSocket,
        now: Instant,
    ) -> Result<(), SealError>;

    /// After sending: events, and whether the other end has been silent for too long.
    fn check(&mut self, endpoint: &Endpoint, now: Instant) -> Result<(), Self::Error>;

    /// Shows progress: some times a second.
    fn show(&mut self, endpoint: &Endpoint, now: Instant);

    /// Shows it for the last time.
    fn ended(&mut self, endpoint: &Endpoint, is_ok: bool, now: Instant) {
        let _ = is_ok;
        self.show(endpoint, now);
    }

    /// How long packets may gather before the next wait.
    fn moderation(&self) -> Duration {
        Duration::ZERO
    }

    /// When a lane wants a turn by itself; `is_idle` if all that was sealed has left.
    fn next_wakeup(&self, lane: usize, is_idle: bool) -> Instant;

    /// Descriptors of a lane, beside its socket's, to be waited for until they can be read.
    fn other_fds(&self, lane: usize) -> impl Iterator<Item = BorrowedFd<'_>>;
}

/// A packet that was opened.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) lane: usize,
    pub(crate) header: &'a Header,
    pub(crate) body: &'a [u8],
    /// Its source address, as the network reports it.
    pub(crate) from: Option<SocketAddr>,
}

/// State of the driver's thread.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    pub(crate) clock: Clock,
    /// Wakes it when the files' thread has a result.
    pub(crate) waker: Waker,
    pub(crate) stop: &'a Progress,
    /// Seals, sends, receives and opens the packets of several lanes at the same time.
    pub(crate) crew: Crew<SealedSocket>,
}

impl Driver<'_> {
    /// Runs a role to its end. If it fails, the reason is sent to the other end.
    pub(crate) fn run<R: Role>(
        self,
        role: &mut R,
        endpoint: &mut Endpoint,
    ) -> Result<(), R::Error> {
        let Self { clock, waker, stop, crew } = self;
        let waiter = Waiter::new(waker);
        let mut turns = Turns::new(stop, crew, clock.now());
        let mut next = Next::Turn;
        loop {
            let ready = match next {
                Next::Turn => Ok(Ready::ALL),
                Next::Pause(time) => {
                    std::thread::sleep(time);
                    Ok(Ready::ALL)
                }
                Next::Wait(pause) => {
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                    wait(role, endpoint, (&waiter, clock.now()))
                }
                Next::Over(result) => return result,
            };
            next = match ready {
                Ok(ready) => {
                    endpoint.ready = ready;
                    turns.take(role, endpoint, clock.now())
                }
                Err(error) => turns.fail(role, endpoint, (error.into(), clock.now())),
            };
        }
    }
}

/// When an end has its next turn.
#[derive(Debug)]
pub(crate) enum Next<E> {
    /// At once: there is more to be read.
    Turn,
    /// After this time.
    Pause(Duration),
    /// After this time, and when something has come or is due ([`next_wakeup`]).
    Wait(Duration),
    /// It has none any more.
    Over(Result<(), E>),
}

/// The turns of an end. They have no clock and wait for nothing: the driver's thread takes them in real time, tests in
/// virtual time.
#[derive(Debug)]
pub(crate) struct Turns<'a, E> {
    stop: &'a Progress,
    crew: Crew<SealedSocket>,
    shown: Instant,
    /// Why it ends, while the other end is told.
    leaving: Option<Leaving<E>>,
}

impl<'a, E: Display> Turns<'a, E> {
    pub(crate) const fn new(stop: &'a Progress, crew: Crew<SealedSocket>, now: Instant) -> Self {
        Self { stop, crew, shown: now, leaving: None }
    }

    /// The next turn.
    pub(crate) fn take<R: Role<Error = E>>(
        &mut self,
        role: &mut R,
        endpoint: &mut Endpoint,
        now: Instant,
    ) -> Next<E> {
        if let Some(leaving) = self.leaving.take() {
            return self.leave(role, endpoint, (leaving, now));
        }
        match self.take_regular(role, endpoint, now) {
            Ok(Next::Over(Err(error))) | Err(error) => self.fail(role, endpoint, (error, now)),
            Ok(Next::Over(Ok(()))) => {
                role.ended(endpoint, true, now);
                say_goodbye(role, endpoint, now);
                Next::Over(Ok(()))
            }
            Ok(next) => next,
        }
    }

    /// It cannot continue: the other end is told why.
    fn fail<R: Role<Error = E>>(
        &mut self,
        role: &mut R,
        endpoint: &mut Endpoint,
        (error, now): (E, Instant),
    ) -> Next<E> {
        role.ended(endpoint, false, now);
        if R::is_known_there(&error) {
            say_goodbye(role, endpoint, now);
            return Next::Over(Err(error));
        }
        let leaving = Leaving::begin(endpoint, error, now);
        self.leave(role, endpoint, (leaving, now))
    }

    fn leave<R: Role<Error = E>>(
        &mut self,
        role: &mut R,
        endpoint: &mut Endpoint,
        (mut leaving, now): (Leaving<E>, Instant),
    ) -> Next<E> {
        if leaving.turn(role, endpoint, (&self.crew, now)) {
            endpoint.control.close();
            return Next::Over(Err(leaving.why));
        }
        self.leaving = Some(leaving);
        Next::Pause(LOOK)
    }

    fn take_regular<R: Role<Error = E>>(
        &mut self,
        role: &mut R,
        endpoint: &mut Endpoint,
        now: Instant,
    ) -> Result<Next<E>, E> {
        if role.is_over(endpoint, now) {
            return Ok(Next::Over(Ok(())));
        }
        if self.stop.is_stopped() {
            return Ok(Next::Over(role.stopped()));
        }
        endpoint.inboxes.resize_with(self.crew.threads(), Inbox::new);
        let has_more = turn(role, endpoint, (&self.crew, now))?;
        if now.ns_since(self.shown) >= SHOW_NS {
            self.shown = now;
            role.show(endpoint, now);
        }
        let is_over = role.is_over(endpoint, now);
        Ok(if has_more || is_over { Next::Turn } else { Next::Wait(role.moderation()) })
    }
}

/// One turn of the loop; whether more can be read at once.
fn turn<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    (crew, now): (&Crew<SealedSocket>, Instant),
) -> Result<bool, R::Error> {
    endpoint.relay.set_now(now);
    // Before results of other threads: where one of them ends the transfer, as that of a full disk does, the files whose
    // ends have come by then are whole.
    let may_have = [CONTROL, WOKEN].into_iter().any(|token| endpoint.ready.has(token));
    if may_have || endpoint.relay.has_ready() {
        take_messages(role, endpoint, now)?;
    }
    role.take_results(endpoint, now)?;
    let more = take_packets(role, endpoint, (crew, now))? | endpoint.relay.has_ready();
    role.process(endpoint, now)?;
    relay_messages(role, endpoint, now)?;
    // Before the packets, as a file is whole when the news of its end have come, too.
    if let Err(error) = endpoint.relay.flush(&mut endpoint.control) {
        role.disconnected(error)?;
        endpoint.relay.disconnected();
    }
    send_packets(role, endpoint, (crew, now))?;
    role.check(endpoint, now)?;
    Ok(more)
}

fn take_messages<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    now: Instant,
) -> Result<(), R::Error> {
    loop {
        match endpoint.relay.receive(&mut endpoint.control) {
            Ok(Some(message)) => role.message(endpoint, message, now)?,
            Ok(None) => return Ok(()),
            Err(error) => {
                role.disconnected(error)?;
                endpoint.relay.disconnected();
                return Ok(());
            }
        }
    }
}

/// Takes the packets that have come on the lanes. True if there are more.
pub(super) fn take_packets<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    (crew, now): (&Crew<SealedSocket>, Instant),
) -> Result<bool, R::Error> {
    let mut more = false;
    let ready = endpoint.ready;
    let lanes: Vec<usize> = (0..endpoint.sockets.len()).filter(|lane| ready.has(*lane)).collect();
    // As many at the same time as there are threads, and inboxes.
    for group in lanes.chunks(endpoint.inboxes.len()) {
        let mut left: Vec<usize> = group.iter().copied().filter(|lane| role.is_up(*lane)).collect();
        for _ in 0..MAX_ROUNDS {
            left = receive(role, endpoint, (crew, &left), now)?;
            if left.is_empty() {
                break;
            }
        }
        more |= !left.is_empty();
        for lane in group {
            role.after_packets(endpoint, *lane, now);
        }
    }
    Ok(more)
}

/// Receives once from each of these lanes; those which may have more.
fn receive<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    (crew, lanes): (&Crew<SealedSocket>, &[usize]),
    now: Instant,
) -> Result<Vec<usize>, R::Error> {
    for lane in lanes {
        let Some(inbox) = endpoint.inboxes.pop() else { unreachable!("there is one for each") };
        endpoint.sockets[*lane].assign(Task::Receive(inbox));
    }
    crew.each(&mut endpoint.sockets, SealedSocket::task_bytes, SealedSocket::work);
    let mut left = Vec::with_capacity(lanes.len());
    for lane in lanes.iter().copied() {
        let Some(Done::Received(mut inbox, came)) = endpoint.sockets[lane].done() else { continue };
        match came {
            Ok(0) => {}
            Ok(_) => {
                deliver(role, &mut endpoint.relay, (lane, &mut inbox), now);
                left.push(lane);
            }
            Err(error) => role.lane_failed(lane, &error, now)?,
        }
        endpoint.inboxes.push(inbox);
    }
    Ok(left)
}

/// Gives the packets of a lane to those who want them.
pub(crate) fn deliver<R: Role>(
    role: &mut R,
    relay: &mut Relay,
    (lane, inbox): (usize, &mut Inbox),
    now: Instant,
) {
    for (header, body, from) in inbox.packets() {
        relay.hear();
        if role.packet(&Packet { lane, header: &header, body, from }, now) {
            relay.take(body);
        }
    }
}

/// Sends control messages, and what has come of them, over lanes. All lanes that work carry the same: which of them
/// reaches the other end is not known, and there is little of it.
pub(crate) fn relay_messages<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    now: Instant,
) -> Result<(), R::Error> {
    let packets = endpoint.relay.packets();
    if packets.is_empty() {
        return Ok(());
    }
    if endpoint.relay.is_doubtful() {
        role.doubt_lanes();
    }
    let mut is_sent = false;
    let sockets = endpoint.sockets.iter_mut().enumerate();
    for (lane, socket) in sockets {
        if !role.is_up(lane) {
            continue;
        }
        for packet in &packets {
            let Some(header) = role.control_header(lane, socket, now) else { break };
            socket.push(&header, |out| out.extend_from_slice(packet));
            is_sent = true;
        }
    }
    if !is_sent {
        endpoint.relay.not_sent();
    }
    Ok(())
}

/// Sends due packets.
fn send_packets<R: Role>(
    role: &mut R,
    endpoint: &mut Endpoint,
    (crew, now): (&Crew<SealedSocket>, Instant),
) -> Result<(), R::Error> {
    for (lane, socket) in endpoint.sockets.iter_mut().enumerate() {
        if role.is_up(lane) {
            role.fill(lane, socket, now)?;
            socket.assign(Task::Send);
        }
    }
    crew.each(&mut endpoint.sockets, SealedSocket::task_bytes, SealedSocket::work);
    for (lane, socket) in endpoint.sockets.iter_mut().enumerate() {
        match socket.done() {
            Some(Done::Sent(Err(FlushError::Seal(error)))) => return Err(error.into()),
            Some(Done::Sent(Err(FlushError::Lane(error)))) => {
                role.lane_failed(lane, &error, now)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// When an end is due for a turn by itself.
pub(crate) fn next_wakeup<R: Role>(role: &R, endpoint: &Endpoint) -> Instant {
    let sockets = endpoint.sockets.iter().enumerate();
    let lanes = sockets.map(|(lane, socket)| role.next_wakeup(lane, socket.is_idle()));
    let until = lanes.fold(endpoint.relay.next_wakeup(), Instant::min);
    Instant::from_ns(until.as_ns().div_ceil(R::GRID_NS).saturating_mul(R::GRID_NS))
}

/// Waits for sockets, the files' thread, or time.
fn wait<R: Role>(
    role: &R,
    endpoint: &Endpoint,
    (waiter, now): (&Waiter, Instant),
) -> io::Result<Ready> {
    let until = next_wakeup(role, endpoint);
    if until <= now {
        return Ok(Ready::ALL);
    }
    let Endpoint { control, relay, sockets, .. } = endpoint;
    let mut interests = Vec::with_capacity(1 + 2 * sockets.len());
    if !relay.is_down() {
        let (fd, write) = (control.as_fd(), control.wants_write());
        interests.push(Interest { fd, write, token: CONTROL });
    }
    for (token, socket) in sockets.iter().enumerate() {
        if role.is_up(token) {
            interests.push(Interest { fd: socket.lane().as_fd(), write: !socket.is_idle(), token });
        }
        interests.extend(role.other_fds(token).map(|fd| Interest { fd, write: false, token }));
    }
    waiter.wait(&interests, until, now)
}
