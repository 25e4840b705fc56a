//! A scenario at many points: values of parameters from a grid or a list, each point run or computed, several at a time.

mod axis;
mod error;
mod figure;
#[cfg(feature = "parquet")]
mod parquet;
mod predicted;
mod rows;
mod transmit;

use super::Scenario;
use super::parallel;
use super::scenario::ScenarioError;
use super::transmit::TransmitModel;
use super::transmit::firmware::IMAGE;
use crate::erased::AtPoints;
use crate::{Error, Job};
use axis::{Axis, Grid};
use error::SweepError;
use figure::Drawn;
use linecard::progress::Progress;
use linecard_config::Document;
use linecard_io::capture::{CaptureError, OutputFile};
use linecard_report::Page;
use rows::{Csv, Json, Rows};
use serde_json::Value;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use transmit::TransmitAtPoints;

/// Points that are run before their rows are written: this bounds the memory.
const CHUNK: u64 = 1_024;

pub use crate::erased::Row;

/// A scenario, and the keys that its points have values for.
pub struct Points {
    job: Box<dyn AtPoints>,
    keys: usize,
    warnings: Vec<String>,
}

impl Points {
    /// Checks the scenario and the keys; values of points are checked with each point. `predict` computes points of
    /// "transmit" in place of running them.
    ///
    /// # Errors
    ///
    /// Unknown keys, one that is given twice, and values of the scenario that are refused.
    pub fn new(scenario: &Scenario, keys: &[String], predict: bool) -> Result<Self, Error> {
        let Scenario { model, document } = scenario;
        let is_transmit = model.name == TransmitModel::NAME;
        if predict && !is_transmit {
            return Err(scenario.refuse(ScenarioError::NotComputed));
        }
        if let Some(at) = (0..keys.len()).find(|at| keys[..*at].contains(&keys[*at])) {
            return Err(SweepError::Twice { key: keys[at].clone() }.into());
        }
        let job: Box<dyn AtPoints> = match is_transmit {
            true => Box::new(TransmitAtPoints::new(document, keys, predict)?),
            false => model.at_points(document, keys)?,
        };
        Ok(Self { job, keys: keys.len(), warnings: scenario.former_names() })
    }

    /// A warning for each value of the scenario that is given by a parameter's former name.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The results of points, in their order, computed on this many threads; or the reason why one could not be run. A
    /// point has a value for each key. When `progress` is stopped, running points end early, and others
    /// are not run.
    ///
    /// # Errors
    ///
    /// Points with too many values or too few.
    pub fn run(
        &self,
        points: &[Vec<Value>],
        threads: usize,
        progress: &Arc<Progress>,
    ) -> Result<Vec<Result<Row, String>>, Error> {
        if let Some(point) = points.iter().find(|point| point.len() != self.keys) {
            return Err(SweepError::Values { values: point.len(), keys: self.keys }.into());
        }
        let run = |point: &Vec<Value>| self.point(point, progress).map_err(|e| e.to_string());
        Ok(parallel::map(points, threads, run))
    }

    /// A point that is stopped before or during its run has no result.
    fn point(&self, point: &[Value], progress: &Arc<Progress>) -> Result<Row, Error> {
        let go_on = || if progress.is_stopped() { Err(Error::cancelled()) } else { Ok(()) };
        go_on()?;
        let row = self.job.run(point, progress)?;
        go_on()?;
        Ok(row)
    }
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Points").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Values with commas between them, names first.
    #[default]
    Csv,
    /// An array of objects.
    Json,
    /// Columns with types, compressed with Snappy.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Work of a sweep.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parameters and their values, as `core.mhz=100..500:10` or `load.mtu=512,1500`; the last changes fastest.
    pub vary: Vec<String>,
    /// Compute points in place of running them.
    pub predict: bool,
    /// How rows are written.
    pub format: Format,
    /// The file with the rows; `-` is stdout.
    pub output: PathBuf,
    /// Points that run at a time, 1 to [`parallel::MAX_THREADS`].
    pub threads: usize,
}

