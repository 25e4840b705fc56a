//! Experiments on this host: where they run, what they take, how they are shown.

use super::record::{self, CauseRecord, GateRecord, Record};
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use crate::units;
use clap::Args;
use linecard_io::placement::Placement;
use linecard_jitter::linux::dummy::{DummyConfig, Pace};
use linecard_jitter::linux::experiment::{Experiment, Reality, Setup, THROTTLE};
use linecard_jitter::linux::session::{Conditions, Place, Seats, SessionError, measure};
use linecard_jitter::linux::trace::Means;
use linecard_report::{Report, Section, Target, Value};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Packets of the measurement without arguments: a second and a half.
const FIRST_LOOK: u64 = 200_000;
/// The longest stream.
const MAX_COUNT: u64 = 10_000_000;
/// Bytes of a kept result: over thirty times the longest.
const MAX_RESULT: u64 = 32 << 20;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArguments {
    /// Experiments, E0 to E8 [default: E2].
    #[arg(value_name = "EXPERIMENT", value_parser = experiment)]
    experiments: Vec<Experiment>,
    /// All of them, one after the other.
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    #[command(flatten)]
    stream: StreamArguments,
    #[command(flatten)]
    shown: ShownArguments,
}

/// What all experiments share.
#[derive(Debug, Default, Args)]
pub(crate) struct StreamArguments {
    /// Period of the stream [default: 7.419761us, ST 2022-6 of 1080i59.94].
    #[arg(long, value_name = "TIME", value_parser = units::period_ps)]
    period: Option<u64>,
    /// Packets, 2 to 10M [default: 1M; 40k in each run of `ab`].
    #[arg(long, value_name = "N", value_parser = units::many)]
    count: Option<u64>,
    /// Core of the sender [default: the first].
    #[arg(long, value_name = "CORE")]
    sender_core: Option<u16>,
    /// Core of the sink [default: the last].
    #[arg(long, value_name = "CORE")]
    sink_core: Option<u16>,
    /// Over the loopback interface, which needs no rights, and has no interrupts to speak of.
    #[arg(long)]
    loopback: bool,
    /// By what means the kernel is traced.
    #[arg(long, value_enum, value_name = "MEANS", default_value_t)]
    trace: TraceMeans,
}

/// Means of tracing.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum TraceMeans {
    /// BPF, and tracefs where that is refused.
    #[default]
    Auto,
    /// BPF at tracepoints: packets carry their numbers.
    Bpf,
    /// The kernel's own ring buffers: packets are numbered in their order.
    Tracefs,
    /// Not at all: figures without causes.
    Off,
}

impl TraceMeans {
    fn means(self) -> Option<Means> {
        match self {
            Self::Auto => Some(Means::Auto),
            Self::Bpf => Some(Means::Bpf),
            Self::Tracefs => Some(Means::Tracefs),
            Self::Off => None,
        }
    }
}

/// How results are shown and kept.
#[derive(Debug, Default, Args)]
pub(crate) struct ShownArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write a page of all results, which opens offline, and all figures as JSON beside it.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep each result in this folder, for `linecard jitter report`; not with `ab`.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn experiment(text: &str) -> Result<Experiment, String> {
    let found = Experiment::ALL.into_iter().find(|one| one.id().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("{text} is no experiment: there are E0 to E8"))
}

impl StreamArguments {
    /// The conditions that experiments begin with.
    pub(crate) fn base(&self, count: u64) -> Result<Conditions, Failure> {
        let seats = Seats::of_this_host();
        let mut base = Conditions {
            seats: Seats {
                generator: self.sender_core.unwrap_or(seats.generator),
                sink: self.sink_core.unwrap_or(seats.sink),
            },
            traced: self.trace.means(),
            ..Conditions::default()
        };
        base.period_ps = self.period.unwrap_or(base.period_ps);
        base.count = self.count.unwrap_or(count);
        if !(2..=MAX_COUNT).contains(&base.count) {
            let what = format!("{} packets cannot be measured: take 2 to {MAX_COUNT}", base.count);
            return Err(Failure::Usage(what));
        }
        if !base.seats.are_apart() {
            // Two threads of a real-time class that never wait cannot share a core.
            (base.sender_fifo, base.sink_fifo, base.sleeping_sender) = (None, None, true);
        }
        Ok(base)
    }

