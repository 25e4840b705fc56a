//! A transfer over several lanes in virtual time: both ends are the real ones ([`linecard_transfer`]), the lanes are
//! modelled, and packets are counted without their bytes. The same seed gives the same outcome, byte for byte.

mod config;
mod outcome;
mod spec;

pub use config::{Chunk, Config, Lanes, Packet, Run, Spreading, Transfer};
pub use outcome::TransferOutcome;
pub use spec::{MAX_PACKETS, Spec, mode_name};

use super::error::ModelError;
use crate::{Context, Error, Job};
use linecard_config::ConfigError;
use linecard_report::{Axis, Histograms, Page, Unit, Value};
use linecard_transfer::sim::{self, SimOutcome};

/// Buckets of the latencies' chart.
const BUCKETS: usize = 100;

/// The job.
#[derive(Debug)]
pub struct TransferModel;

impl Job for TransferModel {
    const NAME: &'static str = "transfer";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = TransferOutcome;

    fn validate(config: &Config) -> Result<(), ConfigError> {
        config.spec().map(drop)
    }

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<TransferOutcome, Error> {
        linecard_config::check(config)?;
        let spec = config.spec()?;
        TransferOutcome::new(&spec, &simulate(&spec, context)?)
    }

    fn draw(outcome: &TransferOutcome, page: &mut Page) {
        let latencies: Vec<f64> = outcome.latencies_ns.iter().map(|&ns| ns as f64).collect();
        let mut chart = Histograms::new("latency_ns", "How long chunks took", "chunks");
        chart.x(Axis::new("from the first packet to the news", Unit::Ns));
        chart.values("chunks", &latencies, BUCKETS);
        page.chart(chart);
        let goodput = Value::BitRate(outcome.summary.goodput_bits_per_second.0);
        let chunk = Value::Ns(outcome.chunk_latency.p50_ns.0);
        let overhead = outcome.summary.management_overhead_percent;
        page.headline(format!(
            "{goodput} of data, {overhead:.2} % less than packets without a gap would carry; a chunk takes {chunk}, the median."
        ));
    }
}

/// Runs a transfer to its end.
///
/// # Errors
///
/// A transfer that does not complete, and cancellation.
pub fn simulate(spec: &Spec, context: &Context<'_>) -> Result<SimOutcome, Error> {
    let outcome = sim::run_with_progress(&spec.settings(), context.progress).map_err(|error| {
        context
            .go_on()
            .err()
            .unwrap_or_else(|| ModelError::Transfer { source: error, seed: spec.seed }.into())
    })?;
    context.go_on()?;
    Ok(outcome)
}
