//! Two ports joined: the offloads on live interfaces and captures, by [`linecard_io::attach`].
//!
//! [`run`] opens the ports, gives up privileges, and passes packets until it is stopped, its time is over, a port
//! disappears or a capture ends. An [`Observer`] shows what happens meanwhile.

mod config;
pub(crate) mod error;
mod hints;
mod history;
pub(crate) mod http;
pub mod metrics;
mod outcome;
mod owner;
mod rates;
mod ready;

pub use config::{
    ActiveAck, Config, Cores, Deployment, Idle, LearnOn, Merge, Metrics, OutputOrder, Profile,
    Scheduling, TextError,
};
pub use outcome::{
    Acknowledged, AttachOutcome, Check, Events, PortOutcome, Resequencing, Summary, WorkerOutcome,
    WorkerPackets,
};
pub use rates::{DropCounts, MergeRates, PortRates, Rates, Reasons, WorkerRates, reasons};

use crate::captures::ConversionError;
use crate::{Context, Error, Failure, Finished, Job, Level};
use error::JoinError;
use history::History;
use http::Listener;
use linecard_io::attach::{
    AttachError, AttachStats, Attached, Follower, PortKind, Prepared, Settings,
};
use linecard_io::{engine, rights};
use linecard_report::{Page, Report, report_of};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time between two looks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// How many of these between two looks at the interfaces.
const LOOKS: u32 = 5;

/// The job.
#[derive(Debug)]
pub struct Attach;

/// Shows what happens while ports are joined.
pub trait Observer {
    /// A line for people: which ports are open, which user the process has become, where metrics are.
    fn say(&mut self, level: Level, line: &str) {
        let _ = (level, line);
    }

    /// The rates of an interval, which ended so long after the start.
    fn interval(&mut self, rates: &Rates, elapsed: Duration) {
        let _ = (rates, elapsed);
    }

    /// Whether the statistics so far are wanted now; asked every 100 ms.
    fn wants_statistics(&mut self) -> bool {
        false
    }

    /// The statistics so far.
    fn statistics(&mut self, report: &Report) {
        let _ = report;
    }

    /// The same as a page, where the job has one so far.
    fn page(&mut self, page: Page) {
        let _ = page;
    }
}

/// Shows nothing.
impl Observer for () {}

impl Job for Attach {
    const NAME: &'static str = "attach";
    type Config = Config;
    type Outcome = AttachOutcome;

