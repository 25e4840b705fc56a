//! Experiments on this host: their parameters, their runs and their results.

use super::error::JitterError;
use super::record::{self, CauseRecord, GateRecord, Record};
use super::recovery;
use crate::{Context, Error, Failure};
use garde::Validate;
use linecard_config::{ConfigError, Count, Duration, Parsed, Switch};
use linecard_io::placement::Placement;
use linecard_jitter::linux::dummy::{DummyConfig, Pace};
use linecard_jitter::linux::experiment::{Experiment, Fidelity, Setup, THROTTLE};
use linecard_jitter::linux::remote::RemoteError;
use linecard_jitter::linux::session::{
    Conditions, CoreAssignment, RemoteNetwork, SessionError, TestNetwork, measure,
};
use linecard_jitter::linux::trace::TraceBackend;
use linecard_jitter::linux::watch::Target;
use linecard_report::{Report, Section, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// Packets of a first look: a second and a half.
const FIRST_LOOK: u64 = 200_000;
/// The longest stream.
const MAX_COUNT: u64 = 10_000_000;

/// The experiments to run.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// experiments, E0 to E8
    #[default(vec![Experiment::E2.id().to_owned()])]
    #[schemars(extend("x-argument" = "EXPERIMENT"))]
    pub experiments: Vec<String>,
    /// all of them, one after the other
    #[schemars(extend("x-conflicts" = ["EXPERIMENT"]))]
    pub all: Switch,
    /// The stream.
    #[garde(dive)]
    pub stream: Stream,
    /// keep each result in this folder, for `linecard jitter report`
    #[schemars(extend("x-value" = "DIR"))]
    pub output: Option<String>,
}

/// The stream that experiments measure.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Stream {
    /// period of the stream; the default is that of ST 2022-6 with 1080i59.94
    #[default(Duration::from_ps(7_419_761))]
    #[garde(range(min = Duration::from_ps(1), max = Duration::from_secs(3_600)))]
    pub period: Duration,
    /// packets
    #[garde(range(min = Count::new(2), max = Count::new(MAX_COUNT)))]
    #[schemars(extend("x-default" = "1M; 200k in `trace`, 40k in each run of `ab`"))]
    pub count: Option<Count>,
    /// core of the sender, on its host
    #[schemars(extend("x-default" = "the first"))]
    pub sender_core: Option<u16>,
    /// core of the sink
    #[schemars(extend("x-default" = "the first isolated one, or the last"))]
    pub sink_core: Option<u16>,
    /// use the loopback interface, which needs no privileges and causes hardly any interrupts
    #[schemars(extend("x-conflicts" = ["remote-sender", "sink-address"]))]
    pub loopback: Switch,
    /// have another host send the stream: the command that starts linecard there, as `ssh root@192.0.2.2 linecard`, or in
    /// another namespace, as `ip netns exec NAME linecard`
    #[schemars(extend("x-value" = "COMMAND"))]
    pub remote_sender: Option<String>,
    /// address of this host to which the remote sender sends; with %INTERFACE, the one at which it arrives, experiments
    /// can change where its packets are processed
    #[schemars(extend("x-value" = "ADDRESS:PORT%INTERFACE"))]
    pub sink_address: Option<Parsed<Target>>,
    /// by what means the kernel is traced
    pub trace: Tracing,
}

/// Means of tracing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tracing {
    /// BPF, or tracefs where BPF is refused
    #[default]
    Auto,
    /// BPF at tracepoints: packets carry their numbers
    Bpf,
    /// the kernel's own ring buffers: packets are numbered in their order
    Tracefs,
    /// not at all: figures without causes
    Off,
}

/// The records of experiments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// One for each experiment that was run.
    pub records: Vec<Record>,
    /// Which experiments were not run, if that is not said in the last record's text already.
    pub missing: Option<String>,
}

impl Tracing {
    fn means(self) -> Option<TraceBackend> {
        match self {
            Self::Auto => Some(TraceBackend::Auto),
            Self::Bpf => Some(TraceBackend::Bpf),
            Self::Tracefs => Some(TraceBackend::Tracefs),
            Self::Off => None,
        }
    }
}

