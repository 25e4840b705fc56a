//! How both ends authenticate each other.

use super::error::ControlError;
use crate::keys::{
    Authorized, Entry, Fingerprint, Identity, KeyError, KnownPeers, Pairing, SharedKey, Standing,
};
use std::path::PathBuf;

/// How this end shows who it is, and finds out who the other is. Both ends need the same kind.
#[derive(Debug, Clone)]
pub enum Access {
    /// Each has a key.
    Keys {
        /// This end's.
        identity: Identity,
        /// Which of the other end are right.
        trust: Trust,
        /// A code that makes another key right: the end that connects pairs by it, the other also accepts ends that do.
        pairing: Option<Pairing>,
    },
    /// Both have the same secret.
    Shared(SharedKey),
    /// No authentication and no encryption; refused beyond this machine.
    Open,
}

/// Which keys of the other end are right.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those on a list: for the end that accepts, or for a fingerprint that was given.
    Authorized(Authorized),
    /// The one that the other end had before: for the end that connects.
    Known(KnownPeers, Policy),
}

/// Policy for the key of an unknown name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Refuse it.
    Strict,
    /// Believe it this once, and write it down. A key that has changed is refused all the same.
    AcceptNew,
}

/// State of the other end's key.
#[derive(Debug)]
pub(super) enum Verdict {
    Right,
    /// To be written down once it has proved itself.
    RightAndNew,
    Unknown,
    Changed {
        known: Fingerprint,
        file: PathBuf,
    },
    /// The list of keys cannot be used, so that all senders are refused.
    NoList(KeyError),
}

impl Access {
    pub(crate) const fn pairing(&self) -> Option<&Pairing> {
        match self {
            Self::Keys { pairing, .. } => pairing.as_ref(),
            Self::Shared(_) | Self::Open => None,
        }
    }

    /// The entry of a sender that has authenticated; nothing where there is no list.
    ///
    /// # Errors
    ///
    /// It is on the list no longer, or there is none to be read any more.
    pub(crate) fn entry(&self, key: Option<Fingerprint>) -> Result<Option<Entry>, ControlError> {
        let (Self::Keys { trust: Trust::Authorized(list), .. }, Some(found)) = (self, key) else {
            return Ok(None);
        };
        let entry = list.entry(found).map_err(ControlError::NoList)?;
        let unknown = || ControlError::UnknownPeer { name: "the sender".to_owned(), found };
        entry.map(Some).ok_or_else(unknown)
    }
}

impl Trust {
    pub(super) fn verdict(&self, name: &str, found: Fingerprint) -> Verdict {
        match self {
            Self::Authorized(list) => match list.allows(found) {
                Ok(true) => Verdict::Right,
                Ok(false) => Verdict::Unknown,
                Err(error) => Verdict::NoList(error),
            },
            Self::Known(peers, policy) => of_standing(peers, peers.standing(name, found), *policy),
        }
    }

    /// Records a new key; returns its state after that, as another process may have been first.
    pub(super) fn remember(&self, name: &str, found: Fingerprint) -> Result<Verdict, KeyError> {
        let Self::Known(peers, policy) = self else { return Ok(Verdict::Right) };
        let standing = peers.clone().remember(name, found)?;
        Ok(of_standing(peers, standing, *policy))
    }
}

impl Verdict {
    /// Why a key is not right, if it is not.
    pub(super) fn objection(self, name: &str, found: Fingerprint) -> Option<ControlError> {
        let name = name.to_owned();
        match self {
            Self::Right | Self::RightAndNew => None,
            Self::Unknown => Some(ControlError::UnknownPeer { name, found }),
            Self::Changed { known, file } => {
                Some(ControlError::KeyChanged { name, known, found, file })
            }
            Self::NoList(error) => Some(ControlError::NoList(error)),
        }
    }
}

fn of_standing(peers: &KnownPeers, standing: Standing, policy: Policy) -> Verdict {
    match (standing, policy) {
        (Standing::Known, _) => Verdict::Right,
        (Standing::New, Policy::AcceptNew) => Verdict::RightAndNew,
        (Standing::New, Policy::Strict) => Verdict::Unknown,
        (Standing::Changed { known }, _) => {
            Verdict::Changed { known, file: peers.path().to_owned() }
        }
    }
}
