//! Jobs as functions of a program: arguments by name, values with their types.

use crate::error::Kind;
use crate::jitter::analyze::Analyze;
use crate::model::solve;
use crate::model::transfer::TransferModel;
use crate::model::transmit::{self, TransmitModel};
use crate::model::{self, Scenario, bottlenecks};
use crate::offload::coalesce::Coalesce;
use crate::offload::segment::Segment;
#[cfg(target_os = "linux")]
use crate::plan::{self, Planning};
use crate::reproduce;
use crate::run::MemoryRun;
use crate::{Context, Error, Failure, Finished, Job, finish};
use linecard::progress::Progress;
use linecard_config::{Config, Document, Parameter, parameters};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A job as a function. Its arguments are the positional ones, those named here, and all other parameters that have an
/// option of the command, by the name of the option.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its description: the first sentence, an empty line, further paragraphs.
    pub doc: &'static str,
    /// Arguments that need no name, each with the parameter that it sets.
    pub positional: &'static [(&'static str, &'static str)],
    /// Arguments with a name of their own, each with its parameter.
    pub named: &'static [(&'static str, &'static str)],
    /// Whether it takes a scenario.
    pub scenario: Takes,
    /// Whether it may take long, and tells its progress.
    pub has_progress: bool,
    parameters: fn() -> &'static [Parameter],
    run: fn(&Call<'_>, &Arc<Progress>) -> Result<Finished, Error>,
}

/// Whether a function takes a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It has arguments only.
    No,
    /// Arguments take precedence over its values.
    May,
    /// It is the first argument, and further values take precedence over its own.
    WithValues,
}

/// Arguments of a function.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// The scenario, if it takes one and one is given.
    pub scenario: Option<PathBuf>,
    /// The text of the scenario, where it is not that of the file.
    pub text: Option<String>,
    /// Values by parameter that take precedence over those of the scenario.
    pub set: Vec<(String, Value)>,
    /// Values by argument. Null is not a value.
    pub values: Vec<(String, Value)>,
}

/// A function that is being called.
#[derive(Debug)]
struct Call<'a> {
    function: &'a Function,
    arguments: &'a Arguments,
}

