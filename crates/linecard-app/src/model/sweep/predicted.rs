//! Points that are computed by the solver, not run.

use super::super::bottlenecks;
use super::super::transmit::{Config, refused_run};
use crate::{Error, Failure};
use linecard_model::elf;
use linecard_model::solve::{Firmware, Phase, Resource, SolveError, SolveInput};
use linecard_model::transmit::Design;
use serde_json::{Value, json};

/// Names of the columns; those that runs have too mean the same.
pub(super) const NAMES: [&str; 10] = [
    "packets_per_second",
    "cycles_per_packet",
    "goodput_bits_per_second",
    "wire_bits_per_second",
    "line_share",
    "core_share",
    "dma_share",
    "limit",
    "smallest_core_mhz",
    "from_core_mhz",
];

/// Rate of a design, its bottleneck, and the core clocks that carry its line rate.
pub(super) fn values(
    config: &Config,
    design: Design,
    program: &elf::Firmware,
) -> Result<Vec<Value>, Error> {
    let firmware = Firmware::measure(program.image(), design.timing)
        .map_err(|error| refused_run(program, error))?;
    let line = design.line_bits_per_second;
    let question = SolveInput {
        design,
        firmware,
        traffic: bottlenecks::traffic(&config.load),
        bits_per_second: line.unwrap_or(1),
        phase: Phase::Typical,
    };
    let why = |error: SolveError| Failure::Usage.with(error);
    let found = question.predict(&question.design).map_err(why)?;
    let limit = question.limit(&question.design).map_err(why)?.limit;
    // A line that takes everything has no clock that carries it; one that none carries is not an error.
    let edge = line.and_then(|_| question.core_clock().ok());
    let mhz = |hz: u64| json!(hz as f64 / 1e6);
    Ok(vec![
        json!(found.packets_per_second()),
        json!(found.cycles_per_packet()),
        json!(found.payload_bits_per_second()),
        json!(found.wire_bits_per_second()),
        json!(found.utilisation(Resource::Line)),
        json!(found.utilisation(Resource::Core)),
        json!(found.utilisation(Resource::Dma)),
        json!(bottlenecks::name(limit)),
        edge.map_or(Value::Null, |edge| mhz(edge.smallest_hz)),
        edge.map_or(Value::Null, |edge| mhz(edge.from_hz)),
    ])
}
