//! The last message of an end that cannot continue.

use super::turns::take_packets;
use super::{Clock, Crew, Endpoint, Ready, Role, SealedSocket, relay_messages};
use crate::control::{Control, ControlError};
use linecard::time::Instant;
use linecard_transfer::control::{Failed, Message, Text};
use std::fmt::Display;
use std::time::Duration;

/// Text of [`Failed`] when a whole transfer ends.
const ENDED: u16 = 1;
/// How long the last words may take, and how long the other end to have heard them, in ns.
const GOODBYE_NS: u64 = 2_000_000_000;
const HEARD_NS: u64 = 500_000_000;
/// How often the other end's last message is confirmed over lanes, as packets may be lost.
const GOODBYES: usize = 3;
/// How often is looked.
pub(super) const LOOK: Duration = Duration::from_millis(2);

fn ended(why: &dyn Display) -> Message {
    let text = Text::of(why.to_string().as_bytes());
    Message::Failed(Failed { object: None, sent_below: None, code: ENDED, text })
}

/// An end that cannot continue tells the other why, over the control connection and over lanes, until the other end has it
/// or a short time is over.
#[derive(Debug)]
pub(super) struct Leaving<E> {
    pub(super) why: E,
    deadline: Instant,
}

impl<E: Display> Leaving<E> {
    pub(super) fn begin(endpoint: &mut Endpoint, why: E, now: Instant) -> Self {
        endpoint.relay.set_now(now);
        let is_told = endpoint.send(&ended(&why)).is_ok();
        // Lanes are soon silent for the other end, as nothing is acknowledged any more.
        endpoint.relay.hurry();
        Self { why, deadline: if is_told { now.plus_ns(GOODBYE_NS) } else { now } }
    }

    /// One turn of telling it; whether that is over.
    pub(super) fn turn<R: Role>(
        &mut self,
        role: &mut R,
        endpoint: &mut Endpoint,
        (crew, now): (&Crew<SealedSocket>, Instant),
    ) -> bool {
        if endpoint.relay.is_confirmed() || now >= self.deadline {
            return true;
        }
        endpoint.relay.set_now(now);
        endpoint.ready = Ready::ALL;
        let is_over = endpoint.relay.flush(&mut endpoint.control).is_err()
            || (!endpoint.relay.is_down() && has_heard(endpoint))
            || take_packets(role, endpoint, (crew, now)).is_err()
            || relay_messages(role, endpoint, now).is_err();
        if !is_over {
            flush(endpoint);
        }
        is_over
    }
}

/// Whether the other end has ended: it says so, or has closed the control connection. Otherwise what it sent there is read:
/// closing a connection with unread data resets it, and the last message is lost.
fn has_heard(endpoint: &mut Endpoint) -> bool {
    loop {
        match endpoint.control.receive() {
            Err(ControlError::PathLost) => {
                endpoint.relay.disconnected();
                return false;
            }
            Err(_) | Ok(Some(Message::Failed(_))) => return true,
            Ok(Some(_)) => {}
            Ok(None) => return false,
        }
    }
}

/// Confirms the other end's last message over lanes, for which it waits, and closes the control connection.
pub(super) fn say_goodbye<R: Role>(role: &mut R, endpoint: &mut Endpoint, now: Instant) {
    for _ in 0..GOODBYES {
        endpoint.relay.owe_answer();
        // Nobody is there to be told of an error.
        let _pushed = relay_messages(role, endpoint, now);
    }
    flush(endpoint);
    endpoint.control.close();
}

/// Sends what waits, where a lane takes it.
fn flush(endpoint: &mut Endpoint) {
    for socket in &mut endpoint.sockets {
        let _sent = socket.flush();
    }
}

/// Sends a message behind which the connection ends, and gives the other end time to read it.
pub(crate) fn last_words(control: &mut Control, message: &Message, clock: Clock) {
    if control.send(message).is_err() {
        return;
    }
    let deadline = clock.now().plus_ns(GOODBYE_NS);
    while let Ok(false) = control.flush()
        && clock.now() < deadline
    {
        std::thread::sleep(LOOK);
    }
    // Closing a connection with unread data resets it, and the last message is lost.
    let deadline = clock.now().plus_ns(HEARD_NS);
    while clock.now() < deadline {
        match control.receive() {
            Err(_) | Ok(Some(Message::Failed(_))) => return,
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(LOOK),
        }
    }
}
