//! Why packets did not merge and why held ones were let go: every one has a counted reason.

/// An enum whose values can be listed, counted and explained.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $text:literal])+ $value:ident = $key:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $text])+ $value,)+ }

        impl $name {
            /// All values, in the order of [`Tally`] indices.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// A short stable name, as in JSON reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $key),+ }
            }

            /// What it means, in a line.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$value => concat!($($text),+).trim_ascii()),+ }
            }
        }
    };
}

reasons! {
    /// Why a packet was not merged into the held data of its flow.
    Refusal {
        /// not IP
        NotIp = "not-ip",
        /// IP, but neither TCP nor UDP as far as headers are followed
        OtherTransport = "other-transport",
        /// a fragment of an IP datagram
        Fragment = "fragment",
        /// the IP length goes beyond the bytes present (a capture with a snap length?)
        CutShort = "cut-short",
        /// a header contradicts itself or the bytes present
        Malformed = "malformed",
        /// more header bytes than are kept for one packet
        HeaderTooLong = "header-too-long",
        /// more tunnels around it than are allowed
        TunnelDepth = "tunnel-depth",
        /// more bytes than may be held in all
        TooLarge = "too-large",
        /// the port cannot give the packet back if it is merged
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
        /// the IPv4 identification neither stands still nor counts up by one
        IpId = "ip-id",
        /// another acknowledgment number
        Acknowledgment = "acknowledgment",
        /// another window
        Window = "window",
        /// other TCP flags (PSH and FIN aside)
        Flags = "flags",
        /// other TCP options, most often the timestamp's next tick
        Options = "options",
        /// another urgent pointer
        Urgent = "urgent",
        /// bytes of a link, extension or outer header differ
        Envelope = "envelope",
        /// more payload than the first packet: sizes must be equal, only the last may be smaller
        Longer = "longer",
        /// sequence numbers leave a gap: a packet is missing or late
        SequenceGap = "sequence-gap",
        /// bytes that came before: a retransmission, a duplicate or a late packet
        SequenceOld = "sequence-old",
        /// the merged packet would be larger than the limit
        SizeLimit = "size-limit",
        /// the merged packet would have more segments than the limit
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
    /// Why held packets were let go.
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
        /// the caller asked for everything
        Stop = "stop",
    }
}

/// How often each reason occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally<const N: usize>([u64; N]);

/// Refusals by reason.
pub type Refusals = Tally<{ Refusal::ALL.len() }>;
/// Flushes by reason.
pub type Flushes = Tally<{ Flush::ALL.len() }>;

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Tally<N> {
    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }
}

impl Refusals {
    pub(super) fn count(&mut self, reason: Refusal) {
        self.0[reason as usize] += 1;
    }

    /// How often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: Refusal) -> u64 {
        self.0[reason as usize]
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.add_all(other);
    }
}

impl Flushes {
    pub(super) fn count(&mut self, reason: Flush) {
        self.0[reason as usize] += 1;
    }

    /// How often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: Flush) -> u64 {
        self.0[reason as usize]
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.add_all(other);
    }
}
