//! The last words of an end that gives up.

use super::Clock;
use crate::control::Control;
use linecard_transfer::control::Message;
use std::time::Duration;

/// How long they may take, in ns: the other end may not be reading any more.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Says `message`, if that can be done within a short time.
pub(crate) fn say_goodbye(control: &mut Control, message: &Message, clock: Clock) {
    if control.send(message).is_err() {
        return;
    }
    let deadline = clock.now().plus_ns(PATIENCE_NS);
    while let Ok(false) = control.flush()
        && clock.now() < deadline
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}
