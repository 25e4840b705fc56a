//! Errors of a transfer as errors of jobs: which end is at fault, and what to do.

use crate::{Error, Failure};
use linecard_transfer_net::control::{ControlError, Protocol};
use linecard_transfer_net::file::FileError;
use linecard_transfer_net::keys::KeyError;
use linecard_transfer_net::receive::ReceiveError;
use linecard_transfer_net::send::SendError;
use std::io::ErrorKind;

/// Remedies at either end.
const SEND_AGAIN: &str = "the received data is kept: run the same commands again to resume";

/// An error of a sender. `peer` is what the user calls the other end.
pub(super) fn of_send(error: SendError, peer: &str) -> Error {
    match error {
        SendError::File(error) => of_file(error),
        SendError::Control(error) => of_control(error, peer),
        SendError::Open(_) | SendError::NoLane(_) => Failure::Attach.with(error),
        SendError::Layout(_) | SendError::Lanes(_) | SendError::NoFolder => {
            Failure::Usage.with(error)
        }
        SendError::Silent(_)
        | SendError::NeverReached { .. }
        | SendError::Unusable
        | SendError::Unconfirmed { .. } => Failure::Unreachable.with(error),
        SendError::Stopped => Failure::Stopped.with(format!("stopped; {SEND_AGAIN}")),
        SendError::Wait(_) => Failure::Attach.with(error),
        SendError::Seal(_) => Failure::Thread.with(error),
        SendError::Refused(_)
        | SendError::Older(_)
        | SendError::Welcome(_)
        | SendError::Unexpected(_)
        | SendError::Ended(_) => Failure::PeerRefused.with(error),
    }
}

/// An error of a receiver.
pub(super) fn of_receive(error: ReceiveError) -> Error {
    match error {
        ReceiveError::File(error) => of_file(error),
        ReceiveError::Place { .. } => Failure::Storage.with(error),
        ReceiveError::Control(error) => of_control(error, "the sender"),
        ReceiveError::Open(_) | ReceiveError::Listen { .. } | ReceiveError::Wait(_) => {
            Failure::Attach.with(error)
        }
        ReceiveError::Silent(_) | ReceiveError::NoHello(_) | ReceiveError::NothingAnnounced(_) => {
            Failure::Unreachable.with(error)
        }
        ReceiveError::Stopped => Failure::Stopped.with(format!("stopped; {SEND_AGAIN}")),
        ReceiveError::Seal(_) => Failure::Thread.with(error),
        ReceiveError::OneOnly => Failure::Usage.with(error),
        ReceiveError::Refused(_)
        | ReceiveError::Busy(_)
        | ReceiveError::Crowded(_)
        | ReceiveError::DryRun
        | ReceiveError::NoDelete
        | ReceiveError::TooManyFolders { .. }
        | ReceiveError::Unexpected(_)
        | ReceiveError::Scheme(_)
        | ReceiveError::Ended(_)
        | ReceiveError::Layout(_)
        | ReceiveError::Announce(_)
        | ReceiveError::Repair(_) => Failure::PeerRefused.with(error),
    }
}

/// Why a peer that had connected to send was rejected.
pub(super) fn of_rejected(error: ReceiveError) -> String {
    match error {
        ReceiveError::Control(ControlError::UnknownPeer { found, .. }) => {
            format!("its key {found} is not authorized")
        }
        ReceiveError::Control(ControlError::NotAccepted { own }) => format!(
            "it does not know the key of this end: if it should, its user must compare the key \
             with {own}, and send with --accept-new once"
        ),
        ReceiveError::Control(ControlError::Closed | ControlError::ClosedEarly) => {
            "it has closed the connection before it sent anything".into()
        }
        ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Tls }) => {
            "received data is not TLS: the peer is another program, or a sender with \
             --insecure-none"
                .into()
        }
        ReceiveError::Control(ControlError::OtherProtocol { expected: Protocol::Linecard }) => {
            "received data is not linecard's protocol without keys: the peer is another program, \
             or a sender \
             without --insecure-none"
                .into()
        }
        ReceiveError::Control(error) => of_control(error, "it").to_string(),
        ReceiveError::Busy(with) => format!("another transfer runs, from {with}"),
        error => of_receive(error).to_string(),
    }
}

/// An error of files at this end.
fn of_file(error: FileError) -> Error {
    match error {
        FileError::Damaged { path, kept } if path == kept => Failure::Wrong.with(format!(
            "what went to {} does not have the hash of the sent data: do not use it, send it again",
            path.display()
        )),
        FileError::Damaged { .. } => Failure::Wrong.with(error),
        FileError::Closed { source, .. } => Error::Report(source),
        error => Failure::Storage.with(error),
    }
}

/// An error of the control connection.
fn of_control(error: ControlError, peer: &str) -> Error {
    let text = error.to_string();
    match error {
        ControlError::Connect { cause, .. } if cause.kind() == ErrorKind::TimedOut => {
            Failure::Unreachable.with(format!(
                "{peer} does not answer; check its address and the firewalls on the path"
            ))
        }
        ControlError::Connect { .. } => Failure::Unreachable
            .with(format!("{text}; is `linecard recv` running there, at this port?")),
        ControlError::TimedOut { .. } => Failure::Unreachable.with(text),
        ControlError::Closed | ControlError::ClosedEarly | ControlError::Io(_) => {
            Failure::Unreachable.with(format!("{text}; {SEND_AGAIN}"))
        }
        ControlError::UnknownPeer { found, .. } => {
            Failure::Unauthenticated.with(format!("the key of {peer} is not known: {found}"))
        }
        ControlError::NotAccepted { own } => Failure::Unauthenticated.with(format!(
            "{peer} does not accept this end's key; run there: linecard keys authorize {own}; or start `linecard recv \
             --pair` there, and send with --pair and the code that it shows"
        )),
        ControlError::NoListThere { own } => Failure::Unauthenticated.with(format!(
            "{peer} cannot use its list of authorized senders, and refuses all: `linecard recv` \
             prints there how to correct it. The key of this end is {own}"
        )),
        ControlError::OtherAccess => Failure::Unauthenticated.with(
            "the other end authenticates in another way: give --psk to both ends, or to neither",
        ),
        ControlError::WrongSharedKey => Failure::Unauthenticated.with(
            "the other end has another shared key: both need a copy of the same file for --psk",
        ),
        ControlError::KeyChanged { .. }
        | ControlError::WrongCode { .. }
        | ControlError::VoidCode
        | ControlError::NoCodeHere
        | ControlError::NotListed
        | ControlError::OtherCode
        | ControlError::CodeEnded
        | ControlError::NoCode
        | ControlError::OtherProtocol { .. }
        | ControlError::Tls(_) => Failure::Unauthenticated.with(text),
        ControlError::Insecure(_) => Failure::Usage.with(text),
        ControlError::Key(_) | ControlError::NoList(_) => Failure::Storage.with(text),
        ControlError::Suite(_) | ControlError::Lane(_) => Failure::Thread.with(text),
        ControlError::Full | ControlError::Message(_) => Failure::PeerRefused.with(text),
    }
}

/// An error of a file of keys.
pub(super) fn of_key(error: KeyError) -> Error {
    Failure::Storage.with(error)
}

/// Whether a file of keys does not exist.
pub(super) fn is_missing(error: &KeyError) -> bool {
    matches!(error, KeyError::File { cause, .. } if cause.kind() == ErrorKind::NotFound)
}
