//! The control channel: TCP with TLS 1.3, keys pinned or shared, and a key exchange that also withstands quantum
//! computers (X25519MLKEM768).
//!
//! Both ends are authenticated before the first message: each shows a key that the other knows, or accepts by a code
//! ([`Access::Keys`]), or proves that it has a secret that both have ([`Access::Shared`]). The keys of
//! lanes are exported from this handshake, so only the participants of the handshake can use a lane.
//!
//! ```text
//! client  TCP → TLS 1.3, ALPN says which access →
//!         ← with a pairing code, both: "LINECARD" and 33 bytes of SPAKE2 →
//!         ← both: "LINECARD" and 32 bytes, the proof of a shared key or zeros; of a code, the client's first →
//!         messages of linecard_transfer::control, both ways
//!         from version 7 on, in compressed blocks behind Welcome ([`Control::pack`])
//! ```
//!
//! The opening of 40 bytes also tells the client that it is accepted, as in TLS 1.3 a client has
//! finished before the server has looked at its key. Within one machine, [`Access::Open`] leaves TLS
//! out; everything else stays.

mod access;
mod dial;
mod error;
mod handshake;
mod hybrid;
mod packing;
mod tls;
mod transport;

pub use access::{Access, Policy, Trust};
pub use error::{ControlError, Protocol};
pub use tls::provider;

use crate::keys::Fingerprint;
use crate::seal::{Direction, LaneSecret, Opener, Sealer};
use crate::stream::Stream;
use linecard_transfer::control::{Message, Reader, Suite};
use linecard_transfer::wire::MAX_LANES;
use packing::{MAX_BLOCK_BYTES, Packing};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use transport::{Received, Transport};

/// Bytes that wait to be sent, at most: some of the longest messages.
pub const MAX_WAITING_BYTES: usize = 4 << 20;
/// Bytes that are read at once: a record of TLS.
const READ_BYTES: usize = 16 << 10;
/// The first version with messages in compressed blocks.
const PACKED: u16 = 7;
// Reader has room for as many.
const _: () = assert!(READ_BYTES <= 64 << 10 && MAX_BLOCK_BYTES <= 64 << 10);

/// A control channel whose other end is authenticated. It never blocks once it is open.
///
/// Wait until [`AsFd::as_fd`] is readable, or writable while [`Control::wants_write`], and then call
/// [`Control::receive`] until it gives none, and [`Control::flush`].
#[derive(Debug)]
pub struct Control {
    stream: Box<dyn Stream>,
    /// Of this end and of the other.
    addresses: (SocketAddr, SocketAddr),
    transport: Transport,
    reader: Reader,
    /// Written messages that neither the transport nor a block has taken.
    waiting: Vec<u8>,
    /// None before both ends have agreed on it.
    packing: Option<Packing>,
    peer: Option<Fingerprint>,
    direction: Direction,
    /// Bit i: the keys of lane i have been given out.
    given: u64,
}

// A bit for each lane.
const _: () = assert!(MAX_LANES <= 64);

impl Control {
    /// Over a connection in memory, behind the handshake, without TLS.
    #[cfg(test)]
    pub(crate) fn in_memory(
        stream: Box<dyn Stream>,
        addresses: (SocketAddr, SocketAddr),
        direction: Direction,
    ) -> Self {
        Self {
            stream,
            addresses,
            transport: Transport::Plain(Vec::new()),
            reader: Reader::new(),
            waiting: Vec::new(),
            packing: None,
            peer: None,
            direction,
            given: 0,
        }
    }

    /// The key of the other end, if ends are known by keys.
    #[must_use]
    pub const fn peer(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// Addresses of this end and of the other.
    #[must_use]
    pub const fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    /// The suites that may be agreed on over this channel, the one that is fastest here first. Over TLS, all of them
    /// authenticate packets; without TLS, none does.
    #[must_use]
    pub fn suites(&self) -> &'static [Suite] {
        match self.transport {
            Transport::Tls(_) if aes_is_fast() => &[Suite::Aes128Gcm, Suite::ChaCha20Poly1305],
            Transport::Tls(_) => &[Suite::ChaCha20Poly1305, Suite::Aes128Gcm],
            Transport::Plain(_) => &[Suite::None],
        }
    }