    /// A cable where that can be had, the loopback interface otherwise, and why.
    pub(crate) fn place(&self) -> (Place, Option<String>) {
        if self.loopback {
            return (Place::Loopback, None);
        }
        match Place::cable() {
            Ok(place) => (place, None),
            Err(error) => {
                let why =
                    format!("No cable between namespaces, so the loopback interface: {error}.");
                (Place::Loopback, Some(why))
            }
        }
    }
}

/// Runs `linecard jitter run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let chosen = match (arguments.all, arguments.experiments.as_slice()) {
        (true, _) => Experiment::ALL.to_vec(),
        (false, []) => vec![Experiment::E2],
        (false, some) => some.to_vec(),
    };
    let target = arguments.shown.target()?;
    let base = arguments.stream.base(Conditions::default().count)?;
    // Before there is a cable: one that is stopped removes it.
    let stop = signals()?;
    let (place, why) = arguments.stream.place();
    let mut records = Vec::new();
    for (index, one) in chosen.iter().enumerate() {
        let mut record = conduct(*one, &base, &place, &stop)?;
        let is_stopped = stop.load(Ordering::Relaxed);
        // Without one packet there is nothing to show of it.
        if is_stopped && record.sent == 0 {
            break;
        }
        record.remarks.extend(why.clone());
        if is_stopped {
            record.remarks.push(cut_short(&record, base.count, &chosen[index + 1..]));
        }
        arguments.shown.keep(&record)?;
        if !arguments.shown.json {
            let between = if records.is_empty() { "" } else { "\n" };
            account::print_text(&format!("{between}{}", record::screen(&record)))?;
        }
        records.push(record);
        if is_stopped {
            break;
        }
    }
    let missing: Vec<&str> = chosen[records.len()..].iter().map(|one| one.id()).collect();
    if let Some(last) = records.last_mut().filter(|last| !missing.is_empty() && !is_cut_short(last))
    {
        let remark = format!("{STOPPED} without {}.", missing.join(", "));
        arguments.shown.say(&remark)?;
        last.remarks.push(remark);
    }
    drop(place);
    arguments.shown.finish("Jitter of this host", &records, target)
}

/// Runs `linecard jitter`, without a word: this host as it is.
pub(crate) fn first_look(is_json: bool) -> Result<(), Failure> {
    let stream = StreamArguments::default();
    let base = stream.base(FIRST_LOOK)?;
    let stop = signals()?;
    let (place, why) = stream.place();
    // As the host is: nobody is preferred but the sender, who has to be on time.
    let conditions = Conditions { sink_fifo: None, is_awake: false, ..base };
    let mut record = stream_record(&place, &conditions, &stop)?;
    "this host as it is".clone_into(&mut record.title);
    record.remarks.extend(why);
    let is_stopped = stop.load(Ordering::Relaxed);
    drop(place);
    if is_stopped && record.sent == 0 {
        return verdict(&[]);
    }
    if is_stopped {
        record.remarks.push(cut_short(&record, FIRST_LOOK, &[]));
    }
    if is_json {
        account::print_json(&std::slice::from_ref(&record))?;
        return verdict(std::slice::from_ref(&record));
    }
    let headline = record::folded(&record::headline(std::slice::from_ref(&record)));
    let next = record::folded(
        "linecard jitter run --all --report FILE shows each source by itself; linecard jitter audit \
         says what this host is set to.",
    );
    let text = format!("{headline}\n{}\n{next}", record::screen(&record));
    account::print_text(&text)?;
    verdict(std::slice::from_ref(&record))
}

/// How near the batch of E8 has to come to theory, as a share.
const BATCH_WITHIN: f64 = 0.05;
/// Packets of each experiment beside the paper: two seconds.
const BESIDE_THE_PAPER: u64 = 270_000;

