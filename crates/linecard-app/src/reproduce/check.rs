//! Refuses, before anything runs, rows that claim more than their class means, and names that there are not.

use super::comparison::Class;
use super::expression::{Query, evaluate, fill};
use super::measure;
use super::paper::{Curve, Paper, Published, Reproduction};
use crate::Error;
use crate::model::{MODELS, named};
use linecard_config::{ConfigError, Document, Location, Problem};
use serde_json::Value;
use std::cell::RefCell;

/// Values that each name stands for while only names are looked for.
const MANY: usize = 16;
/// Values that name each other: more is a circle.
const MOST_VALUES: usize = 16;

/// A refused key, and why.
type Refused = (String, String);

/// Checks what a file says; `paper` is all files together.
pub(super) fn check(file: &Document, paper: &Paper) -> Result<(), Error> {
    for (name, job) in &paper.job {
        let at = |key: &str, what: String| Err(refuse(file, &format!("job.{name}"), (key, what)));
        if let Some(base) = job.base.as_ref().filter(|base| !paper.job.contains_key(*base)) {
            return at("base", unknown("job", base, paper.job.keys()));
        }
        let model = paper.chain(name)?.iter().find_map(|(_, job)| job.model.as_ref());
        match model {
            None => return at("model", format!("job `{name}` has none: give `model` or `base`")),
            Some(model) if parameters(model).is_none() => {
                let known = MODELS.iter().map(|model| model.name).chain(measure::names());
                return at("model", unknown("model", model, known));
            }
            Some(_) => {}
        }
    }
    for (index, reproduction) in paper.reproductions().iter().enumerate() {
        let at = At { paper, reproduction };
        let place = format!("reproduction[{index}]");
        at.check().map_err(|(key, what)| refuse(file, &place, (&key, what)))?;
        for (table, rows) in reproduction.table.iter().map(|table| &table.rows).enumerate() {
            for (row, published) in rows.iter().enumerate() {
                let place = format!("{place}.table[{table}].rows[{row}]");
                let name = |what| format!("{:?}: {what}", published.what);
                at.row(published)
                    .map_err(|(key, what)| refuse(file, &place, (&key, name(what))))?;
            }
        }
    }
    Ok(())
}

/// The error about a key of a part of the file: its line, but not the text of it, as rows are long.
fn refuse(file: &Document, place: &str, (key, what): (&str, String)) -> Error {
    let path = format!("{place}.{key}");
    let found = [path.as_str(), &format!("{place}.what"), place];
    let location = match found.into_iter().find_map(|path| file.find(path)) {
        Some(Location::Line { file, line, .. }) => {
            Location::Line { file, line, content: String::new() }
        }
        _ => Location::File(file.path().to_owned()),
    };
    let what = format!("`{key}`: {what}");
    ConfigError::new(location, Some(path), Problem::Invalid(what.into())).into()
}

/// Says which names there are.
pub(super) fn unknown<T: AsRef<str>>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = T>,
) -> String {
    let known: Vec<String> = known.map(|name| name.as_ref().to_owned()).collect();
    format!("unknown {kind} `{name}`: known are {}", known.join(", "))
}

/// Names of the parameters of a model or measurement.
fn parameters(model: &str) -> Option<Vec<&'static str>> {
    let of_model = named(model).map(|model| model.parameters());
    let all = of_model.or_else(|| measure::parameters(model))?;
    Some(all.iter().map(|parameter| parameter.name.as_str()).collect())
}

fn needs(is_met: bool, key: &str, what: impl Into<String>) -> Result<(), Refused> {
    if is_met { Ok(()) } else { Err((key.to_owned(), what.into())) }
}

/// A reproduction in its paper.
struct At<'p> {
    paper: &'p Paper,
    reproduction: &'p Reproduction,
}

