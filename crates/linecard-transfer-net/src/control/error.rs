//! Why a control channel does not open, or has ended.

use crate::keys::{CodeRefused, Fingerprint, KeyError, MAX_WRONG_CODES};
use linecard_transfer::control::{MessageError, Suite};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// First message of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// With keys.
    Tls,
    /// Without.
    Linecard,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "TLS",
            Self::Linecard => "linecard's protocol",
        })
    }
}

/// The cause, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No program listens there.
    #[error("cannot connect to {name}: {cause}")]
    Connect {
        /// As the user says.
        name: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The deadline has passed.
    #[error("{name} did not complete the handshake in time: is it a linecard receiver?")]
    TimedOut {
        /// As the user says, or its address.
        name: String,
    },
    /// Another key than ever before.
    #[error(
        "THE KEY OF {name} HAS CHANGED: it was {known} and is now {found}. \
         An attacker may be in between, or the other end was reinstalled: ask its administrator. \
         Only if the new fingerprint is theirs, remove the old line from {}", .file.display()
    )]
    KeyChanged {
        /// As the user says.
        name: String,
        /// The key that it had.
        known: Fingerprint,
        /// The key that it shows.
        found: Fingerprint,
        /// The file of known peers.
        file: PathBuf,
    },
    /// A key that the user has not confirmed.
    #[error(
        "the key of {name} is not known: {found}. \
         If this is the fingerprint that the other end prints, list it or accept it once"
    )]
    UnknownPeer {
        /// As the user says, or its address.
        name: String,
        /// The key that it shows.
        found: Fingerprint,
    },
    /// The other end does not know this end's key.
    #[error("the other end does not accept this end's key; it must authorize {own}")]
    NotAccepted {
        /// The key that this end has shown.
        own: Fingerprint,
    },
    /// The list of keys that this end accepts exists and cannot be used.
    #[error(
        "the list of authorized senders cannot be used, and all senders are refused until it \
         is corrected: {0}"
    )]
    NoList(#[source] KeyError),
    /// The same at the other end.
    #[error(
        "the other end cannot use its list of authorized senders, and refuses all: its own \
         messages say why. This \
         end's key is {own}"
    )]
    NoListThere {
        /// The key that this end has shown.
        own: Fingerprint,
    },
    /// The proofs do not go with the key here.
    #[error("the other end has another shared key: both need the same file")]
    WrongSharedKey,
    /// An end that connects has typed another code, or guesses.
    #[error("it has a wrong pairing code ({})", .left.checked_sub(1).map_or_else(
        || format!("the last of {MAX_WRONG_CODES}: the code is void, and `linecard recv --pair` makes a new one"),
        |_| format!("{left} more until the code is void"),
    ))]
    WrongCode {
        /// Wrong codes that are still accepted.
        left: u32,
    },
    /// The end that connects came with a code that is no longer accepted.
    #[error(
        "it has a pairing code, and the one of this end has been used, tried too often, or is too old"
    )]
    VoidCode,
    /// An end that connects has a code, and this one shows none.
    #[error("it has a pairing code, and this end shows none")]
    NoCodeHere,
    /// The other end could not record this end's key.
    #[error("the other end could not list this end's key: its own messages say why")]
    NotListed,
    /// The other end shows another code.
    #[error("the pairing code is not the one that the other end shows")]
    OtherCode,
    /// The other end accepts its code no longer.
    #[error(
        "the pairing code of the other end has been used, tried too often, or is too old: start \
         `linecard recv --pair` there again"
    )]
    CodeEnded,
    /// The other end shows no code.
    #[error("the other end shows no pairing code: start `linecard recv --pair` there")]
    NoCode,
    /// Keys at one end and a shared key at the other.
    #[error(
        "the other end expects another way to authenticate: \
         give a shared key to both ends, or to neither"
    )]
    OtherAccess,
    /// No key exchange that both ends have.
    #[error(
        "no key exchange in common with the other end, as it seems: this end has X25519MLKEM768 only; update \
         linecard at the other end, or find out what listens there"
    )]
    OtherKeyExchange,
    /// TLS here and none there, or the other way round, or something else altogether.
    #[error(
        "the other end does not speak {expected}: it is another program, or only one end has --insecure-none"
    )]
    OtherProtocol {
        /// The version of this end.
        expected: Protocol,
    },
    /// Without keys, an address beyond this machine.
    #[error("--insecure-none is for connections within one machine, and {0} is not on it")]
    Insecure(IpAddr),
    /// A suite that must not be used over this channel.
    #[error("suite {0} must not be used over this control channel")]
    Suite(Suite),
    /// A lane that cannot be, or whose keys have been given out.
    #[error("lane {0} has its keys already, or is not below 64")]
    Lane(u16),
    /// The other end has closed, as it should.
    #[error("the other end has closed the connection")]
    Closed,
    /// The connection ended where it should not.
    #[error("the connection to the other end was cut")]
    ClosedEarly,
    /// The kernel has given the connection up: nothing has come over its path for 30 s, or there is no route.
    #[error("the control connection is lost: its path to the other end carries nothing any more")]
    PathLost,
    /// The other end does not read.
    #[error("the other end does not read: more than 4 MiB of messages wait")]
    Full,
    /// A received message, or one to be sent, is invalid.
    #[error("control message: {0}")]
    Message(#[from] MessageError),
    /// A compressed block that cannot be read.
    #[error("control connection: a block of messages cannot be uncompressed")]
    Packed,
    /// A file of keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The system.
    #[error("control connection: {0}")]
    Io(#[from] io::Error),
    /// Anything else that TLS finds.
    #[error("control connection: {0}")]
    Tls(rustls::Error),
}

impl From<CodeRefused> for ControlError {
    fn from(refused: CodeRefused) -> Self {
        match refused {
            CodeRefused::Wrong { left } => Self::WrongCode { left },
            CodeRefused::Void => Self::VoidCode,
            CodeRefused::Unrecorded(error) => Self::Key(error),
        }
    }
}
