//! Why nothing was acknowledged, and what became of the receiver's own acknowledgments.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet towards the receiver was not answered on its behalf.
    Silence {
        /// not plain TCP: tunnels, IPv4 options, extension headers, fragments, another link
        NotPlain = "not-plain",
        /// nobody vouches for its checksums
        Checksum = "checksum",
        /// SYN, FIN, RST or urgent data: the receiver answers itself
        Control = "control",
        /// no data
        NoData = "no-data",
        /// the receiver has not acknowledged anything yet, as far as was seen
        Unknown = "unknown",
        /// nothing but what is acknowledged, or data behind a gap
        NothingNew = "nothing-new",
        /// one in so many is answered, and this is not that one
        NotYet = "not-yet",
        /// marked "congestion experienced", or the receiver echoes such a mark: it has to say so itself
        Congestion = "congestion",
        /// the receiver's window scale is not known: its SYN or its peer's was not seen
        NoScale = "no-scale",
        /// the receiver's window has no room for another packet
        Window = "window",
        /// the receiver is behind by as much as is allowed
        Ahead = "ahead",
        /// there was no buffer for it
        NoBuffer = "no-buffer",
    }
}

reasons! {
    /// What became of a packet from the receiver.
    Answer {
        /// it passed: it says something that has not been said for it
        Passed = "passed",
        /// it passed, its number raised to what was acknowledged for it: it moves the window
        Raised = "raised",
        /// it was dropped: all it says has been said, and it would look like a duplicate
        Suppressed = "suppressed",
    }
}

/// Unanswered packets by reason.
pub type Silences = Tally<Silence, { Silence::ALL.len() }>;
/// Packets from the receiver by what became of them.
pub type Answers = Tally<Answer, { Answer::ALL.len() }>;
