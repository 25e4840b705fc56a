//! A receiver that is busy with others is asked again, until the patience is over.

use super::open::{self, Opened};
use super::{SendError, SendOptions, SendProgress};
use crate::control::ControlError;
use linecard_transfer::control::{Refuse, RefuseCode};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before it is asked again, doubled up to a longest time. It takes a second itself, as it hopes for one
/// of the others to end.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// How soon a sender that waits sees that it is stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Whether to ask again. A pairing code is used once.
pub(super) fn is_worth_asking(refuse: &Refuse, options: &SendOptions) -> bool {
    refuse.code == RefuseCode::Busy && options.access.pairing().is_none()
}

/// Asks again after `refuse`, and says so.
pub(super) fn open(
    options: &SendOptions,
    has_links: bool,
    (refuse, observer): (Refuse, &mut dyn FnMut(&SendProgress)),
) -> Result<Opened, SendError> {
    let patience = options.patience;
    let line =
        format!("the receiver is {refuse}. It is asked again for up to {patience:?} (--patience)");
    observer(&SendProgress { waits: true, notes: vec![line], ..SendProgress::default() });
    let opened = ask_again(options, has_links, refuse.into());
    observer(&SendProgress { waits: true, ..SendProgress::default() });
    opened
}

fn ask_again(
    options: &SendOptions,
    has_links: bool,
    mut answer: SendError,
) -> Result<Opened, SendError> {
    let end = Instant::now() + options.patience;
    let [mut pause, longest] = PAUSES;
    while may_change(&answer) && Instant::now() < end {
        let resume = (Instant::now() + pause).min(end);
        while Instant::now() < resume {
            if options.stop.is_stopped() {
                return Err(SendError::Stopped);
            }
            thread::sleep(LOOK);
        }
        pause = (pause * 2).min(longest);
        match open::open(options, has_links) {
            Err(error) => answer = error,
            opened => return opened,
        }
    }
    Err(answer)
}

/// Whether a receiver that was busy may give another answer later: it may be started again meanwhile.
const fn may_change(answer: &SendError) -> bool {
    match answer {
        SendError::Refused(refuse) => matches!(refuse.code, RefuseCode::Busy),
        SendError::Control(error) => {
            matches!(error, ControlError::Connect { .. } | ControlError::ClosedEarly)
        }
        _ => false,
    }
}
