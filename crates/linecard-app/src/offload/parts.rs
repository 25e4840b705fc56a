//! Parts of outcomes that all jobs with offloads share.

use linecard::offload::coalesce::{ChecksumPolicy, Counters};
use linecard::offload::reason::Reason;
use linecard::offload::segment;
use linecard_report::{Axis, ByteCount, Histograms, Ledger, Nanoseconds, Page, Reasons, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Merging (LRO).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Merging {
    /// packets in
    pub packets_in: u64,
    /// bytes in
    pub bytes_in: ByteCount,
    /// packets out
    pub packets_out: u64,
    /// bytes out
    pub bytes_out: ByteCount,
    /// merged into another
    pub merged: u64,
    /// passed alone
    pub passed: u64,
    /// mean aggregate
    pub mean_aggregate: Option<f64>,
    /// largest aggregate
    pub largest_aggregate: Option<u64>,
    /// held, median
    pub hold_ns_p50: Option<Nanoseconds>,
    /// held, 99th percentile
    pub hold_ns_p99: Option<Nanoseconds>,
    /// held, longest
    pub hold_ns_max: Option<Nanoseconds>,
    /// flows pushed out
    pub flows_evicted: Option<u64>,
}

impl From<&Counters> for Merging {
    fn from(counters: &Counters) -> Self {
        let Counters { segments, hold_ns, flows_evicted, .. } = counters;
        let is_held = segments.count() > 0;
        let held = |ns: u64| is_held.then_some(Nanoseconds(ns as f64));
        Self {
            packets_in: counters.packets_in,
            bytes_in: ByteCount(counters.bytes_in),
            packets_out: counters.packets_out,
            bytes_out: ByteCount(counters.bytes_out),
            merged: counters.merged,
            passed: counters.passed,
            mean_aggregate: is_held.then(|| counters.mean_aggregate()),
            largest_aggregate: is_held.then(|| segments.max()),
            hold_ns_p50: held(hold_ns.quantile(0.5)),
            hold_ns_p99: held(hold_ns.quantile(0.99)),
            hold_ns_max: held(hold_ns.max()),
            flows_evicted: (*flows_evicted > 0).then_some(*flows_evicted),
        }
    }
}

/// Segmenting (LSO), by the paper's classes of packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Classes {
    /// large packets in
    pub packets_in: u64,
    /// segments out
    pub segments_out: u64,
    /// bytes out
    pub bytes_out: ByteCount,
    /// first (BOM)
    pub bom: u64,
    /// middle (COM)
    pub com: u64,
    /// last (EOM)
    pub eom: u64,
    /// single (SSM)
    pub ssm: u64,
}

impl From<&segment::Counters> for Classes {
    fn from(counters: &segment::Counters) -> Self {
        Self {
            packets_in: counters.packets_in,
            segments_out: counters.segments(),
            bytes_out: ByteCount(counters.bytes_out),
            bom: counters.bom,
            com: counters.com,
            eom: counters.eom,
            ssm: counters.ssm,
        }
    }
}

/// How to treat TCP and UDP checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// compute every checksum; packets that fail pass unmerged
    #[default]
    Verify,
    /// read no payload
    Trust,
}

impl From<Checksum> for ChecksumPolicy {
    fn from(checksum: Checksum) -> Self {
        match checksum {
            Checksum::Verify => Self::Verify,
            Checksum::Trust => Self::Trust,
        }
    }
}

/// Adds charts to a page: how much was merged, how long that took, and what ended it. `which` names the packets,
/// where there are several kinds.
pub fn draw_merging(page: &mut Page, which: &str, counters: &Counters) {
    let Counters { segments, hold_ns, flushed, refused, .. } = counters;
    if segments.count() > 0 {
        let title = format!("Packets merged into one{which}");
        let mut sizes = Histograms::new("segments", title, "merged packets");
        sizes.x(Axis::new("packets in one", Unit::Count).log());
        page.chart(sizes.histogram("merged packets", segments, 1.0).clone());
        let title = format!("How long packets were held{which}");
        let mut hold = Histograms::new("hold_ns", title, "merged packets");
        hold.x(Axis::new("held", Unit::Ns).log());
        page.chart(hold.histogram("merged packets", hold_ns, 1.0).clone());
    }
    draw_reasons(page, "flushed", format!("Why held packets were flushed{which}"), flushed.into());
    draw_reasons(page, "refused", format!("Why packets did not merge{which}"), refused.into());
}

fn draw_reasons<R: Reason>(page: &mut Page, key: &'static str, title: String, reasons: Reasons<R>) {
    if reasons.0.is_empty() {
        return;
    }
    let mut ledger = Ledger::new(key, title, Axis::new("packets", Unit::Count));
    for (reason, count) in reasons.0 {
        ledger.cause(reason.name(), count as f64, None);
    }
    page.chart(ledger);
}
