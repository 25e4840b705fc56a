//! Why a measurement on this host is refused, has no verdict, or leaves the host changed.

use super::record::{MAX_BYTES, VERSION};
use crate::Failure;
use crate::error::Kind;
use linecard_jitter::linux::audit::checks;
use linecard_jitter::linux::journal::Restoration;
use linecard_jitter::linux::preset::PRESETS;
use linecard_jitter::linux::remote::RemoteError;
use linecard_jitter::linux::sink::SinkError;
use std::fmt::Display;
use std::path::PathBuf;

/// Arguments or files that are refused, figures without a verdict, or settings that are not as before.
#[derive(Debug, thiserror::Error)]
pub(super) enum JitterError {
    #[error(
        "a remote sender needs an address of this host to send to: add --sink-address ADDRESS:PORT%INTERFACE"
    )]
    NoSinkAddress,
    #[error("an address to send to is for a remote sender: add --remote-sender COMMAND")]
    NoRemoteSender,
    #[error("a source or a group cannot be given here")]
    SourceOrGroup,
    #[error("an address and a port are needed, which are not 0")]
    NoAddress,
    #[error("interface {name} does not exist; `ip link` lists those of this host")]
    NoInterface { name: String },
    #[error("{0} by --interface")]
    NoSinkInterface(#[source] SinkError),
    #[error("no address and port: write for example 192.0.2.1:5004")]
    NoTarget,
    #[error("\"{name}\" is not a format: choose one of {}", list(PRESETS.iter().map(|preset| preset.name), ", "))]
    NoFormat { name: String },
    #[error("\"{name}\" is not an experiment: choose E0 to E8")]
    NoExperiment { name: String },
    #[error("there is no check {name}: there are {}", list(checks().map(|check| check.id), ", "))]
    NoCheck { name: String },
    #[error("it limits how long settings are held: add --apply")]
    NotApplied,
    #[error("--effects {}: not the JSON of `linecard jitter ab --json`: {source}", path.display())]
    Effects { path: PathBuf, source: serde_json::Error },
    #[error(
        "{0} has no results: create some with linecard jitter run --all --output {0}", folder.display()
    )]
    NoResults { folder: PathBuf },
    #[error("{}: it is longer than {MAX_BYTES} bytes, more than any result has", path.display())]
    TooLong { path: PathBuf },
    #[error("{}: it is not a result of an experiment ({source})", path.display())]
    NotResult { path: PathBuf, source: serde_json::Error },
    #[error("{}: form {version}, and this is {VERSION}: measure again", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("no verdict: {0}")]
    Remote(#[source] RemoteError),
    #[error("no verdict: stopped before anything was measured")]
    NothingMeasured,
    #[error("no verdict: stopped before all runs were complete; the settings are restored")]
    NotComplete,
    #[error("no verdict, for what was found at: {}", list(failed.iter().map(|(experiment, gates)| {
        format!("{experiment} {gates}").trim().to_owned()
    }), "; "))]
    Gates { failed: Vec<(String, String)> },
    #[error("no verdict on {}", toggles.join(", "))]
    NoEffect { toggles: Vec<&'static str> },
    #[error(
        "{toggle}: it acts on the interface at which packets arrive. {}",
        no_cable.as_deref().unwrap_or(
            "Leave --loopback out, or name the interface behind --sink-address."
        )
    )]
    NoToggledInterface { toggle: &'static str, no_cable: Option<String> },
    #[error("{}", list(settings, "; "))]
    NotRestored { settings: Vec<Restoration> },
}

impl Kind for JitterError {
    fn failure(&self) -> Failure {
        match self {
            Self::Remote(_)
            | Self::NothingMeasured
            | Self::NotComplete
            | Self::Gates { .. }
            | Self::NoEffect { .. } => Failure::Withheld,
            Self::NoToggledInterface { .. } => Failure::Attach,
            Self::NotRestored { .. } => Failure::NotRestored,
            _ => Failure::Usage,
        }
    }
}

fn list(items: impl IntoIterator<Item = impl Display>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}
