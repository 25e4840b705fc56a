//! Refuses, before anything runs, rows that claim more than their class means, expressions that are wrong with any
//! outcome, and names that do not exist.

use super::comparison::Class;
use super::error::{ExpressionError, PaperError, Refused, UnknownName};
use super::expression::{Lookup, Parsed, Probe, Query, deciding, evaluate, probe, read_text};
use super::measure;
use super::paper::{Curve, Free, Paper, Published, Reason, Reproduction, printed};
use crate::Error;
use crate::model::{MODELS, named};
use linecard_config::{ConfigError, Document, Location, Problem};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Values that each name stands for while there are no outcomes.
const MANY: usize = 16;
/// Values that name each other: more is a circle.
const MOST_VALUES: usize = 16;
/// How often outcomes are made up, each time a thousand times as large: an expression that comes out the same each time does
/// not depend on them. Of one size each, so that in a sum, or as the most of several, each of them shows in some round.
const ROUNDS: u32 = 6;
/// Their size the first time.
const LEAST: f64 = 1e-3;

/// Sizes of generated outcomes, the last time none: outcomes are 0 or more.
fn sizes() -> impl Iterator<Item = f64> {
    (0..ROUNDS).map(|round| LEAST * 1e3_f64.powi(round as i32)).chain([0.0])
}

/// How often outcomes of mixed sizes are generated: a statement that holds each time holds for all.
const MIXED: u64 = 12;
/// Digits to which a value counts as the same: others may be of rounding.
const DIGITS: usize = 9;
/// Powers of ten of their sizes.
const POWERS: std::ops::Range<i32> = -3..16;

/// Generated outcomes, before there are real ones.
#[derive(Debug, Clone, Copy)]
enum MadeUp {
    /// The same each time.
    Fixed,
    /// Of about one size.
    Alike(f64),
    /// Of any size, in this round.
    Mixed(u64),
}

/// Makes an error one about this key.
pub(super) fn at<E: Into<PaperError>>(key: &str) -> impl Fn(E) -> Refused {
    move |error| Refused { key: key.to_owned(), source: error.into() }
}

/// Puts a part of the file before the key of an error.
pub(super) fn within(part: &str) -> impl Fn(Refused) -> Refused + '_ {
    move |Refused { key, source }| Refused { key: format!("{part}.{key}"), source }
}

/// Checks what a file says; `paper` is all files together.
pub(super) fn check(file: &Document, paper: &Paper) -> Result<(), Error> {
    for (name, job) in &paper.job {
        let place = format!("job.{name}");
        if let Some(base) = job.base.as_ref().filter(|base| !paper.job.contains_key(*base)) {
            let error = unknown("job", base, paper.job.keys());
            return Err(refuse(file, &place, at("base")(error)));
        }
        let model = paper.chain(name)?.iter().find_map(|(_, job)| job.model.as_ref());
        match model {
            None => {
                let error = PaperError::NoModel { job: name.clone() };
                return Err(refuse(file, &place, at("model")(error)));
            }
            Some(model) if parameters(model).is_none() => {
                let known = MODELS.iter().map(|model| model.name).chain(measure::names());
                let error = unknown("model", model, known);
                return Err(refuse(file, &place, at("model")(error)));
            }
            Some(_) => {}
        }
    }
    for (name, text) in &paper.value {
        let any = |_: &Query| Ok(vec![1.0; MANY]);
        deciding(text, &any).map_err(at(name)).map_err(|error| refuse(file, "value", error))?;
    }
    for (index, reproduction) in paper.reproductions().iter().enumerate() {
        let at = At { paper, reproduction, has_asked: Cell::new(false) };
        let place = format!("reproduction[{index}]");
        at.check().map_err(|refused| refuse(file, &place, refused))?;
        for (table, rows) in reproduction.table.iter().map(|table| &table.rows).enumerate() {
            for (row, published) in rows.iter().enumerate() {
                let place = format!("{place}.table[{table}].rows[{row}]");
                at.row(published)
                    .map_err(|refused| refuse(file, &place, refused.of_row(&published.what)))?;
            }
        }
    }
    Ok(())
}

