//! Why fragments leave as they came: every one has a counted reason.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet was passed on without being held.
    Pass {
        /// no fragment of an IP datagram, as far as headers are followed
        NotAFragment = "not-a-fragment",
        /// merged already, or the port could not give it back
        Unmergeable = "unmergeable",
        /// the transport checksum is to be completed, which a fragment's cannot be
        PartialChecksum = "partial-checksum",
        /// an IPv4 header checksum is wrong
        IpChecksum = "ip-checksum",
        /// an outer header has a checksum over all that it carries
        OuterChecksum = "outer-checksum",
        /// no room for the fragment header that is announced
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
    /// Why a datagram was given up: its fragments left as they came.
    GiveUp {
        /// fragments overlap (RFC 8200, section 4.5; RFC 5722)
        Overlap = "overlap",
        /// fragments disagree about the end of the datagram
        End = "end",
        /// the datagram would be longer than IP allows ("ping of death")
        TooLong = "too-long",
        /// a fragment that is not the last has a length that is no multiple of 8
        Uneven = "uneven",
        /// a fragment without data
        Empty = "empty",
        /// the first fragment does not hold all headers (RFC 7112; RFC 1858), or more than 512 bytes
        HeaderChain = "header-chain",
        /// some fragments say that their transport knows ECN and some do not (RFC 3168, section 5.3)
        Ecn = "ecn",
        /// more fragments than the limit
        TooMany = "too-many",
        /// a fragment is missing, and the time is up
        Timeout = "timeout",
        /// no place for another datagram: this was the oldest
        TableFull = "table-full",
        /// the limit of held fragments or bytes was reached: this was the oldest
        HeldLimit = "held-limit",
        /// the source has used up its share: this was its oldest
        Share = "share",
        /// the caller asked for everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Datagrams given up by reason.
pub type GiveUps = Tally<GiveUp, { GiveUp::ALL.len() }>;
