//! `linecard schema`: the JSON Schema of scenario files, with which editors complete and check them.

use crate::failure::{EXIT_CODES, Failure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use linecard_app::Job;
use linecard_app::model::MODELS;
use linecard_app::run::{self, MemoryRun};
use serde_json::Value;
use std::io::{self, Write};

#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct SchemaArguments {
    /// Kind of scenario: as the file of a model says it by `model = "…"`, or `run`.
    #[arg(value_parser = kinds())]
    kind: String,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(MODELS.iter().map(|model| model.name).chain([MemoryRun::NAME]))
}

/// The schema of `linecard run`, whose scenarios are of no model.
fn of_run() -> Value {
    let mut schema = linecard_config::schema::<run::Config>().to_value();
    schema["title"] = "linecard run".into();
    schema
}

/// Prints the schema.
pub(crate) fn command(arguments: &SchemaArguments) -> Result<(), Failure> {
    let model = MODELS.iter().find(|model| model.name == arguments.kind);
    let schema = model.map_or_else(of_run, |model| model.schema().to_value());
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
