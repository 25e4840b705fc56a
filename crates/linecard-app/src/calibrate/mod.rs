//! What stages cost on this machine, kept in a file.

pub(crate) mod lines;

use crate::{Context, Error};
use linecard_io::calibrate::{
    Calibration, Identity, Series, StageCost, Survey, SurveyError, VERSION, raise_priority,
};
use linecard_report::{Report, Section, Value};
use serde::Serialize;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rounds and time of a visit; and the same in a hurry.
const FULL: (u64, Duration) = (9, Duration::from_millis(4));
const QUICK: (u64, Duration) = (3, Duration::from_millis(1));

/// Which stages are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// Those of large sends and receives.
    Offload,
    /// Those of transfers over lanes.
    Transfer,
}

/// The parameters.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// File to write; without one, `linecard/calibration.json` among the user's state.
    pub file: Option<PathBuf>,
    /// Core to measure on.
    pub core: usize,
    /// A second core, for what it costs to hand packets over: without one, a core beside the first.
    pub other_core: Option<usize>,
    /// Stages to measure: the file keeps what it has of the others. Without this, all.
    pub only: Option<Only>,
    /// Measure for a second or two, and no repair codes.
    pub quick: bool,
}

/// Measures stages, and writes what they cost.
///
/// # Errors
///
/// Cores that cannot be used, a file that cannot be written, stages that do not run, and cancellation.
pub fn calibrate(settings: &Settings, context: &Context<'_>) -> Result<Report, Error> {
    let path = settings.file.clone().map_or_else(default_file, Ok)?;
    let cores = cores(settings.core, settings.other_core)?;
    let keeps = settings.only.is_some() && path.exists();
    let known = if keeps { Some(load(&path)?.0) } else { None };
    let mut calibration = known.unwrap_or_else(Calibration::bare);
    let (mut alone, mut missing) = (Ok(()), None);
    if settings.only != Some(Only::Transfer) {
        let found;
        (found, alone) = offload(settings, cores, context)?;
        calibration = Calibration { stages: joined(&calibration, found.stages), ..found };
    }
    if settings.only != Some(Only::Offload) {
        // What was found so far stays, whatever comes of this.
        save(&path, &calibration)?;
        match transfer(settings, context) {
            Ok((found, undisturbed)) => {
                alone = alone.and(undisturbed);
                calibration.stages = joined(&calibration, found);
            }
            Err(error) if settings.only.is_none() => missing = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    save(&path, &calibration)?;
    let mut report = report(&calibration);
    report.add_config(settings);
    if let Some(why) = missing {
        report.note(format!("Stages of transfers were not measured: {why}"));
    }
    if let Err(why) = alone {
        report.note(format!("Other programs may have disturbed this: {why}"));
    }
    report.note(format!("Kept in {}.", path.display()));
    Ok(report)
}

/// Stages of the offloads, and what a cycle and another core cost.
fn offload(
    settings: &Settings,
    cores: Option<[usize; 2]>,
    context: &Context<'_>,
) -> Result<(Calibration, Result<(), String>), Error> {
    let (rounds, visit) = if settings.quick { QUICK } else { FULL };
    let mut survey = Survey::new(cores);
    context.progress.expect(rounds as usize);
    let mut alone = Ok(());
    for round in 0..rounds {
        context.go_on()?;
        context.progress.reach(round as usize);
        let measure = || survey.round(visit).map_err(thread);
        ((), alone) = undisturbed(Some(settings.core), measure)?;
    }
    let calibration = survey.calibration().map_err(|error| thread(SurveyError::from(error)))?;
    Ok((calibration, alone))
}

/// Stages of transfers, one kind of packets after the other, as each needs some memory.
fn transfer(
    settings: &Settings,
    context: &Context<'_>,
) -> Result<(Vec<StageCost>, Result<(), String>), Error> {
    let (rounds, visit) = if settings.quick { QUICK } else { FULL };
    let kinds: Vec<_> = lines::kinds(if settings.quick { 1 } else { lines::CODES.len() })?;
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
            ((), alone) = undisturbed(Some(settings.core), &mut measure)?;
        }
    }
    let found = series.results().map_err(|error| thread(SurveyError::from(error)))?;
    Ok((found.into_iter().map(StageCost::from).filter(lines::is_kept).collect(), alone))
}

