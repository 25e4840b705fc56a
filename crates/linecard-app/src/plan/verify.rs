//! Plans compared with measurements.

use super::outcome::Verified;
use super::{measured, transfers};
use crate::calibrate::Only;
use crate::calibrate::lines::PAYLOADS;
use crate::{Context, Error, Job};
use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The job: calibrates and measures many configurations in turn.
#[derive(Debug)]
pub struct Verify;

/// The parameters.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct VerifyConfig {
    /// calibrate, and measure many configurations in turn, of the offloads or of transfers over loopback: predicted and
    /// measured rates in a table. Takes minutes, in which other programs get less of the cores
    #[schemars(extend("x-value" = "WHAT", "x-flag-alone" = "offload", "enum" = ["offload", "transfer"]))]
    pub verify: Option<Only>,
    /// rounds of `--verify`
    #[default(5)]
    #[garde(range(min = 1, max = 100))]
    pub rounds: u64,
    /// packets of `--verify transfer`: data bytes of one kind only
    #[garde(custom(is_measured))]
    #[schemars(extend("x-value" = "BYTES", "x-default" = "all kinds"))]
    pub payload: Option<u32>,
}

fn is_measured(payload: &Option<u32>, (): &()) -> garde::Result {
    if payload.is_none_or(|payload| PAYLOADS.contains(&payload)) {
        return Ok(());
    }
    let [first, second, last] = PAYLOADS;
    Err(garde::Error::new(format!("choose {first}, {second} or {last}")))
}

impl Job for Verify {
    const NAME: &'static str = "plan verify";
    type Config = VerifyConfig;
    type Outcome = Verified;

    fn title(_: &VerifyConfig) -> String {
        "Predicted and measured rates".to_owned()
    }

    fn run(config: &VerifyConfig, context: &Context<'_>) -> Result<Verified, Error> {
        linecard_config::check(config)?;
        match config.verify {
            Some(Only::Transfer) => transfers::verify(config.rounds, config.payload, context),
            _ => measured::verify(config.rounds, context),
        }
    }
}