/// All experiments as rows of a report: the paper's figure and this host's.
pub(crate) fn reproduce(report: &mut Report) -> Result<(), Failure> {
    let stream = StreamArguments::default();
    let base = stream.base(BESIDE_THE_PAPER)?;
    let stop = signals()?;
    let (place, why) = stream.place();
    let mut section = Section::list("live", "This host, live");
    for one in Experiment::ALL {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let record = match conduct(one, &base, &place, &stop) {
            Ok(record) => record,
            Err(failure) => {
                section.add(
                    one.id(),
                    one.id(),
                    Value::Text(format!("not testable here: {failure}")),
                );
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
    Ok(())
}

/// What remarks on the effect of a signal begin with.
const STOPPED: &str = "Stopped early:";

/// Whether a remark already says what was not run.
fn is_cut_short(record: &Record) -> bool {
    record.remarks.iter().any(|remark| remark.starts_with(STOPPED))
}

/// What a signal has kept from being measured.
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
    place: &Place,
    stop: &AtomicBool,
) -> Result<Record, Failure> {
    let reality = one.reality(place.interface().is_some());
    let mut record = match (reality, one.setup(base)) {
        (Reality::NotHere(why), _) => record::not_measured(place, why),
        (_, Setup::Dummy) => dummy_record(base, stop)?,
        (_, Setup::Stream(conditions)) => {
            let record = stream_record(place, &conditions, stop)?;
            explained(one, base, &conditions, record)
        }
    };
    one.id().clone_into(&mut record.id);
    one.title().clone_into(&mut record.title);
    record.gates.extend(took_effect(one, &record));
    record.published = Some(one.published().to_owned());
    record.reality = Some(match reality {
        Reality::Real => "real".to_owned(),
        Reality::Emulated(how) => format!("emulated: {how}"),
        Reality::NotHere(why) => format!("not testable here: {why}"),
    });
    Ok(record)
}

/// A record with what its experiment takes otherwise than the base.
fn explained(one: Experiment, base: &Conditions, taken: &Conditions, mut record: Record) -> Record {
    if taken.period_ps != base.period_ps {
        record.remarks.push(format!(
            "{} sends a packet each {}, and not each {}: this host has no third core for the busy thread, so \
             it has the sender's, which has to sleep between packets.",
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

pub(crate) fn stream_record(
    place: &Place,
    conditions: &Conditions,
    stop: &AtomicBool,
) -> Result<Record, Failure> {
    let mut conditions = conditions.clone();
    let outcome = measure(place, &conditions, stop).or_else(|error| match error {
        // Whoever may not take precedence measures without.
        SessionError::Generator(_) | SessionError::Sink(_) if conditions.sender_fifo.is_some() => {
            (conditions.sender_fifo, conditions.sink_fifo) = (None, None);
            measure(place, &conditions, stop)
        }
        error => Err(error),
    });
    let outcome = outcome.map_err(|error| Failure::Attach(error.to_string()))?;
    Ok(dated(record::of_outcome(place, &outcome)))
}

fn dummy_record(base: &Conditions, stop: &AtomicBool) -> Result<Record, Failure> {
    let core = usize::from(base.seats.sink);
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
    let laps = laps.map_err(|error| Failure::Usage(error.to_string()))?;
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
    Record { measured: Some(crate::page::origin().utc()), ..record }
}

impl ShownArguments {
    /// One result, in all forms that are wished.
    pub(crate) fn show(
        &self,
        title: &str,
        record: Record,
        target: Option<Target>,
    ) -> Result<(), Failure> {
        self.keep(&record)?;
        if !self.json {
            account::print_text(&record::screen(&record))?;
        }
        self.finish(title, &[record], target)
    }

    /// Looked at before anything is measured.
    pub(crate) fn target(&self) -> Result<Option<Target>, Failure> {
        if let Some(folder) = &self.output {
            fs::create_dir_all(folder)
                .map_err(|source| Failure::Open { path: folder.clone(), source })?;
        }
        let target = self.report.as_deref().map(Target::new).transpose();
        target.map_err(|error| Failure::Usage(error.to_string()))
    }

    /// A sentence below the figures, for people.
    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { account::print_text(&record::folded(text)) }
    }

    /// Whether JSON is asked for.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn keep(&self, record: &Record) -> Result<(), Failure> {
        let Some(folder) = &self.output else { return Ok(()) };
        let name = if record.id.is_empty() { "stream" } else { &record.id };
        let text = serde_json::to_vec_pretty(record).map_err(std::io::Error::from)?;
        write_whole(&folder.join(format!("{name}.json")), &text)
    }

    /// JSON, page and verdict.
    pub(crate) fn finish(
        &self,
        title: &str,
        records: &[Record],
        target: Option<Target>,
    ) -> Result<(), Failure> {
        if self.json {
            account::print_json(&records)?;
        }
        if let Some(target) = target.filter(|_| !records.is_empty()) {
            target.write(record::page(title, records).origin(crate::page::origin()))?;
        }
        verdict(records)
    }
}

/// A file that is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let temporary = path.with_extension("json.part");
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| Failure::Open { path: path.to_path_buf(), source })
}

/// Whether figures carry one.
fn verdict(records: &[Record]) -> Result<(), Failure> {
    if records.is_empty() {
        let what = "no verdict: stopped before anything was measured".to_owned();
        return Err(Failure::Withheld(what));
    }
    let failed: Vec<&Record> =
        records.iter().filter(|record| !record.carries_a_verdict()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let reasons = failed.iter().map(|record| format!("{} {}", record.id, record.failed_gates()));
    let reasons: Vec<String> = reasons.map(|reason| reason.trim().to_owned()).collect();
    Err(Failure::Withheld(format!("no verdict, for what was found at: {}", reasons.join("; "))))
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReportArguments {
    /// Folder with the results of `linecard jitter run --output`.
    folder: PathBuf,
    /// The page to write [default: report.html in that folder].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs `linecard jitter report`.
pub(crate) fn report(arguments: &ReportArguments, is_json: bool) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let entries =
        fs::read_dir(folder).map_err(|source| Failure::Open { path: folder.clone(), source })?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    // A pipe would be waited for.
    paths.retain(|path| path.is_file());
    paths.retain(|path| path.file_stem().is_none_or(|stem| stem != "report"));
    paths.sort();
    let records = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    if records.is_empty() {
        let what = format!(
            "{} has no results: make some with linecard jitter run --all --output {}",
            folder.display(),
            folder.display()
        );
        return Err(Failure::Usage(what));
    }
    let path = arguments.report.clone().unwrap_or_else(|| folder.join("report.html"));
    let target = Target::new(&path).map_err(|error| Failure::Usage(error.to_string()))?;
    target.write(record::page("Jitter of this host", &records).origin(crate::page::origin()))?;
    if is_json {
        return account::print_json(&records);
    }
    account::print_text(&format!("{}\n", target.html().display()))
}

fn read(path: &Path) -> Result<Record, Failure> {
    let file = fs::File::open(path).map(|file| file.take(MAX_RESULT + 1));
    let mut text = Vec::new();
    let read = file.and_then(|mut file| file.read_to_end(&mut text));
    read.map_err(|source| Failure::Open { path: path.to_path_buf(), source })?;
    let refused = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    if text.len() as u64 > MAX_RESULT {
        return Err(refused(format!("it is longer than {MAX_RESULT} bytes, which no result is")));
    }
    let record: Record = serde_json::from_slice(&text)
        .map_err(|error| refused(format!("it is no result of an experiment ({error})")))?;
    if record.version != record::VERSION {
        let why =
            format!("form {}, and this is {}: measure again", record.version, record::VERSION);
        return Err(refused(why));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E6 had another period, and E0 no trace, without a word.
    #[test]
    fn what_an_experiment_takes_otherwise_is_said() {
        let base = Conditions { traced: Some(Means::Auto), ..Conditions::default() };
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
        // Whoever has turned it off knows.
        let untraced = explained(Experiment::E0, &without, &without, record()).untraced;
        assert_eq!(untraced.as_deref(), Some("off"));
        assert_eq!(explained(Experiment::E2, &base, &base, record()), record());
    }
}