/// The error about a key of a part of the file: its line, but not the text of it, as rows are long.
pub(super) fn refuse(file: &Document, place: &str, refused: Refused) -> Error {
    let path = format!("{place}.{}", refused.key);
    // A key that is not there has the line of what it should be in.
    let parents = path.match_indices('.').rev().map(|(end, _)| path[..end].to_owned());
    let what_of_row = format!("{place}.what");
    let mut found = [path.clone(), what_of_row].into_iter().chain(parents);
    let location = match found.find_map(|path| file.find(&path)) {
        Some(Location::Line { file, line, .. }) => {
            Location::Line { file, line, content: String::new() }
        }
        _ => Location::File(file.path().to_owned()),
    };
    ConfigError::new(location, Some(path), Problem::Invalid(refused.into())).into()
}

/// Says which names there are.
pub(super) fn unknown<T: AsRef<str>>(
    kind: &'static str,
    name: &str,
    known: impl Iterator<Item = T>,
) -> UnknownName {
    let known = known.map(|name| name.as_ref().to_owned()).collect();
    UnknownName { kind, name: name.to_owned(), known }
}

/// Names of the parameters of a model or measurement.
fn parameters(model: &str) -> Option<Vec<&'static str>> {
    let of_model = named(model).map(|model| model.parameters());
    let all = of_model.or_else(|| measure::parameters(model))?;
    Some(all.iter().map(|parameter| parameter.name.as_str()).collect())
}

fn needs(is_met: bool, key: &str, error: impl Into<PaperError>) -> Result<(), Refused> {
    if is_met { Ok(()) } else { Err(at(key)(error)) }
}

/// A reproduction in its paper.
struct At<'p> {
    paper: &'p Paper,
    reproduction: &'p Reproduction,
    /// Whether an outcome was asked for.
    has_asked: Cell<bool>,
}

