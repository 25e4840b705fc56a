//! Jobs whose types are not known: chosen by name at run time.

use super::error::Error;
use super::job::{Context, Job};
use super::model::named;
use linecard::progress::Progress;
use linecard_config::{Config, Document, Parameter, Varied, parameters, schema};
use linecard_report::{Page, Report, report_of};
use schemars::Schema;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Makes a job at points that have values for keys.
type MakeAtPoints = fn(&Document, &[String]) -> Result<Box<dyn AtPoints>, Error>;

/// A job without its types.
#[derive(Debug, Clone, Copy)]
pub struct AnyJob {
    /// As scenario files name it.
    pub name: &'static str,
    /// Runs it with the configuration of a document.
    run: fn(&Document, &Arc<Progress>) -> Result<Finished, Error>,
    config: fn(&Document) -> Result<Value, Error>,
    former_names: fn(&Document) -> Vec<String>,
    at_points: MakeAtPoints,
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
    /// The same with charts, for a browser.
    pub page: Page,
    /// Set where the outcome is not a success.
    pub failure: Option<Error>,
}

impl AnyJob {
    /// A job without its types.
    #[must_use]
    pub const fn of<J: Job>() -> Self {
        Self {
            name: J::NAME,
            run: run::<J>,
            config: config::<J>,
            former_names: Document::former_names::<J::Config>,
            at_points: at_points::<J>,
            parameters: parameters::<J::Config>,
            schema: schema::<J::Config>,
        }
    }

    /// Runs it with the configuration of a document.
    ///
    /// # Errors
    ///
    /// The errors of [`Job::run`], with places in the document.
    pub fn run(&self, document: &Document, progress: &Arc<Progress>) -> Result<Finished, Error> {
        (self.run)(document, progress)
    }

    /// The values of a document and the defaults of the others, checked, also beside each other; runs nothing.
    ///
    /// # Errors
    ///
    /// The first value that is refused.
    pub fn config(&self, document: &Document) -> Result<Value, Error> {
        (self.config)(document)
    }

    /// A warning for each value of a document that is given by a parameter's former name.
    #[must_use]
    pub fn former_names(&self, document: &Document) -> Vec<String> {
        (self.former_names)(document)
    }

    /// The job at points that have values for `keys`.
    pub(crate) fn at_points(
        &self,
        document: &Document,
        keys: &[String],
    ) -> Result<Box<dyn AtPoints>, Error> {
        (self.at_points)(document, keys)
    }

    /// A result of this model, with its name where scenarios have it.
    pub(crate) fn named(&self, finished: Finished) -> Finished {
        finished.with_config(&json!({ "model": self.name }))
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
        let kind = json!({
            "const": self.name,
            "description": "the kind of scenario",
        });
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("model".to_owned(), kind);
        }
        schema.insert("required".to_owned(), json!(["model"]));
        schema
    }
}

impl Finished {
    /// The result of a job that makes its report itself: the report is all of its page.
    #[must_use]
    pub fn of_report(title: impl Into<String>, report: Report) -> Self {
        let mut page = Page::new(title);
        page.summary(&report);
        let value = serde_json::to_value(&report).unwrap_or_default();
        Self { value, report, page, failure: None }
    }

    /// The same with the configuration that it is of, and with warnings of the document that it was read from.
    #[must_use]
    pub(crate) fn of_config<C: Config>(mut self, config: &C, document: Option<&Document>) -> Self {
        let warnings: Vec<String> = document.map(Document::former_names::<C>).unwrap_or_default();
        self.complete(|report| {
            report.add_config(config);
            warnings.iter().for_each(|warning| report.note(warning.clone()));
        });
        self
    }

    /// The same with more values of the configuration, those of a struct or of an object.
    #[must_use]
    pub(crate) fn with_config(mut self, values: &impl Serialize) -> Self {
        self.complete(|report| report.add_config(values));
        self
    }

    /// Completes the report, and its copy on the page.
    fn complete(&mut self, complete: impl Fn(&mut Report)) {
        complete(&mut self.report);
        self.page.summary_mut().into_iter().for_each(complete);
    }
}

