//! How a transfer ended, as the user is told: who is to blame, and what to do.

use crate::failure::Failure;
use crate::say;
use linecard_transfer_net::control::{ControlError, Protocol};
use linecard_transfer_net::file::{Failures, FileError};
use linecard_transfer_net::receive::ReceiveError;
use linecard_transfer_net::send::SendError;
use std::io::ErrorKind;
use std::path::Path;

/// Of files that are not transferred, so many are said one by one.
pub(super) const MAX_SAID: usize = 10;
/// What to do at either end.
const SEND_AGAIN: &str = "what has arrived is kept: run the same commands again to go on";

/// Of a sender. `peer` is what the user calls the other end.
pub(super) fn of_send(error: SendError, peer: &str) -> Failure {
    match error {
        SendError::File(error) => of_file(error),
        SendError::Control(error) => of_control(error, peer),
        SendError::Open(_) | SendError::NoLane(_) => Failure::Attach(error.to_string()),
        SendError::Layout(_) | SendError::Lanes(_) => Failure::Usage(error.to_string()),
        SendError::Silent(_) | SendError::NeverReached { .. } | SendError::Unconfirmed { .. } => {
            Failure::Unreachable(error.to_string())
        }
        SendError::Stopped => Failure::Stopped(format!("stopped; {SEND_AGAIN}")),
        SendError::Wait(_) => Failure::Attach(error.to_string()),
        SendError::Seal(_) => Failure::Thread(error.to_string()),
        SendError::Refused(_)
        | SendError::Welcome(_)
        | SendError::Unexpected(_)
        | SendError::Ended(_) => Failure::PeerRefused(error.to_string()),
    }
}

/// Of a receiver.
pub(super) fn of_receive(error: ReceiveError) -> Failure {
    match error {
        ReceiveError::File(error) => of_file(error),
        ReceiveError::Control(error) => of_control(error, "the sender"),
        ReceiveError::Open(_) | ReceiveError::Listen { .. } | ReceiveError::Wait(_) => {
            Failure::Attach(error.to_string())
        }
        ReceiveError::Silent(_) | ReceiveError::NoHello(_) | ReceiveError::NothingAnnounced(_) => {
            Failure::Unreachable(error.to_string())
        }
        ReceiveError::Stopped => Failure::Stopped(format!("stopped; {SEND_AGAIN}")),
        ReceiveError::Seal(_) => Failure::Thread(error.to_string()),
        ReceiveError::OneOnly => Failure::Usage(error.to_string()),
        ReceiveError::Refused(_)
        | ReceiveError::Busy(_)
        | ReceiveError::Crowded(_)
        | ReceiveError::TooManyFolders { .. }
        | ReceiveError::Unexpected(_)
        | ReceiveError::Scheme(_)
        | ReceiveError::Ended(_)
        | ReceiveError::Layout(_)
        | ReceiveError::Announce(_)
        | ReceiveError::Repair(_) => Failure::PeerRefused(error.to_string()),
    }
}

/// Why a peer was turned away that had connected to send.
pub(super) fn of_visitor(error: ReceiveError) -> String {
    match error {
        ReceiveError::Control(ControlError::UnknownPeer { found, .. }) => {
            format!("nobody has allowed its key {found}")
        }
        ReceiveError::Control(ControlError::NotAccepted { own }) => format!(
            "it does not know the key of this end: if it should, it has to send with --accept-new \
             once, and its user to see that the key is {own}"
        ),
        ReceiveError::Control(ControlError::Closed | ControlError::ClosedEarly) => {
            "it has closed the connection before it sent anything".into()
        }
        ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Tls }) => {
            "what came is not TLS: it is another program, or a sender with --insecure-none".into()
        }
        ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Linecard }) => {
            "what came is not linecard's protocol without keys: it is another program, or a sender \
             without --insecure-none"
                .into()
        }
        ReceiveError::Control(error) => of_control(error, "it").to_string(),
        ReceiveError::Busy(with) => format!("another transfer runs, from {with}"),
        error => of_receive(error).to_string(),
    }
}

/// Of files that were not transferred, while all others were: each is said, and at the end how many.
pub(super) fn of_part(failures: &Failures, objects: u64) -> Result<(), Failure> {
    if failures.count() == 0 {
        return Ok(());
    }
    for why in failures.first().iter().take(MAX_SAID) {
        say(&format!("not transferred: {why}"));
    }
    let count = failures.count();
    if count > MAX_SAID as u64 {
        say(&format!("and {} more were not transferred", count - MAX_SAID as u64));
    }
    Err(Failure::Partial(part(count, objects)))
}

/// The same in one line, for the account.
pub(super) fn part(count: u64, objects: u64) -> String {
    format!(
        "{count} not transferred, {objects} files and folders are in their places; what is there already \
         is not sent when the same commands are run again"
    )
}

/// Of files at this end.
fn of_file(error: FileError) -> Failure {
    match error {
        FileError::Damaged { path, kept } if path == kept => Failure::Wrong(format!(
            "what went to {} does not have the hash of what was sent: do not use it, send it again",
            path.display()
        )),
        FileError::Damaged { .. } => Failure::Wrong(error.to_string()),
        FileError::System { path, source, .. }
            if source.kind() == ErrorKind::BrokenPipe && path == Path::new("standard output") =>
        {
            Failure::Report(source)
        }
        error => Failure::Storage(error.to_string()),
    }
}

/// Of the connection between both.
fn of_control(error: ControlError, peer: &str) -> Failure {
    let text = error.to_string();
    match error {
        ControlError::Connect { cause, .. } if cause.kind() == ErrorKind::TimedOut => {
            Failure::Unreachable(format!(
                "{peer} does not answer; check its address and the firewalls on the way"
            ))
        }
        ControlError::Connect { .. } => {
            Failure::Unreachable(format!("{text}; is `linecard recv` running there, at this port?"))
        }
        ControlError::TimedOut { .. } => Failure::Unreachable(text),
        ControlError::Closed | ControlError::ClosedEarly | ControlError::Io(_) => {
            Failure::Unreachable(format!("{text}; {SEND_AGAIN}"))
        }
        ControlError::UnknownPeer { found, .. } => {
            Failure::Unauthenticated(format!("the key of {peer} is not known: {found}"))
        }
        ControlError::NotAccepted { own } => Failure::Unauthenticated(format!(
            "{peer} does not accept this end's key; run there: linecard keys authorize {own}"
        )),
        ControlError::NoListThere { own } => Failure::Unauthenticated(format!(
            "{peer} cannot use its list of who may send, and accepts nobody: what `linecard recv` prints there \
             says how to mend it. The key of this end is {own}"
        )),
        ControlError::OtherAccess => Failure::Unauthenticated(
            "the other end authenticates in another way: give --psk to both ends, or to neither"
                .into(),
        ),
        ControlError::WrongSharedKey => Failure::Unauthenticated(
            "the other end has another shared key: both need a copy of the same file for --psk"
                .into(),
        ),
        ControlError::KeyChanged { .. }
        | ControlError::OtherProtocol { .. }
        | ControlError::Tls(_) => Failure::Unauthenticated(text),
        ControlError::Insecure(_) => Failure::Usage(text),
        ControlError::Key(_) | ControlError::NoList(_) => Failure::Storage(text),
        ControlError::Suite(_) | ControlError::Lane(_) => Failure::Thread(text),
        ControlError::Full | ControlError::Message(_) => Failure::PeerRefused(text),
    }
}
