//! Knobs of reasons: a reason names a parameter, and the result of its row when that parameter is changed. A reason
//! that holds whatever its knob does explains nothing.

use super::comparison::Verdict;
use super::error::ReproduceError;
use super::expression::Query;
use super::jobs::Runs;
use super::paper::{Curve, Paper, Reproduction};
use crate::{Context, Error};
use linecard_config::Document;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A parameter of a job, changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Knob {
    pub(super) job: String,
    pub(super) set: BTreeMap<String, Value>,
    then: Then,
}

/// The row with the knob turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Then {
    /// It agrees with the paper.
    Agrees,
    /// It is beyond the limit of its reason.
    Fails,
}

/// A knob that was turned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    /// The row.
    pub what: String,
    /// The change, as a file says it.
    pub change: String,
    /// Whether the row became what its reason says.
    pub is_as_said: bool,
}

/// Turns the knob of each reason of a reproduction, one at a time.
///
/// # Errors
///
/// As [`super::reproduce`].
pub fn turn_knobs(name: &str, context: &Context<'_>) -> Result<Vec<Turned>, Error> {
    turn_all(&Paper::built_in(name)?.0, name, context)
}

fn turn_all(file: &Document, name: &str, context: &Context<'_>) -> Result<Vec<Turned>, Error> {
    let paper: Paper = file.read_as()?;
    let mut turned = Vec::new();
    for (table, published) in paper.reproduction(name)?.table.iter().enumerate() {
        for (row, published) in published.rows.iter().enumerate() {
            if let Some(knob) = published.knob() {
                turned.push(knob.turn((file, name), (table, row), context)?);
            }
        }
    }
    Ok(turned)
}

impl Knob {
    fn turn(
        &self,
        (file, name): (&Document, &str),
        (table, row): (usize, usize),
        context: &Context<'_>,
    ) -> Result<Turned, Error> {
        let set = self.set.iter().map(|(key, value)| format!("{key} = {value}\n"));
        let change = format!("[job.{}]\n{}", self.job, set.collect::<String>());
        let own = Document::of_text("knob.toml", change.clone())?;
        let wrong = |source| ReproduceError::Knob { name: name.to_owned(), source };
        let mut paper: Paper = file.read_as()?;
        paper.overlay(own.read_as()?, &own)?;
        let reproduction = paper.reproduction(name)?;
        let published = &reproduction.table[table].rows[row];
        let (jobs, curves) = needs(&paper, reproduction, published);
        let files = [file.clone(), own];
        let mut runs = Runs::new(&paper, (&files, None), &jobs, context)?;
        for curve in curves {
            runs.curve(curve).map_err(wrong)?;
        }
        let row = published.row(&|query: &Query| runs.numbers(query)).map_err(wrong)?;
        let is_as_said = match self.then {
            Then::Agrees => row.agrees(),
            Then::Fails => row.verdict() == Verdict::Unexplained,
        };
        Ok(Turned { what: row.what.clone(), change, is_as_said })
    }
}

/// Jobs whose values a row names, and curves, with what those need.
fn needs<'p>(
    paper: &Paper,
    reproduction: &'p Reproduction,
    row: &dyn Debug,
) -> (Vec<String>, Vec<&'p Curve>) {
    let mut texts = vec![format!("{row:?}")];
    let (mut words, mut jobs) = (BTreeSet::new(), BTreeSet::new());
    while let Some(text) = texts.pop() {
        let mut rest = text.as_str();
        while let Some(start) = rest.find(is_of_word) {
            let end = rest[start..].find(|letter| !is_of_word(letter)).map(|len| start + len);
            let (word, behind) = rest[start..].split_at(end.unwrap_or(rest.len()) - start);
            rest = behind;
            // A job's values follow its name.
            if behind.starts_with(['.', '[']) && reproduction.jobs.iter().any(|job| job == word) {
                jobs.insert(word.to_owned());
            }
            if words.insert(word.to_owned()) {
                texts.extend(paper.value.get(word).cloned());
                for curve in reproduction.curve.iter().filter(|curve| curve.key == word) {
                    jobs.extend(curve.jobs.iter().cloned());
                    texts.push(format!("{curve:?}"));
                }
            }
        }
    }
    let curves = reproduction.curve.iter().filter(|curve| words.contains(&curve.key));
    let jobs = reproduction.jobs.iter().filter(|job| jobs.contains(*job)).cloned();
    (jobs.collect(), curves.collect())
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Promise (Hardware model): Reasons why values of the papers on the network processor, the PCI adapter, the offload's
    /// clocks, transfers at 100 Gbit/s and the way from the wire to the application differ are tested: with the parameter
    /// changed that a reason is about, its row agrees, or fails, as the reason says.
    #[test]
    fn each_reason_depends_on_its_knob() {
        let progress = Arc::default();
        let context = Context::new(&progress);
        for name in [
            "lro-npu",
            "gigabit-throughput",
            "gigabit-bus",
            "lso-table3",
            "lso-clock",
            "end2end100",
            "linux-jitter",
        ] {
            let turned = turn_knobs(name, &context).expect(name);
            assert!(!turned.is_empty(), "{name}");
            let wrong = turned.iter().filter(|one| !one.is_as_said);
            let wrong: Vec<_> = wrong.map(|one| format!("{}:\n{}", one.what, one.change)).collect();
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        }
    }

    /// The example for files of one's own.
    #[test]
    fn a_file_of_ones_own_has_knobs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/paper.toml");
        let file = Document::read(path.as_ref()).expect("the example");
        let progress = Arc::default();
        let turned = turn_all(&file, "my-server", &Context::new(&progress)).expect("a run");
        assert!(matches!(&turned[..], [one] if one.is_as_said), "{turned:?}");
    }
}
