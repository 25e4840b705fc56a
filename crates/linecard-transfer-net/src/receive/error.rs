//! Why a transfer ended early, on the receiving side.

use super::pending::Crowd;
use crate::control::ControlError;
use crate::file::FileError;
use crate::lane::OpenError;
use crate::seal::SealError;
use linecard_transfer::control::Refuse;
use linecard_transfer::fec::SchemeError;
use linecard_transfer::layout::LayoutError;
use linecard_transfer::receive::AnnounceError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why nothing, or not everything, was received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The address to listen at.
    #[error("cannot listen at {at}: {cause}")]
    Listen {
        /// As the user said.
        at: SocketAddr,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A sender came while something was received from as many others as may send at once.
    #[error("busy: receiving from {with}; {}", busy_advice(*is_kept))]
    Busy {
        /// One of the others.
        with: SocketAddr,
        /// Another can send afterwards.
        is_kept: bool,
    },
    /// A peer that was slow made room for others.
    #[error("{0} wait to authenticate, and this one was closed to make room")]
    Crowded(Crowd),
    /// A peer authenticated, and then did not say what it wants to send.
    #[error("it has sent nothing for {0:?} since it authenticated")]
    NoHello(Duration),
    /// A sender that was welcome announced nothing.
    #[error("it has announced nothing for {0:?}")]
    NothingAnnounced(Duration),
    /// Received data cannot be stored.
    #[error(transparent)]
    File(#[from] FileError),
    /// The sender is not who it should be, or gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Nothing in common with the sender.
    #[error("refused the sender: {0}")]
    Refused(#[from] Refuse),
    /// The sender says something else than it should.
    #[error("the sender is broken: it sent {0} out of turn")]
    Unexpected(&'static str),
    /// A folder for the standard output.
    #[error(
        "one file or pipe goes to the standard output, and a folder or several files were sent: receive \
         them into a folder, or send `tar c PATH…`"
    )]
    OneOnly,
    /// Folders, and files with hard links, whose names take more memory than there is for them.
    #[error(
        "the names of folders, and of files with hard links, take more than {limit} bytes, the share of --memory for them \
         here: give recv twice the --memory, send the parts of the folder one by one, or send without --hard-links"
    )]
    TooManyFolders {
        /// Memory for them, in bytes.
        limit: u64,
    },
    /// The sender asks for repair that there is not.
    #[error("the sender is broken: {0}")]
    Scheme(#[from] SchemeError),
    /// A lane does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The sender's chunks cannot be.
    #[error("the sender is broken: {0}")]
    Layout(#[from] LayoutError),
    /// The sender's chunks cannot be.
    #[error("the sender is broken: {0}")]
    Announce(#[from] AnnounceError),
    /// Repair that does not repair.
    #[error("the sender is broken: what repairs chunk {0} does not belong to it")]
    Repair(u32),
    /// The sender has ended it, and said why.
    #[error("the sender has ended the transfer: {0}")]
    Ended(String),
    /// Nothing came any more.
    #[error(
        "nothing has arrived for {0:?}; the sender can resume: stored data is skipped (a pipe starts over)"
    )]
    Silent(Duration),
    /// The folder that the list of senders gives the sender.
    #[error("the folder of this sender here (folder={folder}) cannot be used: {error}")]
    Place {
        /// As the list has it.
        folder: String,
        /// Why.
        error: FileError,
    },
    /// It wants to remove files, and may not.
    #[error(
        "this sender may not remove files (--delete): start recv with --allow-delete, or write delete=yes behind its key \
         in the list of senders"
    )]
    NoDelete,
    /// It sends links that lead out of their folder, and may not.
    #[error(
        "this sender may not send links that lead out of a folder (--links-out): start recv with --allow-links-out, or \
         write links-out=yes behind its key in the list of senders"
    )]
    NoLinksOut,
    /// An option or a right that there is for folders only.
    #[error(
        "{0}: not when objects of an object store are received; leave it out, or receive into a folder"
    )]
    NotInBucket(&'static str),
    /// It was answered, and nothing was to be received.
    #[error("it has asked what it would send; nothing was changed here")]
    DryRun,
    /// It has measured the lanes.
    #[error(
        "it has measured the lanes with {test_bytes} bytes of test data, which were dropped; nothing was changed here"
    )]
    Probed {
        /// Bytes of the chunks that arrived whole.
        test_bytes: u64,
    },
    /// The user ended it.
    #[error("stopped; the sender can resume: stored data is skipped (a pipe starts over)")]
    Stopped,
    /// A fault in here.
    #[error("a bug in linecard: {0}")]
    Seal(#[from] SealError),
    /// The error of the operating system.
    #[error("this host: {0}")]
    Wait(#[from] io::Error),
}

impl ReceiveError {
    /// Whether a peer can cause it: before it has announced anything, that ends nothing but its own visit. A
    /// lane that does not open is its, too: those of this end were tried before any sender connected.
    pub(super) const fn is_of_sender(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Crowded(_)
            | Self::TooManyFolders { .. }
            | Self::NoHello(_)
            | Self::NothingAnnounced(_)
            | Self::DryRun
            | Self::Probed { .. }
            | Self::NoDelete
            | Self::NoLinksOut
            | Self::NotInBucket(_)
            | Self::Place { .. }
            | Self::Control(_)
            | Self::Refused(_)
            | Self::Unexpected(_)
            | Self::Scheme(_)
            | Self::Open(_)
            | Self::Layout(_)
            | Self::Announce(_)
            | Self::Repair(_)
            | Self::Ended(_)
            | Self::Silent(_) => true,
            Self::Listen { .. }
            | Self::File(_)
            | Self::OneOnly
            | Self::Stopped
            | Self::Seal(_)
            | Self::Wait(_) => false,
        }
    }
}

const fn busy_advice(is_kept: bool) -> &'static str {
    if is_kept {
        "try again later, or let it have more senders with --at-once N"
    } else {
        "it ends with that transfer: start another receiver there with --listen ADDRESS:PORT, or one for many with --keep"
    }
}
