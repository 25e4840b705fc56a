//! Reasons of active acknowledgment: why data is not acknowledged, and the treatment of the
//! receiver's own acknowledgments.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet was not acknowledged on behalf of the receiver.
    Silence {
        /// not plain TCP: tunnels, IPv4 options, extension headers, fragments, another link
        NotPlain = "not-plain",
        /// its checksums are wrong or not verified
        Checksum = "checksum",
        /// SYN, FIN, RST or urgent data: only the receiver acknowledges those
        Control = "control",
        /// no data
        NoData = "no-data",
        /// no acknowledgment of the receiver has been seen yet
        Unknown = "unknown",
        /// its data is acknowledged already, or follows a gap
        NothingNew = "nothing-new",
        /// only one in `every` packets is acknowledged
        NotYet = "not-yet",
        /// marked "congestion experienced", or the receiver echoes such a mark: only the receiver acknowledges those
        Congestion = "congestion",
        /// the receiver's window scale is not known: its SYN or its peer's was not seen
        NoScale = "no-scale",
        /// the receiver's window has no room for another packet
        Window = "window",
        /// the acknowledgments are as far ahead of the receiver as allowed
        Ahead = "ahead",
        /// no buffer was free
        NoBuffer = "no-buffer",
    }
}

reasons! {
    /// Treatment of a packet from the receiver.
    Answer {
        /// it passed: it carries new information
        Passed = "passed",
        /// it passed as a window update, its number raised to the one acknowledged already
        Raised = "raised",
        /// it was dropped: it is redundant, and would look like a duplicate
        Suppressed = "suppressed",
    }
}

/// Packets not acknowledged, by reason.
pub type Silences = Tally<Silence, { Silence::ALL.len() }>;
/// Packets from the receiver, by what was done with them.
pub type Answers = Tally<Answer, { Answer::ALL.len() }>;