    /// Queues a message. Call [`Control::flush`] to send it.
    ///
    /// # Errors
    ///
    /// [`ControlError::Full`]: the other end does not read, or not yet; the message is not queued.
    /// [`ControlError::Message`]: a message beyond its limits.
    pub fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let before = self.waiting.len();
        message.write(&mut self.waiting)?;
        if self.waiting.len() > MAX_WAITING_BYTES {
            self.waiting.truncate(before);
            return Err(ControlError::Full);
        }
        if let Some(packing) = &mut self.packing {
            packing.note(self.waiting.len() - before, message.has_hash());
        }
        Ok(())
    }

    /// Both ends have agreed on this version: from 7 on, messages that have not been read come in compressed
    /// blocks, and those that have not been queued are sent so. Both ends call it at the same place, the receiver behind
    /// its [`Message::Welcome`].
    pub fn pack(&mut self, version: u16) {
        if version >= PACKED && self.packing.is_none() {
            let waiting = std::mem::take(&mut self.waiting);
            self.packing = Some(Packing::new(waiting, self.reader.take_rest()));
        }
    }

    /// Sends what the socket takes; whether that is everything.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub fn flush(&mut self) -> Result<bool, ControlError> {
        loop {
            let queued = match &mut self.packing {
                Some(packing) => {
                    if packing.out.is_empty() {
                        packing.pack(&mut self.waiting);
                    }
                    &mut packing.out
                }
                None => &mut self.waiting,
            };
            let taken = self.transport.queue(queued)?;
            queued.drain(..taken);
            let is_empty = queued.is_empty();
            if !self.transport.flush(&mut *self.stream)? {
                return Ok(false);
            }
            if is_empty && self.waiting.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Whether something waits until the socket can be written.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        let has_block = self.packing.as_ref().is_some_and(|packing| !packing.out.is_empty());
        has_block || !self.waiting.is_empty() || self.transport.wants_write()
    }

    /// The next message, or none until more comes.
    ///
    /// # Errors
    ///
    /// [`ControlError::Closed`]: the other end has closed behind its last message;
    /// [`ControlError::ClosedEarly`]: it, or an attacker in between, has cut the connection. Anything
    /// that is not a message is for good.
    pub fn receive(&mut self) -> Result<Option<Message>, ControlError> {
        let mut bytes = [0; READ_BYTES];
        loop {
            if let Some(message) = self.reader.read()? {
                return Ok(Some(message));
            }
            if let Some(packing) = &mut self.packing
                && let Some(block) = packing.unpack()?
            {
                let taken = self.reader.push(block);
                debug_assert_eq!(taken, block.len(), "there is room when there is no message");
                continue;
            }
            match (self.transport.read(&mut *self.stream, &mut bytes)?, &mut self.packing) {
                (Received::Bytes(count), Some(packing)) => packing.push(&bytes[..count]),
                (Received::Bytes(count), None) => {
                    let taken = self.reader.push(&bytes[..count]);
                    debug_assert_eq!(taken, count, "there is room when there is no message");
                }
                (Received::Nothing, _) => return Ok(None),
                (Received::Closed, packing) => {
                    let is_amid = packing.as_ref().is_some_and(Packing::is_amid);
                    return Err(match is_amid || self.reader.is_amid() {
                        true => ControlError::ClosedEarly,
                        false => ControlError::Closed,
                    });
                }
            }
        }
    }

    /// Sends what waits, and waits for the next message; none if none has come for `patience`.
    ///
    /// # Errors
    ///
    /// As [`Control::flush`] and [`Control::receive`].
    pub(crate) fn wait_for_message(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Message>, ControlError> {
        let deadline = Instant::now() + patience;
        loop {
            self.flush()?;
            if let Some(message) = self.receive()? {
                return Ok(Some(message));
            }
            if !handshake::wait(self.stream.as_fd(), self.wants_write(), deadline)? {
                return Ok(None);
            }
        }
    }

    /// Sealer and opener of this end for a lane, for as long as the connection lasts.
    ///
    /// # Errors
    ///
    /// A suite that is not one of [`Control::suites`]; a lane that cannot be, or whose keys have been
    /// given out: two sealers would use the same numbers.
    pub fn lane(
        &mut self,
        suite: Suite,
        connection: u32,
        lane: u16,
    ) -> Result<(Sealer, Opener), ControlError> {
        if !self.suites().contains(&suite) {
            return Err(ControlError::Suite(suite));
        }
        if usize::from(lane) >= MAX_LANES || self.given >> lane & 1 == 1 {
            return Err(ControlError::Lane(lane));
        }
        let own = self.lane_secret(lane, self.direction)?;
        let other = self.lane_secret(lane, self.direction.reverse())?;
        let refused = |_| ControlError::Suite(suite);
        let sealer = Sealer::new(suite, own).map_err(refused)?;
        let opener = Opener::new(suite, &other, lane, connection).map_err(refused)?;
        self.given |= 1 << lane;
        Ok((sealer, opener))
    }

    /// Says that nothing more will be sent, as far as that can be said without waiting: flush before.
    pub fn close(&mut self) {
        self.transport.close();
        // Whether it arrives or not, the connection ends.
        let _sent = self.transport.flush(&mut *self.stream);
    }

    fn lane_secret(&self, lane: u16, direction: Direction) -> Result<LaneSecret, ControlError> {
        let [high, low] = lane.to_be_bytes();
        // The epoch: later ones follow from the first.
        let context = [high, low, direction.code(), 0, 0, 0, 0];
        let secret = self.transport.export(b"EXPORTER-linecard-lane", &context)?;
        Ok(LaneSecret::new(secret))
    }
}

/// An address as every socket takes it: a socket for both families has a form of its own for IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whether this processor has instructions for AES-GCM, without which `ChaCha20` is faster.
fn aes_is_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    let fast = std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let fast = std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let fast = false;
    fast
}
