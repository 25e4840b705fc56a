//! `linecard model sweep`: a scenario over a grid of values.

mod axis;
#[cfg(feature = "parquet")]
mod parquet;
mod point;
pub(crate) mod points;
mod predicted;
mod rows;

use super::scenario::Scenario;
use super::{ScenarioArguments, keys, parallel};
use crate::failure::{EXIT_CODES, Failure};
use crate::progress::Progress;
use crate::say;
use crate::units;
use axis::{Axis, Grid};
use clap::Args;
use linecard_io::capture::{CaptureError, OutputFile};
use point::{Found, Runner};
use rows::{Csv, Json, Rows};
use std::io;
use std::path::{Path, PathBuf};

/// Points that are run before their rows are written: what bounds the memory.
const CHUNK: u64 = 1_024;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXIT_CODES, after_long_help = keys::help())]
pub(crate) struct SweepArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// What to vary: `core.mhz=100..500:10`, both ends included, or a list, `load.mtu=512,1024,1500`.
    /// Repeat it for a grid, of at most 10000000 points.
    #[arg(long = "vary", value_name = "KEY=VALUES", required = true)]
    vary: Vec<String>,
    /// Compute each point instead of running it: what it carries, what limits it, and the smallest core
    /// clock that carries its line.
    #[arg(long)]
    predict: bool,
    /// Write rows with commas between values, names first. This is the default.
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
}

/// Runs the command.
pub(crate) fn command(arguments: &SweepArguments) -> Result<(), Failure> {
    let threads = match arguments.threads {
        None => parallel::threads(),
        Some(n) if (1..=parallel::MAX_THREADS).contains(&n) => n as usize,
        Some(n) => {
            let what = format!("--threads {n}: choose 1 to {}", parallel::MAX_THREADS);
            return Err(Failure::Usage(what));
        }
    };
    let scenario = Scenario::read(&arguments.scenario.scenario, &arguments.scenario.sets)?;
    let axes = arguments.vary.iter().map(|text| Axis::parse(text, &scenario.settings));
    let grid = Grid::new(axes.collect::<Result<_, _>>()?)?;
    let sweep = Sweep::new(&scenario, &grid, arguments.predict)?;
    let output = units::output(arguments.output.clone());
    arguments.check_ending(&output)?;
    let account = sweep.write(arguments, &output, threads)?;
    account.ending(grid.points())
}

impl SweepArguments {
    /// Refuses to write something else under the name of a Parquet file.
    fn check_ending(&self, output: &Path) -> Result<(), Failure> {
        #[cfg(feature = "parquet")]
        let (is_parquet, what) = (self.parquet, "add --parquet");
        #[cfg(not(feature = "parquet"))]
        let (is_parquet, what) =
            (false, "build the command with --features parquet, or call linecard.sweep in Python");
        if is_parquet
            || output.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("parquet"))
        {
            return Ok(());
        }
        let text = format!(
            "--output {}: this would be {}: call it so, or {what}",
            output.display(),
            if self.json { "JSON" } else { "CSV" }
        );
        Err(Failure::Usage(text))
    }
}

/// A sweep that is ready to run.
struct Sweep<'s> {
    scenario: &'s Scenario,
    grid: &'s Grid,
    runner: Runner,
}

/// How points came out.
#[derive(Debug, Default)]
struct Account {
    failed: u64,
    wrong: u64,
    first: Option<String>,
}

impl<'s> Sweep<'s> {
    fn new(scenario: &'s Scenario, grid: &'s Grid, predict: bool) -> Result<Self, Failure> {
        let names = grid.values_of("firmware.image");
        Ok(Self { scenario, grid, runner: Runner::new(scenario, names, predict)? })
    }

    /// Runs all points, chunk by chunk, and writes their rows.
    fn write(
        &self,
        arguments: &SweepArguments,
        output: &Path,
        threads: usize,
    ) -> Result<Account, Failure> {
        let of = |source| Failure::of_capture(self.scenario.path(), source);
        let write = |source| of(CaptureError::Write { source });
        let file = OutputFile::create(output, &[self.scenario.path()]).map_err(of)?;
        let mut rows = self.rows(arguments, file).map_err(write)?;
        let columns = self.runner.names().len();
        let points = self.grid.points();
        let mut progress = Progress::for_points(points);
        let mut account = Account::default();
        for from in (0..points).step_by(CHUNK as usize) {
            let chunk: Vec<u64> = (from..points.min(from + CHUNK)).collect();
            let results = parallel::map(&chunk, threads, |&point| self.run(point));
            for (point, result) in chunk.iter().zip(&results) {
                account.take(result);
                rows.add(rows::row(&self.grid.values(*point), result, columns)).map_err(write)?;
            }
            progress.at(from + chunk.len() as u64);
        }
        progress.done();
        rows.finish().map_err(write)?.commit().map_err(of)?;
        Ok(account)
    }

    /// How rows are written.
    fn rows(&self, arguments: &SweepArguments, file: OutputFile) -> io::Result<Box<dyn Rows>> {
        let names = rows::names(&self.grid.names(), &self.runner.names());
        #[cfg(feature = "parquet")]
        if arguments.parquet {
            let is_text = |name: &&str| {
                let values = self.grid.values_of(name);
                values.iter().any(|text| !rows::value(text).is_number())
            };
            let texts: Vec<&str> = names.iter().copied().filter(is_text).collect();
            return Ok(Box::new(parquet::Parquet::start(file, &names, &texts)?));
        }
        Ok(match arguments.json {
            true => Box::new(Json::start(file, names)?),
            false => Box::new(Csv::start(file, &names)?),
        })
    }

    /// A point: what it came to, or why it could not be run.
    fn run(&self, point: u64) -> Result<Found, String> {
        let settings = self.grid.settings(point, &self.scenario.settings)?;
        self.runner.run(&settings)
    }
}

impl Account {
    fn take(&mut self, result: &Result<Found, String>) {
        match result {
            Ok(found) => self.wrong += u64::from(!found.is_right),
            Err(why) => {
                self.failed += 1;
                self.first.get_or_insert_with(|| why.clone());
            }
        }
    }

    /// A sweep in which nothing could be run, or anything was wrong, is no success.
    fn ending(&self, points: u64) -> Result<(), Failure> {
        let Self { failed, wrong, first } = self;
        if *wrong > 0 {
            let what = format!("the firmware is wrong at {wrong} of {points} points");
            return Err(Failure::Wrong(what));
        }
        let Some(first) = first else { return Ok(()) };
        let what = format!("{failed} of {points} points could not be run; the first: {first}");
        if *failed == points {
            return Err(Failure::Firmware(what));
        }
        say(&what);
        Ok(())
    }
}