impl Stream {
    /// The conditions that experiments begin with over this network, of `count` packets unless the stream says
    /// otherwise.
    pub(super) fn base(&self, count: u64, place: &TestNetwork) -> Conditions {
        let cores = CoreAssignment::of_this_host();
        let mut base = Conditions {
            period_ps: self.period.as_ps(),
            count: self.count.map_or(count, Count::get),
            cores: CoreAssignment {
                generator: self.sender_core.unwrap_or(cores.generator),
                sink: self.sink_core.unwrap_or(cores.sink),
            },
            traced: self.trace.means(),
            is_sender_remote: matches!(place, TestNetwork::Remote(remote) if remote.has_own_clock()),
            ..Conditions::default()
        };
        if !base.are_apart() {
            // Two threads of a real-time class that never wait cannot share a core.
            (base.sender_fifo, base.sink_fifo, base.sleeping_sender) = (None, None, true);
        }
        base
    }

    /// The way from a remote sender if there is one. Otherwise a cable where that can be had, the loopback interface
    /// else, and why.
    ///
    /// # Errors
    ///
    /// The remote sender cannot be started, or it is not said where its stream arrives.
    pub(super) fn place(
        &self,
        context: &Context<'_>,
    ) -> Result<(TestNetwork, Option<String>), Error> {
        if let Some(remote) = self.remote(context)? {
            return Ok((TestNetwork::Remote(Box::new(remote)), None));
        }
        if self.loopback.0 {
            return Ok((TestNetwork::Loopback, None));
        }
        Ok(match TestNetwork::cable() {
            Ok(place) => (place, None),
            Err(error) => {
                let why =
                    format!("No cable between namespaces, so the loopback interface: {error}.");
                (TestNetwork::Loopback, Some(why))
            }
        })
    }

    fn remote(&self, context: &Context<'_>) -> Result<Option<RemoteNetwork>, Error> {
        let refuse =
            |parameter, error| Err(Error::from(ConfigError::of_parameter(parameter, error)));
        let (command, target) = match (&self.remote_sender, &self.sink_address) {
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return refuse("sink_address", JitterError::NoSinkAddress);
            }
            (None, Some(_)) => {
                return refuse("remote_sender", JitterError::NoRemoteSender);
            }
            (Some(command), Some(Parsed(target))) => (command, target),
        };
        if target.source.is_some() || target.address.ip().is_multicast() {
            return refuse("sink_address", JitterError::SourceOrGroup);
        }
        if target.address.port() == 0 || target.address.ip().is_unspecified() {
            return refuse("sink_address", JitterError::NoAddress);
        }
        let (address, interface) = (target.address, target.interface.clone());
        if let Some(name) = interface.as_ref().filter(|name| !is_interface(name)) {
            return refuse("sink_address", JitterError::NoInterface { name: name.clone() });
        }
        let stop = context.progress.stop_flag();
        match RemoteNetwork::start(command, self.sender_core, address, interface, stop) {
            Ok(remote) => Ok(Some(remote)),
            Err(error @ RemoteError::Stopped { .. }) => Err(JitterError::Remote(error).into()),
            Err(error) => Err(Failure::Attach.with(error)),
        }
    }
}

fn is_interface(name: &str) -> bool {
    !name.contains('/') && Path::new("/sys/class/net").join(name).exists()
}

impl Config {
    fn chosen(&self) -> Result<Vec<Experiment>, ConfigError> {
        if self.all.0 {
            return Ok(Experiment::ALL.to_vec());
        }
        let named = |name: &String| {
            let found = Experiment::ALL.into_iter().find(|one| one.id().eq_ignore_ascii_case(name));
            found.ok_or_else(|| {
                let error = JitterError::NoExperiment { name: name.clone() };
                ConfigError::of_parameter("experiments", error)
            })
        };
        self.experiments.iter().map(named).collect()
    }
}

