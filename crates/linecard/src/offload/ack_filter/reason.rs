//! Reasons of the ACK filter: why packets pass, and why held acknowledgments are flushed.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet passed without being held.
    Pass {
        /// the first of its flow: earlier acknowledgments are not known
        First = "first",
        /// this number was acknowledged before: a duplicate, which signals loss, or a window update
        Repeated = "repeated",
        /// a newer number was acknowledged before
        Old = "old",
        /// data
        Data = "data",
        /// other flags than ACK alone: SYN, FIN, RST, PSH, URG, or congestion echoes
        Flags = "flags",
        /// options other than timestamps, usually selective acknowledgments
        Options = "options",
        /// a window of zero
        ZeroWindow = "zero-window",
        /// an IP header is marked "congestion experienced"
        Congestion = "congestion",
        /// the port does not allow the packet to be dropped
        Unmergeable = "unmergeable",
        /// its checksums are wrong or not verified
        Checksum = "checksum",
        /// UDP
        NotTcp = "not-tcp",
        /// its ports are not visible (a fragment, cut short, malformed, IPv4 options), or it is not IP
        NoFlow = "no-flow",
    }
}

reasons! {
    /// Why a held acknowledgment was flushed.
    Release {
        /// it has replaced as many as allowed
        Run = "run",
        /// the next one does not supersede it
        Differs = "differs",
        /// a packet of its flow that is not held must not overtake it
        Bypass = "bypass",
        /// the hold budget was used up
        Budget = "budget",
        /// the flow table had no place for another flow
        TableFull = "table-full",
        /// the caller flushed everything
        Stop = "stop",
    }
}

/// Passed packets by reason.
pub type Passes = Tally<Pass, { Pass::ALL.len() }>;
/// Flushed acknowledgments by reason.
pub type Releases = Tally<Release, { Release::ALL.len() }>;