impl At<'_> {
    fn check(&self) -> Result<(), Refused> {
        let Reproduction { jobs, hardware, notes, table, curve, figure, .. } = self.reproduction;
        let known = || self.paper.job.keys();
        for name in jobs.iter().chain(hardware.iter().map(|hardware| &hardware.job)) {
            let is_known = self.paper.job.contains_key(name);
            needs(is_known, "jobs", unknown("job", name, known()))?;
        }
        self.free()?;
        for (index, table) in table.iter().enumerate() {
            self.text(&format!("table[{index}].title"), &table.title, None)?;
        }
        for (index, note) in notes.iter().enumerate() {
            // Tables have the rows that are the same.
            let lookup = |query: &Query| match table.iter().any(|table| table.key == query.root) {
                true => Ok(vec![1.0]),
                false => self.made_up(query, None, (0, MadeUp::Fixed)),
            };
            read_text(note, &lookup).map_err(at(&format!("notes[{index}]")))?;
        }
        for (index, curve) in curve.iter().enumerate() {
            self.curve(curve).map_err(within(&format!("curve[{index}]")))?;
        }
        for (index, figure) in figure.iter().enumerate() {
            let read = |key: &str, text: &str| self.names_outcome(key, text, None).map(drop);
            let text = |key: &str, text: &str| self.text(key, text, None);
            figure.check(&read, &text).map_err(within(&format!("figure[{index}]")))?;
        }
        Ok(())
    }

    /// Parameters that were chosen: each once, and one that a job has.
    fn free(&self) -> Result<(), Refused> {
        let jobs = self.reproduction.jobs.iter();
        let known: Vec<&str> = jobs.flat_map(|job| self.parameters_of(job)).collect();
        let mut seen: Vec<&str> = Vec::new();
        for (index, Free { keys, .. }) in self.reproduction.free.iter().enumerate() {
            let place = format!("free[{index}].keys");
            needs(!keys.is_empty(), &place, PaperError::NoKeys)?;
            for key in keys {
                let error = PaperError::NoParameter { key: key.clone() };
                needs(known.contains(&key.as_str()), &place, error)?;
                let error = PaperError::Twice { key: key.clone() };
                needs(!seen.contains(&key.as_str()), &place, error)?;
                seen.push(key);
            }
        }
        Ok(())
    }

    /// Parameters of a job.
    fn parameters_of(&self, job: &str) -> Vec<&'static str> {
        let chain = self.paper.chain(job).unwrap_or_default();
        let model = chain.iter().find_map(|(_, job)| job.model.as_deref()).unwrap_or_default();
        parameters(model).unwrap_or_default()
    }

    fn curve(&self, curve: &Curve) -> Result<(), Refused> {
        let jobs = &self.reproduction.jobs;
        for name in &curve.jobs {
            needs(jobs.contains(name), "jobs", unknown("job", name, jobs.iter()))?;
        }
        if let Some(each) = &curve.each {
            self.names_outcome("each", each, None)?;
        }
        for (key, text) in &curve.fields {
            self.names_outcome(&format!("fields.{key}"), text, Some(curve))?;
        }
        self.text("title", &curve.title, None)?;
        self.text("label", &curve.label.replace("{job}", ""), Some(curve))?;
        self.text("text", &curve.text, Some(curve))
    }

    fn row(&self, row: &Published) -> Result<(), Refused> {
        self.class(row)?;
        self.once(row)?;
        let text = |key: &str, text: &str| self.text(key, text, None);
        text("what", &row.what)?;
        text("ground", row.ground.as_deref().unwrap_or_default())?;
        if let Some(reason) = &row.reason {
            text("reason.text", &reason.text)?;
        }
        if row.holds.is_some() || row.class == Class::Cannot {
            text("paper", &row.paper)?;
            text("ours", &row.ours)?;
        } else {
            printed(&row.paper).map_err(at("paper"))?;
        }
        if row.class == Class::Cannot {
            return Ok(());
        }
        let (key, decides) = match &row.holds {
            Some(holds) => ("holds", holds),
            None => ("ours", &row.ours),
        };
        self.answers(row, key, decides)?;
        match &row.reason {
            Some(reason) => self.reason(row, reason),
            None => Ok(()),
        }
    }

    /// Refuses an expression that decides about a row and that no outcome changes.
    fn answers(&self, row: &Published, key: &str, text: &str) -> Result<(), Refused> {
        let is_of_outcome = self.depends(text, key == "holds").map_err(at(key))?;
        needs(is_of_outcome || row.class == Class::Arithmetic, key, PaperError::NoOutcome)
    }

    /// Refuses a row whose fact counts elsewhere in the reproduction.
    fn once(&self, row: &Published) -> Result<(), Refused> {
        let fact = |row: &Published| {
            let decides = row.holds.clone().unwrap_or_else(|| row.ours.clone());
            row.class.counts().then(|| (row.paper.clone(), decides))
        };
        let rows = self.reproduction.table.iter().flat_map(|table| &table.rows);
        let before = rows.take_while(|other| !std::ptr::eq(*other, row));
        let twin = before.filter(|other| fact(row).is_some() && fact(other) == fact(row)).last();
        twin.map_or(Ok(()), |twin| Err(at("ours")(PaperError::Twin { what: twin.what.clone() })))
    }

    fn reason(&self, row: &Published, reason: &Reason) -> Result<(), Refused> {
        for (key, text) in [("reason.from", &reason.from), ("reason.to", &reason.to)] {
            match text {
                None => return Err(at(key)(PaperError::NoLimit)),
                Some(Value::String(text)) => {
                    let is_fixed = !self.names_outcome(key, text, None)?;
                    needs(is_fixed, key, PaperError::MovingLimit)?;
                }
                Some(_) => {}
            }
        }
        ordered(&reason.from, &reason.to)?;
        if let Some(when) = &reason.when {
            self.names_outcome("reason.when", when, None)?;
        }
        if let Some(measured) = &reason.measured {
            self.answers(row, "reason.measured", measured)?;
        }
        let Some(knob) = &reason.knob else { return Ok(()) };
        let is_known = self.paper.job.contains_key(&knob.job);
        needs(is_known, "reason.knob.job", unknown("job", &knob.job, self.paper.job.keys()))?;
        let known = self.parameters_of(&knob.job);
        for key in knob.set.keys() {
            let is_known = known.contains(&key.as_str());
            needs(is_known, "reason.knob.set", unknown("key", key, known.iter()))?;
        }
        Ok(())
    }

    /// Whether the row has what its class needs, and nothing that contradicts it.
    fn class(&self, row: &Published) -> Result<(), Refused> {
        let is_of = |class| row.class == class;
        let free = || {
            let keys = self.reproduction.free.iter().flat_map(Free::keys);
            keys.map(str::to_owned).collect::<Vec<_>>()
        };
        match &row.parameter {
            Some(all) if is_of(Class::Fitted) => {
                let free = free();
                let is_free = all.split(" and ").all(|key| free.iter().any(|free| free == key));
                let error = PaperError::NotFree { parameter: all.clone(), free };
                needs(is_free, "parameter", error)?;
            }
            Some(_) => needs(false, "parameter", PaperError::OnlyFitted)?,
            None => {
                let error = PaperError::NeedsParameter { free: free() };
                needs(!is_of(Class::Fitted), "class", error)?;
            }
        }
        if is_of(Class::Exact) {
            let exact = |instead| PaperError::Exact { instead };
            needs(row.within.is_none(), "within", exact("`predicted`, with a `ground`"))?;
            needs(row.holds.is_none(), "holds", exact("`predicted`"))?;
            needs(row.reason.is_none(), "reason", exact("`differs`"))?;
            let derived = exact("`predicted` if it is derived from printed ones");
            needs(!row.is_derived(), "place", derived)?;
        }
        if let Some(within) = row.within {
            let is_share = within > 0.0 && within <= 100.0;
            needs(is_share, "within", PaperError::Within { percent: within })?;
        }
        let is_blank = row.ground.as_ref().is_some_and(|ground| ground.trim().is_empty());
        needs(!is_blank, "ground", PaperError::EmptyGround)?;
        if is_of(Class::Predicted) || is_of(Class::Differs) {
            let has_ground = row.within.is_none() || row.ground.is_some();
            needs(has_ground, "within", PaperError::NoGround)?;
        }
        let needs_reason = is_of(Class::Differs) || is_of(Class::Cannot);
        needs(row.reason.is_some() || !needs_reason, "class", PaperError::NoReason)?;
        if is_of(Class::Cannot) {
            needs(row.holds.is_none(), "holds", PaperError::NothingToCompare)?;
            needs(row.within.is_none(), "within", PaperError::NothingToCompare)?;
            let is_bare = |reason: &Reason| {
                reason.from.is_none() && reason.to.is_none() && reason.knob.is_none()
            };
            let is_bare = row.reason.as_ref().is_none_or(is_bare);
            needs(is_bare, "reason", PaperError::NothingToCompare)?;
        }
        Ok(())
    }

    /// Reads the expressions of a text.
    fn text(&self, key: &str, text: &str, it: Option<&Curve>) -> Result<(), Refused> {
        let lookup: &Lookup<'_> = &|query: &Query| self.made_up(query, it, (0, MadeUp::Fixed));
        read_text(text, lookup).map_err(at(key))
    }

    /// Whether an expression names what a job found, by values or curves, too. `it` is the curve that it is of.
    fn names_outcome(&self, key: &str, text: &str, it: Option<&Curve>) -> Result<bool, Refused> {
        self.has_asked.set(false);
        self.decides(text, it, (0, MadeUp::Fixed)).map_err(at(key))?;
        Ok(self.has_asked.get())
    }

    /// Whether an expression comes out in another way with other outcomes: a statement by the numbers that it compares, as
    /// what it holds for may be narrow, unless it holds for all.
    fn depends(&self, text: &str, is_statement: bool) -> Result<bool, ExpressionError> {
        let probe = |outcomes| self.probe(text, None, (0, outcomes));
        let probes = sizes().map(|size| probe(MadeUp::Alike(size)));
        let probes = probes.collect::<Result<Vec<_>, _>>()?;
        let mixed = (0..MIXED).map(|round| probe(MadeUp::Mixed(round)));
        let mixed = mixed.collect::<Result<Vec<_>, _>>()?;
        let holds = |probe: &Probe| probe.result.iter().all(|value| *value == 1.0);
        let always = probes.iter().chain(&mixed).all(holds);
        // With outcomes of 0 many a quotient is not a number, which is not another result.
        let some = probes.into_iter().take(ROUNDS as usize);
        let digits = |numbers: Vec<f64>| {
            numbers.into_iter().map(|number| format!("{number:.DIGITS$e}")).collect::<Vec<_>>()
        };
        if is_statement {
            let all: Vec<_> = some.map(|probe| digits(probe.deciding())).collect();
            return Ok(all.iter().any(|one| *one != all[0]) && !always);
        }
        // One of two numbers with any outcome is a value that was put in.
        let all: BTreeSet<_> = some.map(|probe| digits(probe.result)).collect();
        Ok(all.len() > 2)
    }

    /// The numbers that decide, of values that name each other `depth` deep, with generated outcomes.
    fn decides(&self, text: &str, it: Option<&Curve>, at: (usize, MadeUp)) -> Parsed {
        self.probe(text, it, at).map(Probe::deciding)
    }

    fn probe(
        &self,
        text: &str,
        it: Option<&Curve>,
        (depth, outcomes): (usize, MadeUp),
    ) -> Result<Probe, ExpressionError> {
        if depth > MOST_VALUES {
            return Err(ExpressionError::Circle { text: text.to_owned() });
        }
        probe(text, &|query: &Query| self.made_up(query, it, (depth, outcomes)))
    }

    /// Values in place of those that a name will have.
    fn made_up(
        &self,
        query: &Query,
        it: Option<&Curve>,
        (depth, outcomes): (usize, MadeUp),
    ) -> Parsed {
        let (root, jobs) = (query.root.as_str(), &self.reproduction.jobs);
        let of_job = || {
            let is_found = query.keys.first().is_some_and(|key| key != "config");
            self.has_asked.set(self.has_asked.get() || is_found);
            Ok(numbers_of(query, if is_found { outcomes } else { MadeUp::Fixed }))
        };
        if jobs.iter().any(|job| job == root) {
            return of_job();
        }
        if let Some(curve) = it.filter(|_| root == "it") {
            return match &curve.each {
                Some(each) => self.decides(each, None, (depth + 1, outcomes)),
                None => of_job(),
            };
        }
        if let Some(text) = self.paper.value.get(root) {
            return self.decides(text, it, (depth + 1, outcomes));
        }
        if let Some(curve) = self.reproduction.curve.iter().find(|curve| curve.key == root) {
            let column = query.keys.first().map_or("", String::as_str);
            let text = curve.fields.get(column);
            let text = text.ok_or_else(|| unknown("column", column, curve.fields.keys()))?;
            return self.decides(text, Some(curve), (depth + 1, outcomes));
        }
        let curves = self.reproduction.curve.iter().map(|curve| &curve.key);
        let known = jobs.iter().chain(self.paper.value.keys()).chain(curves);
        Err(unknown("job, value or curve", root, known).into())
    }
}