fn run<J: Job>(document: &Document, progress: &Arc<Progress>) -> Result<Finished, Error> {
    finish::<J>(J::COMMAND, document, progress)
}

/// Runs a job whose types are known with the configuration of a document; reports name `command` as their job.
///
/// # Errors
///
/// The errors of [`Job::run`], with places in the document.
pub fn finish<J: Job>(
    command: &'static str,
    document: &Document,
    progress: &Arc<Progress>,
) -> Result<Finished, Error> {
    let context = Context { progress, document: Some(document) };
    if named(J::NAME).is_none() && document.find("model").is_some() {
        let what = format!(
            "a scenario of `linecard model run`; `linecard {command}` takes none with `model`"
        );
        return Err(document.refuse("model", what).into());
    }
    finish_with::<J>(command, &document.config()?, &context)
}

/// Runs a job with a configuration; reports name `command` as their job.
///
/// # Errors
///
/// The errors of [`Job::run`], with places in the context's document.
pub fn finish_with<J: Job>(
    command: &'static str,
    config: &J::Config,
    context: &Context<'_>,
) -> Result<Finished, Error> {
    let outcome = J::run(config, context).map_err(|error| context.placed(error))?;
    let mut finished = finished_with::<J>(command, config, context, &outcome);
    finished.failure = finished.failure.map(|error| context.placed(error));
    Ok(finished)
}

/// The outcome of a job that ran with this configuration, as front ends show it; reports name `command` as their job.
pub fn finished_with<J: Job>(
    command: &'static str,
    config: &J::Config,
    context: &Context<'_>,
    outcome: &J::Outcome,
) -> Finished {
    finished::<J>(command, J::title(config), outcome).of_config(config, context.document)
}

/// The outcome of a job, as front ends show it; reports name `command` as their job.
pub fn finished<J: Job>(
    command: &'static str,
    title: impl Into<String>,
    outcome: &J::Outcome,
) -> Finished {
    let mut finished = Finished::of_report(title, report_of(command, outcome));
    finished.value = serde_json::to_value(outcome).unwrap_or_default();
    J::draw(outcome, &mut finished.page);
    finished.failure = J::check(outcome).err();
    finished
}

/// A job at the points of a sweep.
pub(crate) trait AtPoints: Send + Sync {
    /// Runs it with a value for each varied parameter.
    fn run(&self, values: &[Value], progress: &Arc<Progress>) -> Result<Row, Error>;
}

/// Names and values of the results of a point of a sweep, in order.
pub type Row = Vec<(String, Value)>;

struct JobAtPoints<J: Job>(Varied<J::Config>);

impl<J: Job> AtPoints for JobAtPoints<J> {
    fn run(&self, values: &[Value], progress: &Arc<Progress>) -> Result<Row, Error> {
        let (config, document) = self.0.at(values)?;
        let context = Context { progress, document: Some(&document) };
        let outcome = J::run(&config, &context).map_err(|error| context.placed(error))?;
        J::check(&outcome)?;
        let mut row = Row::new();
        flatten("", serde_json::to_value(&outcome).unwrap_or_default(), &mut row);
        Ok(row)
    }
}

/// The values of an outcome as `section.name`, without lists.
fn flatten(name: &str, value: Value, row: &mut Row) {
    match value {
        Value::Object(values) => {
            for (key, value) in values {
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                flatten(&name, value, row);
            }
        }
        Value::Array(_) | Value::Null => {}
        value => row.push((name.to_owned(), value)),
    }
}

fn at_points<J: Job>(document: &Document, keys: &[String]) -> Result<Box<dyn AtPoints>, Error> {
    config::<J>(document)?;
    Ok(Box::new(JobAtPoints::<J>(Varied::new(document.clone(), keys)?)))
}

fn config<J: Job>(document: &Document) -> Result<Value, Error> {
    let config = document.config()?;
    J::validate(&config).map_err(|error| Error::Config(document.placed(error)))?;
    Ok(serde_json::to_value(&config).unwrap_or_default())
}
