//! Receives all that waits at a socket into one buffer.

use super::{BatchSocket, MAX_RECEIVED, Received};
use linecard::offload::burst::stride;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;

/// Calls of one [`Receiver::receive`].
const MAX_CALLS: usize = 64;

/// Receives datagrams that wait at a socket into one buffer, by several calls: packets that were sent by
/// several calls can be merged again then.
///
/// ```
/// use linecard_tun::udp::{BatchSocket, Receiver};
/// use std::net::UdpSocket;
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let socket = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// let (client, mut receiver) = (UdpSocket::bind("127.0.0.1:0")?, Receiver::new(4));
/// client.send_to(b"line", socket.socket().local_addr()?)?;
///
/// linecard_tun::wait(&[socket.as_fd()], Duration::from_secs(5))?;
/// let burst = receiver.receive(&socket)?;
/// assert_eq!(burst.ranges().next(), Some(0..4));
/// assert_eq!(burst.batches[0].from, client.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A server with many peers takes batch by batch, because each has its own sender, and merges all
/// packets of a burst together:
///
/// ```no_run
/// # use linecard_tun::udp::{BatchSocket, Receiver};
/// # use linecard_tun::{Device, DeviceConfig};
/// # use std::net::{SocketAddr, UdpSocket};
/// # fn decrypt(from: SocketAddr, datagram: &mut [u8]) -> bool { unimplemented!() }
/// # let device = Device::open(&DeviceConfig::tun("tun0"))?;
/// # let socket = BatchSocket::new(UdpSocket::bind("192.0.2.1:5000")?)?;
/// # let (mut receiver, mut merger, mut packets) = (Receiver::new(4), device.merger(), Vec::new());
/// let burst = receiver.receive(&socket)?;
/// for batch in burst.batches {
///     // `decrypt` finds the peer's key by its address, decrypts in place, and refuses packets with
///     // an inner source address that is not the peer's: merging does not know peers.
///     packets.extend(batch.ranges().filter(|place| {
///         decrypt(batch.from, &mut burst.bytes[place.clone()])
///     }));
/// }
/// merger.merge_burst(burst.bytes, packets.drain(..), &mut |packet| {
///     let _full = device.write(&packet);
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    bytes: Vec<u8>,
    batches: Vec<Batch>,
}

/// Datagrams that one call received, all from one sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Where they are, one behind the other.
    pub place: Range<usize>,
    /// Bytes of each, except that the last may be shorter; at least 1.
    pub size: usize,
    /// The sender.
    pub from: SocketAddr,
}

impl Batch {
    /// The places of its datagrams in [`Burst::bytes`]; an empty one is left out.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let start = self.place.start;
        stride(self.place.len(), self.size).map(move |range| start + range.start..start + range.end)
    }
}

/// Datagrams that were waiting at a socket.
#[derive(Debug)]
pub struct Burst<'r> {
    /// All of them, to be decrypted in place if need be.
    pub bytes: &'r mut [u8],
    /// The batches received, one for each call: at least one.
    pub batches: &'r [Batch],
    /// Whether nothing more was waiting.
    pub is_last: bool,
}

impl<'r> Burst<'r> {
    /// The places of all datagrams in [`bytes`](Self::bytes); an empty one is left out.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<'r> {
        self.batches.iter().flat_map(Batch::ranges)
    }
}

impl Receiver {
    /// Allocates memory for `batches` of the longest batches, 64 KiB each; 1 at least. 4 keep what
    /// large packets were divided into together, and stay in most processors' caches.
    #[must_use]
    pub fn new(batches: usize) -> Self {
        Self { bytes: vec![0; batches.max(1) * MAX_RECEIVED], batches: Vec::new() }
    }

    /// Receives what waits, as far as there is room for the longest batch.
    ///
    /// # Errors
    ///
    /// As [`BatchSocket::receive`] of the first call. An error after some have been received is
    /// not reported.
    pub fn receive(&mut self, socket: &BatchSocket) -> io::Result<Burst<'_>> {
        let is_last = self.fill(socket)?;
        Ok(self.burst(is_last))
    }

    /// Receives, and returns whether nothing more was waiting.
    pub(crate) fn fill(&mut self, socket: &BatchSocket) -> io::Result<bool> {
        self.batches.clear();
        let (mut end, mut is_last) = (0, false);
        while self.batches.len() < MAX_CALLS
            && let Some(room) = self.bytes.get_mut(end..).filter(|room| room.len() >= MAX_RECEIVED)
        {
            match socket.receive(room) {
                Ok(Received { bytes, size, from }) => {
                    let place = end..end + bytes.len();
                    end = place.end;
                    self.batches.push(Batch { place, size, from });
                }
                Err(error) if self.batches.is_empty() => return Err(error),
                Err(error) => {
                    is_last = error.kind() == ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        Ok(is_last)
    }

    /// The batches received.
    pub(crate) fn burst(&mut self, is_last: bool) -> Burst<'_> {
        let end = self.batches.last().map_or(0, |batch| batch.place.end);
        Burst { bytes: &mut self.bytes[..end], batches: &self.batches, is_last }
    }
}
