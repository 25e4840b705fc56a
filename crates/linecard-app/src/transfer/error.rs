//! Errors of a transfer as errors of jobs: which end is at fault, and what to do.

use super::started::NOT_FOUND;
use crate::error::Kind;
use crate::{Error, Failure};
use linecard_config::Bytes;
use linecard_config::UnitError;
use linecard_transfer::control::RefuseCode;
use linecard_transfer_net::control::ControlError;
use linecard_transfer_net::file::FileError;
use linecard_transfer_net::keys::{Fingerprint, KeyError};
use linecard_transfer_net::receive::ReceiveError;
use linecard_transfer_net::send::SendError;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Remedies at either end.
const SEND_AGAIN: &str =
    "run the same commands again to resume: stored data is skipped (a pipe starts over)";

/// Arguments that are refused, keys that cannot be used, peers that fail, and files that are missing.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error("there are no keys then: leave out psk and identity")]
    OpenWithKeys,
    #[error("a receiver that is started by ssh gets a key for once: leave out options on keys")]
    StartedWithKeys,
    #[error("a command is needed")]
    NoCommand,
    #[error("it limits what delete removes: give --delete, too")]
    LimitWithoutDelete,
    #[error("stdin is the data: give the code itself")]
    CodeFromData,
    #[error("--pair -: cannot read the code: {0}")]
    Code(#[source] io::Error),
    #[error(transparent)]
    TestSize(UnitError),
    #[error("no file has an empty name")]
    EmptyName,
    #[error("name at least one file or folder, or - for stdin")]
    NoInput,
    #[error("{0} is sent alone; write ./{0} for a file of that name", path.display())]
    NotAlone { path: PathBuf },
    #[error("it names the data of - only; files have names of their own")]
    NameOfFiles,
    #[error("`{name}` is in a folder: give a name without /")]
    NameInFolder { name: String },
    #[cfg(feature = "objects")]
    #[error("{}: {error}", path.display())]
    Objects { path: PathBuf, error: linecard_transfer_net::s3::S3Error },
    #[cfg(not(feature = "objects"))]
    #[error(
        "{0} is in an object store, which this program is built without: build it with --features objects; or write \
         ./{0} for a file of that name",
        path.display()
    )]
    NoObjects { path: PathBuf },
    #[error("nothing is removed for what an object store has not: leave it out")]
    DeleteByObjects,
    #[error("nothing is removed from an object store: leave it out")]
    DeleteFromObjects,
    #[error("object stores have no links: leave it out")]
    LinksInObjects,
    #[error("--hosts {}: no such file: name one with a table for each receiver, or leave it out", path.display())]
    NoHosts { path: PathBuf },
    #[error("{key} is not a table: write [{key}] with the parameters of this receiver below it")]
    NoEntry { key: String },
    #[error("a name with dots is to be in quotes, as [\"host.example\"]")]
    NameWithDots,
    #[error("{key} is given with each command: leave it out")]
    NotInEntry { key: String },
    #[error(
        "\"{}\" is not an address: write host, host:4780, 192.0.2.1 or [2001:db8::1]:4780", text.escape_debug()
    )]
    AddressOfEntry { text: String },
    #[error("neither HOME nor XDG_CONFIG_HOME is a path: give {option} FILE")]
    NoHome { option: String },
    #[error("a note is one line, without control characters")]
    NoteLines,
    #[error("the note `{note}`: {problem}")]
    Note { note: String, problem: &'static str },
    #[error("{} lists this key with other options (folder=, quota=, delete=, links-out=): change its line there", list.display())]
    ListedOtherwise { list: PathBuf },
    #[error(
        "--insecure-none --listen {at}: without keys, only this machine may connect: listen at 127.0.0.1, or use keys"
    )]
    OpenToOthers { at: SocketAddr },
    #[error(
        "--started is for `linecard send`, which writes a key and a folder to the standard input"
    )]
    NotStarted,
    #[error("--psk {source}; `linecard keys psk {}` makes one, for both ends", path.display())]
    NoSharedKey { path: PathBuf, source: KeyError },
    #[error("--psk {0}")]
    SharedKey(#[source] KeyError),
    #[error("cannot send {}: {source}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("cannot listen at {at}: {source}{}", listen_advice(source))]
    Listen { at: SocketAddr, source: io::Error },
    #[error("cannot find {host}: {source}; check its name")]
    Lookup { host: String, source: io::Error },
    #[error("{host} has no address; check its name")]
    NoAddress { host: String },
    #[error("cannot start `{login} {host}`: {source}")]
    Start { login: String, host: String, source: io::Error },
    #[error(
        "`{login} {host}` has ended ({}) before `{receiver}` listened there: {}", ended(*status), end_advice(*status)
    )]
    LoginEnded { login: String, host: String, receiver: String, status: Option<ExitStatus> },
    #[error("the receiver has not answered for {seconds} s")]
    NotListening { seconds: u64 },
    #[error(
        "the login at {peer} has ended ({status}), and the receiver with it: run the same command again to go on"
    )]
    LostLogin { peer: String, status: ExitStatus },
    #[error(
        "each sender has {share} of --memory, in which no chunk fits: give more, or fewer --at-once"
    )]
    SmallMemory { share: Bytes },
    #[error("{peer} does not answer; check its address and the firewalls on the path")]
    NoAnswer { peer: String },
    #[error("{0}; check its address, whether that host is up, and the firewalls on the path")]
    NoHost(#[source] ControlError),
    #[error("{0}; is `linecard recv` running there, at this port?")]
    NoReceiver(#[source] ControlError),
    #[error("{0}; {SEND_AGAIN}")]
    Disconnected(#[source] ControlError),
    #[error("the key of {peer} is not known: {found}")]
    UnknownPeer { peer: String, found: Fingerprint },
    #[error(
        "the key of {peer} is not known: {found}{}. If `linecard recv` prints this fingerprint there, send with \
         --accept-new once, and it is remembered",
        other.as_ref().map_or_else(String::new, |name| format!(", and is that of {name}"))
    )]
    NewReceiver { peer: String, found: Fingerprint, other: Option<String> },
    #[error(
        "{peer} does not accept this end's key; run there: linecard keys authorize {own}; or start `linecard recv \
         --pair` there, and send with --pair and the code that it shows"
    )]
    NotAccepted { peer: String, own: Fingerprint },
    #[error(
        "{peer} cannot use its list of authorized senders, and refuses all: `linecard recv` prints there how to \
         correct it. The key of this end is {own}"
    )]
    NoListThere { peer: String, own: Fingerprint },
    #[error("the other end authenticates in another way: give --psk to both ends, or to neither")]
    OtherAccess,
    #[error("the other end has another shared key: both need a copy of the same file for --psk")]
    WrongSharedKey,
    #[error(
        "what went to {} does not have the hash of the sent data: do not use it, send it again", path.display()
    )]
    Damaged { path: PathBuf },
    #[error(
        "{failed} not transferred, {objects} files and folders are in their places; data that is already there is \
         not sent again when the same commands are repeated"
    )]
    Incomplete { failed: u64, objects: u64 },
    #[error("all files are in their places, and not all that was to be removed at the receiver is")]
    Unremoved,
    #[error("{failed} would not be transferred; nothing was sent")]
    WouldFail { failed: u64 },
    #[error("nothing would be removed; nothing was sent")]
    WouldNotRemove,
    #[error("stopped; {SEND_AGAIN}")]
    Stopped,
    #[error("stopped before the receiver listened")]
    StoppedAtLogin,
    #[error("stopped before anything arrived")]
    NothingArrived,
}

