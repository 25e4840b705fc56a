//! From a TCP connection to a control channel, or to the reason why not, before a deadline.

use super::Control;
use super::access::Access;
use super::error::{ControlError, Protocol};
use super::tls::{self, Verifier};
use super::transport::{Received, Transport};
use crate::seal::Direction;
use linecard_transfer::control::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::AlertDescription;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First message of each end, before a proof.
const MAGIC: [u8; 8] = *b"LINECARD";
const OPENING_BYTES: usize = 40;
/// How long an end that refuses waits for the other to read why.
const LINGER: Duration = Duration::from_millis(500);
/// After how long without a word the kernel asks whether the other host is there, how often, and how
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
    /// Nobody there, or not who it should be. Every error names the cause and the remedy.
    pub fn connect(
        address: SocketAddr,
        name: &str,
        access: &Access,
        deadline: Instant,
    ) -> Result<Self, ControlError> {
        only_within_this_machine(access, address.ip())?;
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero is an error of its own.
        let stream = TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1)))
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
        let address = stream.peer_addr()?;
        only_within_this_machine(access, address.ip())?;
        let name = address.to_string();
        let direction = Direction::FromServer;
        Handshake { stream, access, name: &name, deadline, direction }.run()
    }
}

/// Without keys, anybody on the way could take part.
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
        // Messages are few and somebody waits for each.
        self.stream.set_nodelay(true)?;
        keep_alive(&self.stream)?;
        let verifier = Arc::new(Verifier::new(self.access, self.name));
        let mut transport = self.transport(&verifier)?;
        if let Err(error) = self.complete(&mut transport) {
            self.linger();
            return Err(verifier.objection().unwrap_or_else(|| self.explain(error)));
        }
        verifier.remember()?;
        let peer = match (&transport, self.access) {
            (Transport::Tls(connection), Access::Keys { .. }) => tls::peer(connection),
            _ => None,
        };
        Ok(Control {
            stream: self.stream,
            transport,
            reader: Reader::new(),
            waiting: Vec::new(),
            peer,
            direction: self.direction,
            given: 0,
        })
    }

    fn transport(&self, verifier: &Arc<Verifier>) -> Result<Transport, ControlError> {
        let verifier = Arc::clone(verifier);
        Ok(match (self.access, self.direction) {
            (Access::Open, _) => Transport::Plain(Vec::new()),
            (access, Direction::FromClient) => {
                let address = self.stream.peer_addr()?.ip();
                let connection = tls::client(access, address, verifier);
                Transport::tls(connection.map_err(ControlError::Tls)?)
            }
            (access, Direction::FromServer) => Transport::tls(tls::server(access, verifier)?),
        })
    }

    /// The handshake of TLS, then both openings.
    fn complete(&mut self, transport: &mut Transport) -> Result<(), ControlError> {
        while transport.is_handshaking() {
            transport.flush(&mut self.stream)?;
            if transport.pull(&mut self.stream)? == Received::Nothing {
                self.wait(transport.wants_write())?;
            }
        }
        let mine = self.opening(transport, self.direction)?;
        let queued = transport.queue(&mine)?;
        debug_assert_eq!(queued, mine.len(), "nothing else is queued yet");
        let theirs = self.exchange(transport)?;
        self.check(&theirs, transport)
    }

    /// Sends queued bytes and receives the other end's opening, and not a byte after it.
    fn exchange(&mut self, transport: &mut Transport) -> Result<[u8; OPENING_BYTES], ControlError> {
        let mut opening = [0; OPENING_BYTES];
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
        match wait(&self.stream, for_write, self.deadline)? {
            true => Ok(()),
            false => Err(ControlError::TimedOut { name: self.name.to_owned() }),
        }
    }

    /// First message of the end that sends in `direction`: a proof of the shared key that holds for
    /// this handshake and this end only, so that nobody in between can pass it on.
    fn opening(
        &self,
        transport: &Transport,
        direction: Direction,
    ) -> Result<[u8; OPENING_BYTES], ControlError> {
        let mut opening = [0; OPENING_BYTES];
        opening[..MAGIC.len()].copy_from_slice(&MAGIC);
        if let Access::Shared(key) = self.access {
            let proof = key.proof(&statement(transport, direction)?);
            opening[MAGIC.len()..].copy_from_slice(&proof);
        }
        Ok(opening)
    }

    fn check(
        &self,
        theirs: &[u8; OPENING_BYTES],
        transport: &Transport,
    ) -> Result<(), ControlError> {
        let Access::Shared(key) = self.access else { return Ok(()) };
        let statement = statement(transport, self.direction.reverse())?;
        match key.proves(&statement, &theirs[MAGIC.len()..]) {
            true => Ok(()),
            false => Err(ControlError::WrongSharedKey),
        }
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
                    if !wait(&self.stream, false, end).unwrap_or(false) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn explain(&self, error: ControlError) -> ControlError {
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
            (error, _) => error,
        }
    }
}

/// A host that is gone without a word is found out, however long nobody has anything to say.
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
pub(super) fn wait(stream: &TcpStream, for_write: bool, end: Instant) -> io::Result<bool> {
    let flags = if for_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().min(1 << 30).cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(stream, flags)], Some(&timeout)) {
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
    use crate::keys::SharedKey;

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