impl At<'_> {
    fn check(&self) -> Result<(), Refused> {
        let Reproduction { jobs, hardware, curve, figure, .. } = self.reproduction;
        let known = || self.paper.job.keys();
        for name in jobs.iter().chain(hardware.iter().map(|hardware| &hardware.job)) {
            let is_known = self.paper.job.contains_key(name);
            needs(is_known, "jobs", unknown("job", name, known()))?;
        }
        for (index, curve) in curve.iter().enumerate() {
            for name in &curve.jobs {
                let key = format!("curve[{index}].jobs");
                needs(jobs.contains(name), &key, unknown("job", name, jobs.iter()))?;
            }
        }
        for (index, figure) in figure.iter().enumerate() {
            for (curve, text) in figure.expressions() {
                let key = format!("figure[{index}].curves[{curve}].name");
                self.names_outcome(text, None, 0).map_err(|what| (key, what))?;
            }
        }
        Ok(())
    }

    fn row(&self, row: &Published) -> Result<(), Refused> {
        self.class(row)?;
        if row.class == Class::Cannot {
            return Ok(());
        }
        let (key, deciding) = match &row.holds {
            Some(holds) => ("holds", holds),
            None => ("ours", &row.ours),
        };
        let named = |key: &str, text: &str| {
            self.names_outcome(text, None, 0).map_err(|what| (key.to_owned(), what))
        };
        let has_outcome = named(key, deciding)?;
        needs(
            has_outcome || row.class == Class::Arithmetic,
            key,
            "it names no outcome of a job, which `arithmetic` alone may do: give a value of one, as `JOB.rates.KEY`",
        )?;
        if row.holds.is_some() {
            self.queries(|lookup| _ = fill(&row.ours, lookup))
                .iter()
                .try_for_each(|query| self.leads(query, None, 0).map(|_| ()))
                .map_err(|what| ("ours".to_owned(), what))?;
        }
        let Some(reason) = &row.reason else { return Ok(()) };
        for (key, text) in [("from", &reason.from), ("to", &reason.to)] {
            match text {
                None => return Err((format!("reason.{key}"), "give `from` and `to`".to_owned())),
                Some(Value::String(text)) => _ = named(&format!("reason.{key}"), text)?,
                Some(_) => {}
            }
        }
        for (key, text) in [("measured", &reason.measured), ("when", &reason.when)] {
            if let Some(text) = text {
                named(&format!("reason.{key}"), text)?;
            }
        }
        let Some(knob) = &reason.knob else { return Ok(()) };
        let is_known = self.paper.job.contains_key(&knob.job);
        needs(is_known, "reason.knob.job", unknown("job", &knob.job, self.paper.job.keys()))?;
        let chain = self.paper.chain(&knob.job).unwrap_or_default();
        let model = chain.iter().find_map(|(_, job)| job.model.as_deref()).unwrap_or_default();
        let known = parameters(model).unwrap_or_default();
        for key in knob.set.keys() {
            let is_known = known.contains(&key.as_str());
            needs(is_known, "reason.knob.set", unknown("key", key, known.iter()))?;
        }
        Ok(())
    }

    /// Whether the row has what its class needs, and nothing that contradicts it.
    fn class(&self, row: &Published) -> Result<(), Refused> {
        let is_of = |class| row.class == class;
        let free = &self.reproduction.free;
        let is_free = |key: &str| {
            let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
            free.iter().any(|text| text.split(|letter| !is_of_name(letter)).any(|word| word == key))
        };
        match &row.parameter {
            Some(all) if is_of(Class::Fitted) => {
                let what = || format!("no free parameter `{all}`: `free` has {}", free.join("; "));
                needs(all.split(" and ").all(is_free), "parameter", what())?;
            }
            Some(_) => needs(false, "parameter", "only `fitted` has one")?,
            None => {
                let what =
                    format!("`fitted` needs `parameter`, one of `free`: {}", free.join("; "));
                needs(!is_of(Class::Fitted), "class", what)?;
            }
        }
        if is_of(Class::Exact) {
            let what = "`exact` is a number to its printed digits: class it";
            needs(row.within.is_none(), "within", format!("{what} `predicted`, with a `ground`"))?;
            needs(row.holds.is_none(), "holds", format!("{what} `predicted`"))?;
            needs(row.reason.is_none(), "reason", format!("{what} `differs`"))?;
        }
        if is_of(Class::Predicted) || is_of(Class::Differs) {
            let what = "a tolerance needs a `ground`: from what it follows that was known before our value";
            needs(row.within.is_none() || row.ground.is_some(), "within", what)?;
        }
        let needs_reason = is_of(Class::Differs) || is_of(Class::Cannot);
        needs(row.reason.is_some() || !needs_reason, "class", "give a `reason` with its `text`")?;
        if is_of(Class::Cannot) {
            let what = "of what cannot be had nothing can be compared: leave it out";
            needs(row.holds.is_none(), "holds", what)?;
            needs(row.within.is_none(), "within", what)?;
            let is_bare = |reason: &super::paper::Reason| {
                reason.from.is_none() && reason.to.is_none() && reason.knob.is_none()
            };
            needs(row.reason.as_ref().is_none_or(is_bare), "reason", what)?;
        }
        Ok(())
    }

    /// Names in what `evaluated` evaluates.
    fn queries(&self, evaluated: impl Fn(&super::expression::Lookup<'_>)) -> Vec<Query> {
        let queries = RefCell::new(Vec::new());
        evaluated(&|query: &Query| {
            queries.borrow_mut().push(query.clone());
            Ok(vec![1.0; MANY])
        });
        queries.into_inner()
    }

    /// Whether an expression depends on what a job found. `it` is the curve that it is of.
    fn names_outcome(&self, text: &str, it: Option<&Curve>, depth: usize) -> Result<bool, String> {
        if depth > MOST_VALUES {
            return Err(format!("{text}: values name each other"));
        }
        // Numbers of a wrong count are an error only once there are values.
        let queries = self.queries(|lookup| _ = evaluate(text, lookup).is_ok());
        let found = queries.iter().map(|query| self.leads(query, it, depth));
        Ok(found.collect::<Result<Vec<_>, String>>()?.contains(&true))
    }

    /// Whether a name leads to what a job found.
    fn leads(&self, query: &Query, it: Option<&Curve>, depth: usize) -> Result<bool, String> {
        let (root, jobs) = (query.root.as_str(), &self.reproduction.jobs);
        let is_found = || query.keys.first().is_some_and(|key| key != "config");
        if jobs.iter().any(|job| job == root) {
            return Ok(is_found());
        }
        if let Some(curve) = it.filter(|_| root == "it") {
            return Ok(!curve.jobs.is_empty() && is_found());
        }
        if let Some(text) = self.paper.value.get(root) {
            return self.names_outcome(text, it, depth + 1);
        }
        if let Some(curve) = self.reproduction.curve.iter().find(|curve| curve.key == root) {
            let column = query.keys.first().map_or("", String::as_str);
            let text = curve.fields.get(column);
            let text = text.ok_or_else(|| unknown("column", column, curve.fields.keys()))?;
            return self.names_outcome(text, Some(curve), depth + 1);
        }
        let curves = self.reproduction.curve.iter().map(|curve| &curve.key);
        let known = jobs.iter().chain(self.paper.value.keys()).chain(curves);
        Err(unknown("job, value or curve", root, known))
    }
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
free = ["server.mhz and load.clients, chosen"]
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
    fn rows_claim_no_more_than_their_class() {
        read(&paper()).expect("it is right");
        let class = r#"class = "predicted""#;
        let row = |to: &str, key: &str, says| refuses(class, to, &format!("15: `{key}`"), says);
        row(r#"within = 90, class = "exact""#, "within", "printed digits");
        row(r#"holds = "fast.rates.bits_per_second > 0", class = "exact""#, "holds", "`predicted`");
        row(r#"within = 90, class = "predicted""#, "within", "`ground`");
        row(r#"class = "fitted""#, "class", "server.mhz and load.clients, chosen");
        row(
            r#"class = "fitted", parameter = "server.cpus""#,
            "parameter",
            "`server.cpus`: `free` has",
        );
        row(r#"class = "predicted", parameter = "server.mhz""#, "parameter", "only `fitted`");
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
        for holds in ["ours.rate > 0", "max(fast.rates.bits_per_second, 1) > 0"] {
            read(&paper().replace(class, &format!("holds = \"{holds}\", {class}"))).expect(holds);
        }
        let arithmetic = paper().replace(class, r#"class = "arithmetic""#);
        read(&arithmetic.replace("fast.rates.bits_per_second\"", "5 * 423\"")).expect("arithmetic");
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
}
