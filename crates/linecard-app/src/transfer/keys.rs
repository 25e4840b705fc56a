//! The key of this host, shared keys, and authorized senders.

use super::access::{self, allowed};
use super::error::{TransferError, of_key};
use crate::{Context, Error, Job};
use garde::Validate;
use linecard_transfer_net::keys::{Authorized, KeyError, ListFile, SharedKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    let there = |there: Authorized| {
        let there = there.entry(fingerprint).map_err(of_key)?;
        match there.as_ref().is_some_and(|there| !note.is_empty() && *there != wanted) {
            true => Err(Error::from(TransferError::ListedOtherwise { list: list.clone() })),
            false => Ok(there.is_some()),
        }
    };
    // One that cannot be written is still read.
    let mut was_there = there(Authorized::Listed(list.clone()))?;
    if !was_there {
        let file = ListFile::open(list.clone()).map_err(of_key)?;
        let added = file.add(|text| {
            let was_there = there(Authorized::of_text(&list, text)?);
            let is_new = matches!(was_there, Ok(false));
            Ok((is_new.then(|| line.trim_end().to_owned()), was_there))
        });
        was_there = added.map_err(of_key)??;
    }
    Ok(Entry { list, was_there })
}

/// Allows the owner of this key to send, unless it may already.
pub(super) fn allow(list: &ListFile, key: Fingerprint, note: &str) -> Result<(), KeyError> {
    let named = Authorized::Listed(list.path().to_owned());
    if named.allows(key)? {
        return Ok(());
    }
    list.add(|text| {
        let is_there = Authorized::of_text(list.path(), text)?.allows(key)?;
        Ok(((!is_there).then(|| format!("{key} {note}")), ()))
    })?;
    if named.allows(key)? {
        return Ok(());
    }
    let what = "another program has replaced this list: start again";
    Err(KeyError::Content { path: list.path().to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn senders_are_added_once_to_the_list_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("linecard/authorized");
        let list = ListFile::open(path.clone()).unwrap();
        let [a, b] = [b"a", b"b"].map(|key| Fingerprint::of(key));
        for key in [a, a, b] {
            allow(&list, key, "paired, from 10.0.0.1:4000").unwrap();
        }
        assert_eq!(allowed(&path).unwrap(), 2);
        fs::remove_file(&path).unwrap();
        let replaced = allow(&list, Fingerprint::of(b"c"), "").unwrap_err().to_string();
        assert!(replaced.contains("another program has replaced this list"), "{replaced}");
    }
}
