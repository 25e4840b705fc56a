//! Packets that were decrypted, and packets refused by reason.

use linecard_transfer::wire::HeaderError;

/// Why a datagram was refused. None of these stops a lane: any host can send anything to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No packet of ours.
    #[error(transparent)]
    Malformed(#[from] HeaderError),
    /// Of another lane.
    #[error("a packet of lane {0}")]
    Lane(u16),
    /// Of another connection.
    #[error("a packet of connection {0:#010x}")]
    Connection(u32),
    /// The key phase is not that of the packet number.
    #[error("a packet whose key phase does not match its number")]
    KeyPhase,
    /// Neither of the current epoch nor of one beside it.
    #[error("a packet of epoch {0}, whose key is not here")]
    Epoch(u64),
    /// It has come before.
    #[error("packet {0} has been received before")]
    Replayed(u64),
    /// Older than the replay window, so that it may be a duplicate.
    #[error("packet {0} is older than the window")]
    TooOld(u64),
    /// Not sealed with the lane's key, or changed.
    #[error("a packet that is forged or damaged")]
    Forged,
    /// Too many were forged: the key must not be used any more.
    #[error("the lane has seen too many forged packets for its key")]
    WornOut,
}

/// How many datagrams of each kind an opener has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Opened.
    pub opened: u64,
    /// [`Refusal::Malformed`].
    pub malformed: u64,
    /// [`Refusal::Lane`].
    pub other_lane: u64,
    /// [`Refusal::Connection`].
    pub other_connection: u64,
    /// [`Refusal::KeyPhase`].
    pub key_phase: u64,
    /// [`Refusal::Epoch`].
    pub epoch: u64,
    /// [`Refusal::Replayed`].
    pub replayed: u64,
    /// [`Refusal::TooOld`].
    pub too_old: u64,
    /// [`Refusal::Forged`].
    pub forged: u64,
    /// [`Refusal::WornOut`].
    pub worn_out: u64,
}

impl Counters {
    pub(super) fn count(&mut self, refusal: Refusal) {
        let counter = match refusal {
            Refusal::Malformed(_) => &mut self.malformed,
            Refusal::Lane(_) => &mut self.other_lane,
            Refusal::Connection(_) => &mut self.other_connection,
            Refusal::KeyPhase => &mut self.key_phase,
            Refusal::Epoch(_) => &mut self.epoch,
            Refusal::Replayed(_) => &mut self.replayed,
            Refusal::TooOld(_) => &mut self.too_old,
            Refusal::Forged => &mut self.forged,
            Refusal::WornOut => &mut self.worn_out,
        };
        *counter += 1;
    }

    /// All that were refused.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.malformed
            + self.other_lane
            + self.other_connection
            + self.key_phase
            + self.epoch
            + self.replayed
            + self.too_old
            + self.forged
            + self.worn_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_counter_and_all_are_in_the_sum() {
        let refusals = [
            Refusal::Malformed(HeaderError::Short(1)),
            Refusal::Lane(1),
            Refusal::Connection(1),
            Refusal::KeyPhase,
            Refusal::Epoch(1),
            Refusal::Replayed(1),
            Refusal::TooOld(1),
            Refusal::Forged,
            Refusal::WornOut,
        ];
        let mut all = Counters::default();
        for (refused, refusal) in (1..).zip(refusals) {
            let mut alone = Counters::default();
            alone.count(refusal);
            assert_eq!(alone.refused(), 1, "{refusal}");
            all.count(refusal);
            assert_eq!(all.refused(), refused, "{refusal}");
        }
        let one_each = Counters {
            opened: 0,
            malformed: 1,
            other_lane: 1,
            other_connection: 1,
            key_phase: 1,
            epoch: 1,
            replayed: 1,
            too_old: 1,
            forged: 1,
            worn_out: 1,
        };
        assert_eq!(all, one_each);
    }
}