/// Runs experiments. Each result is kept in the folder that the configuration names, and given to `each`, as soon as it
/// is there. Cancellation ends it with the results so far.
///
/// # Errors
///
/// Experiments that do not exist; sockets that cannot be opened; what `each` fails with.
pub fn run(
    config: &Config,
    context: &Context<'_>,
    each: &mut dyn FnMut(&Record) -> Result<(), Error>,
) -> Result<Results, Error> {
    let chosen = config.chosen()?;
    let folder = config.output.as_ref().map(|folder| context.path_of("output", folder));
    if let Some(folder) = &folder {
        make_folder(folder)?;
    }
    let (place, why) = config.stream.place(context)?;
    let base = config.stream.base(Conditions::default().count, &place);
    let mut records: Vec<Record> = Vec::new();
    for (index, one) in chosen.iter().enumerate() {
        let mut record = conduct(*one, &base, &place, context)?;
        let is_stopped = context.progress.is_stopped();
        // Without one packet there is nothing to show of it.
        if is_stopped && record.sent == 0 {
            break;
        }
        record.remarks.extend(why.clone());
        if index + 1 == chosen.len() || is_stopped {
            record.remarks.extend(restored(&place)?);
        }
        if is_stopped {
            record.remarks.push(cut_short(&record, base.count, &chosen[index + 1..]));
        }
        if let Some(folder) = &folder {
            keep(folder, &record)?;
        }
        each(&record)?;
        records.push(record);
        if is_stopped {
            break;
        }
    }
    let missing: Vec<&str> = chosen[records.len()..].iter().map(|one| one.id()).collect();
    let last = records.last_mut().filter(|last| !missing.is_empty() && !is_cut_short(last));
    let missing = last.map(|last| {
        let remark = format!("{STOPPED} without {}.", missing.join(", "));
        last.remarks.push(remark.clone());
        remark
    });
    Ok(Results { records, missing })
}

/// Restores settings that measurements over this network have changed; returns messages about that.
pub(super) fn restored(place: &TestNetwork) -> Result<Vec<String>, Error> {
    let restorations = place.restore().map_err(|error| Failure::NotRestored.with(error))?;
    recovery::end(restorations)
}

/// Measures this host as it is for a second and a half; nothing where that was cancelled before the first packet.
///
/// # Errors
///
/// Sockets that cannot be opened.
pub fn first_look(context: &Context<'_>) -> Result<Option<Record>, Error> {
    let stream = Stream::default();
    let (place, why) = stream.place(context)?;
    let base = stream.base(FIRST_LOOK, &place);
    // As the host is: only the sender gets real-time priority, because it must be on time.
    let conditions = Conditions { sink_fifo: None, is_awake: false, ..base };
    let mut record = stream_record(&place, &conditions, context)?;
    "this host as it is".clone_into(&mut record.title);
    record.remarks.extend(why);
    let is_stopped = context.progress.is_stopped();
    if is_stopped {
        record.remarks.push(cut_short(&record, FIRST_LOOK, &[]));
    }
    Ok(Some(record).filter(|record| !is_stopped || record.sent > 0))
}

/// How near the batch of E8 has to come to theory, as a share.
const BATCH_WITHIN: f64 = 0.05;
/// Packets of each experiment beside the paper: two seconds.
const BESIDE_THE_PAPER: u64 = 270_000;

/// Adds all experiments as rows of a report: the paper's figure and this host's.
pub fn reproduce(report: &mut Report, context: &Context<'_>) {
    let mut section = Section::list("live", "This host, live");
    let stream = Stream::default();
    let (place, why) = match stream.place(context) {
        Ok(place) => place,
        Err(error) => return report.note(format!("Not testable here: {error}.")),
    };
    let base = stream.base(BESIDE_THE_PAPER, &place);
    for one in context.each(Experiment::ALL.into_iter()) {
        let record = match conduct(one, &base, &place, context) {
            Ok(record) => record,
            Err(error) => {
                let text = format!("not testable here: {error}");
                section.add(one.id(), one.id(), Value::Text(text));
                continue;
            }
        };
        let label = format!("{} {}", one.id(), one.title());
        let mut text = record::beside_the_paper(&record);
        // That of the busy loop is the paper's own.
        if record.period_ns > 0
            && record.period_ns != base.period_ps / 1_000
            && !record.is_busy_loop()
        {
            text += &format!(" (a packet each {})", Value::Ns(record.period_ns as f64));
        }
        section.add(one.id(), label, Value::Text(text));
    }
    report.push(section);
    why.into_iter().for_each(|why| report.note(why));
}

/// Prefix of remarks on the effect of a signal.
const STOPPED: &str = "Stopped early:";

/// Whether a remark already says what was not run.
fn is_cut_short(record: &Record) -> bool {
    record.remarks.iter().any(|remark| remark.starts_with(STOPPED))
}

