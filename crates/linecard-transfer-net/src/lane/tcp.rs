//! A lane over one TCP connection: frames of a length and a datagram.
//!
//! ```text
//! +-------+-------------------+-------+------
//! | bytes | datagram          | bytes | …       bytes: 16 bits, network order, 1 to 65,507
//! +-------+-------------------+-------+------
//! ```
//!
//! The kernel keeps little that is unsent (`TCP_NOTSENT_LOWAT`): data that waits there cannot take another lane.

use super::buffer::{MAX_FRAMES, ReceiveBuffer};
use super::error::or_none;
use super::open::{At, OpenError};
use super::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, MAX_SEND};
use crate::stream::Stream;
use rustix::net::sockopt;
use socket2::{Socket, Type};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes that the kernel may keep unsent: 10 ms at 200 Mbit/s.
const NOT_SENT_BYTES: u32 = 256 << 10;
/// Bytes that the sending end keeps until they have arrived, and the receiving end until they are read, at most: 1 Gbit/s
/// over 500 ms.
const BUFFER_BYTES: usize = 64 << 20;
/// Bytes of one reading; with the part of a frame from before they fit into the area.
const READ_BYTES: usize = 256 << 10;
/// Without an answer for so long the connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 2;

/// One connection, at either end.
#[derive(Debug)]
pub struct Tcp {
    stream: Box<dyn Stream>,
    name: String,
    /// The part of a frame that the kernel has not accepted yet.
    begun: Vec<u8>,
    splitter: Splitter,
}

impl Tcp {
    /// Connects from `at` to `peer` without waiting: until it is connected, it accepts no data.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: an interface or address that this host does not have, no route.
    pub fn connect(at: &At, peer: SocketAddr) -> Result<Self, OpenError> {
        let socket = at.socket(Type::STREAM, Some(peer))?;
        enlarge(&socket);
        match socket.connect(&peer.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(at.failed(error)),
            _ => Self::between(socket, Some(peer)).map_err(|source| at.failed(source)),
        }
    }

    /// A lane over a connection that exists.
    ///
    /// # Errors
    ///
    /// The error of the operating system about its options.
    pub(super) fn of(socket: Socket) -> io::Result<Self> {
        Self::between(socket, None)
    }

    /// A socket that is not connected yet does not tell its peer.
    fn between(socket: Socket, peer: Option<SocketAddr>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(NOT_SENT_BYTES)?;
        socket.set_tcp_user_timeout(Some(PATIENCE))?;
        let end = |address: io::Result<socket2::SockAddr>| {
            address.ok().and_then(|address| address.as_socket())
        };
        let name = match (end(socket.local_addr()), peer.or(end(socket.peer_addr()))) {
            (Some(own), Some(peer)) => format!("tcp {own} to {peer}"),
            _ => "tcp".into(),
        };
        Ok(Self::over(Box::new(Connection(socket)), name))
    }

    /// A lane over a connection that never waits. `name` describes it.
    pub(crate) fn over(stream: Box<dyn Stream>, name: String) -> Self {
        Self { stream, name, begun: Vec::new(), splitter: Splitter::default() }
    }

    /// Writes what was begun and as much of `all` as there is room for; how many of them were begun.
    fn write(&mut self, all: &Datagrams<'_>) -> Result<usize, LaneError> {
        let mut lengths = [[0; LENGTH_BYTES]; MAX_SEND];
        for (length, datagram) in lengths.iter_mut().zip(all.iter()) {
            *length = (datagram.len() as u16).to_be_bytes();
        }
        let mut slices = [IoSlice::new(&[]); 1 + 2 * MAX_SEND];
        slices[0] = IoSlice::new(&self.begun);
        let count = all.count().min(MAX_SEND);
        for (at, (length, datagram)) in lengths.iter().zip(all.iter()).enumerate() {
            slices[1 + 2 * at] = IoSlice::new(length);
            slices[2 + 2 * at] = IoSlice::new(datagram);
        }
        let slices = &slices[..1 + 2 * count];
        match self.stream.write_vectored(slices) {
            Ok(written) => Ok(self.count_taken(written, all)),
            Err(error) => or_none(error),
        }
    }

