//! Merges the packets of a capture, as a receiver with LRO does.

use super::explain::{Explanation, Line};
use super::flows::{self, Flow};
use super::{Checksum, Merging, draw_merging};
use crate::captures::{self, Remarks};
use crate::{Context, Error, Job};
use garde::Validate;
use linecard::offload::coalesce::{self, Counters, Exit, Flush, Refusal, Verdict};
use linecard::packet::{FiveTuple, Packet};
use linecard::progress::Progress;
use linecard_config::{Bytes, Duration, Maybe};
use linecard_io::capture::Format;
use linecard_io::convert::{self, CoalesceStats, Numbered, Observer};
use linecard_io::flows::TopFlows;
use linecard_report::{Page, Reasons};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::PathBuf;
use std::sync::Arc;

/// The limit of a merged packet: that of BIG TCP.
const MAX_BYTES: Bytes = Bytes::new(coalesce::Config::MAX_BYTES as u64);

/// Flows that are counted at a time.
const MAX_FLOWS: usize = 65_536;

/// The parameters.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4; - is stdin
    pub input: PathBuf,
    /// capture to write; - is stdout. Names ending in .pcap give pcap, which cannot hold segment sizes; all others give
    /// pcapng. With .gz, .zst or .lz4 behind that it is compressed
    pub output: PathBuf,
    /// how to treat TCP and UDP checksums: compute them, or trust them, as for captures taken on the sender with
    /// checksum offload
    #[schemars(extend("x-flag" = "checksum"))]
    pub checksum: Checksum,
    /// longest time a packet is held, in the capture's time
    #[default(Duration::from_ms(1))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_secs(10)))]
    #[schemars(extend("x-flag" = "hold"))]
    pub hold: Duration,
    /// bytes of the largest merged packet, counted from the IP header. Beyond 65535 the IP length field is 0 (BIG TCP),
    /// and only TCP outside of tunnels merges to that size; Wireshark reads packets of up to 262144 bytes
    #[default(Bytes::new(65_535))]
    #[garde(range(min = Bytes::new(576), max = MAX_BYTES))]
    #[schemars(extend("x-flag" = "max-size"))]
    pub max_size: Bytes,
    /// flows remembered at a time
    #[default(4_096)]
    #[garde(range(min = 8, max = 1 << 22))]
    #[schemars(extend("x-flag" = "max-flows"))]
    pub max_flows: usize,
    /// flow, as `10.0.0.1:5000-10.0.0.2:80` or `[fd00::1]:5000-[fd00::2]:80`, of which each packet is listed with the reason why it
    /// did or did not merge
    #[schemars(extend("x-flag" = "explain-flow"))]
    pub explain_flow: Maybe<String>,
    /// list this many flows, those with the most packets, each with the most frequent reason why packets did not merge
    #[garde(range(min = 0, max = 1_000))]
    #[schemars(extend("x-flag" = "flows"))]
    pub flows: usize,
    /// if stopped, as by Ctrl-C, complete the output with the packets read so far instead of removing it
    #[schemars(extend("x-flag" = "keep-partial"))]
    pub keep_partial: bool,
}

/// The outcome.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CoalesceOutcome {
    /// Merging (LRO)
    pub merging: Merging,
    /// Why held packets were flushed
    pub flushed: Reasons<Flush>,
    /// Why packets did not merge
    pub refused: Reasons<Refusal>,
    /// Largest flows
    pub flows: Vec<Flow>,
    /// Capture
    pub capture: Option<OtherBlocks>,
    /// The selected flow, packet by packet
    pub flow: Vec<Line>,
    #[serde(skip)]
    rest: Rest,
}

/// Deviations of a capture from packets in the order of their times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherBlocks {
    /// blocks that are not packets
    pub other_blocks: u64,
    /// clock set back
    pub clock_resets: u64,
}

/// Data for notes, charts and the check of an outcome, beside its figures.
#[derive(Debug, Clone)]
struct Rest {
    counters: Counters,
    lost_metadata: u64,
    remarks: Remarks,
    explanation: Option<Explanation>,
    /// The note on flows that are not listed.
    unlisted: Option<String>,
}

/// The job.
#[derive(Debug)]
pub struct Coalesce;

impl Job for Coalesce {
    const NAME: &'static str = "coalesce";
    type Config = Config;
    type Outcome = CoalesceOutcome;

