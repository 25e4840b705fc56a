//! From a TCP connection to a control channel, or to the reason why not, before a deadline.

use super::access::{Access, Trust};
use super::dial::dial;
use super::error::{ControlError, Protocol};
use super::tls::{self, Verifier};
use super::transport::{Received, Transport, of_tls, received, retried};
use super::{Control, plain};
use crate::keys::{
    CodeRefused, Exchange, Fingerprint, KnownPeers, MESSAGE_BYTES, Pairing, SharedKey, Standing,
};
use crate::seal::Direction;
use linecard_transfer::control::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::AlertDescription;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First message of each end, before a proof.
const MAGIC: [u8; 8] = *b"LINECARD";
const OPENING_BYTES: usize = MAGIC.len() + 32;
const PAIRING_BYTES: usize = MAGIC.len() + MESSAGE_BYTES;
/// In place of a proof: the code is no longer accepted.
const VOID: [u8; 32] = [1; 32];
/// In place of a proof: the code is right, and the key could not be recorded.
const UNRECORDED: [u8; 32] = [2; 32];
/// How long an end that refuses waits for the other to read why.
const LINGER: Duration = Duration::from_millis(500);
/// After how long without data the kernel probes the other host, how often, and how
/// many times.
const ASK: Duration = Duration::from_secs(15);
const ASK_AGAIN: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 3;
/// Limit of bytes that it reads meanwhile.
const LINGER_BYTES: usize = 1 << 20;

impl Control {
    /// Connects to `address` and authenticates the peer, all before `deadline`. `name` is what the
    /// user calls the other end: under it its key is known, and errors speak of it.
    ///
    /// # Errors
    ///
    /// The other end does not answer, or is another one. Every error names the cause and the remedy.
    pub fn connect(
        address: SocketAddr,
        name: &str,
        access: &Access,
        deadline: Instant,
    ) -> Result<Self, ControlError> {
        only_within_this_machine(access, address.ip())?;
        let stream = dial(address, deadline)
            .map_err(|cause| ControlError::Connect { name: name.to_owned(), cause })?;
        let direction = Direction::FromClient;
        Handshake { stream, access, name, deadline, direction }.run()
    }

    /// Authenticates the connected peer, before `deadline`. Blocks until then at most: an end that
    /// expects others meanwhile accepts on a thread of its own.
    ///
    /// # Errors
    ///
    /// As [`Control::connect`].
    pub fn accept(
        stream: TcpStream,
        access: &Access,
        deadline: Instant,
    ) -> Result<Self, ControlError> {
        let address = plain(stream.peer_addr()?);
        only_within_this_machine(access, address.ip())?;
        let name = address.to_string();
        let direction = Direction::FromServer;
        Handshake { stream, access, name: &name, deadline, direction }.run()
    }
}

/// Without keys, any host on the path could take part.
fn only_within_this_machine(access: &Access, address: IpAddr) -> Result<(), ControlError> {
    match access {
        Access::Open if !address.to_canonical().is_loopback() => {
            Err(ControlError::Insecure(address))
        }
        _ => Ok(()),
    }
}

struct Handshake<'a> {
    stream: TcpStream,
    access: &'a Access,
    /// Of the other end.
    name: &'a str,
    deadline: Instant,
    direction: Direction,
}

