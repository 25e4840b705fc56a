//! `linecard schema`: the JSON Schema of scenario files, with which editors complete and check them.

use crate::codes::all_exit_codes;
use clap::Args;
use clap::builder::PossibleValuesParser;
use linecard_app::Error;
use linecard_app::Job;
use linecard_app::model::MODELS;
#[cfg(target_os = "linux")]
use linecard_app::plan::{self, Planning};
use linecard_app::run::{self, MemoryRun};
use serde_json::Value;
use std::io::{self, Write};

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct SchemaArguments {
    /// Kind of scenario: the name in `model = "…"` of a model's file, `run` or `plan`.
    #[arg(value_parser = kinds())]
    kind: String,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(
        MODELS.iter().map(|model| model.name).chain(OTHERS.iter().map(|(name, _)| *name)),
    )
}

/// Makes a schema.
type MakeSchema = fn() -> Value;

/// Commands whose scenarios are of no model.
const OTHERS: &[(&str, MakeSchema)] = &[
    (MemoryRun::NAME, || linecard_config::schema::<run::Config>().to_value()),
    #[cfg(target_os = "linux")]
    (Planning::NAME, || linecard_config::schema::<plan::Config>().to_value()),
];

/// The schema of the scenarios of a command.
fn of_command(name: &str) -> Option<Value> {
    let (_, schema) = OTHERS.iter().find(|(own, _)| *own == name)?;
    let mut schema = schema();
    schema["title"] = format!("linecard {name}").into();
    Some(schema)
}

/// Prints the schema.
pub(crate) fn command(arguments: &SchemaArguments) -> Result<(), Error> {
    let model = MODELS.iter().find(|model| model.name == arguments.kind);
    let schema = model.map(|model| model.schema().to_value());
    let schema = schema.or_else(|| of_command(&arguments.kind));
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
