//! Reasons of the coalescer: why packets do not merge, and why held packets are flushed.

use crate::offload::reason::{Tally, reasons};

reasons! {
    /// Why a packet was not merged into the held data of its flow.
    Refusal {
        /// not IP
        NotIp = "not-ip",
        /// IP, but neither TCP nor UDP as far as headers are followed
        OtherTransport = "other-transport",
        /// a fragment of an IP datagram
        Fragment = "fragment",
        /// the IP length exceeds the bytes present (a capture with a snap length?)
        CutShort = "cut-short",
        /// a header contradicts itself or the bytes present
        Malformed = "malformed",
        /// more header bytes than are kept for one packet
        HeaderTooLong = "header-too-long",
        /// more tunnels around it than are allowed
        TunnelDepth = "tunnel-depth",
        /// more bytes than may be held in all
        TooLarge = "too-large",
        /// the port could not restore the packet if it were merged
        Unmergeable = "unmergeable",
        /// IPv4 options
        IpOptions = "ip-options",
        /// the IPv4 header checksum is wrong
        IpChecksum = "ip-checksum",
        /// the TCP or UDP checksum is wrong
        Checksum = "checksum",
        /// the checksum field holds the pseudo header's sum only: taken before a sender's hardware
        PartialChecksum = "partial-checksum",
        /// the checksum is right, but not in the form that a sender computes (0xFFFF for 0x0000)
        UnusualChecksum = "unusual-checksum",
        /// no UDP checksum, which IPv6 does not allow
        NoChecksum = "no-checksum",
        /// merged, it could not be described to the device that merged packets go to
        Undescribable = "undescribable",
        /// the port behind takes no large packets of its kind, or none at all
        NotTaken = "not-taken",
        /// bytes behind the IP datagram that are not a short frame's zero padding
        Trailer = "trailer",
        /// no payload: an acknowledgment or a control packet
        NoPayload = "no-payload",
        /// data of a flow whose SYN was not seen, when flows open on SYN
        NoFlow = "no-flow",
        /// another TTL or hop limit
        TimeToLive = "ttl",
        /// another traffic class (DSCP or ECN)
        TrafficClass = "traffic-class",
        /// another setting of the IPv4 flags
        DontFragment = "dont-fragment",
        /// the IPv4 identification is neither constant nor increased by one
        IpId = "ip-id",
        /// another acknowledgment number
        Acknowledgment = "acknowledgment",
        /// another window
        Window = "window",
        /// other TCP flags (PSH and FIN aside)
        Flags = "flags",
        /// other TCP options, usually the timestamp's next tick
        Options = "options",
        /// another urgent pointer
        Urgent = "urgent",
        /// bytes of a link, extension or outer header differ
        Envelope = "envelope",
        /// more payload than the first packet: sizes must be equal, only the last may be smaller
        Longer = "longer",
        /// sequence numbers leave a gap: a packet is missing or late
        SequenceGap = "sequence-gap",
        /// bytes received before: a retransmission, a duplicate or a late packet
        SequenceOld = "sequence-old",
        /// the merged packet would exceed the size limit
        SizeLimit = "size-limit",
        /// the merged packet would exceed the limit of segments
        SegmentLimit = "segment-limit",
        /// short frames of which some are padded and some are not
        Padding = "padding",
        /// one with and one without (or with only part of) a checksum
        ChecksumKind = "checksum-kind",
        /// another mark set by the port
        Mark = "mark",
    }
}

reasons! {
    /// Why held packets were flushed.
    Flush {
        /// the next packet would not fit into the size or segment limit
        Size = "size",
        /// a packet with PSH, FIN, URG, RST or SYN ends it
        EndFlag = "end-flag",
        /// a packet shorter than the first ends it
        ShortTail = "short-tail",
        /// the next packet of the flow could not be merged with it
        Displaced = "displaced",
        /// a packet of the flow that cannot be merged at all must not overtake it
        Bypass = "bypass",
        /// the flow paused for ten times its average interval
        Idle = "idle",
        /// the hold budget was used up
        Budget = "budget",
        /// the flow table had no place for another flow
        TableFull = "table-full",
        /// the limit of held packets or bytes was reached
        HeldLimit = "held-limit",
        /// the batch ended, and the policy is not to hold beyond a batch
        BatchEnd = "batch-end",
        /// the caller flushed everything
        Stop = "stop",
    }
}

/// Refusals by reason.
pub type Refusals = Tally<Refusal, { Refusal::ALL.len() }>;
/// Flushes by reason.
pub type Flushes = Tally<Flush, { Flush::ALL.len() }>;
