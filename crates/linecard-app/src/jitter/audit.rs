//! Settings of this host that make packets late, with better values; changes are made and restored
//! on request only.

mod effects;
mod table;

use super::error::JitterError;
use super::recovery;
use crate::{Context, Error, Failure};
use garde::Validate;
use linecard_config::{ConfigError, Switch};
use linecard_jitter::linux::audit::apply::{Applied, apply as make, verify};
use linecard_jitter::linux::audit::{Audit, Host, Plan, checks};
use linecard_jitter::linux::journal::{Change, Journal, JournalError, Store};
use linecard_report::{Report, Section, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The checks to run, and the changes to make.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// change the settings that need no reboot, verify them, and restore them at Ctrl-C
    pub apply: Switch,
    /// restore the settings that `--apply --keep` has changed
    #[schemars(extend("x-conflicts" = ["apply"]))]
    pub rollback: Switch,
    /// with `--apply`: end after the changes and keep them, until `--rollback` or a reboot
    #[schemars(extend("x-conflicts" = ["for"]))]
    pub keep: Switch,
    /// with `--apply`: restore after this many seconds, at most a week
    #[garde(range(min = 0.0, max = 604_800.0))]
    #[serde(rename = "for")]
    #[schemars(extend("x-value" = "SECONDS"))]
    pub seconds: Option<f64>,
    /// the interface that packets arrive on
    #[schemars(extend("x-default" = "the only one that is up and has hardware"))]
    pub interface: Option<String>,
    /// the sink's core
    #[schemars(extend("x-value" = "N", "x-default" = "the first isolated one, else the last"))]
    pub core: Option<usize>,
    /// only these checks, as comma-separated names
    #[schemars(extend("x-value" = "CHECK"))]
    pub only: Vec<String>,
    /// measured effects of toggles: the JSON of `linecard jitter ab --json`
    #[schemars(extend("x-value" = "FILE"))]
    pub effects: Option<String>,
    /// list all checks, also those that pass or do not apply, each with cause, source and risk
    pub all: Switch,
}

/// How an audit tells what it does while it holds settings.
pub trait Teller {
    /// Shows a report.
    ///
    /// # Errors
    ///
    /// A report that cannot be shown: settings are restored nevertheless.
    fn show(&mut self, report: &Report) -> Result<(), Error>;

    /// Says a sentence.
    fn say(&mut self, line: &str);
}

impl Config {
    /// The selected checks; none for all.
    fn only(&self) -> Result<Vec<String>, ConfigError> {
        let only: Vec<String> =
            self.only.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let Some(name) = only.iter().find(|name| checks().all(|check| check.id != **name)) else {
            return Ok(only);
        };
        Err(ConfigError::of_parameter("only", JitterError::NoCheck { name: name.clone() }))
    }

    /// Settings are held only if they are applied.
    fn check(&self) -> Result<(), ConfigError> {
        for (parameter, is_given) in [("keep", self.keep.0), ("for", self.seconds.is_some())] {
            if is_given && !self.apply.0 {
                return Err(ConfigError::of_parameter(parameter, JitterError::NotApplied));
            }
        }
        Ok(())
    }
}

/// Audits this host. Without `apply` and `rollback` there is no journal, so nothing can be changed. `is_whole`: with
/// all that is known of each check.
///
/// # Errors
///
/// An interface or a core that does not exist; effects that cannot be read; settings that cannot be changed
/// ([`Error::Output`]) or put back ([`Failure::NotRestored`]).
pub fn run(
    config: &Config,
    is_whole: bool,
    context: &Context<'_>,
    teller: &mut dyn Teller,
) -> Result<(), Error> {
    config.check()?;
    let only = config.only()?;
    if config.rollback.0 {
        return roll_back(teller);
    }
    let host = Host::new(config.core, config.interface.as_deref());
    let host = host.map_err(|error| Failure::Usage.with(error))?;
    let effects = config.effects.as_ref().map(|name| context.path_of("effects", name));
    let audit = Audit::of(&host, &effects::read(effects.as_deref())?);
    if config.apply.0 {
        return apply(audit.plan(&only), config, context, teller);
    }
    teller.show(&if is_whole || config.all.0 {
        table::whole(&host, &audit, &only)
    } else {
        table::short(&host, &audit, &only)
    })
}

