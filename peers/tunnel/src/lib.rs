//! Common code of the tunnel programs: arguments, the cipher, and waiting for packets.
//!
//! A program is started as `PROGRAM DEVICE LOCAL PEER [clear]`: it creates the TUN device, binds a UDP socket
//! to LOCAL, connects it to PEER, prints "ready", and runs until it is killed. The benchmark gives the device
//! its address and MTU.
//!
//! A datagram is a counter, the packet, and a tag. The two directions have different keys, which are constants:
//! these programs measure, and protect nothing. They do not check for replayed packets.

pub mod tcp;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Largest packet of the tunnel's device.
pub const MTU: usize = 1_420;
/// Bytes of the counter, ahead of the packet.
pub const COUNTER: usize = 8;
/// Bytes of the tag, behind the packet.
pub const TAG: usize = 16;
/// The longest datagram.
pub const DATAGRAM: usize = COUNTER + MTU + TAG;
/// Reads of one end before the other has its turn.
const BURST: usize = 64;
/// Buffers of the socket in each direction.
const SOCKET_BYTES: usize = 8 << 20;

/// The arguments of a program.
pub struct Arguments {
    pub device: String,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Bound and connected; does not block.
    pub socket: UdpSocket,
    pub cipher: Cipher,
}

impl Arguments {
    /// Reads the command line.
    pub fn parse() -> io::Result<Self> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let usage = || io::Error::other("usage: PROGRAM DEVICE LOCAL PEER [clear]");
        let [device, local, peer, rest @ ..] = &words[..] else { return Err(usage()) };
        let local: SocketAddr = local.parse().map_err(|_| usage())?;
        let peer: SocketAddr = peer.parse().map_err(|_| usage())?;
        let socket = UdpSocket::bind(local)?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
        sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES)?;
        let cipher = Cipher::new(local, peer, !rest.is_empty())?;
        Ok(Self { device: device.clone(), local, peer, socket, cipher })
    }
}

/// Tells the benchmark that device and socket are open.
pub fn ready() {
    println!("ready");
}

/// ChaCha20-Poly1305, or nothing: then counter and tag are there, and mean nothing.
pub struct Cipher {
    keys: Option<Keys>,
    /// The counter of the last datagram.
    last: u64,
}

struct Keys {
    seal: LessSafeKey,
    open: LessSafeKey,
}

impl Cipher {
    fn new(local: SocketAddr, peer: SocketAddr, is_clear: bool) -> io::Result<Self> {
        let key = |number: u8| {
            let key = UnboundKey::new(&CHACHA20_POLY1305, &[number; 32]);
            key.map(LessSafeKey::new).map_err(|_| io::Error::other("no key"))
        };
        let [seal, open] = if local < peer { [1, 2] } else { [2, 1] };
        let keys = Keys { seal: key(seal)?, open: key(open)? };
        Ok(Self { keys: if is_clear { None } else { Some(keys) }, last: 0 })
    }

    /// Encrypts the packet of a datagram, whose counter and tag are still to be written, in place.
    pub fn seal(&mut self, datagram: &mut [u8]) {
        let Some(Keys { seal, .. }) = &self.keys else { return };
        self.last += 1;
        let (counter, rest) = datagram.split_at_mut(COUNTER);
        counter.copy_from_slice(&self.last.to_le_bytes());
        let (packet, tag) = rest.split_at_mut(rest.len() - TAG);
        let sealed = seal.seal_in_place_separate_tag(nonce(counter), Aad::empty(), packet);
        tag.copy_from_slice(sealed.expect("a packet is not too long for the cipher").as_ref());
    }

    /// Decrypts the packet of a datagram in place, if it is the peer's.
    pub fn open<'d>(&self, datagram: &'d mut [u8]) -> Option<&'d mut [u8]> {
        let (counter, rest) = datagram.split_at_mut_checked(COUNTER)?;
        match &self.keys {
            None => rest.len().checked_sub(TAG).map(|len| &mut rest[..len]),
            Some(Keys { open, .. }) => open.open_in_place(nonce(counter), Aad::empty(), rest).ok(),
        }
    }
}

fn nonce(counter: &[u8]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(counter);
    Nonce::assume_unique_for_key(nonce)
}

/// Waits until the device or the socket can be read, or the time is over. Returns how often each may be
/// read before the other has its turn: 64 times, or not at all.
pub fn wait(
    device: &impl AsFd,
    socket: &impl AsFd,
    timeout: Option<Duration>,
) -> io::Result<[usize; 2]> {
    let ends = [device.as_fd(), socket.as_fd()];
    let mut ends = ends.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    poll(&mut ends, timeout.as_ref())?;
    Ok(ends.map(|end| if end.revents().is_empty() { 0 } else { BURST }))
}

/// The result of a call that does not block, or nothing if there was nothing to read. No program listens yet at
/// the peer (`ECONNREFUSED`) and a device that is still down (`EIO`) are nothing too: packets are lost, as in
/// any network.
pub fn some<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_transient(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    ) || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