impl Kind for TransferError {
    fn failure(&self) -> Failure {
        match self {
            Self::OpenWithKeys
            | Self::StartedWithKeys
            | Self::NoCommand
            | Self::LimitWithoutDelete
            | Self::CodeFromData
            | Self::Code(_)
            | Self::TestSize(_)
            | Self::EmptyName
            | Self::NoInput
            | Self::NotAlone { .. }
            | Self::NameOfFiles
            | Self::NameInFolder { .. }
            | Self::DeleteByObjects
            | Self::DeleteFromObjects
            | Self::LinksInObjects
            | Self::NoEntry { .. }
            | Self::NameWithDots
            | Self::NotInEntry { .. }
            | Self::AddressOfEntry { .. }
            | Self::NoHome { .. }
            | Self::NoteLines
            | Self::Note { .. }
            | Self::ListedOtherwise { .. }
            | Self::OpenToOthers { .. }
            | Self::SmallMemory { .. }
            | Self::NotStarted => Failure::Usage,
            #[cfg(feature = "objects")]
            Self::Objects { .. } => Failure::Usage,
            #[cfg(not(feature = "objects"))]
            Self::NoObjects { .. } => Failure::Usage,
            Self::NoHosts { .. }
            | Self::NoSharedKey { .. }
            | Self::SharedKey(_)
            | Self::Input { .. } => Failure::Storage,
            Self::Listen { .. } => Failure::Attach,
            Self::Lookup { .. }
            | Self::NoAddress { .. }
            | Self::Start { .. }
            | Self::LoginEnded { .. }
            | Self::NotListening { .. }
            | Self::LostLogin { .. }
            | Self::NoAnswer { .. }
            | Self::NoHost(_)
            | Self::NoReceiver(_)
            | Self::Disconnected(_) => Failure::Unreachable,
            Self::UnknownPeer { .. }
            | Self::NewReceiver { .. }
            | Self::NotAccepted { .. }
            | Self::NoListThere { .. }
            | Self::OtherAccess
            | Self::WrongSharedKey => Failure::Unauthenticated,
            Self::Damaged { .. } => Failure::Wrong,
            Self::Incomplete { .. }
            | Self::Unremoved
            | Self::WouldFail { .. }
            | Self::WouldNotRemove => Failure::Partial,
            Self::Stopped | Self::StoppedAtLogin | Self::NothingArrived => Failure::Stopped,
        }
    }
}