/// Arguments that a function does not take, or lacks.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{function}: a scenario is missing")]
    NoScenario { function: &'static str },
    #[error("{argument}: unknown argument")]
    UnknownArgument { argument: String },
    #[error("{function}: name a file: the text of a scenario is not taken here")]
    TextOfScenario { function: &'static str },
}

impl Kind for CallError {
    fn failure(&self) -> Failure {
        Failure::Usage
    }
}

/// The functions.
pub const FUNCTIONS: &[Function] = &[
    Function {
        doc: "Finds the smallest clocks, bus width and number of cores that carry a line rate \
             (``linecard model solve``).\n\n\
              Given values are fixed, omitted ones are computed, and confirmed by runs just below \
              and just above. \
              Raises :class:`InfeasibleError` where no clock is enough.\n\n\
              >>> answer = solve(\"100G\", mtu=1500)\n\
              >>> round(answer[\"demand\"][\"packets_per_second\"])\n\
              8223684",
        positional: &[("rate", "rate")],
        has_progress: false,
        run: |call, progress| {
            let document = call.document()?;
            let context = Context { progress, document: Some(&document) };
            solve::finish(&context.config()?, &context)
        },
        ..Function::with::<solve::Config>("solve")
    },
    Function {
        doc: "Runs a network interface in virtual time (``linecard model run``): real firmware, real bytes.\n\n\
              ``scenario`` is a file, or its text. ``set`` has values that take precedence over those of the scenario. \
              Arguments are for scenarios of ``\"transmit\"`` only.",
        scenario: Takes::WithValues,
        run: |call, progress| {
            let options = call.set(Document::default())?;
            model::run(&call.scenario()?, &options, progress)
        },
        ..Function::with::<transmit::Options>("model")
    },
    Function {
        doc: "Finds the bottleneck of a scenario of ``\"transmit\"``, and the next ones \
             (``linecard model bottlenecks``).",
        scenario: Takes::WithValues,
        has_progress: false,
        run: |call, progress| {
            let options = call.set(Document::default())?.config()?;
            let document = call.scenario()?.only::<TransmitModel>()?;
            bottlenecks::finish(&options, &Context { progress, document: Some(&document) })
        },
        ..Function::with::<bottlenecks::Options>("bottlenecks")
    },
    Function {
        doc: "Compares published values with those of models (``linecard reproduce``): ``report.figures`` has the paper's \
              figures, its points over our curves.\n\n\
              ``scenario`` is a file as ``--scenario`` takes it, or one of your own that has a reproduction of this name. \
              Nothing is measured on this host.",
        positional: &[("name", "name")],
        scenario: Takes::May,
        run: |call, progress| {
            let config: reproduce::Config = call.set(Document::default())?.config()?;
            if call.arguments.text.is_some() {
                return Err(CallError::TextOfScenario { function: call.function.name }.into());
            }
            reproduce::finish(&config.name, call.arguments.scenario.as_deref(), progress)
        },
        ..Function::with::<reproduce::Config>("reproduce")
    },
    #[cfg(target_os = "linux")]
    Function {
        doc: "Computes whether stages fit on cores at a rate (``linecard plan``): replicas, \
             mapping, rings, expected rates.\n\n\
              Raises :class:`InfeasibleError` where nothing fits: its text says why and what \
              would help, its ``report`` has the demand.",
        scenario: Takes::WithValues,
        has_progress: false,
        run: |call, progress| {
            let document = call.with_values(call.scenario_document()?)?;
            finish::<Planning>("plan", &call.set(document)?, progress)
        },
        ..Function::with::<plan::Config>("plan")
    },
    Function {
        doc: "Runs a bulk transfer over many lanes in virtual time (``linecard run --lanes sim``): both ends are the real \
              ones.\n\n\
              Equal seeds give equal results, bit for bit.\n\n\
              >>> report = transfer(lanes=2, chunks=4, chunk=\"64K\")\n\
              >>> report[\"summary\"][\"bytes\"]\n\
              262144",
        named: &[
            ("lanes", "lanes.count"),
            ("loss", "lanes.loss"),
            ("reorder", "lanes.reorder"),
            ("seed", "run.seed"),
        ],
        run: |call, progress| finish::<TransferModel>("run", &call.document()?, progress),
        ..Function::of::<TransferModel>("transfer")
    },
    Function {
        doc: "Runs the offloads on one core of this machine (``linecard run``): large sends, segmented, over lanes in memory, \
              merged, every byte verified.",
        named: &[("lanes", "lanes.count")],
        scenario: Takes::May,
        ..Function::of::<MemoryRun>("run")
    },
    Function {
        doc: "Analyzes how evenly a stream in a capture arrives, and which buffers it needs \
             (``linecard jitter analyze``).\n\n\
              RTP (ST 2022-6, ST 2110-20, -30, -31, -40) and other UDP of constant rate. Raises :class:`WithheldError` where no \
              stream is found.",
        positional: &[("capture", "input"), ("second", "second")],
        ..Function::of::<Analyze>("analyze")
    },
    Function {
        doc: "Merges the packets of a capture as a receiver with LRO would (``linecard coalesce``).\n\n\
              ``target`` gets segment sizes and counts, so that :func:`segment_capture` restores \
              the originals.",
        positional: &[("source", "input"), ("target", "output")],
        ..Function::of::<Coalesce>("coalesce_capture")
    },
    Function {
        doc: "Segments the large packets of a capture, or restores the merged ones (``linecard \
             segment``).",
        positional: &[("source", "input"), ("target", "output")],
        ..Function::of::<Segment>("segment_capture")
    },
];

/// The function of this name.
#[must_use]
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    const fn of<J: Job>(name: &'static str) -> Self {
        Self {
            run: |call, progress| finish::<J>(J::COMMAND, &call.document()?, progress),
            ..Self::with::<J::Config>(name)
        }
    }

    /// A function with the parameters of a configuration, which does nothing yet.
    const fn with<C: Config>(name: &'static str) -> Self {
        Self {
            name,
            doc: "",
            positional: &[],
            named: &[],
            scenario: Takes::No,
            has_progress: true,
            parameters: parameters::<C>,
            run: |_, _| Err(Error::cancelled()),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// Arguments that it does not have, values that are refused, and what the job refuses.
    pub fn run(&self, arguments: &Arguments, progress: &Arc<Progress>) -> Result<Finished, Error> {
        let finished = (self.run)(&Call { function: self, arguments }, progress)?;
        // The outcome of a job that was cancelled is not one.
        Context::new(progress).go_on()?;
        Ok(finished)
    }

    /// Its arguments, each with its parameter: the positional ones first.
    pub fn arguments(&self) -> impl Iterator<Item = (String, &'static Parameter)> {
        let all = (self.parameters)();
        let own = || self.positional.iter().chain(self.named);
        let named = own().filter_map(|&(argument, name)| {
            Some((argument.to_owned(), all.iter().find(|parameter| parameter.name == name)?))
        });
        let is_left = move |parameter: &&Parameter| own().all(|(_, name)| *name != parameter.name);
        // As programs write names.
        let of_options = all
            .iter()
            .filter(is_left)
            .filter_map(|parameter| Some((parameter.flag.as_ref()?.replace('-', "_"), parameter)));
        named.chain(of_options)
    }
}

impl Call<'_> {
    /// The scenario, if one is given.
    fn given(&self) -> Result<Option<Document>, Error> {
        let Some(path) = &self.arguments.scenario else { return Ok(None) };
        let text = self.arguments.text.as_ref();
        let document =
            text.map_or_else(|| Document::read(path), |text| Document::of_text(path, text))?;
        Ok(Some(document))
    }

    /// The scenario, which has to be given.
    fn scenario_document(&self) -> Result<Document, Error> {
        Ok(self.given()?.ok_or(CallError::NoScenario { function: self.function.name })?)
    }

    /// The scenario of a model.
    fn scenario(&self) -> Result<Scenario, Error> {
        let Scenario { model, document } = Scenario::of(self.scenario_document()?, &[])?;
        Ok(Scenario { model, document: self.with_values(document)? })
    }

    /// A document with the values that take precedence over its own.
    fn with_values(&self, mut document: Document) -> Result<Document, Error> {
        for (key, value) in &self.arguments.set {
            document.set_value(key, key, value)?;
        }
        Ok(document)
    }

    /// The values of a job whose scenario, if there is one, has the same parameters.
    fn document(&self) -> Result<Document, Error> {
        self.set(self.given()?.unwrap_or_default())
    }

    /// The arguments as values of a configuration, over those of `document`.
    fn set(&self, mut document: Document) -> Result<Document, Error> {
        let known: Vec<_> = self.function.arguments().collect();
        for (argument, value) in &self.arguments.values {
            let Some((_, parameter)) = known.iter().find(|(name, _)| name == argument) else {
                return Err(CallError::UnknownArgument { argument: argument.clone() }.into());
            };
            if value.is_null() {
                continue;
            }
            match (&parameter.bare_unit, value) {
                (Some(unit), Value::Number(number)) => {
                    let value = format!("{number}{unit}").into();
                    document.set_value(argument, &parameter.name, &value)?;
                }
                _ => document.set_value(argument, &parameter.name, value)?,
            }
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, values: &[(&str, Value)]) -> Result<Finished, Error> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let arguments = Arguments { values: values.collect(), ..Arguments::default() };
        function(name).expect("a function").run(&arguments, &Arc::default())
    }

    #[test]
    fn arguments_have_their_types() {
        let found = call("solve", &[("rate", json!(100_000_000_000_u64)), ("mtu", json!(1500))]);
        assert!(found.expect("an answer").report.to_string().contains("smallest"));
        let refused = call("solve", &[("rate", json!(100))]).expect_err("too little");
        assert!(refused.code() == 2 && refused.to_string().starts_with("rate=100"), "{refused}");
    }

    #[test]
    fn arguments_that_there_are_not_and_that_exclude_each_other_are_refused() {
        let refused = call("solve", &[("speed", json!(1))]).expect_err("not an argument");
        assert_eq!(refused.to_string(), "speed: unknown argument");
        let both = [("rate", json!("1G")), ("protocol", json!("udp")), ("mix", json!("tcp:2=1"))];
        let refused = call("solve", &both).expect_err("both").to_string();
        assert_eq!(
            refused,
            "mix=tcp:2=1: `mix` excludes `protocol`, which is given by protocol=udp: leave one out"
        );
    }

    #[test]
    fn all_names_of_arguments_are_those_of_parameters() {
        for function in FUNCTIONS {
            let own = function.positional.len() + function.named.len();
            let named = function.arguments().take(own).map(|(name, _)| name).collect::<Vec<_>>();
            let expected = function.positional.iter().chain(function.named).map(|(name, _)| *name);
            assert!(named.iter().map(String::as_str).eq(expected), "{}: {named:?}", function.name);
        }
    }
}
