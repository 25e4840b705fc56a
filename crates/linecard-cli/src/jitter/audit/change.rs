//! `--apply` and `--rollback`.

use super::AuditArguments;
use crate::account;
use crate::failure::Failure;
use crate::jitter::{recovery, stop};
use crate::say;
use crate::signals::signals;
use linecard_jitter::linux::audit::Plan;
use linecard_jitter::linux::audit::apply::{Applied, apply as make, verify};
use linecard_jitter::linux::journal::{Change, Journal, JournalError, Store};
use linecard_report::{Report, Section, Value};
use std::io;

/// Applies a plan, verifies it, and holds it or leaves it.
pub(super) fn apply(plan: Plan, arguments: &AuditArguments, store: &Store) -> Result<(), Failure> {
    // From here on Ctrl-C waits until everything can be put back.
    let asked = signals()?;
    if plan.is_empty() {
        say("there is nothing to change that can be changed now");
        return Ok(());
    }
    let mut journal = Journal::begin(store).map_err(|error| refused(&error))?;
    let applied = make(plan, &mut journal);
    let changed = applied.iter().filter(|one| matches!(one.outcome, Ok(Change::Made))).count();
    // A reader of the report that has gone must not keep settings from being put back.
    let printed = account::print(&report(&applied), arguments.json, None);
    if changed == 0 {
        recovery::end(&journal.roll_back().map_err(|error| refused(&error))?)?;
        printed?;
        return none_made(&applied);
    }
    if arguments.keep {
        journal.keep().map_err(|error| Failure::NotRestored(error.to_string()))?;
        say(&format!(
            "{changed} settings are changed and stay so until `linecard jitter audit --rollback`, or a restart"
        ));
        return printed;
    }
    let until = arguments
        .seconds
        .map_or("at Ctrl-C".to_owned(), |time| format!("after {} s", time.as_secs_f64()));
    say(&format!("{changed} settings are changed and held; they are put back {until}"));
    stop::wait(&asked, arguments.seconds);
    let restorations =
        journal.roll_back().map_err(|error| Failure::NotRestored(error.to_string()))?;
    recovery::end(&restorations)?;
    say(&format!("{changed} settings are as they were, byte for byte"));
    printed
}

/// Puts back what was kept.
pub(super) fn roll_back(store: &Store, json: bool) -> Result<(), Failure> {
    let restorations =
        store.undo_kept().map_err(|error| Failure::NotRestored(error.to_string()))?;
    if restorations.is_empty() {
        say("nothing is kept: there is nothing to put back");
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
    account::print(&report, json, None)?;
    recovery::end(&restorations)
}

/// What was made so, what was so, and what was refused.
fn report(applied: &[Applied]) -> Report {
    let differing = verify(applied);
    let mut section = Section::list("applied", "Changes");
    for one in applied {
        let is_verified = !differing.iter().any(|(planned, _)| **planned == one.planned);
        let outcome = match &one.outcome {
            Ok(_) if !is_verified => {
                "changed, and is different again: who else sets it?".to_owned()
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
fn none_made(applied: &[Applied]) -> Result<(), Failure> {
    let errors: Vec<&JournalError> =
        applied.iter().filter_map(|one| one.outcome.as_ref().err()).collect();
    match errors.first() {
        None => Ok(()),
        Some(first) => Err(refused_all(errors.len(), first)),
    }
}

fn refused_all(count: usize, first: &JournalError) -> Failure {
    let text = format!("any of {count} settings, the first because: {first}");
    Failure::Output { source: io::Error::other(text) }
}

fn refused(error: &JournalError) -> Failure {
    Failure::Output { source: io::Error::other(error.to_string()) }
}
