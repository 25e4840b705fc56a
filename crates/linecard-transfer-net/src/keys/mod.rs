//! Own identity, and known peers.
//!
//! Each end has an [`Identity`], an Ed25519 key in a file of its own, and is known to others by its [`Fingerprint`]. As
//! with SSH there are no certificates: the sender has [`KnownPeers`], the key of each address from earlier connections,
//! and the receiver a list of authorized senders ([`Authorized`]). A code that one end shows and the other types puts each
//! on the list of the other ([`Pairing`]). Or both have a file with the same secret, a [`SharedKey`].
//!
//! Files with secrets are made with mode 0600 and refused when others could read them. All files here are
//! refused when others than their owner and root could change them, or the folder that they are in.

mod authorized;
mod code;
mod fingerprint;
mod identity;
mod known;
mod list;
mod pairing;
mod private;
mod shared;

pub use authorized::{Authorized, Entry};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use identity::Identity;
pub use known::{KnownPeers, Standing};
pub use list::ListFile;
pub use pairing::{
    CODE_LIFETIME, CodeRefused, MAX_WRONG_CODES, NoCode, Pairing, PairingCode, Remember,
};
pub(crate) use pairing::{Exchange, MESSAGE_BYTES};
pub use private::{make_folder_of, read_trusted};
pub use shared::SharedKey;

use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of a file with keys or fingerprints.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a key or a list of them cannot be used. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("{}: {cause}", .path.display())]
    File {
        /// Of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A new key would take the place of a file.
    #[error("{}: already exists, and a key is never overwritten: name another file", .path.display())]
    Exists {
        /// Of the file.
        path: PathBuf,
    },
    /// Others than its owner may read or write a secret.
    #[error("{}: others can read or change this secret (mode {mode:03o}): chmod 600 it, and make a new one if somebody may have read it", .path.display())]
    Exposed {
        /// Of the file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file of another user.
    #[error("{}: this secret belongs to user {owner}, not to {user} who runs this", .path.display())]
    Owner {
        /// Of the file.
        path: PathBuf,
        /// User number of its owner.
        owner: u32,
        /// User number of the process.
        user: u32,
    },
    /// A file of keys, or the folder that it is in, that others may write: they could let themselves in.
    #[error(
        "{}: other users can change it (mode {mode:03o}), and with it the trusted peers: check \
         that it is unchanged, then chmod go-w {}", .path.display(), .path.display()
    )]
    Writable {
        /// Of the file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file of keys, or its folder, that belongs to another user.
    #[error(
        "{}: it belongs to user {owner}, who can change the trusted peers: it must belong to user \
         {user}, who runs this, or to root (chown {user} {})", .path.display(), .path.display()
    )]
    Foreign {
        /// Of the file or folder.
        path: PathBuf,
        /// User number of its owner.
        owner: u32,
        /// User number of the process.
        user: u32,
    },
    /// Beyond [`MAX_FILE_BYTES`], or no plain file.
    #[error("{}: not a regular file of at most {MAX_FILE_BYTES} bytes", .path.display())]
    NotAFile {
        /// Of the file.
        path: PathBuf,
    },
    /// Not what the file should hold.
    #[error("{}: {what}", .path.display())]
    Content {
        /// Of the file.
        path: PathBuf,
        /// The error, and the required state.
        what: &'static str,
    },
    /// A line of a list is not as it should be.
    #[error("{}, line {line}: {what}", .path.display())]
    Line {
        /// Of the file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The error, and the required state.
        what: &'static str,
    },
    /// The system gives no random bytes, or a key is refused.
    #[error("the cryptographic library refused to make or use a key")]
    Library,
}

impl KeyError {
    fn file(path: &Path, cause: io::Error) -> Self {
        Self::File { path: path.to_owned(), cause }
    }

    fn content(path: &Path, what: &'static str) -> Self {
        Self::Content { path: path.to_owned(), what }
    }
}
