//! Jobs whose types are not known: chosen by name at run time.

use super::job::{Context, Error, Job};
use linecard::watch::Watch;
use linecard_config::{Document, Parameter, parameters, schema};
use linecard_report::{Chart, Report, report_of};
use schemars::Schema;
use serde_json::Value;

/// A job without its types.
#[derive(Debug, Clone, Copy)]
pub struct AnyJob {
    /// As scenario files name it.
    pub name: &'static str,
    /// Runs it with the configuration of a document.
    run: fn(&Document, &Watch) -> Result<Finished, Error>,
    check: fn(&Document) -> Result<(), Error>,
    parameters: fn() -> &'static [Parameter],
    schema: fn() -> Schema,
}

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    /// The outcome as data: names of fields are keys.
    pub value: Value,
    /// The same for people.
    pub report: Report,
    /// Charts for a page.
    pub charts: Vec<Chart>,
    /// Set where the outcome is no success.
    pub failure: Option<Error>,
}

impl AnyJob {
    /// A job without its types.
    #[must_use]
    pub const fn of<J: Job>() -> Self {
        Self {
            name: J::NAME,
            run: run::<J>,
            check: |document| Ok(document.config::<J::Config>().map(drop)?),
            parameters: parameters::<J::Config>,
            schema: schema::<J::Config>,
        }
    }

    /// Runs it with the configuration of a document.
    ///
    /// # Errors
    ///
    /// What [`Job::run`] refuses, with places in the document.
    pub fn run(&self, document: &Document, progress: &Watch) -> Result<Finished, Error> {
        (self.run)(document, progress)
    }

    /// Checks the values of a document without running anything.
    ///
    /// # Errors
    ///
    /// The first value that is refused.
    pub fn check(&self, document: &Document) -> Result<(), Error> {
        (self.check)(document)
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &'static [Parameter] {
        (self.parameters)()
    }

    /// The JSON Schema of its scenario files.
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut schema = (self.schema)();
        schema.insert("title".to_owned(), format!("linecard model \"{}\"", self.name).into());
        let kind = serde_json::json!({
            "const": self.name,
            "description": "the kind of scenario",
        });
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("model".to_owned(), kind);
        }
        schema
    }
}

fn run<J: Job>(document: &Document, progress: &Watch) -> Result<Finished, Error> {
    finish::<J>(J::COMMAND, document, progress)
}

/// Runs a job whose types are known with the configuration of a document; reports name `command` as their job.
///
/// # Errors
///
/// What [`Job::run`] refuses, with places in the document.
pub fn finish<J: Job>(
    command: &'static str,
    document: &Document,
    progress: &Watch,
) -> Result<Finished, Error> {
    let config: J::Config = document.config()?;
    let context = Context { progress, document: Some(document) };
    let outcome = J::run(&config, &context).map_err(|error| match error {
        Error::Config(error) => Error::Config(document.placed(error)),
        error => error,
    })?;
    Ok(Finished {
        value: serde_json::to_value(&outcome).unwrap_or_default(),
        report: report_of(command, &outcome),
        charts: J::charts(&outcome),
        failure: J::check(&outcome).err(),
    })
}