/// Refuses a limit that nothing can be within, if it is known without parameters of jobs.
fn ordered(from: &Option<Value>, to: &Option<Value>) -> Result<(), Refused> {
    let unknown = |query: &Query| Err(ExpressionError::NoValue(query.clone()));
    let number = |limit: &Option<Value>| match limit.as_ref()? {
        Value::String(text) => evaluate(text, &unknown).ok()?.single().ok(),
        limit => limit.as_f64(),
    };
    let (Some(from), Some(to)) = (number(from), number(to)) else { return Ok(()) };
    within_order(from, to)
}

/// Refuses limits the wrong way round.
pub(super) fn within_order(from: f64, to: f64) -> Result<(), Refused> {
    let is_wrong = from > to;
    needs(!is_wrong, "reason.from", PaperError::Order { from, to })
}

/// Numbers that are the same for the same name each time, from 1 to 2 times their size.
fn numbers_of(query: &Query, outcomes: MadeUp) -> Vec<f64> {
    let number = |index: usize| {
        let random = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (format!("{query:?}"), salt, index).hash(&mut hasher);
            hasher.finish()
        };
        let (size, salt) = match outcomes {
            MadeUp::Fixed => (1.0, 0),
            MadeUp::Alike(size) => (size, size.to_bits()),
            MadeUp::Mixed(round) => {
                let powers = POWERS.len() as u64;
                (10_f64.powi(POWERS.start + (random(round) % powers) as i32), !round)
            }
        };
        size * (1.0 + random(salt) as f64 / u64::MAX as f64)
    };
    (0..MANY).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{ what = "rate", paper = "1 bit/s", ours = "fast.rates.bits_per_second", class = "predicted" }"#;

    fn paper() -> String {
        format!(
            r#"
[job.fast]
model = "pci"
[value]
twice = "2 * twice"
[[reproduction]]
name = "mine"
jobs = ["fast"]
free = [{{ keys = ["server.mhz", "load.clients"], why = "chosen" }}]
[[reproduction.table]]
key = "table"
title = "A table"
place = "table 1"
rows = [
    {ROW},
]
[[reproduction.curve]]
key = "ours"
jobs = ["fast"]
fields = {{ mhz = "it.config.server.mhz", rate = "it.rates.bits_per_second" }}
"#
        )
    }

    fn read(text: &str) -> Result<Paper, Error> {
        Paper::read(&Document::of_text("mine.toml", text).expect("TOML"))
    }

    /// The error of the paper with `from` replaced: its place, its key, and what it says.
    fn refuses(from: &str, to: &str, place: &str, says: &str) {
        let error = read(&paper().replace(from, to)).expect_err(to).to_string();
        assert!(error.starts_with(&format!("mine.toml:{place}: ")), "{to}: {error}");
        assert!(error.contains(says) && !error.contains('\n'), "{to}: {error}");
    }

    #[test]
    fn statements_that_some_outcomes_contradict_are_taken() {
        for holds in [
            "fast.rates.one <= 2 * fast.rates.other",
            "max(fast.rates.one) <= 2 * min(fast.rates.one)",
            "fast.rates.one < 5e12",
        ] {
            let row = format!(
                r#"{{ what = "so", paper = "it is", ours = "so", holds = "{holds}", class = "predicted" }}"#
            );
            read(&paper().replace(ROW, &row)).expect(holds);
        }
    }

    #[test]
    fn rows_claim_no_more_than_their_class() {
        read(&paper()).expect("it is right");
        let class = r#"class = "predicted""#;
        let row = |to: &str, key: &str, says| refuses(class, to, &format!("15: `{key}`"), says);
        row(r#"within = 90, class = "exact""#, "within", "printed digits");
        row(r#"holds = "fast.rates.bits_per_second > 0", class = "exact""#, "holds", "`predicted`");
        row(r#"within = 90, class = "predicted""#, "within", "`ground`");
        row(r#"class = "fitted""#, "class", "one of `free`: server.mhz, load.clients");
        row(
            r#"class = "fitted", parameter = "server.cpus""#,
            "parameter",
            "`server.cpus`: `free` has",
        );
        row(r#"class = "predicted", parameter = "server.mhz""#, "parameter", "only `fitted`");
        row(r#"place = "derived from 2 / 2", class = "exact""#, "place", "if it is derived");
        row(r#"class = "differs""#, "class", "`reason`");
        row(
            r#"class = "differs", reason = { text = "why", to = 1 }"#,
            "reason.from",
            "give `from`",
        );
        row(r#"class = "cannot""#, "class", "`reason`");
        row(
            r#"class = "cannot", reason = { text = "why", from = 0, to = 0 }"#,
            "reason",
            "leave it out",
        );
        let fitted = r#"class = "fitted", parameter = "server.mhz and load.clients""#;
        read(&paper().replace(class, fitted)).expect("both are free");
        let cannot = r#"class = "cannot", reason = { text = "why" }"#;
        read(&paper().replace(class, cannot)).expect("it says why");
    }

    #[test]
    fn a_row_without_an_outcome_tests_nothing() {
        let class = r#"class = "predicted""#;
        for holds in ["1 == 1", "fast.config.server.mhz > 0", "ours.mhz > 0"] {
            let to = format!("holds = \"{holds}\", {class}");
            refuses(class, &to, "15: `holds`", "names no outcome");
        }
        refuses("fast.rates.bits_per_second", "5 * 423", "15: `ours`", "names no outcome");
        // It names one, and does not depend on it.
        let rate = "fast.rates.bits_per_second";
        for same in ["1 + 0 * RATE", "RATE - RATE + 1", "RATE / RATE", "item(list(1, RATE), 0)"] {
            refuses(rate, &same.replace("RATE", rate), "15: `ours`", "the same with any");
        }
        for holds in ["0 * ours.rate == 0", "count(fast.rates.bits_per_second) > 0"] {
            let to = format!("holds = \"{holds}\", {class}");
            refuses(class, &to, "15: `holds`", "the same with any");
        }
        let measured = |text: &str| {
            format!(
                r#"class = "differs", reason = {{ text = "why", measured = "{text}", from = 0, to = 1 }}"#
            )
        };
        refuses(class, &measured("0 * ours.rate"), "15: `reason.measured`", "the same with any");
        read(&paper().replace(class, &measured("ours.rate"))).expect("another value");
        // Outcomes are 0 or more.
        let rate = "fast.rates.bits_per_second";
        let between = "max(list(min(list(RATE, 42.24)), 42.16))";
        let few = ["5 * RATE / RATE", "4 + (RATE > 1)", between];
        for same in ["6 + (RATE < 0)", "min(0, RATE)"].into_iter().chain(few) {
            refuses(rate, &same.replace("RATE", rate), "15: `ours`", "the same with any");
        }
        for holds in ["RATE >= 0", "max(RATE, 1) > 0", "RATE + 1 > 0 and 1 > 0 - RATE"] {
            let to = format!("holds = \"{}\", {class}", holds.replace("RATE", rate));
            refuses(class, &to, "15: `holds`", "the same with any");
        }
        for holds in [
            "ours.rate > 0",
            "abs(fast.rates.bits_per_second / 754e6 - 1) < 0.001",
            "max(1 - fast.rates.bits_per_second / fast.config.server.mhz / 1e9) > 0",
        ] {
            read(&paper().replace(class, &format!("holds = \"{holds}\", {class}"))).expect(holds);
        }
        let arithmetic = paper().replace(class, r#"class = "arithmetic""#);
        read(&arithmetic.replace("fast.rates.bits_per_second\"", "5 * 423\"")).expect("arithmetic");
    }

    #[test]
    fn a_fact_counts_once() {
        refuses(ROW, &format!("{ROW}, {ROW}"), "15: `ours`", "a fact counts once");
        let arithmetic = ROW.replace("predicted", "arithmetic");
        read(&paper().replace(ROW, &format!("{ROW}, {arithmetic}"))).expect("one counts");
        let class = r#"class = "predicted""#;
        for within in ["-5", "0", "100000"] {
            let to = format!(r#"within = {within}, ground = "digits", {class}"#);
            refuses(class, &to, "15: `within`", "out of range");
        }
        refuses(class, &format!(r#"ground = " ", {class}"#), "15: `ground`", "empty");
    }

    #[test]
    fn names_that_there_are_not_are_refused_with_those_that_there_are() {
        refuses("\"pci\"", "\"pcii\"", "3: `model`", "unknown model `pcii`: known are transmit, ");
        refuses(
            "model = \"pci\"",
            "base = \"slow\"",
            "3: `base`",
            "unknown job `slow`: known are fast",
        );
        refuses(
            "jobs = [\"fast\"]\nfree",
            "jobs = [\"slow\"]\nfree",
            "8: `jobs`",
            "known are fast",
        );
        refuses(
            "jobs = [\"fast\"]\nfields",
            "jobs = [\"slow\"]\nfields",
            "19: `curve[0].jobs`",
            "known are fast",
        );
        refuses(
            "\"fast.rates",
            "\"slow.rates",
            "15: `ours`",
            "unknown job, value or curve `slow`: known are fast, twice, ours",
        );
        refuses("\"fast.rates.bits_per_second", "\"ours.mbps", "15: `ours`", "known are mhz, rate");
        refuses("\"fast.rates.bits_per_second", "\"twice", "15: `ours`", "values name each other");
        let knob = |job: &str, key: &str| {
            format!(
                r#"class = "differs", reason = {{ text = "why", from = 0, to = 1, knob = {{ job = "{job}", set = {{ "{key}" = 1 }}, then = "fails" }} }}"#
            )
        };
        let class = r#"class = "predicted""#;
        refuses(class, &knob("slow", "server.mhz"), "15: `reason.knob.job`", "known are fast");
        refuses(
            class,
            &knob("fast", "server.mhzz"),
            "15: `reason.knob.set`",
            "unknown key `server.mhzz`: known are run.seed, ",
        );
        read(&paper().replace(class, &knob("fast", "server.mhz"))).expect("both are there");
    }

    /// A limit that moves with the outcome that its knob turns would cover any.
    #[test]
    fn limits_name_no_outcome() {
        let class = r#"class = "predicted""#;
        let reason = |to: &str| {
            format!(r#"class = "differs", reason = {{ text = "why", from = 0, to = "{to}" }}"#)
        };
        for to in ["2 * fast.rates.bits_per_second", "max(ours.rate)", "5 + 0 * ours.rate"] {
            refuses(class, &reason(to), "15: `reason.to`", "known before our value");
        }
        read(&paper().replace(class, &reason("fast.config.server.mhz / 2"))).expect("a parameter");
        for to in ["-1", "1 / 2 - 1"] {
            refuses(class, &reason(to), "15: `reason.from`", "0 is more than `to`, -");
        }
    }

    /// Expressions, texts and figures that are wrong with any outcome, each with its line and key.
    #[test]
    fn what_is_wrong_with_any_outcome_is_refused_before_a_run() {
        let rate = "\"fast.rates.bits_per_second\"";
        refuses(rate, "\"max(fast.rates.bits_per_second\"", "15: `ours`", "no `)`");
        refuses(rate, "\"median(fast.rates.bits_per_second)\"", "15: `ours`", "no function median");
        refuses("\"1 bit/s\"", "\"about 1\"", "15: `paper`", "\"about\" is not a number");
        refuses("what = \"rate\"", "what = \"{rate\"", "15: `what`", "no `}`");
        let because = r#"class = "differs", reason = { text = "{1 +}", from = 0, to = 1 }"#;
        refuses(r#"class = "predicted""#, because, "15: `reason.text`", "a name is missing");
        refuses("\"2 * twice\"", "\"2 *\"", "5: `twice`", "a name is missing");
        refuses("\"A table\"", "\"A table {1:x}\"", "12: `table[0].title`", "not a format");
        refuses("\"it.config", "\"(it.config", "20: `curve[0].fields.mhz`", "no `)`");
        refuses("free", "notes = [\"{tables.rate}\"]\nfree", "9: `notes[0]`", "curve `tables`");
        read(&paper().replace("free", "notes = [\"{table.rate}\"]\nfree")).expect("a table");
        refuses("\"server.mhz\", ", "\"server\", ", "9: `free[0].keys`", "no job has a parameter");
        refuses("\"load.clients\"]", "\"server.mhz\"]", "9: `free[0].keys`", "there twice");
        assert_eq!(
            unknown("job", "x", [""; 0].iter()).to_string(),
            "unknown job `x`: there is none"
        );
    }

    /// A key that is missing is one of a line, too.
    #[test]
    fn missing_keys_have_their_line() {
        for (from, line) in [
            (", class = \"predicted\"", 15),
            ("what = \"rate\", ", 15),
            ("key = \"table\"\n", 10),
            ("place = \"table 1\"\n", 10),
            ("name = \"mine\"\n", 6),
            ("key = \"ours\"\n", 17),
        ] {
            let error = read(&paper().replacen(from, "", 1)).expect_err(from).to_string();
            assert!(error.starts_with(&format!("mine.toml:{line}: ")), "{from}: {error}");
            assert!(error.contains("is missing"), "{from}: {error}");
        }
    }
}