fn listen_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "; give another port, as --listen ADDRESS:PORT",
        ErrorKind::AddrNotAvailable => "; `ip address` lists those of this host",
        _ => "",
    }
}

fn ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "killed".to_owned(), |status| status.to_string())
}

fn end_advice(status: Option<ExitStatus>) -> &'static str {
    match status.and_then(|status| status.code()) {
        Some(NOT_FOUND) => {
            "one of these is not in the PATH, which a login without a terminal may have another of: name it by --ssh or \
             --receiver"
        }
        Some(0) => "that is not `linecard recv`",
        _ => "its own message says why",
    }
}

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
        | SendError::LanesLost(_)
        | SendError::NoWelcome(_)
        | SendError::NeverReached { .. }
        | SendError::Unusable
        | SendError::Unconfirmed { .. } => Failure::Unreachable.with(error),
        SendError::Stopped => TransferError::Stopped.into(),
        SendError::Wait(_) => Failure::Attach.with(error),
        SendError::Seal(_) => Failure::Thread.with(error),
        SendError::Refused(ref refuse) if refuse.code == RefuseCode::Busy => {
            Failure::Unreachable.with(error)
        }
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
        ReceiveError::Stopped => TransferError::Stopped.into(),
        ReceiveError::Seal(_) => Failure::Thread.with(error),
        ReceiveError::OneOnly => Failure::Usage.with(error),
        ReceiveError::Refused(_)
        | ReceiveError::Busy { .. }
        | ReceiveError::Crowded(_)
        | ReceiveError::DryRun
        | ReceiveError::Probed { .. }
        | ReceiveError::NoDelete
        | ReceiveError::NoLinksOut
        | ReceiveError::NotInBucket(_)
        | ReceiveError::TooManyFolders { .. }
        | ReceiveError::Unexpected(_)
        | ReceiveError::Scheme(_)
        | ReceiveError::Ended(_)
        | ReceiveError::Layout(_)
        | ReceiveError::Announce(_)
        | ReceiveError::Repair(_) => Failure::PeerRefused.with(error),
    }
}

