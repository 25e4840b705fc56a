//! Why packets cannot be segmented, as counted reasons.

use super::SegmentError;
use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet was not segmented: the kind of a [`SegmentError`], without its values.
    Refusal {
        /// the segment size is 0
        ZeroSize = "zero-size",
        /// not a whole TCP or UDP datagram
        NotADatagram = "not-a-datagram",
        /// not a whole IP datagram
        NotIp = "not-ip",
        /// more header bytes than are kept for one packet
        HeaderTooLong = "header-too-long",
        /// the headers leave no room in the MTU
        MtuTooSmall = "mtu-too-small",
        /// larger than the MTU, and says "don't fragment"
        DontFragment = "dont-fragment",
        /// a fragment that ends beyond any datagram
        OffsetTooLarge = "offset-too-large",
        /// a segment longer than its 16-bit length field allows
        LengthField = "length-field",
        /// a checksum to be completed first
        UnfinishedChecksum = "unfinished-checksum",
        /// no room for a segment
        OutputTooSmall = "output-too-small",
    }
}

/// Refusals by reason.
pub type Refusals = Tally<Refusal, { Refusal::ALL.len() }>;

impl From<SegmentError> for Refusal {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::ZeroSize => Self::ZeroSize,
            SegmentError::NotADatagram(_) => Self::NotADatagram,
            SegmentError::NotIp(_) => Self::NotIp,
            SegmentError::HeaderTooLong { .. } => Self::HeaderTooLong,
            SegmentError::MtuTooSmall { .. } => Self::MtuTooSmall,
            SegmentError::DontFragment { .. } => Self::DontFragment,
            SegmentError::OffsetTooLarge { .. } => Self::OffsetTooLarge,
            SegmentError::LengthField { .. } => Self::LengthField,
            SegmentError::UnfinishedChecksum => Self::UnfinishedChecksum,
            SegmentError::OutputTooSmall { .. } => Self::OutputTooSmall,
        }
    }
}
