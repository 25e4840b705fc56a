//! Reasons of resequencing: why packets pass, and why held packets are released.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet passed without being held.
    Pass {
        /// the next data of its flow
        InOrder = "in-order",
        /// the first data of a flow: it sets the expected sequence number
        First = "first",
        /// data that starts before the expected number: late, a retransmission or a duplicate
        Old = "old",
        /// data outside the window around the expected sequence number
        Stray = "stray",
        /// data of one flow that is longer than may be held
        TooLarge = "too-large",
        /// SYN, FIN or RST
        Control = "control",
        /// urgent data
        Urgent = "urgent",
        /// no payload: an acknowledgment
        NoPayload = "no-payload",
        /// its checksums are wrong or not verified: it does not affect the sequence
        Checksum = "checksum",
        /// UDP
        NotTcp = "not-tcp",
        /// its ports are not visible (a fragment, cut short, malformed, IPv4 options), or it is not IP
        NoFlow = "no-flow",
    }
}

reasons! {
    /// Why a held packet was released.
    Release {
        /// the gap before it was filled
        Filled = "filled",
        /// the gap was not filled within ten average intervals of the flow
        Gap = "gap",
        /// the hold budget was used up
        Budget = "budget",
        /// the flow's limit of held packets or bytes was reached
        FlowLimit = "flow-limit",
        /// the limit of packets or bytes held in all was reached: its flow has held longest
        HeldLimit = "held-limit",
        /// a packet of its flow that is not held must not overtake it
        Bypass = "bypass",
        /// data of its flow arrived from outside the window
        Stray = "stray",
        /// the flow table had no place for another flow
        TableFull = "table-full",
        /// the caller flushed everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Released packets by reason.
pub type Releases = Tally<Release, { Release::ALL.len() }>;
