//! Every model but the sending side: its scenario, its run, its report.
//!
//! Jobs of [`linecard_app::model`] have typed configurations. The kinds below still have settings with a table of keys
//! ([`Kind`]) and run to a report ([`Model`]).

mod lanes;
mod receive;

use super::key::{self, Kind, Told};
use super::scenario::{File, Scenario};
use super::settings::Settings;
use super::values::{rate, within};
use crate::failure::{EXIT_CODES, Failure};
use crate::{units, watch};
use linecard_app::model;
use linecard_model::Ps;
use linecard_report::{Report, Section, Value};

/// From this share of the time on something is said to limit.
const LIMITS_FROM: f64 = 0.9;

/// A kind that `linecard model run` runs.
trait Model: Kind {
    /// Runs it; what cannot be is refused where it stands.
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure>;
}

/// What came of a run.
pub(super) struct Ran {
    pub(super) report: Report,
    /// What does not add up: nothing, if the model is right.
    pub(super) wrong: Option<String>,
}

/// Takes a file, values as KEY=VALUE, and names of keys.
type Check = fn(File, &[String], &[String]) -> Result<(), Failure>;

/// A kind, with its settings' type gone.
struct Entry {
    name: &'static str,
    run: fn(File, &[String]) -> Result<Ran, Failure>,
    check: Check,
    told: fn() -> Told,
}

/// All kinds, the sending side first, which is run by itself.
pub(super) const NAMES: [&str; 9] =
    [Settings::NAME, "receive", "npu", "pci", "pcie", "adapter", "path", "lanes", "transfer"];
const MODELS: [Entry; 2] = [entry::<receive::Settings>(), entry::<lanes::Settings>()];

const fn entry<S: Model>() -> Entry {
    Entry {
        name: S::NAME,
        run: |file, sets| S::run(&file.scenario(sets)?),
        check: check_kind::<S>,
        told: key::told::<S>,
    }
}

/// All kinds, for errors.
pub(super) fn names() -> String {
    NAMES.map(|name| format!("\"{name}\"")).join(", ")
}

/// Runs a scenario of any kind but the sending side.
pub(super) fn run(file: File, sets: &[String]) -> Result<Ran, Failure> {
    if let Some(job) = model::named(file.kind()) {
        let done = job.run(&file.document(sets)?, &watch::any())?;
        return Ok(Ran {
            report: done.report,
            wrong: done.failure.map(|failure| failure.to_string()),
        });
    }
    match MODELS.iter().find(|model| model.name == file.kind()) {
        Some(model) => (model.run)(file, sets),
        None => Err(file.refuse_kind(&format!("no such model: choose {}", names()))),
    }
}

/// Refuses wrong values of a scenario of any kind, and keys that it does not have.
pub(super) fn check(file: &File, sets: &[String], keys: &[String]) -> Result<(), Failure> {
    if let Some(job) = model::named(file.kind()) {
        job.check(&file.document(sets)?)?;
        let known = job.parameters();
        let unknown = keys.iter().find(|key| known.iter().all(|known| known.name != **key));
        return unknown.map_or(Ok(()), |key| {
            let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
            Err(Failure::Usage(format!("unknown key `{key}`: known are {}", names.join(", "))))
        });
    }
    match MODELS.iter().find(|model| model.name == file.kind()) {
        Some(model) => (model.check)(file.clone(), sets, keys),
        None => check_kind::<Settings>(file.clone(), sets, keys),
    }
}

fn check_kind<S: Kind>(file: File, sets: &[String], keys: &[String]) -> Result<(), Failure> {
    file.scenario::<S>(sets)?;
    keys.iter().try_for_each(|name| key::find::<S>(name).map(drop)).map_err(Failure::Usage)
}

/// Keys of all kinds, for `--help`.
pub(super) fn help() -> String {
    let kinds: String = told().iter().map(key::help).collect();
    format!("{}\n{kinds}{EXIT_CODES}", super::keys::HELP)
}

/// What all kinds say of their keys, the sending side first.
pub(crate) fn told() -> Vec<Told> {
    NAMES.iter().filter_map(|name| told_of(name)).collect()
}

fn told_of(name: &'static str) -> Option<Told> {
    if let Some(job) = model::named(name) {
        let keys = job.parameters().iter().map(|key| (key.name.clone(), key.to_string()));
        return Some(Told { kind: name, keys: keys.collect() });
    }
    match MODELS.iter().find(|model| model.name == name) {
        Some(model) => Some((model.told)()),
        None => (name == Settings::NAME).then(key::told::<Settings>),
    }
}

