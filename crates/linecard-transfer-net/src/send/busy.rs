//! A receiver that is busy with others is asked again, until the patience is over.

use super::open::{self, Opened};
use super::{SendError, SendOptions, SendProgress};
use crate::control::ControlError;
use crate::file::Source;
use linecard_transfer::control::{Refuse, RefuseCode};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before it is asked again, doubled up to a longest time. It takes a second itself, as it hopes for one
/// of the others to end.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// How soon a sender that waits sees that it is stopped.
const LOOK: Duration = Duration::from_millis(50);
/// The least time for an answer.
const LEAST: Duration = Duration::from_secs(5);
/// Times between lists of what is sent, in times of making one.
const LISTS: u32 = 10;

/// Whether to ask again. A pairing code is used once.
pub(super) fn is_worth_asking(refuse: &Refuse, options: &SendOptions) -> bool {
    refuse.code == RefuseCode::Busy && options.access.pairing().is_none()
}

/// Asks again after `refuse`, and says so. What is sent is listed again meanwhile, as it may have changed.
pub(super) fn open(
    options: &SendOptions,
    refuse: Refuse,
    source: Arc<Source>,
    observer: &mut dyn FnMut(&SendProgress),
) -> Result<(Arc<Source>, Opened), SendError> {
    let patience = options.patience;
    let line =
        format!("the receiver is {refuse}. It is asked again for up to {patience:?} (--patience)");
    observer(&SendProgress { waits: true, notes: vec![line], ..SendProgress::default() });
    let opened = ask_again(options, refuse.into(), source);
    observer(&SendProgress { waits: true, ..SendProgress::default() });
    opened
}

fn ask_again(
    options: &SendOptions,
    mut answer: SendError,
    mut source: Arc<Source>,
) -> Result<(Arc<Source>, Opened), SendError> {
    let end = Instant::now() + options.patience;
    let [mut pause, longest] = PAUSES;
    // Of large folders, less often.
    let mut next_list = Instant::now();
    while may_change(&answer) && Instant::now() < end {
        let resume = (Instant::now() + pause).min(end);
        while Instant::now() < resume {
            if options.stop.is_stopped() {
                return Err(SendError::Stopped);
            }
            thread::sleep(LOOK);
        }
        pause = (pause * 2).min(longest);
        let begun = Instant::now();
        if begun >= next_list {
            source = options.checked_source()?;
            next_list = Instant::now() + LISTS * begun.elapsed();
        }
        let left = end.saturating_duration_since(Instant::now()).max(LEAST);
        let once = SendOptions { patience: left.min(options.patience), ..options.clone() };
        match open::open(&once, &source) {
            Ok(opened) => return Ok((source, opened)),
            Err(error) => answer = error,
        }
    }
    Err(answer)
}

/// Whether a receiver that was busy may give another answer later: it may be started again meanwhile.
const fn may_change(answer: &SendError) -> bool {
    match answer {
        SendError::Refused(refuse) => matches!(refuse.code, RefuseCode::Busy),
        SendError::NoWelcome(_) => true,
        SendError::Control(error) => matches!(
            error,
            ControlError::Connect { .. }
                | ControlError::ClosedEarly
                | ControlError::PathLost
                | ControlError::TimedOut { .. }
        ),
        _ => false,
    }
}
