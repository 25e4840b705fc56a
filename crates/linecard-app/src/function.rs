//! Jobs as functions of a program: arguments by name, values with their types.

use crate::model::transfer::TransferModel;
use crate::offload::coalesce::Coalesce;
use crate::offload::segment::Segment;
use crate::run::MemoryRun;
use crate::{Context, Error, Finished, Job, finish};
use linecard::watch::Watch;
use linecard_config::{Document, Parameter, parameters};
use serde_json::Value;
use std::sync::Arc;

/// A job as a function. Its arguments are the parameters that have an option of the command, by the name of the option, and
/// the positional ones.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// What it does: the first sentence, an empty line, further paragraphs.
    pub doc: &'static str,
    /// Arguments without a name, each with the parameter that it sets.
    pub positional: &'static [(&'static str, &'static str)],
    /// Arguments of parameters without an option of their own, each with its parameter.
    pub named: &'static [(&'static str, &'static str)],
    /// Whether it takes a scenario.
    pub scenario: Takes,
    /// Whether it may take long, and tells its progress.
    pub has_progress: bool,
    parameters: fn() -> &'static [Parameter],
    run: fn(&Call<'_>, &Arc<Watch>) -> Result<Finished, Error>,
}

/// Whether a function takes a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It has arguments only.
    No,
    /// Arguments take precedence over its values.
    May,
    /// It is the first argument, and has values of its own, which `set` replaces.
    Must,
}

/// A call of a function.
#[derive(Debug)]
struct Call<'a> {
    function: &'a Function,
    /// The scenario, if one is given.
    scenario: Option<Document>,
    /// Values by argument. Null is no value.
    arguments: &'a [(String, Value)],
}

/// The functions.
pub const FUNCTIONS: [Function; 4] = [
    Function {
        doc: "Merges the packets of a capture as a receiver with LRO would (``linecard coalesce``).\n\n\
              ``target`` gets segment sizes and counts, so that :func:`segment_capture` gives back the originals.",
        positional: &[("source", "input"), ("target", "output")],
        ..Function::of::<Coalesce>("coalesce_capture")
    },
    Function {
        doc: "Segments the large packets of a capture, or gives back what was merged (``linecard segment``).",
        positional: &[("source", "input"), ("target", "output")],
        ..Function::of::<Segment>("segment_capture")
    },
    Function {
        doc: "Runs the offloads on one core of this machine (``linecard run``): large sends, segmented, over lanes in memory, \
              merged, every byte verified.",
        named: &[("lanes", "lanes.count")],
        scenario: Takes::May,
        ..Function::of::<MemoryRun>("run")
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
        run: |call, progress| {
            finish::<TransferModel>("run", &call.document()?, progress)
        },
        ..Function::of::<TransferModel>("transfer")
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
            name,
            doc: "",
            positional: &[],
            named: &[],
            scenario: Takes::No,
            has_progress: true,
            parameters: parameters::<J::Config>,
            run: |call, progress| finish::<J>(J::COMMAND, &call.document()?, progress),
        }
    }

    /// Runs it with a scenario, if it takes one, and values by argument; null is no value.
    ///
    /// # Errors
    ///
    /// Arguments that there are not, values that are refused, and what the job refuses.
    pub fn run(
        &self,
        scenario: Option<Document>,
        arguments: &[(String, Value)],
        progress: &Arc<Watch>,
    ) -> Result<Finished, Error> {
        let finished = (self.run)(&Call { function: self, scenario, arguments }, progress)?;
        // The outcome of a job that was cancelled is not one.
        Context::new(progress).go_on()?;
        Ok(finished)
    }

    /// Its arguments, each with its parameter: positional ones, those that are named here, and those named by an option.
    pub fn arguments(&self) -> impl Iterator<Item = (String, &'static Parameter)> {
        let all = (self.parameters)();
        let named = self.positional.iter().chain(self.named).filter_map(|&(argument, name)| {
            Some((argument.to_owned(), all.iter().find(|parameter| parameter.name == name)?))
        });
        // As programs write names.
        let of_options = all.iter().filter_map(|parameter| {
            Some((parameter.flag.as_ref()?.replace('-', "_"), parameter))
        });
        named.chain(of_options)
    }
}

impl Call<'_> {
    /// The values of a job whose scenario, if there is one, has the same parameters.
    fn document(&self) -> Result<Document, Error> {
        self.set(self.scenario.clone().unwrap_or_default())
    }

    /// The arguments as values of a configuration, over those of `document`.
    fn set(&self, mut document: Document) -> Result<Document, Error> {
        let known: Vec<_> = self.function.arguments().collect();
        for (argument, value) in self.arguments {
            let Some((_, parameter)) = known.iter().find(|(name, _)| name == argument) else {
                return Err(Error::Usage(format!("{argument}: there is no such argument")));
            };
            document.set_value(argument, &parameter.name, value)?;
        }
        Ok(document)
    }
}