/// A key whose value is a whole number in a range, told with both.
macro_rules! number {
    ($name:literal, $($field:ident).+, $low:literal to $high:literal, $default:literal, $what:literal) => {
        Key {
            name: $name,
            what: concat!($what, ", ", $low, " to ", $high, " [", $default, "]"),
            set: |to, text| crate::model::kinds::put(text, ($low, $high), &mut to.$($field).+),
        }
    };
}
use number;

/// A key whose value is a time in a range.
macro_rules! time {
    ($name:literal, $($field:ident).+, $low:literal to $high:literal, $default:literal, $what:literal) => {
        Key {
            name: $name,
            what: concat!($what, ", \"", $low, "\" to \"", $high, "\" [", $default, "]"),
            set: |to, text| crate::model::kinds::put_time(text, ($low, $high), &mut to.$($field).+),
        }
    };
}
use time;

/// A whole number in a range, as wide as the target.
fn put<T: TryFrom<u64>>(text: &str, (low, high): (u64, u64), to: &mut T) -> Result<(), String> {
    let value = super::values::whole(text, low..=high)?;
    *to = T::try_from(value).map_err(|_| format!("{value} is out of range"))?;
    Ok(())
}

/// A time in a range, in whole nanoseconds.
fn put_time(text: &str, (low, high): (&str, &str), to: &mut Ps) -> Result<(), String> {
    let time = units::duration(text)?;
    if !(units::duration(low)?..=units::duration(high)?).contains(&time) {
        return Err(format!("{text} is out of range: choose {low} to {high}"));
    }
    *to = Ps::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    Ok(())
}

/// Bytes in a range.
fn put_bytes<T: TryFrom<usize>>(
    text: &str,
    (low, high): (usize, usize),
    to: &mut T,
) -> Result<(), String> {
    let value = within(units::bytes(text)?, low..=high)?;
    *to = T::try_from(value).map_err(|_| format!("{value} is out of range"))?;
    Ok(())
}

/// Bits per second.
fn put_rate(text: &str, to: &mut u64) -> Result<(), String> {
    *to = rate(text)?.ok_or("this has a limit: write for example \"10G\"")?;
    Ok(())
}

/// In, out, dropped and held of the same things: a section, and whether they add up.
struct Account {
    section: Section,
    parts: [u64; 4],
}

impl Account {
    /// `of` is what is counted, in the plural.
    fn new(title: String, of: &str, parts: [u64; 4]) -> Self {
        let mut section = Section::new("account", title);
        let [came, went, dropped, held] = parts;
        for (key, label, count) in [
            ("in", "in", came),
            ("out", "out", went),
            ("dropped", "dropped", dropped),
            ("held", "held at the end", held),
        ] {
            section.add(key, format!("{of}, {label}"), Value::Count(count));
        }
        Self { section, parts }
    }

    /// What is wrong, if anything is: `is_right` is the model's own word.
    fn wrong(&self, is_right: bool) -> Option<String> {
        let [came, went, dropped, held] = self.parts;
        let adds_up = came == went + dropped + held;
        (!adds_up || !is_right).then(|| {
            format!(
                "the model is wrong: {came} in, and {went} out, {dropped} dropped, {held} held, or \
                 bytes that are not those that were sent"
            )
        })
    }
}

/// What was busy, as shares of the time, and what limits; `beside` are shares that limit nothing.
fn limits(shares: &[Part], beside: &[Part]) -> Section {
    let mut section = Section::new("busy", "What was busy, as a share of the time");
    for &(key, label, share) in shares.iter().chain(beside) {
        section.add(key, label, Value::Share(share));
    }
    let most = shares.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let text = match most {
        Some((_, label, share)) if *share >= LIMITS_FROM => (*label).to_owned(),
        Some((_, label, _)) => format!("nothing alone; most busy: {label}"),
        None => "nothing".to_owned(),
    };
    section.add("limit", "what limits", Value::Text(text));
    section
}

/// Key, label, share of the time.
type Part = (&'static str, &'static str, f64);

/// Of how much, or 0 where there is none.
fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_every_key_in_lines_that_fit() {
        let help = help();
        for name in NAMES {
            assert!(help.contains(&format!("model = \"{name}\"")), "{name}");
        }
        let (keys, _) = help.split_once(EXIT_CODES).expect("exit codes");
        let long: Vec<&str> = keys.lines().filter(|line| line.chars().count() > 79).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
