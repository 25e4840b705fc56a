//! The sending side of a lane.

use super::epoch::Epoch;
use super::epoch_of;
use super::secret::LaneSecret;
use core::fmt;
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, MAX_PACKET_NUMBER, OVERHEAD_BYTES};

/// Seals the packets of a lane and direction.
pub struct Sealer {
    suite: Suite,
    secret: LaneSecret,
    key: Epoch,
    epoch: u64,
    /// The lowest packet number that has not been used.
    free: u64,
}

/// A fault of the caller: none of these comes from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Numbers must grow: one that is used twice gives the key away.
    #[error("packet number {0} has been used, or is beyond 2^62")]
    Reused(u64),
    /// A whole epoch was left out.
    #[error("packet number {0} is more than an epoch beyond the last")]
    Leap(u64),
    /// No room for header and tag.
    #[error("a datagram of {0} bytes has no room for header and tag")]
    Short(usize),
    /// A suite that is not known here.
    #[error("suite {0} is not known here")]
    Suite(Suite),
}

impl Sealer {
    /// The first epoch of this secret. One sealer for each: two would use numbers twice.
    ///
    /// # Errors
    ///
    /// A suite that is not known.
    pub fn new(suite: Suite, secret: LaneSecret) -> Result<Self, SealError> {
        let key = Epoch::of(&secret, suite).ok_or(SealError::Suite(suite))?;
        Ok(Self { suite, secret, key, epoch: 0, free: 0 })
    }

    /// Seals `datagram`, which is room for the header, the body, and room for the tag: writes the header
    /// with the key phase of its packet number, encrypts the body where it lies, writes the tag.
    ///
    /// # Errors
    ///
    /// A packet number that does not follow those before, or no room.
    pub fn seal(&mut self, header: &Header, datagram: &mut [u8]) -> Result<(), SealError> {
        let number = header.packet_number;
        if number < self.free || number >= MAX_PACKET_NUMBER {
            return Err(SealError::Reused(number));
        }
        if datagram.len() < OVERHEAD_BYTES {
            return Err(SealError::Short(datagram.len()));
        }
        if epoch_of(number) != self.epoch {
            self.go_on_to(number)?;
        }
        self.free = number + 1;
        let header = Header { key_phase: self.epoch & 1 == 1, ..*header };
        datagram[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        match self.key.seal(number, datagram) {
            true => Ok(()),
            false => Err(SealError::Short(datagram.len())),
        }
    }

    #[cold]
    fn go_on_to(&mut self, number: u64) -> Result<(), SealError> {
        if epoch_of(number) != self.epoch + 1 {
            return Err(SealError::Leap(number));
        }
        let secret = self.secret.next();
        self.key = Epoch::of(&secret, self.suite).ok_or(SealError::Suite(self.suite))?;
        self.secret = secret;
        self.epoch += 1;
        Ok(())
    }

    /// Takes numbers from here on again: tests cannot send all packets of an epoch.
    #[cfg(test)]
    pub(super) fn rewind(&mut self, number: u64) {
        self.free = number;
    }

    /// How packets are sealed.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("suite", &self.suite)
            .field("epoch", &self.epoch)
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}
