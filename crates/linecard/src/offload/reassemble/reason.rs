//! Reasons of reassembly: why fragments leave unchanged.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet passed without being held.
    Pass {
        /// not a fragment of an IP datagram, as far as headers are followed
        NotAFragment = "not-a-fragment",
        /// merged already, or the port could not restore it
        Unmergeable = "unmergeable",
        /// the transport checksum is partial, and cannot be completed in a fragment
        PartialChecksum = "partial-checksum",
        /// an IPv4 header checksum is wrong
        IpChecksum = "ip-checksum",
        /// an outer header has a checksum over its payload
        OuterChecksum = "outer-checksum",
        /// the announced fragment header does not fit
        Malformed = "malformed",
        /// more header bytes than are kept for one packet
        HeaderTooLong = "header-too-long",
        /// more bytes than may be held
        TooLarge = "too-large",
        /// the same bytes at the same place as a fragment that is held
        Duplicate = "duplicate",
        /// its datagram was given up before
        Refused = "refused",
    }
}

reasons! {
    /// Why a datagram was given up; its fragments left unchanged.
    GiveUp {
        /// fragments overlap (RFC 8200, section 4.5; RFC 5722)
        Overlap = "overlap",
        /// fragments disagree about the end of the datagram
        End = "end",
        /// the datagram would be longer than IP allows ("ping of death")
        TooLong = "too-long",
        /// a fragment other than the last has a length that is not a multiple of 8
        Uneven = "uneven",
        /// a fragment without data
        Empty = "empty",
        /// the first fragment does not hold all headers (RFC 7112; RFC 1858), or more than 512 bytes
        HeaderChain = "header-chain",
        /// some fragments are ECN-capable and some are not (RFC 3168, section 5.3)
        Ecn = "ecn",
        /// more fragments than the limit
        TooMany = "too-many",
        /// a fragment is missing, and the timeout has expired
        Timeout = "timeout",
        /// no place for another datagram: this was the oldest
        TableFull = "table-full",
        /// the limit of held fragments or bytes was reached: this was the oldest
        HeldLimit = "held-limit",
        /// the source has used up its share: this was its oldest
        Share = "share",
        /// the caller flushed everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Datagrams given up by reason.
pub type GiveUps = Tally<GiveUp, { GiveUp::ALL.len() }>;