    /// How many datagrams `written` bytes have begun, and keeps the rest of the last of them.
    fn count_taken(&mut self, mut written: usize, all: &Datagrams<'_>) -> usize {
        if written < self.begun.len() {
            self.begun.drain(..written);
            return 0;
        }
        written -= self.begun.len();
        self.begun.clear();
        let mut taken = 0;
        for datagram in all.iter() {
            let frame = LENGTH_BYTES + datagram.len();
            if written == 0 {
                break;
            }
            taken += 1;
            if written < frame {
                let length = (datagram.len() as u16).to_be_bytes();
                self.begun.extend(length.iter().chain(datagram).skip(written));
                break;
            }
            written -= frame;
        }
        taken
    }
}

impl Lane for Tcp {
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        let all = datagrams.bounded(MAX_DATAGRAM_BYTES)?;
        if all.bytes.is_empty() { Ok(0) } else { self.write(&all) }
    }

    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        self.splitter.receive(&mut self.stream, received)
    }

    fn is_drained(&self) -> bool {
        self.splitter.is_drained
    }

    fn flush(&mut self) -> Result<(), LaneError> {
        if !self.begun.is_empty() {
            self.write(&Datagrams { bytes: &[], stride: 1 })?;
        }
        Ok(())
    }

    fn is_flushed(&self) -> bool {
        self.begun.is_empty()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }
}

/// Lets the kernel keep the bandwidth-delay product of long paths, if this process may: by itself it stops at the limits of
/// `net.ipv4.tcp_wmem` and `tcp_rmem`. Before the connection, which agrees on the scale of its windows.
pub(super) fn enlarge(socket: &Socket) {
    let _refused = sockopt::set_socket_send_buffer_size_force(socket, BUFFER_BYTES);
    let _refused = sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES);
}

/// A socket of TCP; one whose peer is gone raises no signal.
#[derive(Debug)]
struct Connection(Socket);

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Stream for Connection {}

/// Finds frames in received bytes, in place. Keeps the beginning of the next one.
#[derive(Debug, Default)]
struct Splitter {
    rest: Vec<u8>,
    /// The last reading gave less than there was room for, and no whole frame is left.
    is_drained: bool,
}

impl Splitter {
    fn receive(
        &mut self,
        from: &mut impl Read,
        to: &mut ReceiveBuffer,
    ) -> Result<usize, LaneError> {
        let area = to.begin();
        let mut filled = self.rest.len();
        area[..filled].copy_from_slice(&self.rest);
        self.is_drained = false;
        if frame(&self.rest)?.is_none() {
            match from.read(&mut area[filled..filled + READ_BYTES]) {
                Ok(0) => return Err(LaneError::Closed),
                Ok(read) => {
                    filled += read;
                    self.is_drained = read < READ_BYTES;
                }
                Err(error) => return or_none(error),
            }
        }
        let (mut at, mut frames) = (0, 0);
        while frames < MAX_FRAMES
            && let Some(bytes) = frame(&to.area()[at..filled])?
        {
            frames += to.add(at + LENGTH_BYTES, (bytes, bytes), None);
            at += LENGTH_BYTES + bytes;
        }
        self.is_drained &= frames < MAX_FRAMES;
        self.rest.clear();
        self.rest.extend_from_slice(&to.area()[at..filled]);
        Ok(frames)
    }
}

/// Bytes of the datagram whose frame begins here, if all of it is here. The length is judged as soon as
/// it is known, and nothing is ever made as long as it says.
fn frame(bytes: &[u8]) -> Result<Option<usize>, LaneError> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 || length > MAX_DATAGRAM_BYTES {
        return Err(LaneError::Frame(length));
    }
    Ok((bytes.len() >= LENGTH_BYTES + length).then_some(length))
}

#[cfg(test)]
mod tests {
    use super::super::{Listener, Spec};
    use super::*;
    use linecard::rng::Rng;
    use linecard_transfer::control::LaneKind;
    use linecard_transfer::lane::LaneSettings;

