//! `linecard attach`.

mod args;
mod hints;
mod history;
mod http;
mod lines;
mod metrics;
mod owner;
mod rates;
mod ready;
mod report;
mod settings;
mod view;

pub(crate) use args::AttachArguments;
#[cfg(test)]
pub(crate) use metrics::tests as tested_metrics;

use crate::account;
use crate::failure::Failure;
use crate::say;
use crate::signals::signals;
use history::History;
use http::Listener;
use linecard_io::attach::{Account, AttachError, Attached, PortSpec, Prepared, Settings};
use linecard_io::engine;
use linecard_io::rights;
use lines::Lines;
use rates::Rates;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use view::View;

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn command(arguments: &AttachArguments) -> Result<(), Failure> {
    let mut settings = settings::of(arguments)?;
    let captures: Vec<&Path> =
        [&settings.near, &settings.far].into_iter().filter_map(PortSpec::file).collect();
    let page = arguments.page.check(&captures)?;
    let drops = !arguments.keep_rights && owner::has_rights_to_drop(&settings);
    settings.keep_rights = !drops;
    if drops && rights::is_root() {
        settings.owner = owner::of_capture(&settings.far)?;
        settings.owner = owner::of_page(page.files(), settings.owner)?;
    }
    let asked = signals()?;
    let listener = arguments.metrics.map(listen).transpose()?;
    let prepared = Prepared::new(settings.clone()).map_err(refused)?;
    prepared.opened().iter().for_each(|line| say(line));
    let attached = begin(prepared, drops.then(|| settings.owner.unwrap_or_default()))?;
    ready::announce(&settings);
    if let Some(listener) = listener {
        let accounts = attached.accounts();
        let served = listener.serve(move || metrics::text(&accounts));
        served.map_err(|error| Failure::Attach(format!("--metrics: {error}")))?;
    }
    let mut show = Shown { show: Show::of(arguments), history: History::default() };
    watch(&attached, arguments, &asked, &mut show);
    let ended_itself = attached.is_ending();
    attached.stop();
    let elapsed = attached.elapsed();
    let (account, failures) = attached.finish();
    let report = report::of(&account, &settings, elapsed);
    show.show.last(&report, &settings)?;
    let ending = match worst(failures) {
        Some(failure) => Err(failure),
        None if ended_itself => ended(&settings, &account),
        None => Ok(()),
    };
    page.write(|| show.history.page(&report, &account), ending)
}

/// Says all failures but one, which decides the exit code: not a damaged input, of which the output
/// has the rest, if there is another.
fn worst(failures: Vec<AttachError>) -> Option<Failure> {
    let mut failures: Vec<Failure> = failures.into_iter().map(failed).collect();
    failures.sort_by_key(|failure| !matches!(failure, Failure::Damaged { .. }));
    let worst = failures.pop();
    failures.iter().for_each(|failure| say(&failure.to_string()));
    worst
}

/// Takes the address of `--metrics` while there are rights to.
fn listen(address: std::net::SocketAddr) -> Result<Listener, Failure> {
    let listener = Listener::bind(address).map_err(|error| {
        Failure::Attach(format!("--metrics {address}: {error}; choose another address"))
    })?;
    say(&format!("metrics at http://{}/metrics", listener.address()));
    Ok(listener)
}

/// Gives up rights, if there is somebody to become, and starts.
fn begin(prepared: Prepared, account: Option<rights::Account>) -> Result<Attached, Failure> {
    if let Some(account) = account {
        match rights::drop_all(account) {
            Ok(dropped) => say(&dropped.to_string()),
            Err(error) => {
                prepared.give_up();
                return Err(Failure::Attach(error.to_string()));
            }
        }
    }
    Ok(prepared.start())
}

/// What is shown meanwhile, and what is kept of it for a page.
struct Shown {
    show: Show,
    history: History,
}

impl Shown {
    fn interval(&mut self, rates: &Rates, elapsed: Duration) -> Result<(), Failure> {
        self.history.take(rates, elapsed);
        self.show.interval(rates, elapsed)
    }
}

/// How it is shown.
enum Show {
    Lines(Lines<Box<dyn Write>>),
    View(View),
    /// Only the account, at the end.
    Nothing,
}

