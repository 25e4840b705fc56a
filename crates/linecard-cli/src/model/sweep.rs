//! `linecard model sweep`.

use super::{ScenarioArguments, help};
use crate::page::PageArguments;
use crate::progress;
use crate::say;
use crate::units;
use clap::Args;
use linecard_app::model::parallel;
use linecard_app::model::sweep::{Format, Options, Sweep};
use linecard_app::{Error, Failure};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = help::transmit())]
pub(crate) struct SweepArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Keys and values: `core.mhz=100..500:10`, both ends included, or a list,
    /// `load.mtu=512,1024,1500`. Repeat it for a grid, of at most 10000000 points.
    #[arg(long = "vary", value_name = "KEY=VALUES", required = true)]
    vary: Vec<String>,
    /// Compute each point instead of running it: its rate, its bottleneck, and the smallest core
    /// clock that carries its line rate.
    #[arg(long)]
    predict: bool,
    /// Write comma-separated values below a line of names. This is the default.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write an array of JSON objects.
    #[arg(long)]
    json: bool,
    /// Write Parquet, compressed with Snappy.
    #[cfg(feature = "parquet")]
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    parquet: bool,
    /// File to write; - is stdout.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Threads that run points, 1 to 256 [default: one for each core of this machine].
    #[arg(long, value_name = "N", value_parser = units::count)]
    threads: Option<u64>,
    #[command(flatten)]
    page: PageArguments,
}

/// Runs the command.
pub(crate) fn command(arguments: &SweepArguments) -> Result<(), Error> {
    let document = arguments.scenario.transmit()?;
    let options = Options {
        vary: arguments.vary.clone(),
        predict: arguments.predict,
        format: arguments.format(),
        output: units::output(arguments.output.clone()),
        threads: arguments.threads.map_or_else(parallel::threads, |threads| threads as usize),
    };
    let sweep = Sweep::new(&document, &options)?;
    check_ending(&options.output, options.format)?;
    let page = arguments.page.check(&[&arguments.scenario.scenario, &options.output])?;
    let watch = Arc::default();
    let tally = progress::shown(progress::POINTS, &watch, || sweep.run(&watch))?;
    let ending = tally.warning().map(|warning| warning.iter().for_each(|warning| say(warning)));
    page.write(|| tally.page(), ending)
}

impl SweepArguments {
    fn format(&self) -> Format {
        #[cfg(feature = "parquet")]
        if self.parquet {
            return Format::Parquet;
        }
        if self.json { Format::Json } else { Format::Csv }
    }
}

/// Refuses to write something else under the name of a Parquet file.
fn check_ending(output: &Path, format: Format) -> Result<(), Error> {
    let (name, what) = match format {
        #[cfg(feature = "parquet")]
        Format::Parquet => return Ok(()),
        Format::Csv => ("CSV", HOW),
        Format::Json => ("JSON", HOW),
    };
    if output.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("parquet")) {
        return Ok(());
    }
    let output = output.display();
    Err(Failure::Usage
        .with(format!("--output {output}: this would be {name}: use that name, or {what}")))
}

/// How Parquet is written.
#[cfg(feature = "parquet")]
const HOW: &str = "add --parquet";
#[cfg(not(feature = "parquet"))]
const HOW: &str = "build the command with --features parquet, or call linecard.sweep in Python";
