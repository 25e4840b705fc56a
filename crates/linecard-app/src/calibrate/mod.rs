//! Costs of stages on this machine, kept in a file.

mod error;
pub(crate) mod lines;

use crate::{Context, Error, Failure, Job};
use error::CalibrateError;
use garde::Validate;
use linecard_io::calibrate::{
    Calibration, Identity, Series, StageCost, Survey, SurveyError, VERSION, raise_priority,
};
use linecard_report::{Named, Nanoseconds, Outcome, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rounds and time of a visit; and the same in a hurry.
const FULL: (u64, Duration) = (9, Duration::from_millis(4));
const QUICK: (u64, Duration) = (3, Duration::from_millis(1));

/// Which stages are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// Of large sends and receives
    Offload,
    /// Of transfers over lanes
    Transfer,
}

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// file to write
    #[schemars(extend(
        "x-value" = "FILE",
        "x-default" = "linecard/calibration.json in `$XDG_STATE_HOME` or `~/.local/state`"
    ))]
    pub file: Option<String>,
    /// core to measure on
    pub core: usize,
    /// a second core, to measure the cost of handing packets over
    #[schemars(extend("x-value" = "N", "x-default" = "the one after or before"))]
    pub other_core: Option<usize>,
    /// measure only the stages of offloads, or of transfers, and keep the others in the file
    #[schemars(extend("x-value" = "WHAT", "enum" = ["offload", "transfer"]))]
    pub only: Option<Only>,
    /// measure for only a second or two, and skip repair codes
    pub quick: bool,
}

/// The job: measures stages, and writes what they cost.
#[derive(Debug)]
pub struct Calibrate;

/// Costs of stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CalibrateOutcome {
    /// Measured on
    pub machine: MeasuredOn,
    /// Cost of a call: fixed + each firing; p50, p99 of calls to their mean; how far off the fit is
    pub stages: Named<Costs>,
    /// More for a packet that goes to another core
    pub crossings: Named<Crossing>,
    #[serde(skip)]
    notes: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredOn {
    /// processor
    pub model: String,
    /// microcode
    pub microcode: String,
    /// cores
    pub cores: usize,
    /// kernel
    pub kernel: String,
    /// governor
    pub governor: String,
    /// a cycle, besides its stages
    pub cycle_ns: Nanoseconds,
}

/// Cost of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Costs {
    /// Of a call, however many firings it has.
    pub fixed_ns: Nanoseconds,
    /// Of each firing.
    pub each_ns: Nanoseconds,
    /// The unit that a firing handles.
    pub unit: String,
    /// Median of calls to their mean.
    pub p50: f64,
    /// Of a hundred calls, the second longest to their mean.
    pub p99: f64,
    /// How far off the fit is.
    pub residual: Share,
}

/// Cost of handing a packet over.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Crossing {
    /// At the giving core.
    pub giving_ns: Nanoseconds,
    /// At the taking core.
    pub taking_ns: Nanoseconds,
}

impl Job for Calibrate {
    const NAME: &'static str = "calibrate";
    type Config = Config;
    type Outcome = CalibrateOutcome;

