//! Why packets passed, and why held acknowledgments were let go: every one has a counted reason.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet went through without being held.
    Pass {
        /// the first of its flow: what was acknowledged before is not known
        First = "first",
        /// this number was acknowledged before: a duplicate, which tells of loss, or a window update
        Repeated = "repeated",
        /// a newer number was acknowledged before
        Old = "old",
        /// data
        Data = "data",
        /// other flags than ACK alone: SYN, FIN, RST, PSH, URG, or congestion echoes
        Flags = "flags",
        /// options beside timestamps: selective acknowledgments, most often
        Options = "options",
        /// a window of zero
        ZeroWindow = "zero-window",
        /// an IP header carries the mark of congestion
        Congestion = "congestion",
        /// the port cannot do without the packet
        Unmergeable = "unmergeable",
        /// nobody vouches for its checksums
        Checksum = "checksum",
        /// UDP
        NotTcp = "not-tcp",
        /// it does not show its ports (a fragment, cut short, malformed, IPv4 options), or is not IP
        NoFlow = "no-flow",
    }
}

reasons! {
    /// Why a held acknowledgment was let go.
    Release {
        /// it stands for as many as it may
        Run = "run",
        /// the next one does not say all that it says
        Differs = "differs",
        /// a packet of its flow that is not held must not overtake it
        Bypass = "bypass",
        /// the hold budget was used up
        Budget = "budget",
        /// the flow table had no place for another flow
        TableFull = "table-full",
        /// the caller asked for everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Acknowledgments let go by reason.
pub type Releases = Tally<Release, { Release::ALL.len() }>;
