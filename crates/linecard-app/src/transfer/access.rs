//! How the ends of a transfer authenticate each other: the files of keys.

use super::error::{TransferError, is_missing, of_key};
use crate::{Context, Error};
use garde::Validate;
use linecard_config::ConfigError;
use linecard_transfer_net::control::{self, Trust};
use linecard_transfer_net::keys::{Authorized, Identity, Pairing, SharedKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How the ends authenticate each other: parameters of both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Access {
    /// use the key in this file, which both ends share (`linecard keys psk FILE` creates one),
    /// instead of a key for each host
    #[schemars(extend("x-flag" = "psk", "x-value" = "FILE", "x-conflicts" = ["identity", "insecure-none"]))]
    pub psk: Option<PathBuf>,
    /// this end's own key; created if the file is missing
    #[schemars(extend(
        "x-flag" = "identity",
        "x-value" = "FILE",
        "x-default" = "~/.config/linecard/identity",
        "x-conflicts" = ["insecure-none"]
    ))]
    pub identity: Option<PathBuf>,
    /// no keys and no encryption, for measurements within one machine: other programs can read and
    /// change the data; refused for addresses other than 127.0.0.1 and `::1`
    #[schemars(extend("x-flag" = "insecure-none"))]
    pub insecure_none: bool,
}

impl Access {
    /// The access that needs no key of this end's own.
    fn without_identity(&self, context: &Context<'_>) -> Result<Option<control::Access>, Error> {
        if self.insecure_none {
            return match self.psk.is_some() || self.identity.is_some() {
                true => Err(ConfigError::of_parameter(
                    "access.insecure_none",
                    TransferError::OpenWithKeys,
                )
                .into()),
                false => Ok(Some(control::Access::Open)),
            };
        }
        let Some(path) = &self.psk else { return Ok(None) };
        let path = file_of(context, "access.psk", path);
        let key = SharedKey::load(&path).map_err(|source| match is_missing(&source) {
            true => TransferError::NoSharedKey { path, source },
            false => TransferError::SharedKey(source),
        })?;
        Ok(Some(control::Access::Shared(key)))
    }

    /// The configured access; with keys for each end, this one trusts and pairs as `trust` says.
    pub(super) fn with_trust(
        &self,
        context: &Context<'_>,
        trust: impl FnOnce() -> Result<(Trust, Option<Pairing>), Error>,
    ) -> Result<control::Access, Error> {
        if let Some(access) = self.without_identity(context)? {
            return Ok(access);
        }
        let (trust, pairing) = trust()?;
        Ok(control::Access::Keys { identity: self.identity(context)?, trust, pairing })
    }

    /// This end's own key.
    fn identity(&self, context: &Context<'_>) -> Result<Identity, Error> {
        let given = self.identity.as_deref().map(|path| file_of(context, "access.identity", path));
        identity(given.as_deref())
    }
}

/// The file that a parameter names: seen from the scenario's folder if it stands there.
pub(super) fn file_of(context: &Context<'_>, parameter: &str, path: &Path) -> PathBuf {
    path.to_str().map_or_else(|| path.into(), |name| context.path_of(parameter, name))
}

/// The key in this file, or in the usual one; made if it is missing.
pub(super) fn identity(path: Option<&Path>) -> Result<Identity, Error> {
    let path = file(path, "identity", "--identity")?;
    Identity::load_or_create(&path).map_err(of_key)
}

/// The file that was given, or the one of this name among the settings of the user.
pub(super) fn file(given: Option<&Path>, name: &str, option: &str) -> Result<PathBuf, Error> {
    if let Some(path) = given {
        return Ok(path.into());
    }
    let of = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    let file = folder.map(|folder| folder.join("linecard").join(name));
    file.ok_or_else(|| TransferError::NoHome { option: option.to_owned() }.into())
}

/// The number of senders that the list allows; a missing list allows none.
pub(super) fn allowed(path: &Path) -> Result<usize, Error> {
    match Authorized::load(path) {
        Ok(Authorized::Only(list)) => Ok(list.len()),
        Ok(_) => Ok(0),
        Err(error) if is_missing(&error) => Ok(0),
        Err(error) => Err(of_key(error)),
    }
}
