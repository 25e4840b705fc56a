//! Why packets passed, and why held ones were let go: every one has a counted reason.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet went through without being held.
    Pass {
        /// the next data of its flow
        InOrder = "in-order",
        /// the first data of a flow: it says what is expected next
        First = "first",
        /// data that starts before what is expected: late, a retransmission or a duplicate
        Old = "old",
        /// data farther away from what is expected than the window reaches
        Stray = "stray",
        /// data of one flow that is longer than may be held
        TooLarge = "too-large",
        /// SYN, FIN or RST
        Control = "control",
        /// urgent data
        Urgent = "urgent",
        /// no payload: an acknowledgment
        NoPayload = "no-payload",
        /// nobody vouches for its checksums: it steers nothing
        Checksum = "checksum",
        /// UDP
        NotTcp = "not-tcp",
        /// it does not show its ports (a fragment, cut short, malformed, IPv4 options), or is not IP
        NoFlow = "no-flow",
    }
}

reasons! {
    /// Why a held packet was let go.
    Release {
        /// what was missing before it has come
        Filled = "filled",
        /// ten average intervals of the flow have passed, and something is still missing
        Gap = "gap",
        /// the hold budget was used up
        Budget = "budget",
        /// the flow's limit of held packets or bytes was reached
        FlowLimit = "flow-limit",
        /// the limit of packets or bytes held in all was reached: its flow has held longest
        HeldLimit = "held-limit",
        /// a packet of its flow that is not held must not overtake it
        Bypass = "bypass",
        /// data of its flow came from outside the window
        Stray = "stray",
        /// the flow table had no place for another flow
        TableFull = "table-full",
        /// the caller asked for everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Packets let go by reason.
pub type Releases = Tally<Release, { Release::ALL.len() }>;
