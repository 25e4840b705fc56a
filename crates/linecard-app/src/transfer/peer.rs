//! The address of the other end, and that at which a receiver listens.

use crate::{Error, Failure};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;

/// The port of a receiver, unless another is given: no service is registered there.
pub const DEFAULT_PORT: u16 = 4_780;

/// Another host as the user calls it: `HOST`, `HOST:PORT`, `[IPv6]:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    host: String,
    port: u16,
}

impl Peer {
    /// Its addresses, in the order in which they should be tried; at least one.
    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map(Iterator::collect).map_err(|error| {
            Failure::Unreachable.with(format!("cannot find {}: {error}; check its name", self.host))
        })?;
        if found.is_empty() {
            return Err(
                Failure::Unreachable.with(format!("{} has no address; check its name", self.host))
            );
        }
        Ok(found)
    }
}

impl Default for Peer {
    /// A receiver on this machine.
    fn default() -> Self {
        Self { host: Ipv4Addr::LOCALHOST.to_string(), port: DEFAULT_PORT }
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "\"{text}\" is not a host: write host, host:{DEFAULT_PORT}, 192.0.2.1 or [2001:db8::1]:{DEFAULT_PORT}"
            )
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        if let Ok(ip) = ip(text) {
            return Ok(Self { host: ip.to_string(), port: DEFAULT_PORT });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, DEFAULT_PORT),
        };
        // Only a name: another text would be looked up, or be a line of its own among known peers.
        let is_name = host.chars().all(|c| c.is_alphanumeric() || "-._".contains(c));
        let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
        if host.is_empty() || !is_name || is_number || port == 0 {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// The name under which its key is known.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// An address of this host to listen at: `ADDR` or `ADDR:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let ip = ip(text).map_err(|()| {
            format!("\"{text}\" is not an address of this host: write 0.0.0.0, 192.0.2.1:{DEFAULT_PORT} or [::1]:{DEFAULT_PORT}")
        })?;
        Ok(Self(SocketAddr::new(ip, DEFAULT_PORT)))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Listens at an address; without one at all addresses, or if it is `open` on this machine only.
pub(super) fn listen(at: Option<SocketAddr>, open: bool) -> Result<TcpListener, Error> {
    let port = DEFAULT_PORT;
    let failed = |at: SocketAddr| {
        move |error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => "; give another port, as --listen ADDRESS:PORT",
                std::io::ErrorKind::AddrNotAvailable => "; `ip address` lists those of this host",
                _ => "",
            };
            Failure::Attach.with(format!("cannot listen at {at}: {error}{hint}"))
        }
    };
    match at {
        Some(at) if open && !at.ip().is_loopback() => Err(Failure::Usage.with(format!(
            "--insecure-none --listen {at}: without keys, only this machine may connect: listen at \
             127.0.0.1, or use keys"
        ))),
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
        for wrong in ["", ":80", "host:", "host:x", "host:0", "host:70000", "a b", "192.0.2", "a/b"]
        {
            assert!(name(wrong).is_err_and(|text| text.lines().count() == 1), "{wrong}");
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