/// A sweep of the sending side over a grid, ready to run.
pub struct Sweep<'o> {
    scenario: PathBuf,
    grid: Grid,
    job: TransmitAtPoints,
    options: &'o Options,
}

/// How points came out.
#[derive(Debug)]
pub struct Tally {
    points: u64,
    failed: u64,
    wrong: u64,
    first: Option<Arc<Error>>,
    drawn: Drawn,
}

impl<'o> Sweep<'o> {
    /// Checks the scenario and the grid.
    ///
    /// # Errors
    ///
    /// Values that are refused, too many points, and firmware that is not there.
    pub fn new(document: &Document, options: &'o Options) -> Result<Self, Error> {
        let Options { vary, predict, threads, .. } = options;
        if !(1..=parallel::MAX_THREADS).contains(threads) {
            return Err(SweepError::Threads { threads: *threads }.into());
        }
        let axes = vary.iter().map(|text| Axis::parse(text, document));
        let grid = Grid::new(axes.collect::<Result<_, _>>()?)?;
        let job = TransmitAtPoints::new(document, &grid.names(), *predict)?;
        job.load(grid.values_of(IMAGE))?;
        Ok(Self { scenario: document.path().to_owned(), grid, job, options })
    }

    /// Points of the grid.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.grid.points()
    }

    /// Runs all points, chunk by chunk, and writes their rows; `progress` counts points.
    ///
    /// # Errors
    ///
    /// An output that cannot be written, and cancellation.
    pub fn run(&self, progress: &Arc<Progress>) -> Result<Tally, Error> {
        let of = |source| Error::of_capture(&self.scenario, source);
        let write = |source| of(CaptureError::Write { source });
        let file = OutputFile::create(&self.options.output, &[&self.scenario]).map_err(of)?;
        let mut rows = self.rows(file).map_err(write)?;
        let points = self.points();
        progress.expect(points as usize);
        // Messages of points are not counted beside the points.
        let point_progress = Arc::new(Progress::new());
        let drawn = Drawn::new(&self.grid, self.job.names());
        let mut tally = Tally { points, failed: 0, wrong: 0, first: None, drawn };
        for from in (0..points).step_by(CHUNK as usize) {
            if progress.is_stopped() {
                return Err(Error::cancelled());
            }
            let chunk: Vec<u64> = (from..points.min(from + CHUNK)).collect();
            let results = parallel::map(&chunk, self.options.threads, |&point| {
                let result = self.job.values(&self.grid.values(point), &point_progress);
                progress.advance(1);
                result
            });
            for (point, result) in chunk.iter().zip(results) {
                let values = self.grid.values(*point);
                let row = rows::row(values.clone(), &result, self.job.names().len());
                tally.take(&values, result);
                rows.add(row).map_err(write)?;
            }
        }
        rows.finish().map_err(write)?.commit().map_err(of)?;
        Ok(tally)
    }

    fn rows(&self, file: OutputFile) -> io::Result<Box<dyn Rows>> {
        let names = rows::names(&self.grid.names(), self.job.names());
        Ok(match self.options.format {
            Format::Csv => Box::new(Csv::start(file, &names)?),
            Format::Json => Box::new(Json::start(file, names)?),
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let is_text = |name: &String| {
                    self.grid.values_of(name).iter().any(|value| !value.is_number())
                };
                let texts: Vec<String> = names.iter().filter(|n| is_text(n)).cloned().collect();
                Box::new(parquet::Parquet::start(file, &names, &texts)?)
            }
        })
    }
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("options", self.options).finish_non_exhaustive()
    }
}

impl Tally {
    fn take(&mut self, point: &[Value], result: Result<rows::PointResult, Error>) {
        match result {
            Ok(found) => {
                self.wrong += u64::from(!found.is_right);
                if found.is_right {
                    self.drawn.add(point, &found.values);
                }
            }
            Err(why) => {
                self.failed += 1;
                self.first.get_or_insert_with(|| Arc::new(why));
            }
        }
    }