impl Handshake<'_> {
    fn run(mut self) -> Result<Control, ControlError> {
        self.stream.set_nonblocking(true)?;
        // Messages are few, and the other end waits for each.
        self.stream.set_nodelay(true)?;
        keep_alive(&self.stream)?;
        let transport = match self.authenticated() {
            Ok(transport) => transport,
            Err(error) => {
                self.linger();
                return Err(self.explain(error));
            }
        };
        let peer = match (&transport, self.access) {
            (Transport::Tls(connection), Access::Keys { .. }) => tls::peer(connection),
            _ => None,
        };
        let addresses = (plain(self.stream.local_addr()?), plain(self.stream.peer_addr()?));
        Ok(Control {
            stream: Box::new(self.stream),
            addresses,
            transport,
            reader: Reader::new(),
            waiting: Vec::new(),
            packing: None,
            peer,
            direction: self.direction,
            given: 0,
        })
    }

    /// The transport, once each end knows the other.
    fn authenticated(&mut self) -> Result<Transport, ControlError> {
        let hello = match (self.access, self.direction) {
            (Access::Open, _) | (_, Direction::FromClient) => None,
            (_, Direction::FromServer) => Some(self.hello()?),
        };
        // At the accepting end, only if the other one wants to.
        let wanted = hello.as_ref().is_none_or(|hello| tls::wants_pairing(&hello.client_hello()));
        let pairing = self.access.pairing().filter(|_| wanted);
        let is_unexpected = hello.is_some() && wanted && pairing.is_none();
        let verifier = Arc::new(Verifier::new(self.access, pairing.is_some(), self.name));
        let transport = self.transport(hello, pairing.is_some(), &verifier);
        let mut transport = transport.map_err(|error| match error {
            ControlError::OtherAccess if is_unexpected => ControlError::NoCodeHere,
            error => error,
        })?;
        let complete = self.complete(&mut transport, pairing);
        complete.map_err(|error| verifier.objection().unwrap_or(error))?;
        verifier.remember()?;
        Ok(transport)
    }

    /// The first message of TLS from the connecting end.
    fn hello(&mut self) -> Result<Accepted, ControlError> {
        let mut acceptor = Acceptor::default();
        loop {
            match received(retried(|| acceptor.read_tls(&mut self.stream)))? {
                Received::Closed => return Err(ControlError::ClosedEarly),
                Received::Nothing => self.wait(false)?,
                Received::Bytes(_) => {}
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted),
                Ok(None) => {}
                Err((error, alert)) => return Err(self.refused(error, alert)),
            }
        }
    }

    /// Tells the other end why by an alert; whether it arrives does not change what happens here.
    fn refused(&mut self, error: rustls::Error, mut alert: AcceptedAlert) -> ControlError {
        let _gone = alert.write_all(&mut self.stream);
        of_tls(error)
    }

    fn transport(
        &mut self,
        hello: Option<Accepted>,
        pairs: bool,
        verifier: &Arc<Verifier>,
    ) -> Result<Transport, ControlError> {
        let verifier = Arc::clone(verifier);
        let connection = match (self.access, hello) {
            (Access::Open, _) => return Ok(Transport::Plain(Vec::new())),
            (access, None) => {
                let address = self.stream.peer_addr()?.ip();
                tls::client(access, address, verifier).map_err(ControlError::Tls)?
            }
            (access, Some(hello)) => {
                let config = tls::server(access, pairs, verifier)?;
                let connection = hello.into_connection(config);
                connection.map_err(|(error, alert)| self.refused(error, alert))?.into()
            }
        };
        Ok(Transport::tls(connection))
    }

    /// The handshake of TLS, then both openings.
    fn complete(
        &mut self,
        transport: &mut Transport,
        pairing: Option<&Pairing>,
    ) -> Result<(), ControlError> {
        while transport.is_handshaking() {
            transport.flush(&mut self.stream)?;
            if transport.pull(&mut self.stream)? == Received::Nothing {
                self.wait(transport.wants_write())?;
            }
        }
        if let Some(pairing) = pairing {
            return self.pair(transport, pairing);
        }
        let key = match self.access {
            Access::Shared(key) => Some(key),
            Access::Keys { .. } | Access::Open => None,
        };
        let mine = proof(transport, self.direction, key)?;
        self.queue(transport, &opening::<OPENING_BYTES>(&mine))?;
        let theirs: [u8; OPENING_BYTES] = self.exchange(transport)?;
        match key {
            Some(key) if !self.proves(transport, key, &theirs)? => {
                Err(ControlError::WrongSharedKey)
            }
            _ => Ok(()),
        }
    }

    /// Agrees on a key by the code, which the connecting end proves first: so every attempt to find the code out is
    /// counted where it is shown.
    fn pair(&mut self, transport: &mut Transport, pairing: &Pairing) -> Result<(), ControlError> {
        let malformed = || ControlError::OtherProtocol { expected: Protocol::Linecard };
        let peer = match &*transport {
            Transport::Tls(connection) => tls::peer(connection).ok_or_else(malformed)?,
            Transport::Plain(_) => return Err(malformed()),
        };
        let connects = self.direction == Direction::FromClient;
        if connects {
            // An end with another key than the one that is known gets no attempt.
            self.check_unchanged(peer)?;
        }
        let (exchange, message) = Exchange::start(pairing.code(), connects);
        self.queue(transport, &opening::<PAIRING_BYTES>(&message))?;
        let theirs: [u8; PAIRING_BYTES] = self.exchange(transport)?;
        let key = exchange.finish(&theirs[MAGIC.len()..]).ok_or_else(malformed)?;
        let mine = proof(transport, self.direction, Some(&key))?;
        if connects {
            self.queue(transport, &opening::<OPENING_BYTES>(&mine))?;
        }
        let theirs: [u8; OPENING_BYTES] = self.exchange(transport)?;
        let is_right = self.proves(transport, &key, &theirs)?;
        if connects {
            return match &theirs[MAGIC.len()..] {
                _ if is_right => self.remember(peer),
                reason if reason == VOID => Err(ControlError::CodeEnded),
                reason if reason == UNRECORDED => Err(ControlError::NotListed),
                _ => Err(ControlError::OtherCode),
            };
        }
        let attempt = pairing.attempt(is_right, self.name, peer);
        let answer = match attempt {
            Ok(()) => mine,
            Err(CodeRefused::Wrong { .. }) => [0; 32],
            Err(CodeRefused::Void) => VOID,
            Err(CodeRefused::Unrecorded(_)) => UNRECORDED,
        };
        let queued = self.queue(transport, &opening::<OPENING_BYTES>(&answer));
        let sent = queued.and_then(|()| self.exchange::<0>(transport));
        // A guess is reported, whether its owner waits for the answer or not.
        attempt?;
        sent.map(|[]| ())
    }

    /// Refuses another key than the known one of the end that accepts.
    fn check_unchanged(&self, found: Fingerprint) -> Result<(), ControlError> {
        let Access::Keys { trust: Trust::Known(peers, _), .. } = self.access else { return Ok(()) };
        self.unless_changed(peers, peers.standing(self.name, found), found)
    }

    /// Records the key of the end that accepts, which has proved the code.
    fn remember(&self, found: Fingerprint) -> Result<(), ControlError> {
        let Access::Keys { trust: Trust::Known(peers, _), .. } = self.access else { return Ok(()) };
        let standing = peers.clone().remember(self.name, found)?;
        self.unless_changed(peers, standing, found)
    }

    fn unless_changed(
        &self,
        peers: &KnownPeers,
        standing: Standing,
        found: Fingerprint,
    ) -> Result<(), ControlError> {
        let (name, file) = (self.name.to_owned(), peers.path().to_owned());
        match standing {
            Standing::Changed { known } => {
                Err(ControlError::KeyChanged { name, known, found, file })
            }
            Standing::Known | Standing::New => Ok(()),
        }
    }

    fn queue(&self, transport: &mut Transport, bytes: &[u8]) -> Result<(), ControlError> {
        let queued = transport.queue(bytes)?;
        debug_assert_eq!(queued, bytes.len(), "little else is queued yet");
        Ok(())
    }

    /// Sends queued bytes and receives as many from the other end, and not a byte after them.
    fn exchange<const BYTES: usize>(
        &mut self,
        transport: &mut Transport,
    ) -> Result<[u8; BYTES], ControlError> {
        let mut opening = [0; BYTES];
        let mut have = 0;
        loop {
            let sent = transport.flush(&mut self.stream)?;
            if have == opening.len() {
                match sent {
                    true => return Ok(opening),
                    false => self.wait(true)?,
                }
                continue;
            }
            match transport.read(&mut self.stream, &mut opening[have..])? {
                Received::Bytes(count) => have += count,
                Received::Nothing => self.wait(transport.wants_write())?,
                Received::Closed => return Err(ControlError::ClosedEarly),
            }
            let common = have.min(MAGIC.len());
            if opening[..common] != MAGIC[..common] {
                return Err(ControlError::OtherProtocol { expected: Protocol::Linecard });
            }
        }
    }

    fn wait(&self, for_write: bool) -> Result<(), ControlError> {
        match wait(self.stream.as_fd(), for_write, self.deadline)? {
            true => Ok(()),
            false => Err(ControlError::TimedOut { name: self.name.to_owned() }),
        }
    }

    /// Whether the opening of the other end is a proof of this key.
    fn proves(
        &self,
        transport: &Transport,
        key: &SharedKey,
        theirs: &[u8; OPENING_BYTES],
    ) -> Result<bool, ControlError> {
        let statement = statement(transport, self.direction.reverse())?;
        Ok(key.proves(&statement, &theirs[MAGIC.len()..]))
    }

    /// An alert that is on its way would be lost if the connection were reset behind it, which
    /// closing does when not all has been read that came.
    fn linger(&mut self) {
        let _gone = self.stream.shutdown(Shutdown::Write);
        let end = (Instant::now() + LINGER).min(self.deadline);
        let mut bytes = [0; 4_096];
        let mut left = LINGER_BYTES;
        while left > 0 {
            match self.stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !wait(self.stream.as_fd(), false, end).unwrap_or(false) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn explain(&self, error: ControlError) -> ControlError {
        let connects = self.direction == Direction::FromClient;
        match (error, self.access) {
            (
                ControlError::Tls(rustls::Error::AlertReceived(AlertDescription::AccessDenied)),
                Access::Keys { identity, .. },
            ) => ControlError::NotAccepted { own: identity.fingerprint() },
            (
                ControlError::Tls(rustls::Error::AlertReceived(
                    AlertDescription::CertificateUnknown,
                )),
                Access::Keys { identity, .. },
            ) => ControlError::NoListThere { own: identity.fingerprint() },
            // The other end does not know the protocol of pairing.
            (ControlError::OtherAccess, access) if access.pairing().is_some() && connects => {
                ControlError::NoCode
            }
            (error, _) => error,
        }
    }
}

/// A message of an end before the first one of `linecard_transfer::control`.
fn opening<const BYTES: usize>(body: &[u8]) -> [u8; BYTES] {
    let mut opening = [0; BYTES];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()..].copy_from_slice(body);
    opening
}