/// Measurements that a signal prevented.
fn cut_short(record: &Record, count: u64, rest: &[Experiment]) -> String {
    let text = format!("{STOPPED} {} of {count} packets were sent.", record.sent);
    let rest: Vec<&str> = rest.iter().map(|one| one.id()).collect();
    match rest.as_slice() {
        [] => text,
        [one] => format!("{text} {one} was not run."),
        several => format!("{text} {} were not run.", several.join(", ")),
    }
}

/// One experiment.
fn conduct(
    one: Experiment,
    base: &Conditions,
    place: &TestNetwork,
    context: &Context<'_>,
) -> Result<Record, Error> {
    let way = place.way();
    let reality = one.reality(way);
    let mut record = match (reality, one.setup(base, way)) {
        (Fidelity::NotHere(why), _) => record::not_measured(place, why),
        (_, Setup::Dummy) => dummy_record(base, context)?,
        (_, Setup::Stream(conditions)) => {
            let record = stream_record(place, &conditions, context)?;
            explained(one, base, &conditions, record)
        }
    };
    one.id().clone_into(&mut record.id);
    one.title().clone_into(&mut record.title);
    record.gates.extend(took_effect(one, &record));
    record.published = Some(one.published().to_owned());
    record.reality = Some(match reality {
        Fidelity::Real => "real".to_owned(),
        Fidelity::Emulated(how) => format!("emulated: {how}"),
        Fidelity::NotHere(why) => format!("not testable here: {why}"),
    });
    Ok(record)
}

/// A record with what its experiment takes otherwise than the base.
fn explained(one: Experiment, base: &Conditions, taken: &Conditions, mut record: Record) -> Record {
    if taken.period_ps != base.period_ps {
        record.remarks.push(format!(
            "{} sends a packet each {}, and not each {}: this host has no third core for the busy \
             thread, so it runs on the sender's, which must sleep between packets.",
            one.id(),
            period(taken),
            period(base)
        ));
    }
    if taken.traced.is_none() && base.traced.is_some() {
        let untraced = format!(
            "{} looks at the stream only, and E2 is the same stream with a trace",
            one.id()
        );
        record.untraced = record.untraced.map(|_| untraced);
    }
    record
}

fn period(conditions: &Conditions) -> Value {
    Value::Ns(conditions.period_ps as f64 / 1e3)
}

/// Whether the trace shows what the experiment is about; nothing where it shows that in any case, or
/// there is none.
fn took_effect(one: Experiment, record: &Record) -> Option<GateRecord> {
    let traced = record.traced.as_ref()?;
    let (passes, found) = match one {
        Experiment::E4 => {
            let is_sleep = |cause: &&CauseRecord| cause.name.starts_with("waking from");
            let spikes =
                traced.causes.iter().filter(is_sleep).map(|cause| cause.spikes).sum::<u64>();
            let found = format!("{spikes} spikes are mainly the waking of a core that slept");
            (traced.causes.iter().any(|cause| is_sleep(&cause)), found)
        }
        Experiment::E8 => {
            let theory = THROTTLE.as_nanos() as f64 / record.period_ns.max(1) as f64;
            let batch = traced.mean_batch.unwrap_or(0.0);
            let found = format!("{batch:.2} packets of a poll, and theory has {theory:.2}");
            // Packets that are further apart come one by one.
            (theory < 2.0 || (batch / theory - 1.0).abs() <= BATCH_WITHIN, found)
        }
        _ => return None,
    };
    Some(GateRecord { name: "effect".to_owned(), passes, found })
}

pub(super) fn stream_record(
    place: &TestNetwork,
    conditions: &Conditions,
    context: &Context<'_>,
) -> Result<Record, Error> {
    let mut conditions = conditions.clone();
    let stop = context.progress.stop_flag();
    let outcome = measure(place, &conditions, stop).or_else(|error| match error {
        // Without the privilege for real-time priority, the measurement runs without it.
        SessionError::Generator(_) | SessionError::Sink(_) if conditions.sender_fifo.is_some() => {
            (conditions.sender_fifo, conditions.sink_fifo) = (None, None);
            measure(place, &conditions, stop)
        }
        error => Err(error),
    });
    let outcome = outcome.map_err(|error| Failure::Attach.with(error))?;
    Ok(dated(record::of_outcome(place, &outcome)))
}