    fn title(_: &Config) -> String {
        "What stages cost on this machine".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<CalibrateOutcome, Error> {
        let file = config.file.as_deref().map(|file| context.path_of("file", file));
        let path = file.map_or_else(default_file, Ok)?;
        let cores = cores(config.core, config.other_core)?;
        let keeps = config.only.is_some() && path.exists();
        let known = if keeps { Some(load(&path)?.0) } else { None };
        let mut calibration = known.unwrap_or_else(Calibration::bare);
        let (mut alone, mut missing) = (Ok(()), None);
        if config.only != Some(Only::Transfer) {
            let found;
            (found, alone) = offload(config, cores, context)?;
            calibration = Calibration { stages: joined(&calibration, found.stages), ..found };
        }
        if config.only != Some(Only::Offload) {
            // Earlier results are kept, even if this fails.
            save(&path, &calibration)?;
            match transfer(config, context) {
                Ok((found, undisturbed)) => {
                    alone = alone.and(undisturbed);
                    calibration.stages = joined(&calibration, found);
                }
                Err(error) if config.only.is_none() => missing = Some(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        save(&path, &calibration)?;
        let missing = missing.map(|why| format!("Stages of transfers were not measured: {why}"));
        let notes = missing.into_iter().chain(disturbed(alone));
        let notes = notes.chain([format!("Kept in {}.", path.display())]).collect();
        Ok(CalibrateOutcome::new(&calibration, notes))
    }
}

/// The possible disturbance by other programs, if they could not be kept away.
pub(crate) fn disturbed(alone: Result<(), String>) -> Option<String> {
    alone.err().map(|why| format!("Other programs may have disturbed this: {why}"))
}

/// Stages of the offloads, and what a cycle and another core cost.
fn offload(
    config: &Config,
    cores: Option<[usize; 2]>,
    context: &Context<'_>,
) -> Result<(Calibration, Result<(), String>), Error> {
    let (rounds, visit) = if config.quick { QUICK } else { FULL };
    let mut survey = Survey::new(cores);
    context.progress.expect(rounds as usize);
    let mut alone = Ok(());
    for round in 0..rounds {
        context.go_on()?;
        context.progress.reach(round as usize);
        let measure = || survey.round(visit).map_err(thread);
        ((), alone) = undisturbed(Some(config.core), measure)?;
    }
    let calibration = survey.calibration().map_err(|error| thread(SurveyError::from(error)))?;
    Ok((calibration, alone))
}

/// Stages of transfers, one kind of packets after the other, as each needs some memory.
fn transfer(
    config: &Config,
    context: &Context<'_>,
) -> Result<(Vec<StageCost>, Result<(), String>), Error> {
    let (rounds, visit) = if config.quick { QUICK } else { FULL };
    let kinds: Vec<_> = lines::kinds(if config.quick { 1 } else { lines::CODES.len() })?;
    let mut series = Series::new(Vec::new());
    context.progress.expect(kinds.len());
    let mut alone = Ok(());
    for (done, &(payload, fec)) in kinds.iter().enumerate() {
        context.go_on()?;
        context.progress.reach(done);
        let mut line = lines::Round::new(payload, fec)?;
        for _ in 0..rounds {
            let mut measure = || {
                line.warm()?;
                let mut batches = lines::BATCHES.into_iter();
                // A chunk takes some milliseconds.
                batches.try_for_each(|batch| line.visit(&mut series, batch, 5 * visit))
            };
            ((), alone) = undisturbed(Some(config.core), &mut measure)?;
        }
    }
    let found = series.results().map_err(|error| thread(SurveyError::from(error)))?;
    Ok((found.into_iter().map(StageCost::from).filter(lines::is_kept).collect(), alone))
}

/// The known costs, replaced by the measured ones where both exist.
fn joined(known: &Calibration, found: Vec<StageCost>) -> Vec<StageCost> {
    let is_new = |stage: &&StageCost| !found.iter().any(|other| other.name == stage.name);
    let mut all: Vec<StageCost> = known.stages.iter().filter(is_new).cloned().collect();
    all.extend(found);
    all
}

/// The cores to measure on, if there are two.
pub(crate) fn cores(core: usize, other: Option<usize>) -> Result<Option<[usize; 2]>, Error> {
    let there = Identity::of_this_host().cores;
    if there < 2 && other.is_none() {
        return Ok(None);
    }
    let other = other.unwrap_or(if core + 1 < there { core + 1 } else { core.saturating_sub(1) });
    if other == core {
        return Err(CalibrateError::SameCore { core }.into());
    }
    Ok(Some([core, other]))
}

/// Work before all other programs', if that is allowed, else the reason why not; pinned, if a core is
/// given.
pub(crate) fn undisturbed<T>(
    core: Option<usize>,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Result<(), String>), Error> {
    let (placed, alone) = match raise_priority(core) {
        Ok(placed) => (Some(placed), Ok(())),
        Err(why) => (None, Err(why)),
    };
    let result = match (core, &placed) {
        (Some(core), None) => linecard_io::calibrate::on_core(core, work)
            .map_err(|source| CalibrateError::Core { core, source })??,
        _ => work()?,
    };
    drop(placed);
    Ok((result, alone))
}

pub(crate) fn thread(error: impl Into<SurveyError>) -> Error {
    Failure::Thread.with(error.into())
}

/// Where calibrations are kept unless a file is named.
pub(crate) fn default_file() -> Result<PathBuf, Error> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| home().map(|home| home.join(".local/state")));
    let state = state.ok_or(CalibrateError::NoFolder)?;
    Ok(state.join("linecard/calibration.json"))
}

/// Reads what was measured on this machine; another's is refused. Gives what else is different.
pub(crate) fn load(path: &Path) -> Result<(Calibration, Option<String>), Error> {
    let text = fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => CalibrateError::Missing { path: path.into() }.into(),
        _ => Error::Open { path: path.into(), source },
    })?;
    let calibration: Calibration = serde_json::from_str(&text)
        .map_err(|source| CalibrateError::Invalid { path: path.into(), source })?;
    let Calibration { version, identity, .. } = &calibration;
    if *version != VERSION {
        return Err(CalibrateError::Version { path: path.into(), version: *version }.into());
    }
    let here = Identity::of_this_host();
    if let Some(difference) = identity.refusal(&here) {
        return Err(CalibrateError::Machine { path: path.into(), difference }.into());
    }
    let remark = identity.remark(&here);
    Ok((calibration, remark))
}

