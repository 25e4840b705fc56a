//! Pairing by a short code: after it, each end lists the key of the other.

use super::error::TransferError;
use super::keys::allow;
use super::send::Observer;
use super::{DEFAULT_PORT, Log};
use crate::{Error, Failure};
use linecard_config::ConfigError;
use linecard_transfer_net::keys::{CODE_LIFETIME, ListFile, NoCode, Pairing, PairingCode};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Where the sender has the code from that the receiver shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeSource {
    /// It is given.
    Given(PairingCode),
    /// `-`: the user types it, so that other users of the host do not see it among the arguments.
    Typed,
}

impl FromStr for CodeSource {
    type Err = NoCode;

    fn from_str(text: &str) -> Result<Self, NoCode> {
        if text == "-" { Ok(Self::Typed) } else { text.parse().map(Self::Given) }
    }
}

/// A configuration that is printed does not show a code.
impl fmt::Display for CodeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
    }
}

impl CodeSource {
    /// The code, asked for if need be.
    pub(super) fn code(self, observer: &mut dyn Observer) -> Result<PairingCode, Error> {
        match self {
            Self::Given(code) => Ok(code),
            Self::Typed => {
                let text = observer.pairing_code().map_err(TransferError::Code)?;
                let code = text.trim().parse::<PairingCode>();
                Ok(code.map_err(|error| ConfigError::of_parameter("pair", error))?)
            }
        }
    }
}

/// The receiver's part, with a new code: the sender's key goes into the list.
pub(super) fn shown(list: ListFile, log: &Log) -> Result<Pairing, Error> {
    let code = PairingCode::fresh().map_err(|error| Failure::Thread.with(error))?;
    let log = Arc::clone(log);
    let remember = move |name: &str, key| {
        // Its port is another one next time.
        let address =
            name.parse().map_or_else(|_| name.to_owned(), |at: SocketAddr| at.ip().to_string());
        allow(&list, key, &format!("paired, from {address}"))?;
        log(&format!(
            "paired with {name}: {key} may send from now on, as {} says",
            list.path().display()
        ));
        Ok(())
    };
    Ok(Pairing::shown(code, Box::new(remember)))
}

/// The line for the receiver's user.
pub(super) fn announced(pairing: &Pairing, port: u16) -> String {
    let (code, minutes) = (pairing.code(), CODE_LIFETIME.as_secs() / 60);
    let port = if port == DEFAULT_PORT { String::new() } else { format!(":{port}") };
    format!(
        "the pairing code is {code}, for one sender within {minutes} minutes: run there `linecard send PATH HOST{port} \
         --pair {code}` with this host's name or address"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_and_not_printed() {
        let given: CodeSource = "4821-6093".parse().unwrap();
        assert_eq!(given, CodeSource::Given("48216093".parse().unwrap()));
        assert_eq!(given.to_string(), "-");
        assert_eq!("-".parse(), Ok(CodeSource::Typed));
        assert!("4821".parse::<CodeSource>().is_err());
    }
}
