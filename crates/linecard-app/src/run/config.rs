//! The parameters.

use crate::offload::Checksum;
use garde::Validate;
use linecard::offload::coalesce;
use linecard::port::FaultRates;
use linecard_config::{Bytes, ConfigError, Duration, Probability};
use linecard_io::run::RunSpec;
use linecard_io::workload::Family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The least MTU of IPv6 (RFC 8200, section 5).
const MIN_IPV6_MTU: u64 = 1_280;

/// Large sends over lanes in memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The load of applications.
    #[garde(dive)]
    pub load: Load,
    /// The lanes.
    #[garde(dive)]
    pub lanes: Lanes,
    /// The receiving offload.
    #[garde(dive)]
    pub coalesce: Coalesce,
    /// The run itself.
    #[garde(dive)]
    pub run: Run,
}

/// The load of applications.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Load {
    /// flows that send in turn
    #[default(16)]
    #[garde(range(min = 1, max = 1_000_000))]
    #[schemars(extend("x-flag" = "flows"))]
    pub flows: usize,
    /// bytes of one send of an application
    #[default(Bytes::new(64 << 10))]
    #[garde(range(min = Bytes::new(1), max = Bytes::new(16 << 20)))]
    #[schemars(extend("x-flag" = "size"))]
    pub size: Bytes,
    /// bytes of the largest IP packet on a lane, with IPv6 at least 1280
    #[default(Bytes::new(1_500))]
    #[garde(range(min = Bytes::new(576), max = Bytes::new(65_535)))]
    #[schemars(extend("x-flag" = "mtu"))]
    pub mtu: Bytes,
    /// IP version
    pub family: IpVersion,
}

/// IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4
    #[default]
    Ipv4,
    /// IPv6
    Ipv6,
}

/// The lanes.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Lanes {
    /// parallel lanes that flows are spread over, at most as many as flows
    #[default(1)]
    #[garde(range(min = 1, max = 64))]
    pub count: usize,
    /// share of packets that lanes lose, as 0.01 or "1%"
    #[schemars(extend("x-flag" = "loss"))]
    pub loss: Probability,
    /// share of packets that one to three others overtake
    #[schemars(extend("x-flag" = "reorder"))]
    pub reorder: Probability,
    /// share of packets in which a bit flips; needs checksum = "verify"
    pub corrupt: Probability,
}

/// The receiving offload.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Coalesce {
    /// longest time that a packet is held
    #[default(Duration::from_ms(1))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_secs(1)))]
    pub hold: Duration,
    /// treatment of checksums
    pub checksum: Checksum,
}

/// The run itself.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// seconds for which applications send
    #[default(2.0)]
    #[garde(range(min = 0.01, max = 3_600.0))]
    #[schemars(extend("x-flag" = "seconds"))]
    pub seconds: f64,
    /// seed of the data and of the faults
    #[default(1)]
    #[garde(range(min = 0, max = u64::MAX))]
    #[schemars(extend("x-flag" = "seed"))]
    pub seed: u64,
}

impl Config {
    /// The run that this describes.
    ///
    /// # Errors
    ///
    /// Values that do not fit each other.
    pub fn spec(&self) -> Result<RunSpec, ConfigError> {
        let Self { load, lanes, coalesce, run } = self;
        let (count, flows, mtu) = (lanes.count, load.flows, load.mtu.get());
        if lanes.corrupt.get() > 0.0 && coalesce.checksum == Checksum::Trust {
            let what = "trusted checksums let corrupted packets merge, and then no byte can be told \
                        right from wrong: choose checksum = \"verify\" or corrupt = 0";
            return Err(ConfigError::of_parameter("lanes.corrupt", what));
        }
        if count > flows {
            let what = format!(
                "{count} lanes for {flows} flows: a flow uses one lane, so choose at least as many flows"
            );
            return Err(ConfigError::of_parameter("lanes.count", what));
        }
        if load.family == IpVersion::Ipv6 && mtu < MIN_IPV6_MTU {
            let what =
                format!("MTU {mtu}: IPv6 needs at least {MIN_IPV6_MTU} (RFC 8200, section 5)");
            return Err(ConfigError::of_parameter("load.mtu", what));
        }
        Ok(RunSpec {
            flows,
            lanes: count,
            mtu: mtu as usize,
            send_len: load.size.get() as usize,
            family: match load.family {
                IpVersion::Ipv4 => Family::V4,
                IpVersion::Ipv6 => Family::V6,
            },
            duration: std::time::Duration::from_secs_f64(run.seconds),
            faults: FaultRates {
                loss: lanes.loss.get(),
                reorder: lanes.reorder.get(),
                corrupt: lanes.corrupt.get(),
            },
            coalesce: coalesce::Config {
                hold_budget: coalesce.hold.into(),
                checksum: coalesce.checksum.into(),
                ..coalesce::Config::default()
            },
            seed: run.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_each_other_are_refused_by_their_parameter() {
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.spec().expect_err("refused").parameter.expect("a parameter")
        };
        assert!(Config::default().spec().is_ok());
        assert_eq!(refused(|config| config.lanes.count = 17), "lanes.count");
        let small = |config: &mut Config| {
            config.load =
                Load { family: IpVersion::Ipv6, mtu: Bytes::new(1_279), ..Load::default() };
        };
        assert_eq!(refused(small), "load.mtu");
        let trusting = |config: &mut Config| {
            config.lanes.corrupt = "1%".parse().expect("a share");
            config.coalesce.checksum = Checksum::Trust;
        };
        assert_eq!(refused(trusting), "lanes.corrupt");
    }
}
