//! `linecard jitter dummy`: what this host does to a busy loop.

use super::figures;
use super::placement::{PlacementArguments, refused};
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use crate::units;
use clap::Args;
use linecard_jitter::linux::dummy::{DummyConfig, DummyError, Laps, Pace};
use linecard_report::{Report, Value};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DummyArguments {
    /// Period of a lap, 1ps to 1h [default: 7.41us].
    #[arg(long, value_name = "TIME", value_parser = units::period_ps)]
    period: Option<u64>,
    /// Laps, 2 to 100M [default: 1M].
    #[arg(long, value_name = "N", value_parser = units::many)]
    count: Option<u64>,
    #[command(flatten)]
    placement: PlacementArguments,
    /// Each lap counts from the last one, as in the paper's loop: pauses move the schedule, and nothing is
    /// ever late.
    #[arg(long)]
    relative: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &DummyArguments) -> Result<(), Failure> {
    let default = DummyConfig::default();
    let config = DummyConfig {
        period_ps: arguments.period.unwrap_or(default.period_ps),
        count: arguments.count.unwrap_or(default.count),
        pace: if arguments.relative { Pace::Relative } else { Pace::Absolute },
        placement: arguments.placement.placement(),
    };
    let laps = config.run(&*signals()?).map_err(|error| match error {
        DummyError::Placement(error) => refused(&error),
        _ => Failure::Usage(error.to_string()),
    })?;
    account::print(&report(&laps, config.pace, &arguments.placement), arguments.json, None)
}

fn report(laps: &Laps, pace: Pace, placement: &PlacementArguments) -> Report {
    let mut report = Report::new("jitter dummy");
    let gaps = figures::sorted(laps.gaps_ns());
    let seconds = laps.gaps_ns().map(|ns| ns as f64).sum::<f64>() / 1e9;
    report.push(figures::quantiles("gaps", "Gaps between laps", &gaps));
    report.push(figures::spikes(&gaps, laps.schedule.period_ps, seconds));
    // 800 MB each for the most laps that there can be.
    drop(gaps);
    let title = match pace {
        Pace::Absolute => "Lateness of laps",
        Pace::Relative => "Drift of the schedule, which moves with every pause",
    };
    report.push(figures::quantiles("lateness", title, &figures::sorted(laps.lateness_ns())));
    let mut host = figures::host(laps.switches);
    if let Some(ticks) = laps.stolen_ticks {
        host.add("stolen_ticks", "ticks taken by the hypervisor", Value::Count(ticks));
    }
    report.push(host);
    if laps.at_ns.len() < 2 {
        report.note("Stopped before the second lap: there is no gap.");
    }
    placement.warn(&mut report, seconds);
    report
}
