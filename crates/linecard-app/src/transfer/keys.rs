//! The key of this host, shared keys, and authorized senders.

use super::access::{self, allowed};
use super::error::{TransferError, of_key};
use crate::{Context, Error, Job};
use garde::Validate;
use linecard_transfer_net::keys::{Authorized, KeyError, SharedKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use linecard_transfer_net::keys::Fingerprint;

/// The job: shows the key of this host, and where those of others are.
#[derive(Debug)]
pub struct KeysJob;

/// Which key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// this host's own key; created if the file is missing
    #[schemars(extend(
        "x-flag" = "identity",
        "x-value" = "FILE",
        "x-default" = "~/.config/linecard/identity"
    ))]
    pub identity: Option<PathBuf>,
}

/// The keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeysOutcome {
    /// This host
    pub own: Own,
    /// Others
    pub others: Others,
}

/// This host's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Own {
    /// fingerprint
    pub fingerprint: String,
    /// its key
    pub identity: String,
}

/// The keys of other hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Others {
    /// authorized senders
    pub authorized_count: u64,
    /// which are in
    pub authorized: String,
    /// known receivers are in
    pub known_peers: String,
}

impl Job for KeysJob {
    const NAME: &'static str = "keys";
    type Config = Config;
    type Outcome = KeysOutcome;

    fn run(config: &Config, context: &Context<'_>) -> Result<KeysOutcome, Error> {
        let given = config.identity.as_deref();
        let given = given.map(|path| access::file_of(context, "identity", path));
        let path = access::file(given.as_deref(), "identity", "--identity")?;
        let identity = access::identity(Some(&path))?;
        let list = access::file(None, "authorized", "--authorized")?;
        let known = access::file(None, "known_peers", "--known-peers")?;
        Ok(KeysOutcome {
            own: Own {
                fingerprint: identity.fingerprint().to_string(),
                identity: path.display().to_string(),
            },
            others: Others {
                authorized_count: allowed(&list)? as u64,
                authorized: list.display().to_string(),
                known_peers: known.display().to_string(),
            },
        })
    }

    fn title(_: &Config) -> String {
        "The keys of this host".to_owned()
    }
}

impl linecard_report::Outcome for KeysOutcome {
    fn notes(&self) -> Vec<String> {
        let fingerprint = &self.own.fingerprint;
        vec![format!(
            "To send from here, run on the receiver: linecard keys authorize {fingerprint}"
        )]
    }
}

/// Writes a new shared key into a new file.
///
/// # Errors
///
/// A file that exists or cannot be written.
pub fn create_shared(path: &Path) -> Result<(), Error> {
    SharedKey::create(path).map(drop).map_err(of_key)
}

/// A fingerprint on the list of authorized senders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The list.
    pub list: PathBuf,
    /// Whether it was on the list before.
    pub was_there: bool,
}

/// Appends a fingerprint and a note to the list in `path`, or in the usual file.
///
/// # Errors
///
/// A note of several lines, or with a folder or quota that cannot be; a list that cannot be read or written, or that others can write.
pub fn authorize(
    path: Option<&Path>,
    fingerprint: Fingerprint,
    note: &str,
) -> Result<Entry, Error> {
    let list = access::file(path, "authorized", "--authorized")?;
    if note.contains(char::is_control) {
        return Err(TransferError::NoteLines.into());
    }
    let line = format!("{fingerprint} {note}");
    let wanted = line.parse::<linecard_transfer_net::keys::Entry>();
    let wanted =
        wanted.map_err(|problem| TransferError::Note { note: note.to_owned(), problem })?;
    // A list that is not as it should be would be refused later, with this line in it.
    allowed(&list)?;
    let there = Authorized::Listed(list.clone()).entry(fingerprint).map_err(of_key)?;
    let was_there = there.is_some();
    if there.is_some_and(|there| !note.is_empty() && there != wanted) {
        return Err(TransferError::ListedOtherwise { list }.into());
    }
    if !was_there {
        let open = AuthorizedList::open(list.clone()).map_err(of_key)?;
        open.append(line.trim_end()).map_err(of_key)?;
    }
    Ok(Entry { list, was_there })
}

/// The list of authorized senders, open for more: a receiver that has given up its rights can still add some.
#[derive(Debug)]
pub(super) struct AuthorizedList {
    path: PathBuf,
    file: File,
}

impl AuthorizedList {
    /// Opens it; a missing one is made, as is its folder.
    pub(super) fn open(path: PathBuf) -> Result<Self, KeyError> {
        let opened = || {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            OpenOptions::new().append(true).create(true).mode(0o600).open(&path)
        };
        match opened() {
            Ok(file) => Ok(Self { path, file }),
            Err(cause) => Err(KeyError::File { path, cause }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Allows the owner of this key to send, unless it may already.
    pub(super) fn add(&self, key: Fingerprint, note: &str) -> Result<(), KeyError> {
        let list = Authorized::Listed(self.path.clone());
        if list.allows(key)? {
            return Ok(());
        }
        self.append(&format!("{key} {note}"))?;
        if list.allows(key)? {
            return Ok(());
        }
        let what = "another program has replaced this list: start again";
        Err(KeyError::Content { path: self.path.clone(), what })
    }

    /// One write at the end, so that lines of two processes do not mix.
    fn append(&self, line: &str) -> Result<(), KeyError> {
        // An editor may have left the last line open.
        let written = (&self.file).write_all(format!("\n{line}\n").as_bytes());
        let synced = written.and_then(|()| self.file.sync_all());
        synced.map_err(|cause| KeyError::File { path: self.path.clone(), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn senders_are_added_once_to_the_list_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("linecard/authorized");
        let list = AuthorizedList::open(path.clone()).unwrap();
        let [a, b] = [b"a", b"b"].map(|key| Fingerprint::of(key));
        for key in [a, a, b] {
            list.add(key, "paired, from 10.0.0.1:4000").unwrap();
        }
        assert_eq!(allowed(&path).unwrap(), 2);
        fs::remove_file(&path).unwrap();
        let replaced = list.add(Fingerprint::of(b"c"), "").unwrap_err().to_string();
        assert!(replaced.contains("another program has replaced this list"), "{replaced}");
    }
}
