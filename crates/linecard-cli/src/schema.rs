//! `linecard schema`: the JSON Schema of scenario files, with which editors complete and check them.

use crate::failure::{EXIT_CODES, Failure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use linecard_app::model::MODELS;
use std::io::{self, Write};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SchemaArguments {
    /// Kind of scenario, as its file says it by `model = "…"`.
    #[arg(value_parser = kinds())]
    kind: String,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(MODELS.iter().map(|model| model.name))
}

/// Prints the schema.
pub(crate) fn command(arguments: &SchemaArguments) -> Result<(), Failure> {
    let model = MODELS.iter().find(|model| model.name == arguments.kind);
    let schema = model.map(|model| model.schema());
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