impl Show {
    fn of(arguments: &AttachArguments) -> Self {
        if arguments.json {
            // As for captures: what is no data goes to stderr when data goes to stdout.
            let is_data = arguments.far.file() == Some(Path::new("-"));
            let out: Box<dyn Write> =
                if is_data { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
            return Self::Lines(Lines::new(out));
        }
        View::on_terminal().map_or(Self::Nothing, Self::View)
    }

    fn interval(&mut self, rates: &Rates, elapsed: Duration) -> Result<(), Failure> {
        match self {
            Self::Lines(lines) => Ok(lines.interval(elapsed.as_secs_f64(), rates)?),
            Self::View(view) => {
                view.show(rates, elapsed);
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }

    fn last(
        &mut self,
        report: &linecard_report::Report,
        settings: &Settings,
    ) -> Result<(), Failure> {
        match self {
            Self::Lines(lines) => Ok(lines.last(report)?),
            _ => account::print(report, false, settings.far.file()),
        }
    }
}

/// Ends by itself, at a signal, when the time is over or when nothing can be shown any more.
fn watch(attached: &Attached, arguments: &AttachArguments, asked: &AtomicBool, show: &mut Shown) {
    let end = arguments.seconds.map(Duration::from_secs_f64);
    let (mut earlier, mut shown) = (attached.account(), attached.elapsed());
    loop {
        let elapsed = attached.elapsed();
        let is_over = end.is_some_and(|end| elapsed >= end);
        if attached.is_ending() || asked.load(Ordering::Relaxed) || is_over {
            show.history
                .take(&Rates::between(&earlier, &attached.account(), elapsed - shown), elapsed);
            return;
        }
        if elapsed - shown >= arguments.interval {
            let later = attached.account();
            let rates = Rates::between(&earlier, &later, elapsed - shown);
            // That stdout takes nothing is said when the account is to be printed there.
            let _shown = show.interval(&rates, elapsed);
            (earlier, shown) = (later, elapsed);
        }
        let rest = end.map_or(LOOK, |end| end.saturating_sub(elapsed));
        thread::sleep(LOOK.min(rest).min(arguments.interval));
    }
}

/// Why ports could not be opened: captures as by the commands for them.
fn refused(error: AttachError) -> Failure {
    match error {
        AttachError::Open { path, source } => Failure::Open { path, source },
        AttachError::Capture { path, error } => Failure::of_capture(&path, error),
        AttachError::Engine(error @ engine::Failure::Pin { .. }) => {
            Failure::Usage(format!("--cores: {error}"))
        }
        AttachError::Engine(error @ engine::Failure::Panicked { .. }) => {
            Failure::Thread(error.to_string())
        }
        other => Failure::Attach(other.to_string()),
    }
}

/// What has gone wrong meanwhile.
fn failed(error: AttachError) -> Failure {
    match error {
        AttachError::Capture { path, error } if error.is_damage() => {
            Failure::Damaged { input: path.display().to_string(), damage: error.into() }
        }
        error @ (AttachError::Capture { .. } | AttachError::Open { .. }) => refused(error),
        other => Failure::Thread(other.to_string()),
    }
}

/// A capture of which nothing at all could be sent was not played.
fn sent(settings: &Settings, account: &Account) -> Result<(), Failure> {
    let far = Account::total(&account.far);
    let lost = far.dropped.transmitted();
    if far.transmitted > 0 || lost == 0 {
        return Ok(());
    }
    let reasons = rates::reasons(&far.dropped).into_iter();
    let most = reasons.max_by_key(|(_, _, count)| *count).map_or("", |(_, what, _)| what);
    Err(Failure::Gone(format!(
        "{} took none of {lost} packets of {} ({most}); check it with `ip link`",
        settings.far, settings.near
    )))
}

/// A capture ends as it should, and other ports when they are gone.
fn ended(settings: &Settings, account: &Account) -> Result<(), Failure> {
    let gone = |ports| Account::total(ports).gone > 0;
    let port = match (gone(&account.near), gone(&account.far)) {
        (true, _) => &settings.near,
        (false, true) => &settings.far,
        (false, false) if settings.near.file().is_some() => return sent(settings, account),
        (false, false) => &settings.far,
    };
    Err(Failure::Gone(format!(
        "{port} is gone: its interface was removed, or moved to another namespace; what was held has \
         been let go"
    )))
}