/// What is known with what was found, which counts where both have it.
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
        let what =
            format!("--other-core {other}: that is the core that --core names: choose another");
        return Err(Error::Usage(what));
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
        (Some(core), None) => {
            linecard_io::calibrate::on_core(core, work).map_err(|error| no_core(core, &error))??
        }
        _ => work()?,
    };
    drop(placed);
    Ok((result, alone))
}

fn no_core(core: usize, error: &io::Error) -> Error {
    let what = format!("cannot run on core {core}: {error}; choose one that this process may use");
    Error::Usage(what)
}

pub(crate) fn thread(error: impl Into<SurveyError>) -> Error {
    Error::Thread(error.into().to_string())
}

/// Where calibrations are kept unless a file is named.
pub(crate) fn default_file() -> Result<PathBuf, Error> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| home().map(|home| home.join(".local/state")));
    let what = "there is neither $XDG_STATE_HOME nor $HOME: name a file by --file or --calibration";
    let state = state.ok_or_else(|| Error::Usage(what.to_owned()))?;
    Ok(state.join("linecard/calibration.json"))
}

/// Reads what was measured on this machine; another's is refused. Gives what else is different.
pub(crate) fn load(path: &Path) -> Result<(Calibration, Option<String>), Error> {
    let text = fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Usage(format!(
            "there is no calibration {}: make one by `linecard calibrate`, or give stages their costs",
            path.display()
        )),
        _ => Error::Open { path: path.into(), source },
    })?;
    let refuse = |what: String| Error::Usage(format!("{}: {what}", path.display()));
    let calibration: Calibration = serde_json::from_str(&text)
        .map_err(|error| refuse(format!("this is not a calibration ({error}): make one again")))?;
    if calibration.version != VERSION {
        let version = calibration.version;
        let what = format!("its version is {version}, and {VERSION} is known: make it again");
        return Err(refuse(what));
    }
    let here = Identity::of_this_host();
    if let Some(other) = calibration.identity.refusal(&here) {
        let what = format!("this is the calibration of another machine: {other}; make one here");
        return Err(refuse(what));
    }
    let remark = calibration.identity.remark(&here);
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

fn report(calibration: &Calibration) -> Report {
    let mut report = Report::new("calibrate");
    let mut machine = Section::new("machine", "Measured on");
    let Identity { model, microcode, cores, kernel, governor } = &calibration.identity;
    let known = |text: &Option<String>| Value::Text(text.clone().unwrap_or("not said".into()));
    machine.add("model", "processor", Value::Text(model.clone()));
    machine.add("microcode", "microcode", known(microcode));
    machine.add("cores", "cores", Value::Count(*cores as u64));
    machine.add("kernel", "kernel", Value::Text(kernel.clone()));
    machine.add("governor", "governor", known(governor));
    machine.add("cycle_ns", "a cycle, besides its stages", Value::Ns(calibration.cycle_ns));
    report.push(machine);
    let mut stages = Section::new(
        "stages",
        "Cost of a call: fixed + each firing; p50, p99 of calls to their mean; how far off the fit is",
    );
    for stage in &calibration.stages {
        let cost = &stage.cost;
        let [p50, p99] = [0.5, 0.99].map(|q| cost.spread.quantile(q));
        let text = format!(
            "{:>8.1} ns + {:>7.1} ns a {:<6}  p50 {p50:>4.2}  p99 {p99:>4.2}  off {:>4.1} %",
            cost.fixed_ns,
            cost.each_ns,
            stage.unit,
            stage.residual * 100.0
        );
        let fields = vec![
            ("fixed_ns", Value::Ns(cost.fixed_ns)),
            ("each_ns", Value::Ns(cost.each_ns)),
            ("unit", Value::Text(stage.unit.clone())),
            ("p50", Value::Number(p50)),
            ("p99", Value::Number(p99)),
            ("residual", Value::Share(stage.residual)),
        ];
        stages.add(stage.name.clone(), stage.name.clone(), Value::Fields(text, fields));
    }
    report.push(stages);
    let mut crossings = Section::new("crossings", "More for a packet that goes to another core");
    for crossing in &calibration.crossings {
        let text =
            format!("giving {:.0} ns, taking {:.0} ns", crossing.giving_ns, crossing.taking_ns);
        let fields = vec![
            ("giving_ns", Value::Ns(crossing.giving_ns)),
            ("taking_ns", Value::Ns(crossing.taking_ns)),
        ];
        let name = crossing.packet.to_string();
        let label = format!("packets of {name} bytes");
        crossings.add(name, label, Value::Fields(text, fields));
    }
    report.push(crossings);
    report
}
