//! Two captures of one stream: what each packet was delayed between them.

use super::read::{Candidate, Captured};
use super::text::quantiles;
use crate::failure::Failure;
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::{Packet, by_number};
use linecard_jitter::stats::summary::Sorted;
use linecard_report::{Report, Section, Value};
use std::collections::HashMap;
use std::path::Path;

/// What a packet is known by in both captures: RTP's time stamp and sequence, or a probe's number.
type Name = (u32, u64);

/// The same stream in the second capture: of the same source, or to the same place.
pub(super) fn counterpart<'a>(
    chosen: &Candidate,
    second: &'a Captured,
    path: &Path,
) -> Result<&'a Candidate, Failure> {
    let alike = |found: &&Candidate| found.kind == chosen.kind;
    let same_source =
        |found: &&Candidate| chosen.flow.rtp().is_some() && found.flow.rtp() == chosen.flow.rtp();
    let of_kind = || second.flows.iter().filter(alike);
    let same_ends = of_kind().find(|found| found.ends == chosen.ends);
    let same_place = || of_kind().find(|found| found.ends.1 == chosen.ends.1);
    same_ends.or_else(|| of_kind().find(same_source)).or_else(same_place).ok_or_else(|| {
        Failure::Withheld(format!(
            "{}: no flow of {} to {} or from the same source among its {} UDP flows",
            path.display(),
            chosen.kind.name(),
            chosen.ends.1,
            second.flows.len()
        ))
    })
}

/// Both side by side, and the delay between them.
pub(super) fn sections(
    report: &mut Report,
    (first, ours): (&Candidate, &Figures),
    (second, theirs): (&Candidate, &Figures),
    path: &Path,
) -> Result<(), Failure> {
    report.push(side_by_side(ours, theirs));
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
        return Err(Failure::Withheld(format!(
            "{}: none of its {} packets is one of the {} of the first capture: is it the same stream at \
             the same time?",
            path.display(),
            after.len(),
            before.len()
        )));
    };
    let mut section = Section::new("join", "Joined packet by packet");
    section.add("both", "in both", Value::Count(joined as u64));
    section.add("first_only", "in the first only", Value::Count((before.len() - joined) as u64));
    section.add("second_only", "in the second only", Value::Count((after.len() - joined) as u64));
    section.add("least_ns", "least delay", Value::Ns(least as f64));
    report.push(section);
    let added = delays.iter().map(|delay| delay.saturating_sub(least)).collect();
    let title = "Added between them, beyond the least delay";
    report.push(quantiles("added", title, &Sorted::new(added)));
    report.note(
        "The least delay is one only if both captures have the same clock; what was added is right for any \
         two clocks that run equally fast.",
    );
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

fn side_by_side(first: &Figures, second: &Figures) -> Section {
    let mut section = Section::new("second", "Second capture (first capture)");
    let count = |of: &dyn Fn(&Figures) -> Option<u64>| {
        let (here, there) = (of(first)?, of(second)?);
        let fields = vec![("second", Value::Count(there)), ("first", Value::Count(here))];
        Some(Value::Fields(format!("{} ({})", Value::Count(there), Value::Count(here)), fields))
    };
    let time = |of: &dyn Fn(&Figures) -> Option<i64>| {
        let (here, there) = (of(first)?, of(second)?);
        let text = format!("{} ({})", Value::Ns(there as f64), Value::Ns(here as f64));
        let fields =
            vec![("second_ns", Value::Difference(there)), ("first_ns", Value::Difference(here))];
        Some(Value::Fields(text, fields))
    };
    let late = |figures: &Figures, q| figures.lateness.as_ref().and_then(|late| late.quantile(q));
    let rows = [
        ("packets", "packets", count(&|figures| Some(figures.order.received))),
        ("lost", "lost", count(&|figures| Some(figures.order.lost))),
        ("spikes", "gaps over 2 periods", count(&|figures| figures.spikes)),
        ("gap_p99", "gap, p99", time(&|figures| figures.gaps.quantile(0.99))),
        ("gap_max", "gap, most", time(&|figures| figures.gaps.max())),
        ("late_p99", "late, p99", time(&|figures| late(figures, 0.99))),
        ("late_max", "late, most", time(&|figures| late(figures, 1.0))),
        ("c_inst_max", "Cinst, most", count(&|figures| figures.c_inst)),
        ("vrx_least", "least VRX", count(&|figures| u64::try_from(figures.vrx?.least.max).ok())),
    ];
    for (key, label, value) in rows {
        if let Some(value) = value {
            section.add(key, label, value);
        }
    }
    section
}