/// A proof of the key that holds for this handshake and this end only, so that an attacker in between cannot forward
/// it; zeros without a key.
fn proof(
    transport: &Transport,
    direction: Direction,
    key: Option<&SharedKey>,
) -> Result<[u8; 32], ControlError> {
    key.map_or(Ok([0; 32]), |key| Ok(key.proof(&statement(transport, direction)?)))
}

/// A host that has disappeared is detected, also while neither end has anything to send.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let asking =
        TcpKeepalive::new().with_time(ASK).with_interval(ASK_AGAIN).with_retries(ASK_TIMES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&asking)?;
    socket.set_tcp_user_timeout(Some(ASK + ASK_AGAIN * ASK_TIMES))
}

/// The proof: this handshake, and which end one is.
fn statement(transport: &Transport, direction: Direction) -> Result<[u8; 33], ControlError> {
    let mut statement = [0; 33];
    statement[..32].copy_from_slice(&transport.export(b"EXPORTER-linecard-shared-key", b"")?);
    statement[32] = direction.code();
    Ok(statement)
}

/// Whether `stream` becomes readable, or writable if `write` is set, before `end`.
pub(super) fn wait(stream: BorrowedFd<'_>, for_write: bool, end: Instant) -> io::Result<bool> {
    let flags = if for_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().min(1 << 30).cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::from_borrowed_fd(stream, flags)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_only_this_machine_is_near() {
        let near = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            assert!(only_within_this_machine(&with_key(), address).is_ok());
            only_within_this_machine(&Access::Open, address).is_ok()
        };
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(near(address), "{address}");
        }
        for address in ["192.168.1.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1", "2001:db8::1"]
        {
            assert!(!near(address), "{address}");
        }
    }

    #[test]
    fn a_host_that_is_gone_is_found_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        keep_alive(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(30)));
    }

    fn with_key() -> Access {
        Access::Shared(SharedKey::new(&[0; 32]))
    }
}
