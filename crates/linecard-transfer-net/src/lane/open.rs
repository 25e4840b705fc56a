//! Opening lanes: by address or by interface.

use super::spec::{LocalEnd, Spec};
use super::{Accept, Connect, Lane, LaneError, Tcp, Udp};
use linecard_transfer::control::LaneKind;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// This host's end of a lane, with its port: 0 for any free one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// Address or interface.
    pub local: LocalEnd,
    /// The port.
    pub port: u16,
}

/// Why a lane does not open.
#[derive(Debug, thiserror::Error)]
#[error("lane at {at}: {}", reason(at, source))]
pub struct OpenError {
    /// This host's end.
    pub at: At,
    /// The error of the operating system.
    pub source: io::Error,
}

/// The receiving end of a lane before its peer has shown itself.
#[derive(Debug)]
pub enum Listener {
    /// Already a lane: it receives from any address, and sends to the one that it is given.
    Udp(Udp),
    /// Connections come in, each a lane.
    Tcp(Socket),
}

/// The error of the operating system in words for the user.
fn reason(at: &At, source: &io::Error) -> String {
    match (source.raw_os_error(), &at.local) {
        (Some(libc::ENODEV), LocalEnd::Interface(name)) => {
            format!("there is no interface `{name}`; `ip link` lists them")
        }
        (Some(libc::EADDRNOTAVAIL), _) => {
            "this host has no such address; `ip address` lists them".into()
        }
        (Some(libc::EADDRINUSE), _) => format!("port {} is in use; take another", at.port),
        (Some(libc::EPERM | libc::EACCES), LocalEnd::Interface(_)) => {
            "the kernel refuses to bind to the interface; give its address instead".into()
        }
        (Some(libc::ENETUNREACH | libc::EHOSTUNREACH), _) => {
            "there is no route from here to the peer".into()
        }
        (Some(libc::EAFNOSUPPORT | libc::EINVAL), LocalEnd::Address(_)) => {
            format!("this end's address and the peer's are of different families ({source})")
        }
        _ => source.to_string(),
    }
}

impl Spec {
    /// This host's end.
    #[must_use]
    pub fn at(&self) -> At {
        At { local: self.local.clone(), port: self.port.unwrap_or(0) }
    }

    /// Whether this host has the address or interface, and the port is free.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: the address or interface is missing, or the port is taken.
    pub fn check(&self) -> Result<(), OpenError> {
        let kind = if self.kind == LaneKind::Udp { Type::DGRAM } else { Type::STREAM };
        self.at().socket(kind, None).map(drop)
    }

    /// Opens the sending end. TCP connects without waiting: until it is connected, it accepts no data.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: an interface or address that this host does not have, a port in use, no route.
    pub fn connect(&self, peer: SocketAddr) -> Result<Box<dyn Lane>, OpenError> {
        Ok(match self.kind {
            LaneKind::Udp => Box::new(Udp::connect(&self.at(), peer)?),
            LaneKind::Tcp => Box::new(Tcp::connect(&self.at(), peer)?),
        })
    }

    /// Opens the receiving end.
    ///
    /// # Errors
    ///
    /// [`OpenError`], as above.
    pub fn listen(&self) -> Result<Listener, OpenError> {
        let at = self.at();
        if self.kind == LaneKind::Udp {
            return Udp::bind(&at).map(Listener::Udp);
        }
        let socket = at.socket(Type::STREAM, None)?;
        super::tcp::enlarge(&socket);
        socket.listen(BACKLOG).map_err(|source| at.failed(source))?;
        Ok(Listener::Tcp(socket))
    }
}

impl Connect for Spec {
    fn connect(&self, peer: SocketAddr) -> Result<Box<dyn Lane>, OpenError> {
        Self::connect(self, peer)
    }
}

impl Accept for Listener {
    fn accept(&self) -> Result<Option<Box<dyn Lane>>, LaneError> {
        Ok(Self::accept(self)?.map(|lane| Box::new(lane) as _))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        Self::as_fd(self)
    }
}

impl Listener {
    /// The address at which it receives.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp(lane) => lane.local_addr(),
            Self::Tcp(socket) => {
                let address = socket.local_addr()?.as_socket();
                address.ok_or_else(|| io::Error::other("a socket without an address"))
            }
        }
    }

    /// The address to give to a peer at `peer`: if this end is an interface, one of its own of the
    /// same family.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address_for(&self, local: &LocalEnd, peer: IpAddr) -> io::Result<SocketAddr> {
        let bound = self.local_addr()?;
        let LocalEnd::Interface(name) = local else { return Ok(bound) };
        let same = |address: &IpAddr| address.is_ipv4() == peer.is_ipv4();
        let own = super::sys::addresses(name).into_iter().find(same);
        Ok(own.map_or(bound, |own| SocketAddr::new(own, bound.port())))
    }

    /// A connection that has arrived, if any; never on UDP. Any host that reaches the port
    /// may connect: how many are kept, and how long without a packet that opens, is the caller's.
    ///
    /// # Errors
    ///
    /// [`LaneError`]; a connection that was given up before it was accepted is none.
    pub fn accept(&self) -> Result<Option<Tcp>, LaneError> {
        let Self::Tcp(socket) = self else { return Ok(None) };
        match socket.accept() {
            Ok((connection, _)) => Tcp::of(connection).map(Some).map_err(LaneError::System),
            Err(error) => match LaneError::of(error) {
                None | Some(LaneError::Dead(_)) => Ok(None),
                Some(error) => Err(error),
            },
        }
    }

    /// Readable when something has come.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(lane) => Lane::as_fd(lane),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl At {
    /// A socket there that does not wait; for `peer`'s family, if there is one already.
    pub(super) fn socket(&self, kind: Type, peer: Option<SocketAddr>) -> Result<Socket, OpenError> {
        let made = match (&self.local, peer) {
            (LocalEnd::Address(ip), _) => self.bound(kind, *ip),
            (LocalEnd::Interface(_), Some(peer)) => self.bound(kind, any(peer.is_ipv6())),
            // Both families, where the host has both.
            (LocalEnd::Interface(_), None) => {
                self.bound(kind, any(true)).or_else(|_| self.bound(kind, any(false)))
            }
        };
        made.map_err(|source| self.failed(source))
    }

    pub(super) fn failed(&self, source: io::Error) -> OpenError {
        OpenError { at: self.clone(), source }
    }

    fn bound(&self, kind: Type, ip: IpAddr) -> io::Result<Socket> {
        let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
        let domain = if ip.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        if kind == Type::STREAM {
            // A listener must open again while connections of its last life linger.
            socket.set_reuse_address(true)?;
        }
        if ip.is_ipv6() {
            socket.set_only_v6(!ip.is_unspecified())?;
        }
        if let LocalEnd::Interface(name) = &self.local {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        socket.bind(&SocketAddr::new(ip, self.port).into())?;
        Ok(socket)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.local)?;
        if self.port == 0 { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

fn any(is_ipv6: bool) -> IpAddr {
    if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}
