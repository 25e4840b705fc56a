//! Segments the large packets of a capture, or restores merged ones.

use super::Classes;
use crate::captures::{self, Remarks};
use crate::{Context, Error, Job};
use garde::Validate;
use linecard::offload::segment::{Refusal, SegmentError};
use linecard::progress::Progress;
use linecard_config::{Bytes, ConfigError, Maybe};
use linecard_io::capture::Format;
use linecard_io::convert::{self, Observer, SegmentMode, SegmentStats};
use linecard_report::Reasons;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::PathBuf;
use std::sync::Arc;

/// Lengths in IP headers have 16 bits.
const MAX: Bytes = Bytes::new(65_535);

/// The parameters.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4; - is stdin
    pub input: PathBuf,
    /// capture to write; - is stdout. Names ending in .pcap give pcap, all others pcapng
    pub output: PathBuf,
    /// bytes of payload beyond which TCP and UDP packets are divided into segments of this size
    #[garde(range(min = Bytes::new(1), max = MAX))]
    #[schemars(extend("x-flag" = "mss"))]
    pub mss: Maybe<Bytes>,
    /// bytes of the longest IP packet: longer TCP packets are segmented, all others become IP fragments
    // The least that IPv4 allows (RFC 791, section 3.2).
    #[garde(range(min = Bytes::new(68), max = MAX))]
    #[schemars(extend("x-flag" = "mtu"))]
    pub mtu: Maybe<Bytes>,
    /// if stopped, as by Ctrl-C, complete the output with the packets read so far instead of removing it
    #[schemars(extend("x-flag" = "keep-partial"))]
    pub keep_partial: bool,
}

/// The outcome.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SegmentOutcome {
    /// Packets
    pub packets: Packets,
    /// Segmenting (LSO)
    pub segmenting: Option<Classes>,
    /// Why packets were not segmented
    pub refused: Reasons<Refusal>,
    #[serde(skip)]
    rest: Rest,
}

/// Packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Packets {
    /// packets in
    pub packets_in: u64,
    /// packets out
    pub packets_out: u64,
    /// untouched
    pub untouched: u64,
    /// taken apart as merged
    pub restored: u64,
}

/// Data for notes and the check of an outcome, beside its figures.
#[derive(Debug, Clone)]
struct Rest {
    first_refusal: Option<SegmentError>,
    /// Packets longer than 1500 bytes for which no segment size is known.
    large: u64,
    remarks: Remarks,
}

/// The job.
#[derive(Debug)]
pub struct Segment;

impl Job for Segment {
    const NAME: &'static str = "segment";
    type Config = Config;
    type Outcome = SegmentOutcome;

    fn title(config: &Config) -> String {
        format!("Packets of {} segmented", config.input.display())
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<SegmentOutcome, Error> {
        linecard_config::check(config)?;
        let (cut, Config { input, output, .. }) = (config.cut()?, config);
        let reader = captures::open_until_stopped(input, context)?;
        let writer = captures::create(input, output)?;
        let refuse = |source| Error::of_capture(input, source);
        let format = Format::of_name(output);
        let mut observer = Follow(context.progress);
        let (writer, account) = convert::segment(reader, writer, format, cut, &mut observer)
            .map_err(|source| captures::stopped(context).unwrap_or_else(|| refuse(source)))?;
        let stopped =
            captures::complete(writer, output, config.keep_partial, context).map_err(refuse)?;
        let mut outcome = SegmentOutcome::new(input.display().to_string(), account);
        outcome.rest.remarks.stopped = stopped;
        Ok(outcome)
    }

    fn check(outcome: &SegmentOutcome) -> Result<(), Error> {
        outcome.rest.remarks.check()
    }
}

impl Config {
    fn cut(&self) -> Result<SegmentMode, ConfigError> {
        // Both are within 16 bits.
        match (self.mss.0, self.mtu.0) {
            (Some(_), Some(_)) => {
                Err(ConfigError::of_parameter("mss", "cannot be used with mtu: choose one of them"))
            }
            (Some(mss), None) => Ok(SegmentMode::Payload(mss.get() as u16)),
            (None, Some(mtu)) => Ok(SegmentMode::Mtu(mtu.get() as u16)),
            (None, None) => Ok(SegmentMode::AsMerged),
        }
    }
}

impl SegmentOutcome {
    fn new(input: String, account: SegmentStats) -> Self {
        let SegmentStats { packets_in, packets_out, untouched, restored, .. } = account;
        let remarks = Remarks {
            input,
            packets_in,
            truncated: account.truncated,
            snap_len: account.snap_len,
            by_headers: 0,
            cannot: "segmented",
            lost: account.lost,
            unknown: account.unknown,
            damage: account.damage.map(Arc::new),
            stopped: None,
        };
        let classes = (account.counters.packets_in > 0).then(|| Classes::from(&account.counters));
        let first_refusal = account.first_refusal;
        Self {
            packets: Packets { packets_in, packets_out, untouched, restored },
            segmenting: classes,
            refused: Reasons::from(&account.refused),
            rest: Rest { first_refusal, large: account.large, remarks },
        }
    }
}

impl linecard_report::Outcome for SegmentOutcome {
    fn notes(&self) -> Vec<String> {
        let Rest { first_refusal, large, remarks } = &self.rest;
        let refused = first_refusal.map(|first| {
            let count: u64 = self.refused.0.iter().map(|(_, count)| count).sum();
            format!(
                "{count} packets could not be segmented and are in the output unchanged. The \
                 first: {first}."
            )
        });
        let large = (*large > 0).then(|| {
            format!(
                "{large} packets are larger than 1500 bytes and do not carry a segment size: use \
                 --mss or --mtu."
            )
        });
        let first = [refused, remarks.truncated(), large].into_iter().flatten();
        first.chain(remarks.notes()).collect()
    }
}

/// Reports progress.
struct Follow<'a>(&'a Progress);

impl Observer for Follow<'_> {
    fn progress(&mut self, offset: u64) {
        self.0.reach(offset as usize);
    }
}
