//! The last message of an end that cannot continue.

use super::Clock;
use crate::control::Control;
use linecard_transfer::control::{Failed, Message, Text};
use std::fmt::Display;
use std::time::Duration;

/// Text of [`Failed`] when a whole transfer ends.
const ENDED: u16 = 1;
/// How long the last words may take, and how long the other end to have heard them, in ns.
const GOODBYE_NS: u64 = 2_000_000_000;
const HEARD_NS: u64 = 500_000_000;
/// How often is looked.
const LOOK: Duration = Duration::from_millis(2);

/// Tells the other end why this one ends, as far as that can be done.
pub(crate) fn give_up(control: &mut Control, why: &dyn Display, clock: Clock) {
    let text = Text::of(why.to_string().as_bytes());
    let failed = Failed { object: None, sent_below: None, code: ENDED, text };
    last_words(control, &Message::Failed(failed), clock);
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