/// An error of files at this end.
fn of_file(error: FileError) -> Error {
    match error {
        FileError::Damaged { path, kept } if path == kept => TransferError::Damaged { path }.into(),
        FileError::Damaged { .. } | FileError::Discarded { .. } => Failure::Wrong.with(error),
        error => Failure::Storage.with(error),
    }
}

/// Whether a connection fails with this where there is no such host, no way to it, or a firewall that says so.
const fn is_no_host(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown
    )
}

/// An error of the control connection.
pub(super) fn of_control(error: ControlError, peer: &str) -> Error {
    let peer = peer.to_owned();
    match error {
        ControlError::Connect { cause, .. } if cause.kind() == ErrorKind::TimedOut => {
            TransferError::NoAnswer { peer }.into()
        }
        ControlError::Connect { ref cause, .. } if is_no_host(cause.kind()) => {
            TransferError::NoHost(error).into()
        }
        ControlError::Connect { .. } => TransferError::NoReceiver(error).into(),
        ControlError::TimedOut { .. } => Failure::Unreachable.with(error),
        ControlError::Closed
        | ControlError::ClosedEarly
        | ControlError::PathLost
        | ControlError::Io(_) => TransferError::Disconnected(error).into(),
        ControlError::UnknownPeer { found, .. } => {
            TransferError::UnknownPeer { peer, found }.into()
        }
        ControlError::NotAccepted { own } => TransferError::NotAccepted { peer, own }.into(),
        ControlError::NoListThere { own } => TransferError::NoListThere { peer, own }.into(),
        ControlError::OtherAccess => TransferError::OtherAccess.into(),
        ControlError::WrongSharedKey => TransferError::WrongSharedKey.into(),
        ControlError::KeyChanged { .. }
        | ControlError::WrongCode { .. }
        | ControlError::VoidCode
        | ControlError::NoCodeHere
        | ControlError::NotListed
        | ControlError::OtherCode
        | ControlError::CodeEnded
        | ControlError::NoCode
        | ControlError::OtherKeyExchange
        | ControlError::OtherProtocol { .. }
        | ControlError::Tls(_) => Failure::Unauthenticated.with(error),
        ControlError::Insecure(_) => Failure::Usage.with(error),
        ControlError::Key(_) | ControlError::NoList(_) => Failure::Storage.with(error),
        ControlError::Suite(_) | ControlError::Lane(_) => Failure::Thread.with(error),
        ControlError::Full | ControlError::Message(_) | ControlError::Packed => {
            Failure::PeerRefused.with(error)
        }
    }
}

/// An error of a file of keys.
pub(super) fn of_key(error: KeyError) -> Error {
    Failure::Storage.with(error)
}

/// Whether this user may not read a file.
pub(super) fn is_denied(error: &KeyError) -> bool {
    matches!(error, KeyError::File { cause, .. } if cause.kind() == ErrorKind::PermissionDenied)
}

/// Whether a file of keys does not exist.
pub(super) fn is_missing(error: &KeyError) -> bool {
    matches!(error, KeyError::File { cause, .. } if cause.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Is `linecard recv` running there?" was the advice for an address that no host has.
    #[test]
    fn the_advice_for_a_host_is_another_than_for_a_port() {
        let of = |kind: ErrorKind| {
            let (name, cause) = ("10.0.0.9:4600".to_owned(), kind.into());
            of_control(ControlError::Connect { name, cause }, "10.0.0.9:4600").to_string()
        };
        for kind in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable] {
            let error = of(kind);
            assert!(
                error.contains("10.0.0.9:4600") && error.contains("check its address"),
                "{error}"
            );
        }
        assert!(of(ErrorKind::ConnectionRefused).contains("is `linecard recv` running there"));
    }
}