/// Applies a plan, verifies it, and holds it or leaves it.
fn apply(
    plan: Plan,
    config: &Config,
    context: &Context<'_>,
    teller: &mut dyn Teller,
) -> Result<(), Error> {
    if plan.is_empty() {
        teller.say("no setting that can be changed now needs a change");
        return Ok(());
    }
    let interrupts = plan.iter().filter(|(_, planned)| planned.setting.is_affinity()).count();
    if interrupts > 0 {
        teller.say(&format!(
            "{interrupts} interrupts get another core; at the end each gets its own back, and one that does not fire \
             within 5 s is named: it moves when it fires next"
        ));
    }
    let mut journal = Journal::begin(&Store::of_user()).map_err(refused)?;
    let applied = make(plan, &mut journal);
    let changed = applied.iter().filter(|one| matches!(one.outcome, Ok(Change::Made))).count();
    // A reader of the report that has gone must not keep settings from being restored.
    let printed = teller.show(&report(&applied));
    if changed == 0 {
        let restorations = journal.roll_back().map_err(refused)?;
        recovery::end(restorations)?.iter().for_each(|line| teller.say(line));
        printed?;
        return none_made(&applied);
    }
    let settings =
        if changed == 1 { "1 setting is".to_owned() } else { format!("{changed} settings are") };
    let not_restored = |error: JournalError| Failure::NotRestored.with(error);
    if config.keep.0 {
        journal.keep().map_err(not_restored)?;
        teller.say(&format!(
            "{settings} changed until `linecard jitter audit --rollback`, or a restart"
        ));
        return printed;
    }
    let until = config.seconds.map_or("at Ctrl-C".to_owned(), |time| format!("after {time} s"));
    teller.say(&format!("{settings} changed, and held until they are restored {until}"));
    hold(config.seconds.map(Duration::from_secs_f64), context);
    let restorations = journal.roll_back().map_err(not_restored)?;
    recovery::end(restorations)?.iter().for_each(|line| teller.say(line));
    teller.say(&format!("{settings} as they were, byte for byte"));
    printed
}

/// Returns when the job is cancelled, or when the time is over.
fn hold(at_most: Option<Duration>, context: &Context<'_>) {
    let begun = Instant::now();
    let is_over = || at_most.is_some_and(|most| begun.elapsed() >= most);
    while !context.progress.is_stopped() && !is_over() {
        thread::sleep(LOOK);
    }
}

/// Puts back what was kept.
fn roll_back(teller: &mut dyn Teller) -> Result<(), Error> {
    let restorations =
        Store::of_user().undo_kept().map_err(|error| Failure::NotRestored.with(error))?;
    if restorations.is_empty() {
        teller.say("no kept changes: nothing to restore");
    }
    let mut section = Section::list("settings", "Settings");
    for restoration in &restorations {
        let words = restoration.to_string();
        let fields = vec![
            ("setting", Value::Text(restoration.what.clone())),
            ("as_before", Value::Flag(restoration.fate.is_good())),
            ("says", Value::Text(words.clone())),
        ];
        section.add("setting", "", Value::Fields(words, fields));
    }
    let mut report = Report::new("jitter audit");
    report.push(section);
    teller.show(&report)?;
    recovery::end(restorations)?.iter().for_each(|line| teller.say(line));
    Ok(())
}

/// Settings that were changed, were right already, or were refused.
fn report(applied: &[Applied]) -> Report {
    let differing = verify(applied);
    let mut section = Section::list("applied", "Changes");
    for one in applied {
        let is_verified = !differing.iter().any(|(planned, _)| **planned == one.planned);
        let outcome = match &one.outcome {
            Ok(_) if !is_verified => {
                "changed, and has changed again: another process sets it".to_owned()
            }
            Ok(Change::Made) => "changed, and verified".to_owned(),
            Ok(Change::Needless) => "was so".to_owned(),
            Err(error) => format!("refused: {error}"),
        };
        let fields = vec![
            ("check", Value::Text(one.check.id.to_owned())),
            ("setting", Value::Text(one.planned.setting.to_string())),
            ("value", Value::Text(one.planned.value.clone())),
            ("made", Value::Flag(matches!(one.outcome, Ok(Change::Made)))),
            ("verified", Value::Flag(one.outcome.is_ok() && is_verified)),
            ("says", Value::Text(outcome.clone())),
        ];
        section.add("change", one.planned.to_string(), Value::Fields(outcome, fields));
    }
    let mut report = Report::new("jitter audit");
    report.push(section);
    report
}

/// All was so before, or the host has refused everything.
fn none_made(applied: &[Applied]) -> Result<(), Error> {
    let errors: Vec<&JournalError> =
        applied.iter().filter_map(|one| one.outcome.as_ref().err()).collect();
    match errors.first() {
        None => Ok(()),
        Some(first) => Err(refused_all(errors.len(), first)),
    }
}

fn refused_all(count: usize, first: &JournalError) -> Error {
    let text = format!("any of {count} settings, the first because: {first}");
    Error::Output { source: io::Error::other(text) }
}

fn refused(error: JournalError) -> Error {
    Error::Output { source: io::Error::other(error) }
}
