//! "Chasing Linux Jitter Sources for Uncompressed Video": the paper's figures, those of the modelled way
//! from wire to application, and those of this host.

use super::Reproduced;
use super::comparison::{Comparison, Row, add_all};
use crate::failure::Failure;
use linecard_jitter::media::st2022_6::Format;
use linecard_model::Ps;
use linecard_model::path::{Stream, Times, busy_loop, simulate};
use linecard_report::Report;
use std::ops::RangeInclusive;
use std::path::Path;

/// Packets, and laps, as in the paper's figures.
const MILLION: usize = 1_000_000;
/// Packets of a modelled stream: shapes show with fewer, too.
const PACKETS: usize = 200_000;
/// The period of 29.97 frames a second, 1.001 times that of 30, in µs to a hundredth.
const PERIOD_2997: RangeInclusive<f64> = 7.415..=7.425;
/// The paper's throttling.
const THROTTLE_NS: u64 = 100_000;

/// Formulae and model.
pub(super) fn modelled(path: Option<&Path>) -> Result<Reproduced, Failure> {
    if path.is_some() {
        let what =
            "linux-jitter takes no scenario: linecard model run scenarios/model-path.toml does";
        return Err(Failure::Usage(what.to_owned()));
    }
    let mut report = Report::new("reproduce linux-jitter");
    let tables = [formulae()?, in_model()];
    let unexplained = add_all(&tables, &mut report);
    Ok(Reproduced { report, unexplained })
}

fn formulae() -> Result<Comparison, Failure> {
    let mut table = Comparison::new("period", "The stream of section III: 1080i, ST 2022-6");
    let period = |name: &str| {
        let format = Format::by_name(name).map_err(|error| Failure::Usage(error.to_string()));
        format.map(|format| format.period_ns() / 1e3)
    };
    let at_30 = period("1080i60")?;
    table.add(
        Row::number("time from packet to packet, 30 frames a second", (7.41, 2), at_30).unit("µs"),
    );
    let at_2997 = period("1080i59.94")?;
    let row = Row::number("the same, 29.97 frames a second, as its stream is", (7.41, 2), at_2997);
    table.add(row.unit("µs").because(
        "7.41 µs is that of 30.00 frames; the paper's generator gives 29.97",
        PERIOD_2997,
    ));
    Ok(table)
}

/// Gaps of a modelled way, as the application sees them, in microseconds, sorted.
fn gaps_us(config: &Stream) -> Vec<f64> {
    let times = simulate(config, PACKETS);
    let gaps = Times::gaps(&times.packets);
    let mut gaps: Vec<f64> = gaps.map(|gap| gap.0 as f64 / 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

fn in_model() -> Comparison {
    let mut table = Comparison::new("model", "The modelled way, fitted to these figures");
    let base = Stream::default();
    let laps = busy_loop(&base, MILLION);
    let spikes = laps.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 2 * base.period.0).count();
    let words = format!("{spikes} spikes in a million laps");
    table.add(Row::shape(
        "E1 busy loop",
        "4 spikes of about 15 µs",
        words,
        (1..=9).contains(&spikes),
    ));
    let most = |config: &Stream| gaps_us(config).last().copied().unwrap_or(0.0);
    let calm = gaps_us(&Stream { stolen: None, ..base });
    let band = calm[calm.len() - 1] - calm[0];
    let words = format!("a band of {band:.1} µs");
    table.add(Row::shape("E2 baseline", "a band of about 1 µs", words, (0.5..3.0).contains(&band)));
    for (name, paper, config, range) in [
        ("E7 blocking", "up to 16 µs", base.with_blocking(), 12.0..22.0),
        ("E7 blocking, cores sleep", "up to 60 µs", base.with_blocking().with_sleep(), 40.0..70.0),
        (
            "E8 throttled",
            "steps of 100 µs",
            base.with_throttle(Ps::from_ns(THROTTLE_NS)),
            90.0..115.0,
        ),
    ] {
        let most = most(&config);
        let holds = range.contains(&most);
        table.add(Row::shape(name, paper, format!("gaps up to {most:.0} µs"), holds));
    }
    table
}

/// The same, and the experiments on this host.
#[cfg(target_os = "linux")]
pub(super) fn modelled_and_live(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let Reproduced { mut report, unexplained } = modelled(path)?;
    crate::jitter::reproduce(&mut report)?;
    report.note(
        "Live figures are this host's, at this moment: no row of them has to meet the paper's, whose \
         server was dedicated hardware. What is emulated is done another way; see docs/design/jitter.md.",
    );
    Ok(Reproduced { report, unexplained })
}