    /// Its page: rates over a key.
    #[must_use]
    pub fn page(&self) -> Page {
        self.drawn.page(self.points)
    }

    /// A sentence about points that could not be run, if there are any.
    ///
    /// # Errors
    ///
    /// Firmware that was wrong at a point; no point that could be run.
    pub fn warning(&self) -> Result<Option<String>, Error> {
        let Self { points, failed, wrong, .. } = *self;
        if wrong > 0 {
            return Err(SweepError::Wrong { wrong, points }.into());
        }
        let Some(first) = self.first.clone() else { return Ok(None) };
        let error = SweepError::Failed { failed, points, first };
        if failed == points { Err(error.into()) } else { Ok(Some(error.to_string())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn points(text: &str, keys: &[&str], predict: bool) -> Result<Points, Error> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let scenario = Scenario::of_text(Path::new("x.toml"), text, &[])?;
        Points::new(&scenario, &keys, predict)
    }

    #[test]
    fn points_are_in_their_order_whatever_runs_them() {
        let text = "model = \"transmit\"\n[load]\nmessages = 4\n";
        let points = points(text, &["core.mhz"], false).expect("points");
        let all: Vec<Vec<Value>> = (100..120).map(|mhz| vec![mhz.into()]).collect();
        let go = Arc::default();
        let once = points.run(&all, 1, &go).expect("rows");
        assert_eq!(once, points.run(&all, 2, &go).expect("rows"));
        let parts: Vec<_> =
            all.chunks(7).flat_map(|part| points.run(part, 2, &go).expect("rows")).collect();
        assert_eq!(once, parts);
        let ended = Arc::new(Progress::new());
        ended.stop();
        let stopped = points.run(&all, 2, &ended).expect("rows");
        assert!(stopped.iter().all(|row| row.as_ref().is_err_and(|why| why == "stopped")));
        let rate = |row: &Result<Row, String>| {
            let row = row.as_ref().expect("a row");
            row.iter().find(|(name, _)| name == "packets_per_second").and_then(|(_, v)| v.as_f64())
        };
        assert!(rate(&once[0]) < rate(&once[19]), "{:?}", once[0]);
    }

    #[test]
    fn former_names_are_warned_of() {
        let text = "model = \"npu\"\n[dma]\nbits_per_second = 1000\n";
        let warnings = points(text, &["npu.cores"], false).expect("points").warnings().to_vec();
        let expected =
            "x.toml:3: `bits_per_second = 1000`: `dma.bits_per_second` is now called `dma.rate`";
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn every_kind_of_model_has_points() {
        let text = "model = \"transfer\"\n[chunk]\ncount = 4\nbytes = \"64K\"\n";
        let point = |lanes: u64, loss: f64| vec![lanes.into(), loss.into()];
        let varied = points(text, &["lanes.count", "lanes.loss"], false).expect("points");
        let go = Arc::default();
        let rows = varied.run(&[point(1, 0.0), point(2, 2.0), point(2, 0.1)], 1, &go);
        let rows = rows.expect("rows");
        let has_bytes = |row: &Row| row.iter().any(|(name, _)| name == "summary.bytes");
        assert!(rows[0].as_ref().is_ok_and(has_bytes));
        assert!(rows[1].as_ref().is_err_and(|why| why.contains("lanes.loss")), "{:?}", rows[1]);
        assert!(rows[2].is_ok());
        let refuse =
            |keys: &[&str], predict| points(text, keys, predict).expect_err("refused").to_string();
        assert!(refuse(&["lanes.colour"], false).contains("known are"));
        assert!(refuse(&["lanes.count", "lanes.count"], false).contains("twice"));
        assert!(refuse(&["lanes.count"], true).contains("computed"));
        let large = "model = \"transfer\"\n[chunk]\ncount = 100000\n";
        let error = points(large, &["lanes.count"], false).expect_err("too many packets");
        assert!(error.to_string().starts_with("x.toml:3: "), "{error}");
    }
}
