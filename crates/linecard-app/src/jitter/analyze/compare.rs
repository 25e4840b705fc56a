//! Two captures of one stream: the delay of each packet between them.

use super::capture::{Candidate, Captured};
use super::error::AnalyzeError;
use super::outcome::{AnalyzeOutcome, CountPair, Join, Samples, SideBySide, TimePair};
use crate::Error;
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::{Packet, by_number};
use linecard_jitter::stats::sorted::Sorted;
use linecard_report::Nanoseconds;
use std::collections::HashMap;
use std::path::Path;

/// The key by which a packet is found in both captures: RTP's time stamp and sequence, or a probe's
/// number.
type Name = (u32, u64);

/// The same stream in the second capture: of the same source, or to the same place.
pub(super) fn counterpart<'a>(
    chosen: &Candidate,
    second: &'a Captured,
    path: &Path,
) -> Result<&'a Candidate, Error> {
    let alike = |found: &&Candidate| found.kind == chosen.kind;
    let same_source =
        |found: &&Candidate| chosen.flow.rtp().is_some() && found.flow.rtp() == chosen.flow.rtp();
    let of_kind = || second.flows.iter().filter(alike);
    let same_ends = of_kind().find(|found| found.ends == chosen.ends);
    let same_place = || of_kind().find(|found| found.ends.1 == chosen.ends.1);
    let found = same_ends.or_else(|| of_kind().find(same_source)).or_else(same_place);
    Ok(found.ok_or_else(|| AnalyzeError::NoCounterpart {
        input: path.to_owned(),
        kind: chosen.kind.name(),
        to: chosen.ends.1,
        flows: second.flows.len(),
    })?)
}

/// Adds both side by side, and the delay between them.
pub(super) fn add(
    outcome: &mut AnalyzeOutcome,
    (first, ours): (&Candidate, &Figures),
    (second, theirs): (&Candidate, &Figures),
    path: &Path,
) -> Result<(), Error> {
    let (before, after) = (named(first), named(second));
    let mut delays = Vec::with_capacity(before.len());
    for (name, at_ns) in &before {
        if let Some(later) = after.get(name) {
            let delay = i128::from(*later) - i128::from(*at_ns);
            delays.push(i64::try_from(delay).unwrap_or(i64::MAX));
        }
    }
    let joined = delays.len();
    let Some(least) = delays.iter().min().copied() else {
        let (packets, of_first) = (after.len(), before.len());
        let input = path.to_owned();
        return Err(AnalyzeError::NothingShared { input, packets, of_first }.into());
    };
    delays.iter_mut().for_each(|delay| *delay = delay.saturating_sub(least));
    outcome.second = Some(SideBySide::new(ours, theirs));
    outcome.join = Some(Join {
        both: joined as u64,
        first_only: (before.len() - joined) as u64,
        second_only: (after.len() - joined) as u64,
        least_ns: Nanoseconds(least as f64),
    });
    outcome.added = Some(Samples::of(&Sorted::new(delays)));
    Ok(())
}

/// Each packet's time by its name; of duplicates the first.
fn named(found: &Candidate) -> HashMap<Name, u64> {
    let is_rtp = found.flow.rtp().is_some();
    let name = |packet: &Packet| {
        let number = packet.number as u64;
        if is_rtp { (packet.timestamp as u32, number & 0xFFFF) } else { (0, number) }
    };
    by_number(&found.flow.packets()).iter().map(|packet| (name(packet), packet.at_ns)).collect()
}

impl SideBySide {
    fn new(first: &Figures, second: &Figures) -> Self {
        let count = |of: &dyn Fn(&Figures) -> Option<u64>| {
            Some(CountPair { second: of(second)?, first: of(first)? })
        };
        let time = |of: &dyn Fn(&Figures) -> Option<i64>| {
            Some(TimePair { second_ns: of(second)?, first_ns: of(first)? })
        };
        let late = |figures: &Figures, q| figures.lateness.as_ref().and_then(|l| l.quantile(q));
        Self {
            packets: count(&|figures| Some(figures.order.received)),
            lost: count(&|figures| Some(figures.order.lost)),
            spikes: count(&|figures| figures.spikes),
            gap_p99: time(&|figures| figures.gaps.quantile(0.99)),
            gap_max: time(&|figures| figures.gaps.max()),
            late_p99: time(&|figures| late(figures, 0.99)),
            late_max: time(&|figures| late(figures, 1.0)),
            c_inst_max: count(&|figures| figures.c_inst),
            vrx_least: count(&|figures| u64::try_from(figures.vrx?.least.max).ok()),
        }
    }
}
