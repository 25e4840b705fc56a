//! The receiving side of a lane.

use super::counters::{Counters, Refusal};
use super::epoch::Epoch;
use super::epoch_of;
use super::sealing::SealError;
use super::secret::LaneSecret;
use super::window::{Freshness, Window};
use core::fmt;
use core::ops::Range;
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, TAG_BYTES};

/// Forged packets that a key may see: ChaCha20-Poly1305 loses its strength there, AES-GCM far later
/// (RFC 9001, section 6.6). All keys of a lane are counted together.
const MAX_FORGED: u64 = 1 << 36;

/// Opens the packets of a lane and direction.
///
/// Packets may come from any host. A refused packet changes nothing but a counter.
pub struct Opener {
    suite: Suite,
    lane: u16,
    connection: u32,
    window: Window,
    /// Of the epochs `epoch - 1`, `epoch` and `epoch + 1`, each at its number modulo 3. Before the
    /// first there is none.
    keys: [Option<Epoch>; 3],
    /// The highest of which a packet has come.
    epoch: u64,
    /// Of the epoch `epoch + 1`.
    secret: LaneSecret,
    counters: Counters,
    max_forged: u64,
}

impl Opener {
    /// The first epoch of this secret, for the packets of a lane of a connection.
    ///
    /// # Errors
    ///
    /// A suite that is not known.
    pub fn new(
        suite: Suite,
        secret: &LaneSecret,
        lane: u16,
        connection: u32,
    ) -> Result<Self, SealError> {
        let next = secret.next();
        let first = Epoch::of(secret, suite).ok_or(SealError::Suite(suite))?;
        Ok(Self {
            suite,
            lane,
            connection,
            window: Window::new(),
            keys: [Some(first), Epoch::of(&next, suite), None],
            epoch: 0,
            secret: next,
            counters: Counters::default(),
            max_forged: MAX_FORGED,
        })
    }

    /// Opens `datagram` where it lies: its header, and where its body is.
    ///
    /// # Errors
    ///
    /// Anything but a packet of this lane that has not come before. `datagram` may have changed then.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<(Header, Range<usize>), Refusal> {
        let opened = self.try_open(datagram);
        match opened {
            Ok(_) => self.counters.opened += 1,
            Err(refusal) => self.counters.count(refusal),
        }
        opened
    }

    fn try_open(&mut self, datagram: &mut [u8]) -> Result<(Header, Range<usize>), Refusal> {
        let (header, sealed) = Header::split(datagram)?;
        let body = HEADER_BYTES..HEADER_BYTES + sealed.len() - TAG_BYTES;
        self.admit(&header)?;
        let (number, epoch) = (header.packet_number, epoch_of(header.packet_number));
        let key = self.keys[(epoch % 3) as usize].as_ref();
        if !key.is_some_and(|key| key.open(number, datagram)) {
            return Err(Refusal::Forged);
        }
        self.window.mark(number);
        if epoch > self.epoch {
            self.go_on();
        }
        Ok((header, body))
    }

    /// The checks of a header before any key is used.
    fn admit(&self, header: &Header) -> Result<(), Refusal> {
        let number = header.packet_number;
        let epoch = epoch_of(number);
        if header.connection != self.connection {
            return Err(Refusal::Connection(header.connection));
        }
        if header.lane != self.lane {
            return Err(Refusal::Lane(header.lane));
        }
        if header.key_phase != (epoch & 1 == 1) {
            return Err(Refusal::KeyPhase);
        }
        if epoch.abs_diff(self.epoch) > 1 {
            return Err(Refusal::Epoch(epoch));
        }
        match self.window.place(number) {
            Freshness::New => {}
            Freshness::Seen => return Err(Refusal::Replayed(number)),
            Freshness::TooOld => return Err(Refusal::TooOld(number)),
        }
        if self.counters.forged >= self.max_forged {
            return Err(Refusal::WornOut);
        }
        Ok(())
    }

    /// The next epoch has begun: its successor's key takes the place of the one before the last.
    #[cold]
    fn go_on(&mut self) {
        self.epoch += 1;
        self.secret = self.secret.next();
        self.keys[((self.epoch + 1) % 3) as usize] = Epoch::of(&self.secret, self.suite);
    }

    /// Counters of decrypted and refused packets.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// An opener whose key wears out earlier.
    #[cfg(test)]
    pub(super) fn with_max_forged(self, max_forged: u64) -> Self {
        Self { max_forged, ..self }
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("suite", &self.suite)
            .field("lane", &self.lane)
            .field("connection", &self.connection)
            .field("epoch", &self.epoch)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