/// Writes a calibration, whole or not at all.
fn save(path: &Path, calibration: &Calibration) -> Result<(), Error> {
    let failed = |error: io::Error| {
        let text = format!("{}: {error}", path.display());
        Error::Output { source: io::Error::new(error.kind(), text) }
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_string_pretty(calibration).map_err(io::Error::from);
    let text = text.map_err(failed)? + "\n";
    let half = path.with_extension("part");
    let mut file = fs::File::create(&half).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let written = written.and_then(|()| fs::rename(&half, path));
    written.inspect_err(|_| drop(fs::remove_file(&half))).map_err(failed)
}

impl CalibrateOutcome {
    fn new(calibration: &Calibration, notes: Vec<String>) -> Self {
        let Identity { model, microcode, cores, kernel, governor } = &calibration.identity;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not said".to_owned());
        let machine = MeasuredOn {
            model: model.clone(),
            microcode: known(microcode),
            cores: *cores,
            kernel: kernel.clone(),
            governor: known(governor),
            cycle_ns: Nanoseconds(calibration.cycle_ns),
        };
        let stages = calibration.stages.iter().map(|stage| {
            let cost = &stage.cost;
            let [p50, p99] = [0.5, 0.99].map(|q| cost.spread.quantile(q));
            let costs = Costs {
                fixed_ns: Nanoseconds(cost.fixed_ns),
                each_ns: Nanoseconds(cost.each_ns),
                unit: stage.unit.clone(),
                p50,
                p99,
                residual: Share(stage.residual),
            };
            (stage.name.clone(), costs)
        });
        let crossings = calibration.crossings.iter().map(|crossing| {
            let giving_ns = Nanoseconds(crossing.giving_ns);
            let taking_ns = Nanoseconds(crossing.taking_ns);
            (crossing.packet.to_string(), Crossing { giving_ns, taking_ns })
        });
        let (stages, crossings) = (Named(stages.collect()), Named(crossings.collect()));
        Self { machine, stages, crossings, notes }
    }
}

impl Outcome for CalibrateOutcome {
    fn label(&self, section: &str, key: &str) -> Option<String> {
        (section == "crossings").then(|| format!("packets of {key} bytes"))
    }

    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "stages" => self.stages.get(key).map(Costs::text),
            "crossings" => self.crossings.get(key).map(|Crossing { giving_ns, taking_ns }| {
                format!("giving {:.0} ns, taking {:.0} ns", giving_ns.0, taking_ns.0)
            }),
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl Costs {
    fn text(&self) -> String {
        let Self { fixed_ns, each_ns, unit, p50, p99, residual } = self;
        format!(
            "{:>8.1} ns + {:>7.1} ns a {unit:<6}  p50 {p50:>4.2}  p99 {p99:>4.2}  off {:>4.1} %",
            fixed_ns.0,
            each_ns.0,
            residual.0 * 100.0
        )
    }
}
