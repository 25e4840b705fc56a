//! Quantities that papers need and no job computes, by the names that papers use.

use super::error::ExpressionError;
use super::{lso, lso_receive};
use crate::model::transmit;
use crate::plan::Planning;
use crate::{Context, Error, Job};
use garde::Validate;
use linecard_config::{Document, Parameter, parameters as parameters_of};
use linecard_jitter::media::st2022_6::Format;
use linecard_model::Ps;
use linecard_model::npu::{Discipline, Overload, expected_share};
use linecard_model::path::{Stream, busy_loop};
use linecard_model::pci::{FRAME_OVERHEAD, WIRE_OVERHEAD, efficiency, file_frames};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smart_default::SmartDefault;

/// A measurement: the configuration of a job of a paper in, an outcome out.
pub(super) type Measure = fn(&Document, &Context<'_>) -> Result<Value, Error>;

/// A measurement: its name, itself, and its parameters.
type Named = (&'static str, Measure, fn() -> &'static [Parameter]);

const ALL: [Named; 7] = [
    ("busy-loop", spikes, parameters_of::<BusyLoop>),
    ("lso-cells", lso::cells, parameters_of::<transmit::Config>),
    ("lso-clocks", lso::clocks, parameters_of::<transmit::Config>),
    ("lso-dma-clock", lso::dma_clock, parameters_of::<transmit::Config>),
    ("lso-receive-cell", lso_receive::cell, parameters_of::<lso_receive::Config>),
    ("lso-receive-clock", lso_receive::clock, parameters_of::<lso_receive::Config>),
    ("plan", planned, parameters_of::<<Planning as Job>::Config>),
];

/// The measurement of this name.
pub(super) fn named(name: &str) -> Option<Measure> {
    ALL.into_iter().find(|(known, ..)| *known == name).map(|(_, measure, _)| measure)
}

/// Names of all measurements.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().map(|(name, ..)| name)
}

/// Parameters of the measurement of this name.
pub(super) fn parameters(name: &str) -> Option<&'static [Parameter]> {
    ALL.into_iter().find(|(known, ..)| *known == name).map(|(.., parameters)| parameters())
}

/// Functions of numbers, and how many they take.
const FUNCTIONS: [(&str, usize); 11] = [
    ("frame_overhead", 0),
    ("wire_overhead", 0),
    ("ethernet_efficiency", 1),
    ("full_frames", 1),
    ("last_frame_bytes", 1),
    ("expected_share", 2),
    ("stack_served", 3),
    ("fifo_served", 3),
    ("round_robin_served", 3),
    ("period_1080i60_ns", 0),
    ("period_1080i59_94_ns", 0),
];

/// Whether there is a function of this name that takes this many numbers.
pub(super) fn has_function(name: &str, arguments: usize) -> bool {
    FUNCTIONS.contains(&(name, arguments))
}

/// A function of numbers, one of [`FUNCTIONS`].
pub(super) fn function(name: &str, arguments: &[f64]) -> Result<f64, ExpressionError> {
    let period = |format: &str| Format::by_name(format).map(|format| format.period_ns());
    Ok(match (name, arguments) {
        ("frame_overhead", []) => FRAME_OVERHEAD.into(),
        ("wire_overhead", []) => WIRE_OVERHEAD.into(),
        ("ethernet_efficiency", [frame]) => efficiency(*frame as u32),
        ("full_frames", [bytes]) => file_frames(*bytes as u32).0.into(),
        ("last_frame_bytes", [bytes]) => file_frames(*bytes as u32).1.into(),
        ("expected_share", [threads, connections]) => {
            expected_share(*threads as u16, *connections as u32)
        }
        ("stack_served", served) => syns_served(Discipline::Stack, served)?,
        ("fifo_served", served) => syns_served(Discipline::Fifo, served)?,
        ("round_robin_served", served) => syns_served(Discipline::RoundRobin, served)?,
        ("period_1080i60_ns", []) => period("1080i60")?,
        ("period_1080i59_94_ns", []) => period("1080i59.94")?,
        _ => {
            let (name, arguments) = (name.to_owned(), arguments.len());
            return Err(ExpressionError::NoFunction { name, arguments });
        }
    })
}

/// The share of SYNs that an overloaded DMA engine serves in time, of a load in per cent by some of the threads.
fn syns_served(discipline: Discipline, arguments: &[f64]) -> Result<f64, ExpressionError> {
    let [load, threads, busy] = arguments else { return Err(ExpressionError::Overload) };
    let overload = Overload {
        discipline,
        load_percent: *load as u64,
        threads: *threads as u16,
        busy: *busy as u16,
        services: 400_000,
        patience: 1_000,
        seed: 0,
    };
    Ok(overload.syns_served())
}

/// A program that waits for the period in a loop.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
struct BusyLoop {
    /// laps
    #[default(1_000_000)]
    #[garde(range(min = 2, max = 100_000_000))]
    laps: usize,
}

/// Laps of a busy loop on the modelled core that take more than twice their time.
fn spikes(document: &Document, _: &Context<'_>) -> Result<Value, Error> {
    let BusyLoop { laps } = document.config()?;
    let stream = Stream::default();
    let ends = busy_loop(&stream, laps);
    let is_long = |pair: &&[Ps]| pair[1].0 - pair[0].0 > 2 * stream.period.0;
    Ok(json!({ "spikes": ends.windows(2).filter(is_long).count() }))
}

/// A plan, also one that cannot be met: then without a prediction.
fn planned(document: &Document, context: &Context<'_>) -> Result<Value, Error> {
    Ok(json!(Planning::run(&document.config()?, context)?))
}
