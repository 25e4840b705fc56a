//! The address of the other end, and that at which a receiver listens.

use super::error::TransferError;
use crate::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;

/// The port of a receiver, unless another is given: no service is registered there.
pub const DEFAULT_PORT: u16 = 4_780;

/// A text that is not the address of an end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither the name of a host nor an address.
    #[error(
        "\"{}\" is not a host: write host, host:{DEFAULT_PORT}, 192.0.2.1 or [2001:db8::1]:{DEFAULT_PORT}, or \
         host:folder to have `linecard recv` started there by ssh", text.escape_debug()
    )]
    Host {
        /// The text.
        text: String,
    },
    /// A user with a port, where a folder is expected.
    #[error(
        "\"{text}\": a port is for `linecard recv` that runs, without a user; write {}./{port} for a folder of that name",
        text.trim_end_matches(port)
    )]
    UserWithPort {
        /// The text.
        text: String,
        /// The port in it.
        port: String,
    },
    /// A folder whose path is not plain.
    #[error(
        "\"{}\": the folder is to be a path without `~USER`, `//` before it, or line ends", text.escape_debug()
    )]
    Folder {
        /// The text.
        text: String,
    },
    /// An address that is valid on one link only.
    #[error("\"{}\": an address with an interface is not taken: give another address of that host, or its name", text.escape_debug())]
    Scoped {
        /// The text.
        text: String,
    },
    /// Not an address at which a receiver could listen.
    #[error(
        "\"{text}\" is not an address of this host: write 0.0.0.0, 192.0.2.1:{DEFAULT_PORT} or [::1]:{DEFAULT_PORT}"
    )]
    Listen {
        /// The text.
        text: String,
    },
}

/// The receiving end as the user calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A receiver that runs: `HOST`, `HOST:PORT`, `[IPv6]:PORT`.
    Listening {
        /// Its name or address.
        host: String,
        /// Its port, if one is given; otherwise [`DEFAULT_PORT`].
        port: Option<u16>,
    },
    /// A receiver that the sender starts there: `HOST:DIR`, `USER@HOST:DIR`.
    Started(RemoteFolder),
}

/// A folder of another host, where a command such as ssh logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFolder {
    /// The host, with the user before it, if one is given. It begins with no `-`.
    pub(super) login: String,
    /// The host's name or address.
    pub(super) host: String,
    /// The folder, seen from where the login begins; that itself if it is empty.
    pub(super) folder: String,
    /// The address to connect to, if it is not that of the host's name.
    pub(super) address: Option<String>,
}

impl Peer {
    /// The addresses of one that runs, in the order in which they should be tried; at least one.
    pub(super) fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let found = (host, port).to_socket_addrs();
        let found: Vec<SocketAddr> = found
            .map(Iterator::collect)
            .map_err(|source| TransferError::Lookup { host: host.to_owned(), source })?;
        if found.is_empty() {
            return Err(TransferError::NoAddress { host: host.to_owned() }.into());
        }
        Ok(found)
    }
}

impl Default for Peer {
    /// A receiver on this machine.
    fn default() -> Self {
        Self::Listening { host: Ipv4Addr::LOCALHOST.to_string(), port: None }
    }
}

impl FromStr for Peer {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::Host { text: text.to_owned() };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::Listening {
                host: address.ip().to_string(),
                port: Some(address.port()),
            });
        }
        if let Ok(ip) = ip(text) {
            return Ok(Self::Listening { host: ip.to_string(), port: None });
        }
        // Otherwise it would be a host of the name `fe80`, with a folder.
        if let Some((address, _)) = text.trim_start_matches('[').split_once('%')
            && address.parse::<Ipv6Addr>().is_ok()
        {
            return Err(AddressError::Scoped { text: text.to_owned() });
        }
        let (user, host) = match text.split_once('@') {
            Some((user, host)) if !user.contains([':', '/', '[']) => (Some(user), host),
            _ => (None, text),
        };
        let end = host.strip_prefix('[').and_then(|host| host.find(']')).map_or(0, |end| end + 2);
        let (host, behind) = match host[end..].find(':') {
            Some(at) => (&host[..end + at], Some(&host[end + at + 1..])),
            None => (host, None),
        };
        // Only names: another text would be looked up, be an option of ssh, or a line of its own among known peers.
        let is_name = |name: &str| {
            let is_plain = name.chars().all(|c| c.is_alphanumeric() || "-._".contains(c));
            is_plain && !name.is_empty() && !name.starts_with('-')
        };
        let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
        let address = ip(host).ok().map(|ip| ip.to_string());
        let is_host = address.is_some() || (is_name(host) && !is_number);
        if !is_host || user.is_some_and(|user| !is_name(user)) {
            return Err(wrong());
        }
        let host = address.unwrap_or_else(|| host.to_owned());
        let is_port =
            |behind: &str| !behind.is_empty() && behind.bytes().all(|byte| byte.is_ascii_digit());
        match (user, behind) {
            (None, None) => Ok(Self::Listening { host, port: None }),
            (None, Some(port)) if is_port(port) => match port.parse() {
                Ok(port) if port > 0 => Ok(Self::Listening { host, port: Some(port) }),
                _ => Err(wrong()),
            },
            (Some(_), Some(port)) if is_port(port) => {
                Err(AddressError::UserWithPort { text: text.to_owned(), port: port.to_owned() })
            }
            (_, Some(folder)) => {
                let login = user.map_or_else(|| host.clone(), |user| format!("{user}@{host}"));
                // A login begins at home.
                let at_home = if folder == "~" { "" } else { folder };
                let folder = at_home.strip_prefix("~/").unwrap_or(at_home).to_owned();
                if folder.contains(['\0', '\n'])
                    || folder.starts_with(['~'])
                    || folder.starts_with("//")
                {
                    return Err(AddressError::Folder { text: text.to_owned() });
                }
                Ok(Self::Started(RemoteFolder { login, host, folder, address: None }))
            }
            _ => Err(wrong()),
        }
    }
}