    /// Both ends, before they are connected.
    #[test]
    fn buffers_hold_the_product_of_a_long_path() {
        let own = || Spec::new(LaneKind::Tcp, std::net::Ipv4Addr::LOCALHOST.into());
        let Listener::Tcp(listener) = own().listen().unwrap() else { panic!("a lane of TCP") };
        let peer = listener.local_addr().unwrap().as_socket().unwrap();
        let connecting = Tcp::connect(&own().at(), peer).unwrap();
        // Statistics had it as connecting, long after its end.
        assert!(connecting.describe().ends_with(&format!(" to {peer}")));
        if sockopt::set_socket_send_buffer_size_force(&listener, BUFFER_BYTES).is_err() {
            linecard_testkit::skip("buffers of TCP lanes", "it takes root or net_admin");
            return;
        }
        assert!(sockopt::socket_send_buffer_size(&connecting.stream).unwrap() >= BUFFER_BYTES);
        assert!(listener.recv_buffer_size().unwrap() >= BUFFER_BYTES);
        assert!(LaneSettings::default().stream_window >= BUFFER_BYTES as u64);
    }

    fn framed(datagrams: &[Vec<u8>]) -> Vec<u8> {
        let frame =
            |datagram: &Vec<u8>| [&(datagram.len() as u16).to_be_bytes()[..], datagram].concat();
        datagrams.iter().flat_map(frame).collect()
    }

    /// Frames that a splitter finds in a stream that arrives in these pieces.
    fn found(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut splitter, mut received) = (Splitter::default(), ReceiveBuffer::new());
        let mut all = Vec::new();
        for mut piece in pieces.iter().copied().filter(|piece| !piece.is_empty()) {
            // A piece may hold more frames than one call gives.
            while !piece.is_empty() || matches!(frame(&splitter.rest), Ok(Some(_))) {
                splitter.receive(&mut piece, &mut received).unwrap();
                all.extend(received.datagrams().map(|datagram| datagram.bytes.to_vec()));
            }
        }
        all
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let datagrams: Vec<Vec<u8>> = [1, 2, 255, 256, 300].map(|len| vec![len as u8; len]).into();
        let stream = framed(&datagrams);
        for first in 0..=stream.len() {
            for second in [first, (first + 1).min(stream.len()), (first + 301).min(stream.len())] {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(found(&pieces), datagrams, "cut at {first} and {second}");
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(found(&bytes), datagrams);
    }

    #[test]
    fn the_longest_and_the_most_frames_pass() {
        let mut rng = Rng::new(1);
        let mut datagrams = vec![vec![1; MAX_DATAGRAM_BYTES]; 9];
        datagrams.extend((0..5_000).map(|_| vec![2; 1 + rng.below(20) as usize]));
        datagrams.push(vec![3; MAX_DATAGRAM_BYTES]);
        let stream = framed(&datagrams);
        assert_eq!(found(&[&stream]), datagrams);
        let pieces: Vec<&[u8]> = stream.chunks(65_508).collect();
        assert_eq!(found(&pieces), datagrams);
    }

    #[test]
    fn a_short_reading_without_a_whole_frame_behind_it_is_the_last_for_now() {
        let stream = framed(&vec![vec![7]; MAX_FRAMES + 1]);
        let (mut splitter, mut received) = (Splitter::default(), ReceiveBuffer::new());
        let mut next = |piece: &[u8]| {
            let frames = splitter.receive(&mut { piece }, &mut received).unwrap();
            (frames, splitter.is_drained)
        };
        assert_eq!(next(&stream), (MAX_FRAMES, false));
        assert_eq!(next(&[]), (1, false), "nothing has been read");
        assert_eq!(next(&stream[..3]), (1, true));
        assert_eq!(next(&stream[..5]), (1, true));
        assert_eq!(next(&stream[5..6]), (1, true));
        let long = framed(&vec![vec![9; 32_768]; 8]);
        assert_eq!(next(&long), (7, false), "as much was read as may be");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_their_bytes_come() {
        for length in [0, MAX_DATAGRAM_BYTES as u16 + 1, u16::MAX] {
            let (mut splitter, mut received) = (Splitter::default(), ReceiveBuffer::new());
            let stream = length.to_be_bytes();
            assert_eq!(splitter.receive(&mut &stream[..1], &mut received).unwrap(), 0);
            let refused = splitter.receive(&mut &stream[1..], &mut received);
            assert!(
                matches!(refused, Err(LaneError::Frame(bytes)) if bytes == usize::from(length))
            );
            assert!(splitter.rest.capacity() < 64);
        }
    }

    #[test]
    fn the_end_of_the_stream_is_the_peer_gone() {
        let gone = Splitter::default().receive(&mut io::empty(), &mut ReceiveBuffer::new());
        assert!(matches!(gone, Err(LaneError::Closed)));
    }
}