    fn title(config: &Config) -> String {
        format!("Packets of {} merged", config.input.display())
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<CoalesceOutcome, Error> {
        linecard_config::check(config)?;
        let Config { input, output, explain_flow, .. } = config;
        let explanation = explain_flow.0.as_deref().map(Explanation::of_flow).transpose()?;
        let reader = captures::open_until_stopped(input, context)?;
        let writer = captures::create(input, output)?;
        let refuse = |source| Error::of_capture(input, source);
        let format = Format::of_name(output);
        let flows = (config.flows > 0).then(|| TopFlows::new(MAX_FLOWS));
        let mut observer = Follow { progress: context.progress, explanation, flows, current: None };
        let (writer, account) =
            convert::coalesce(reader, writer, format, config.coalescer(), &mut observer)
                .map_err(|source| captures::stopped(context).unwrap_or_else(|| refuse(source)))?;
        // A question that cannot be answered is a wrong argument, and those write nothing.
        if !context.progress.is_stopped() {
            observer.explanation.as_ref().map_or(Ok(()), Explanation::check)?;
        }
        let stopped =
            captures::complete(writer, output, config.keep_partial, context).map_err(refuse)?;
        let input = input.display().to_string();
        let mut outcome = CoalesceOutcome::new(input, account, observer.explanation);
        outcome.rest.remarks.stopped = stopped;
        if let Some(flows) = &observer.flows {
            outcome.flows = flows::largest(flows, config.flows);
            outcome.rest.unlisted = flows::note(flows);
        }
        Ok(outcome)
    }

    fn draw(outcome: &CoalesceOutcome, page: &mut Page) {
        draw_merging(page, "", &outcome.rest.counters);
    }

    fn check(outcome: &CoalesceOutcome) -> Result<(), Error> {
        outcome.rest.remarks.check()
    }
}

impl Config {
    fn coalescer(&self) -> coalesce::Config {
        coalesce::Config {
            checksum: self.checksum.into(),
            hold_budget: self.hold.into(),
            max_bytes: self.max_size.get() as usize,
            max_flows: self.max_flows,
            ..coalesce::Config::default()
        }
    }
}

impl CoalesceOutcome {
    fn new(input: String, account: CoalesceStats, explanation: Option<Explanation>) -> Self {
        let CoalesceStats { counters, blocks, clock_resets, lost_metadata, .. } = account;
        let remarks = Remarks {
            input,
            packets_in: counters.packets_in,
            truncated: account.truncated,
            snap_len: account.snap_len,
            by_headers: account.by_headers,
            cannot: "merged",
            lost: account.lost,
            unknown: account.unknown,
            damage: account.damage.map(Arc::new),
            stopped: None,
        };
        let capture = OtherBlocks { other_blocks: blocks, clock_resets };
        Self {
            merging: Merging::from(&counters),
            flushed: Reasons::from(&counters.flushed),
            refused: Reasons::from(&counters.refused),
            flows: Vec::new(),
            capture: (blocks + clock_resets > 0).then_some(capture),
            flow: explanation.as_ref().map(Explanation::lines).unwrap_or_default(),
            rest: Rest { counters, lost_metadata, remarks, explanation, unlisted: None },
        }
    }
}

impl linecard_report::Outcome for CoalesceOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let explanation = self.rest.explanation.as_ref().filter(|_| section == "flow");
        explanation.map(Explanation::title)
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        let flow = self.flows.get(index).filter(|_| section == "flows")?;
        Some(flow.value.to_string())
    }

    fn notes(&self) -> Vec<String> {
        let Rest { counters, lost_metadata, remarks, explanation, unlisted } = &self.rest;
        // Captures taken on a sender have packets whose checksums its hardware was to compute.
        let partial = counters.refused.of(Refusal::PartialChecksum);
        let partial = (partial > 0).then(|| {
            format!(
                "{partial} packets hold only the pseudo header's sum in place of the checksum: \
                 the capture was probably taken on their sender, with checksum offload. \
                 `--checksum trust` \
                 merges them."
            )
        });
        let lost_metadata = (*lost_metadata > 0).then(|| {
            format!(
                "The output is pcap, which cannot hold the segment sizes of {lost_metadata} merged packets: \
                 name it .pcapng so that `linecard segment` restores the originals."
            )
        });
        let first = [partial, remarks.truncated(), lost_metadata].into_iter().flatten();
        let left_out = explanation.as_ref().and_then(Explanation::note);
        first.chain(remarks.notes()).chain(left_out).chain(unlisted.clone()).collect()
    }
}

/// Reports progress, and collects what happens to one flow, and to each.
struct Follow<'a> {
    progress: &'a Progress,
    explanation: Option<Explanation>,
    flows: Option<TopFlows>,
    /// Flow and payload of the packet that is being decided on.
    current: Option<(FiveTuple, usize)>,
}

impl Observer for Follow<'_> {
    fn progress(&mut self, offset: u64) {
        self.progress.reach(offset as usize);
    }

    fn arrives(&mut self, number: u64, packet: &Packet<Numbered>) {
        if let Some(explanation) = &mut self.explanation {
            explanation.arrives(number, packet);
        }
        if self.flows.is_some() {
            let flow = FiveTuple::of(packet.layout(), packet.bytes());
            self.current = flow.map(|flow| (flow, packet.payload_len()));
        }
    }

    fn decided(&mut self, number: u64, verdict: Verdict) {
        if let Some(explanation) = &mut self.explanation {
            explanation.decided(number, verdict);
        }
        if let (Some(flows), Some((flow, payload))) = (&mut self.flows, self.current.take()) {
            flows.count(flow, payload, verdict);
        }
    }

    fn leaves(&mut self, packet: &Packet<Numbered>, exit: Exit) {
        if let Some(explanation) = &mut self.explanation {
            explanation.leaves(packet, exit);
        }
    }
}
