//! How both ends know each other: which files, and what they say.

use crate::failure::Failure;
use clap::Args;
use linecard_transfer_net::control::Access;
use linecard_transfer_net::keys::{Authorized, Identity, KeyError, SharedKey};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Options of both ends.
#[derive(Debug, Args)]
pub(super) struct AccessArguments {
    /// Use the key in this file, which both ends have (`linecard keys psk FILE` makes one), in place of
    /// one for each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["identity", "insecure_none"])]
    pub(super) psk: Option<PathBuf>,
    /// This end's own key; made if the file is missing [default: ~/.config/linecard/identity].
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_none")]
    pub(super) identity: Option<PathBuf>,
    /// No keys and no encryption, for measurements within one machine: whoever runs programs there can
    /// read and change what is sent. Refused for other addresses than 127.0.0.1 and `::1`.
    #[arg(long)]
    pub(super) insecure_none: bool,
}

impl AccessArguments {
    /// What is not about this end's own key, if it has none.
    pub(super) fn without_identity(&self) -> Result<Option<Access>, Failure> {
        if self.insecure_none {
            return Ok(Some(Access::Open));
        }
        let Some(path) = &self.psk else { return Ok(None) };
        let key = SharedKey::load(path).map_err(|error| match is_missing(&error) {
            true => Failure::Storage(format!(
                "--psk {error}; `linecard keys psk {}` makes one, for both ends",
                path.display()
            )),
            false => Failure::Storage(format!("--psk {error}")),
        })?;
        Ok(Some(Access::Shared(key)))
    }

    /// This end's own key.
    pub(super) fn identity(&self) -> Result<Identity, Failure> {
        identity(self.identity.as_deref())
    }
}

/// The key in this file, or in the usual one; made if it is missing.
pub(super) fn identity(path: Option<&Path>) -> Result<Identity, Failure> {
    let path = file(path, "identity", "--identity")?;
    Identity::load_or_create(&path).map_err(|error| Failure::Storage(error.to_string()))
}

/// The file that was given, or the one of this name among the settings of the user.
pub(super) fn file(given: Option<&Path>, name: &str, option: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        return Ok(path.into());
    }
    let of = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    folder.map(|folder| folder.join("linecard").join(name)).ok_or_else(|| {
        Failure::Usage(format!("neither HOME nor XDG_CONFIG_HOME is a path: give {option} FILE"))
    })
}

/// How many the list allows; a missing one allows nobody.
pub(super) fn allowed(path: &Path) -> Result<usize, Failure> {
    match Authorized::load(path) {
        Ok(Authorized::Only(list)) => Ok(list.len()),
        Ok(_) => Ok(0),
        Err(error) if is_missing(&error) => Ok(0),
        Err(error) => Err(Failure::Storage(error.to_string())),
    }
}

/// Whether there is no such file.
pub(super) fn is_missing(error: &KeyError) -> bool {
    matches!(error, KeyError::File { cause, .. } if cause.kind() == ErrorKind::NotFound)
}