fn dummy_record(base: &Conditions, context: &Context<'_>) -> Result<Record, Error> {
    let stop = context.progress.stop_flag();
    let core = usize::from(base.cores.sink);
    let placement = Placement { core: Some(core), fifo: base.sink_fifo, ..Placement::default() };
    let mut config = DummyConfig {
        count: base.count,
        pace: Pace::Absolute,
        placement,
        ..DummyConfig::default()
    };
    // The paper's loop is a little faster than its stream.
    if base.period_ps != Conditions::default().period_ps {
        config.period_ps = base.period_ps;
    }
    let laps = config.run(stop).or_else(|_| {
        config.placement.fifo = None;
        config.run(stop)
    });
    let laps = laps.map_err(|error| Failure::Usage.with(error))?;
    let class = config.placement.fifo.map_or("normal".to_owned(), |n| format!("SCHED_FIFO {n}"));
    let conditions = vec![
        ("period".to_owned(), format!("{} ns", config.period_ps as f64 / 1e3)),
        ("core".to_owned(), core.to_string()),
        ("class".to_owned(), class),
    ];
    Ok(dated(record::of_dummy(laps.schedule, &laps.at_ns, conditions)))
}

/// A record that was made now.
fn dated(record: Record) -> Record {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = linecard_report::Origin::new(since.map_or(0, |since| since.as_secs()), []);
    Record { measured: Some(now.utc()), ..record }
}

/// Makes a folder, and those that it is in.
pub(super) fn make_folder(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| Error::Open { path: folder.into(), source })
}

/// Keeps a result in a folder: a file that is there whole or not at all.
pub(super) fn keep(folder: &Path, record: &Record) -> Result<(), Error> {
    let name = if record.id.is_empty() { "stream" } else { &record.id };
    let path = folder.join(format!("{name}.json"));
    let text = serde_json::to_vec_pretty(record).map_err(io::Error::from)?;
    let temporary = path.with_extension("json.part");
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|source| Error::Open { path, source })
}

/// Whether the figures of all records give a verdict.
///
/// # Errors
///
/// [`Failure::Withheld`] with the gates that do not hold, or where nothing was measured.
pub fn verdict(records: &[Record]) -> Result<(), Error> {
    if records.is_empty() {
        return Err(JitterError::NothingMeasured.into());
    }
    let failed: Vec<(String, String)> = records
        .iter()
        .filter(|record| !record.gives_a_verdict())
        .map(|record| (record.id.clone(), record.failed_gates()))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(JitterError::Gates { failed }.into())
}

/// The kept results of a folder, in the order of their names.
///
/// # Errors
///
/// A folder that cannot be read or has no results; files that are not results, or of another version.
pub fn kept(folder: &Path) -> Result<Vec<Record>, Error> {
    let entries =
        fs::read_dir(folder).map_err(|source| Error::Open { path: folder.into(), source })?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        // A pipe would be waited for; the page's own figures are not a result.
        is_json
            && path.is_file()
            && path.file_stem().is_none_or(|stem| stem != "report" && stem != "compared")
    });
    paths.sort();
    if paths.is_empty() {
        return Err(JitterError::NoResults { folder: folder.to_owned() }.into());
    }
    paths.iter().map(|path| Record::read(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E6 had another period, and E0 no trace, without a word.
    #[test]
    fn what_an_experiment_takes_otherwise_is_said() {
        let base = Conditions { traced: Some(TraceBackend::Auto), ..Conditions::default() };
        let record = || Record { untraced: Some("off".to_owned()), ..Record::default() };
        let slow = Conditions { period_ps: 400_000_000, ..base.clone() };
        let remarks = explained(Experiment::E6, &base, &slow, record()).remarks;
        assert!(
            remarks[0].starts_with("E6 sends a packet each 400 µs, and not each 7.4"),
            "{remarks:?}"
        );
        let without = Conditions { traced: None, ..base.clone() };
        let untraced = explained(Experiment::E0, &base, &without, record()).untraced;
        assert!(untraced.is_some_and(|why| why.contains("E2 is the same stream with a trace")));
        // Users who have turned it off know.
        let untraced = explained(Experiment::E0, &without, &without, record()).untraced;
        assert_eq!(untraced.as_deref(), Some("off"));
        assert_eq!(explained(Experiment::E2, &base, &base, record()), record());
    }
}
