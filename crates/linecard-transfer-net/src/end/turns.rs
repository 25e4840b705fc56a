//! The turns of an end: each takes what has come (messages, results of the files' thread, packets), lets the protocol act
//! on it, and sends due packets. Differences between sending and receiving are in a [`Role`].

use super::endpoint::Endpoint;
use super::goodbye::{LOOK, Leaving};
use super::{
    Crew, Done, FlushError, Inbox, MAX_TOKENS, Packet, Relay, Role, SealedSocket, Task, WOKEN,
    say_goodbye,
};
use linecard::progress::Progress;
use linecard::time::Instant;
use linecard_transfer::wire::MAX_LANES;
use std::fmt::Display;
use std::time::Duration;

/// How often progress is shown, in ns.
const SHOW_NS: u64 = 100_000_000;
/// The token of the control connection among those waited for; tokens of lanes are their numbers.
pub(super) const CONTROL: usize = MAX_LANES;
const _: () = assert!(CONTROL < MAX_TOKENS);
/// Most consecutive calls to receive from a lane, before other lanes have their turn.
const MAX_ROUNDS: usize = 4;

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
    /// When progress was shown last. The first turn shows it: from then on the end knows that it has begun.
    shown: Option<Instant>,
    /// Why it ends, while the other end is told.
    leaving: Option<Leaving<E>>,
}

impl<'a, E: Display> Turns<'a, E> {
    pub(crate) const fn new(stop: &'a Progress, crew: Crew<SealedSocket>) -> Self {
        Self { stop, crew, shown: None, leaving: None }
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
    pub(super) fn fail<R: Role<Error = E>>(
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
        if self.shown.is_none_or(|shown| now.ns_since(shown) >= SHOW_NS) {
            self.shown = Some(now);
            role.show(endpoint, now);
        }
        let is_over = role.is_over(endpoint, now);
        Ok(if has_more || is_over { Next::Turn } else { Next::Wait(role.moderation(now)) })
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
    Ok(more || role.has_results())
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
                if !endpoint.sockets[lane].lane().is_drained() {
                    left.push(lane);
                }
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
