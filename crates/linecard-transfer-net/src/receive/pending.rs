//! Connections whose peers have not announced anything yet, and the choice of one to close for others.

use std::fmt;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

/// Connections in their handshake at once, at most.
pub const MAX_HANDSHAKES: usize = 64;
/// Connections in their handshake from one IPv4 address or one IPv6 network (/64), at most.
pub const MAX_FROM_ADDRESS: usize = 16;

/// Which bound a connection was beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// [`MAX_HANDSHAKES`] of all peers.
    All,
    /// [`MAX_FROM_ADDRESS`] of the peer's address or network.
    Address,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "more than {MAX_HANDSHAKES} connections"),
            Self::Address => {
                write!(f, "more than {MAX_FROM_ADDRESS} connections from its address or network")
            }
        }
    }
}

/// A connection in its handshake.
#[derive(Debug)]
pub(super) struct Pending {
    id: u64,
    pub(super) from: SocketAddr,
    /// To end it: the handshake has a descriptor of its own.
    stream: TcpStream,
    is_authenticated: bool,
}

/// All of them, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pendings {
    all: Vec<Pending>,
    next_id: u64,
}

impl Pendings {
    /// Adds a connection; its number.
    pub(super) fn add(&mut self, from: SocketAddr, stream: TcpStream) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.all.push(Pending { id, from, stream, is_authenticated: false });
        id
    }

    /// Whether the connection is still in its handshake: it may have been ended to make room.
    pub(super) fn has(&self, id: u64) -> bool {
        self.all.iter().any(|pending| pending.id == id)
    }

    /// Removes a connection; false if it was ended before.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let before = self.all.len();
        self.all.retain(|pending| pending.id != id);
        self.all.len() < before
    }

    /// The peer has shown its key.
    pub(super) fn authenticated(&mut self, id: u64) {
        let found = self.all.iter_mut().filter(|pending| pending.id == id);
        found.for_each(|pending| pending.is_authenticated = true);
    }

    /// Ends a connection if there would be too many with one more from `from`. Peers that have not
    /// authenticated are dropped before those that have; then those of the address with the most
    /// connections; then the oldest. A sender that answers at once is the newest, so it gets in however
    /// many others are silent.
    pub(super) fn make_room(&mut self, from: SocketAddr) -> Option<(SocketAddr, Crowd)> {
        let (position, crowd) = if self.of_source(from) >= MAX_FROM_ADDRESS {
            let own = self.all.iter().enumerate();
            let own = own.filter(|(_, other)| source(other.from) == source(from));
            let oldest = own.min_by_key(|(_, other)| other.is_authenticated).map(|(at, _)| at);
            (oldest, Crowd::Address)
        } else if self.all.len() >= MAX_HANDSHAKES {
            (self.most_expendable(), Crowd::All)
        } else {
            return None;
        };
        position.map(|at| (self.end(at), crowd))
    }

    /// Ends the connection that is missed least, whatever there is room for.
    pub(super) fn end_one(&mut self) -> Option<SocketAddr> {
        self.most_expendable().map(|at| self.end(at))
    }

    /// Ends all.
    pub(super) fn end_all(&mut self) {
        while !self.all.is_empty() {
            self.end(0);
        }
    }

    fn most_expendable(&self) -> Option<usize> {
        let order = |other: &Pending| {
            (other.is_authenticated, std::cmp::Reverse(self.of_source(other.from)))
        };
        let all = self.all.iter().enumerate();
        all.min_by_key(|(_, other)| order(other)).map(|(at, _)| at)
    }

    fn of_source(&self, from: SocketAddr) -> usize {
        self.all.iter().filter(|other| source(other.from) == source(from)).count()
    }

    fn end(&mut self, at: usize) -> SocketAddr {
        let pending = self.all.remove(at);
        // Its handshake reads the end of the connection; if that is there already, it ends anyway.
        let _gone = pending.stream.shutdown(Shutdown::Both);
        pending.from
    }
}

/// The definition of one source: a host with an IPv6 address can use its whole network.
fn source(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn stream() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_takes_its_share_only() {
        let mut pendings = Pendings::default();
        let first = pendings.add(at("[2001:db8::1]:1"), stream());
        pendings.authenticated(first);
        for port in 2..=MAX_FROM_ADDRESS as u16 {
            assert_eq!(pendings.make_room(at("[2001:db8::2]:9")), None);
            pendings.add(SocketAddr::new(at("[2001:db8::3]:1").ip(), port), stream());
        }
        assert_eq!(pendings.make_room(at("[2001:db8:0:1::1]:9")), None, "another network");
        assert_eq!(pendings.make_room(at("192.0.2.1:9")), None);
        let oldest = pendings.make_room(at("[2001:db8::4]:9"));
        let expected = (at("[2001:db8::3]:2"), Crowd::Address);
        assert_eq!(oldest, Some(expected), "who has authenticated stays");
        assert!(pendings.has(first));
    }

    #[test]
    fn when_there_are_too_many_the_address_with_the_most_gives_way() {
        let mut pendings = Pendings::default();
        let single = pendings.add(at("192.0.2.1:1"), stream());
        for number in 0..MAX_HANDSHAKES as u16 - 1 {
            let from = SocketAddr::new([198, 51, 100, (number / 10) as u8].into(), number + 1);
            assert_eq!(pendings.make_room(from), None);
            pendings.add(from, stream());
        }
        let ended = pendings.make_room(at("203.0.113.1:1"));
        assert_eq!(ended, Some((at("198.51.100.0:1"), Crowd::All)));
        assert_eq!(Crowd::All.to_string(), "more than 64 connections");
        assert!(pendings.has(single) && pendings.remove(single) && !pendings.remove(single));
        pendings.end_all();
        assert_eq!(pendings.end_one(), None);
    }
}