    fn title(_: &Config) -> String {
        "Two ports joined".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<AttachOutcome, Error> {
        let ended = join(config, context, &[], &mut ())?;
        ended.failure.map_or(Ok(ended.outcome), Err)
    }
}

/// The end of an attachment.
struct Ended {
    outcome: AttachOutcome,
    account: AttachStats,
    history: History,
    failure: Option<Error>,
}

/// Joins two ports until the end. `files` are written by the caller afterwards, when privileges have been given up.
///
/// # Errors
///
/// Ports that cannot be opened, privileges that cannot be given up, an address for metrics that is in use. What goes
/// wrong later is the failure of the result.
pub fn run(
    config: &Config,
    context: &Context<'_>,
    files: &[PathBuf],
    observer: &mut dyn Observer,
) -> Result<Finished, Error> {
    let Ended { outcome, account, history, failure } = join(config, context, files, observer)?;
    let mut finished =
        Finished::of_report(Attach::title(config), report_of(Attach::COMMAND, &outcome));
    finished = finished.of_config(config, context.document);
    finished.value = serde_json::to_value(&outcome).unwrap_or_default();
    finished.failure = failure;
    history.draw(&mut finished.page, &account);
    Ok(finished)
}

fn join(
    config: &Config,
    context: &Context<'_>,
    files: &[PathBuf],
    observer: &mut dyn Observer,
) -> Result<Ended, Error> {
    let ready = ready::descriptor(config.ready_fd.0)?;
    let mut settings = config.settings()?;
    let drops = !config.keep_rights && owner::has_rights_to_drop(&settings);
    settings.keep_rights = !drops;
    if drops && rights::is_root() {
        settings.owner = owner::of_capture(&settings.far)?;
        settings.owner = owner::of_page(files, settings.owner)?;
    }
    // While there are privileges that the address may take.
    let listener = config.metrics.0.0.map(|address| listen(address, observer)).transpose()?;
    let mut prepared = Prepared::new(settings.clone()).map_err(refused)?;
    let mut follower = prepared.take_follower();
    prepared.opened().iter().for_each(|line| observer.say(Level::Info, line));
    prepared.obstacles().iter().for_each(|line| observer.say(Level::Warning, line));
    let user = drops.then(|| settings.owner.unwrap_or_default());
    let attached = begin(prepared, user, observer)?;
    ready::announce(&settings, ready, observer);
    if let Some(listener) = listener {
        let accounts = attached.stats_handle();
        let ports =
            metrics::Ports { near: settings.near.to_string(), far: settings.far.to_string() };
        let served = listener.serve(move || metrics::text(&accounts.now(), &ports));
        served.map_err(JoinError::Metrics)?;
    }
    let handle = attached.stats_handle();
    let outcome = |account: &AttachStats, at_stop: &AttachStats, elapsed| {
        let outcome = AttachOutcome::new(account, at_stop, &settings, elapsed);
        match config.flows {
            0 => outcome,
            most => outcome.with_flows(&handle.flows(), most),
        }
    };
    let mut history = History::default();
    watch(&attached, config, context, &mut |event| match event {
        Event::Look => {
            let lines = follower.as_mut().map(Follower::look).unwrap_or_default();
            lines.iter().for_each(|line| observer.say(Level::Notice, line));
            if observer.wants_statistics() {
                let account = attached.stats();
                let outcome = outcome(&account, &account, attached.elapsed());
                observer.statistics(&report_of(Attach::COMMAND, &outcome));
            }
        }
        Event::Interval { rates, elapsed, is_last } => {
            history.take(rates, elapsed);
            if !is_last {
                observer.interval(rates, elapsed);
            }
        }
    });
    let ended_itself = attached.is_ending();
    ready::stopping(observer);
    let at_stop = attached.stats();
    attached.stop();
    let elapsed = attached.elapsed();
    let (account, failures) = attached.finish();
    let outcome = outcome(&account, &at_stop, elapsed);
    let failure = worst(failures, observer)
        .or_else(|| ended_itself.then(|| ended(&settings, &account)).flatten());
    Ok(Ended { outcome, account, history, failure })
}

/// Says all failures but one, which decides the exit code: not a damaged input, of which the output
/// has the rest, if there is another.
fn worst(failures: Vec<AttachError>, observer: &mut dyn Observer) -> Option<Error> {
    let mut failures: Vec<Error> = failures.into_iter().map(failed).collect();
    failures.sort_by_key(|failure| !matches!(failure, Error::Damaged { .. }));
    let worst = failures.pop();
    failures.iter().for_each(|failure| observer.say(Level::Error, &failure.to_string()));
    worst
}

/// Takes the address for metrics.
pub(crate) fn listen(address: SocketAddr, observer: &mut dyn Observer) -> Result<Listener, Error> {
    let listener =
        Listener::bind(address).map_err(|source| JoinError::MetricsAddress { address, source })?;
    observer.say(Level::Info, &format!("metrics at http://{}/metrics", listener.address()));
    Ok(listener)
}

/// Gives up privileges, if there is a user to become, and starts.
fn begin(
    prepared: Prepared,
    user: Option<rights::Account>,
    observer: &mut dyn Observer,
) -> Result<Attached, Error> {
    if let Some(user) = user {
        match rights::drop_all(user) {
            Ok(dropped) => observer.say(Level::Info, &dropped.to_string()),
            Err(error) => {
                prepared.give_up();
                return Err(Failure::Attach.with(error));
            }
        }
    }
    Ok(prepared.start())
}

/// An event while ports are joined.
enum Event<'r> {
    /// It is time to look at the interfaces, and whether the statistics are wanted.
    Look,
    /// An interval has ended, so long after the start.
    Interval { rates: &'r Rates, elapsed: Duration, is_last: bool },
}

/// Shows the rates of each interval until the end: it ends by itself, is stopped, or its time is over. The last
/// interval may be shorter than the others.
fn watch(
    attached: &Attached,
    config: &Config,
    context: &Context<'_>,
    show: &mut dyn FnMut(Event<'_>),
) {
    let end = config.seconds.0.map(Duration::from_secs_f64);
    let interval = Duration::from(config.interval);
    let (mut earlier, mut shown) = (attached.stats(), attached.elapsed());
    let mut looks = (0..LOOKS).cycle();
    loop {
        if looks.next() == Some(0) {
            show(Event::Look);
        }
        let elapsed = attached.elapsed();
        let is_over = end.is_some_and(|end| elapsed >= end);
        let is_last = attached.is_ending() || context.progress.is_stopped() || is_over;
        if is_last || elapsed - shown >= interval {
            let later = attached.stats();
            let rates = &Rates::between(&earlier, &later, elapsed - shown);
            show(Event::Interval { rates, elapsed, is_last });
            (earlier, shown) = (later, elapsed);
        }
        if is_last {
            return;
        }
        let rest = end.map_or(LOOK, |end| end.saturating_sub(elapsed));
        thread::sleep(LOOK.min(rest).min(interval));
    }
}

/// Why ports could not be opened: captures as by the commands for them.
fn refused(error: AttachError) -> Error {
    match error {
        AttachError::Open { path, source } => Error::Open { path, source },
        AttachError::Capture { path, error } => Error::of_capture(&path, error),
        AttachError::Engine(error @ engine::Failure::Pin { .. }) => JoinError::Cores(error).into(),
        AttachError::Engine(error @ engine::Failure::Schedule { .. }) => {
            JoinError::Scheduling(error).into()
        }
        AttachError::Engine(error @ engine::Failure::Panicked { .. }) => {
            Failure::Thread.with(error)
        }
        other => Failure::Attach.with(other),
    }
}

/// An error of the attachment as one of the command.
fn failed(error: AttachError) -> Error {
    match error {
        AttachError::Capture { path, error } if error.is_damage() => {
            Error::Damaged { input: path.display().to_string(), damage: Arc::new(error) }
        }
        AttachError::UnknownLinks { path, links } => {
            ConversionError::UnknownLinks { input: path.display().to_string(), links }.into()
        }
        error @ (AttachError::Capture { .. } | AttachError::Open { .. }) => refused(error),
        error @ AttachError::NotGivenBack(_) => Failure::NotRestored.with(error),
        other => Failure::Thread.with(other),
    }
}

/// A capture ends as it should, and other ports when they are gone.
fn ended(settings: &Settings, account: &AttachStats) -> Option<Error> {
    let gone = |ports| AttachStats::total(ports).gone > 0;
    let port = match (gone(&account.near), gone(&account.far)) {
        (true, _) => &settings.near,
        (false, true) => &settings.far,
        (false, false) if settings.near.file().is_some() => return sent_nothing(settings, account),
        (false, false) => &settings.far,
    };
    if matches!(port.kind, PortKind::Vhost(_)) {
        return Some(JoinError::GuestLeft { port: port.clone() }.into());
    }
    Some(JoinError::Gone { port: port.clone() }.into())
}

/// A capture of which nothing at all could be sent was not played.
fn sent_nothing(settings: &Settings, account: &AttachStats) -> Option<Error> {
    let far = AttachStats::total(&account.far);
    let lost = far.dropped.transmitted();
    if far.transmitted > 0 || lost == 0 {
        return None;
    }
    let reasons = reasons(&far.dropped).into_iter();
    let reason = reasons.max_by_key(|(_, _, count)| *count).map_or("", |(_, what, _)| what);
    let Settings { near, far, .. } = settings.clone();
    Some(JoinError::NothingSent { near, far, packets: lost, reason }.into())
}