/// The name under which its key is known; of a place, as it is given.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { host, port } => {
                let port = port.unwrap_or(DEFAULT_PORT);
                match host.contains(':') {
                    true => write!(f, "[{host}]:{port}"),
                    false => write!(f, "{host}:{port}"),
                }
            }
            Self::Started(RemoteFolder { login, folder, .. }) => write!(f, "{login}:{folder}"),
        }
    }
}

/// An address of this host to listen at: `ADDR` or `ADDR:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let ip = ip(text).map_err(|()| AddressError::Listen { text: text.to_owned() })?;
        Ok(Self(SocketAddr::new(ip, DEFAULT_PORT)))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Listens at an address; without one at this port of all addresses, or if it is `open` on this machine only.
pub(super) fn listen(at: Option<SocketAddr>, port: u16, open: bool) -> Result<TcpListener, Error> {
    let failed =
        |at: SocketAddr| move |source: io::Error| TransferError::Listen { at, source }.into();
    match at {
        Some(at) if open && !at.ip().is_loopback() => {
            Err(TransferError::OpenToOthers { at }.into())
        }
        Some(at) => TcpListener::bind(at).map_err(failed(at)),
        None if open => {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            TcpListener::bind(at).map_err(failed(at))
        }
        None => {
            let (both, v4) = ((Ipv6Addr::UNSPECIFIED, port), (Ipv4Addr::UNSPECIFIED, port));
            // A host without IPv6 has the other only.
            let bound = TcpListener::bind(both).or_else(|_| TcpListener::bind(v4));
            bound.map_err(failed(v4.into()))
        }
    }
}

fn ip(text: &str) -> Result<IpAddr, ()> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.unwrap_or(text).parse().map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_with_and_without_a_port() {
        let name = |text: &str| text.parse::<Peer>().map(|peer| peer.to_string());
        for (text, same) in [
            ("host", "host:4780"),
            ("host.example:80", "host.example:80"),
            ("192.0.2.1", "192.0.2.1:4780"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:4780"),
            ("[2001:db8::1]", "[2001:db8::1]:4780"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(name(text).as_deref(), Ok(same));
        }
        for wrong in [
            "",
            ":80",
            ":x",
            "host:0",
            "host:70000",
            "a b",
            "192.0.2",
            "a/b",
            "a/b:c",
            "user@host",
            "-host:x",
            "-u@host:x",
            "@host:x",
            "user@:x",
            "-oProxyCommand=x:y",
            "a b@host:x",
            "u@-h:x",
            "host:x\ny",
            "[host]:x",
            "fe80::1%eth0",
            "[fe80::1%eth0]:80",
        ] {
            assert!(
                name(wrong).is_err_and(|error| error.to_string().lines().count() == 1),
                "{wrong}"
            );
        }
    }

    #[test]
    fn folders_of_other_hosts() {
        for (text, login, host, folder) in [
            ("host:", "host", "host", ""),
            ("host:x", "host", "host", "x"),
            ("host:4780x", "host", "host", "4780x"),
            ("user@host:/a/b c:d", "user@host", "host", "/a/b c:d"),
            ("user@host:./4780", "user@host", "host", "./4780"),
            ("host:~/x", "host", "host", "x"),
            ("host:~", "host", "host", ""),
            ("host:a@b", "host", "host", "a@b"),
            ("192.0.2.1:x", "192.0.2.1", "192.0.2.1", "x"),
            ("u@[2001:db8::1]:x:y", "u@2001:db8::1", "2001:db8::1", "x:y"),
        ] {
            let [login, host, folder] = [login, host, folder].map(str::to_owned);
            assert_eq!(
                text.parse(),
                Ok(Peer::Started(RemoteFolder { login, host, folder, address: None })),
                "{text}"
            );
        }
    }

    #[test]
    fn where_to_listen() {
        let at = |text: &str| text.parse::<Listen>().map(|listen| listen.0);
        assert_eq!(at("127.0.0.1"), Ok(SocketAddr::from(([127, 0, 0, 1], 4_780))));
        assert_eq!(at("127.0.0.1:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(at("::1"), Ok(SocketAddr::from((Ipv6Addr::LOCALHOST, 4_780))));
        assert!(at("eth0").is_err() && at("").is_err());
    }
}
