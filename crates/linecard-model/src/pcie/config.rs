//! The parameters: the link, the interface at its end, frames, and reads.

use super::flight::Reads;
use super::link::{Link, LinkConfig};
use super::nic::Nic;
use alloc::format;
use garde::Validate;
use linecard_config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// A PCI Express link, and what a network interface asks of it. Defaults are the link of the paper.
///
/// ```
/// use linecard_model::pcie::Config;
/// let mut config = Config::default();
/// assert_eq!(config.link()?.tlp_bits_per_second() / 10_000_000, 5_788);
///
/// config.link.lanes = 3;
/// let error = config.link().expect_err("no such link");
/// assert_eq!(error.to_string(), "link.lanes: 3 is not a power of two: choose 2 or 4");
/// # Ok::<(), linecard_config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The link as it was negotiated.
    #[garde(dive)]
    pub link: LinkConfig,
    /// The network interface.
    #[garde(dive)]
    pub nic: NicConfig,
    /// The frames that it sends and receives.
    #[garde(dive)]
    pub load: Load,
    /// Reads of host memory without a pause.
    #[garde(dive)]
    pub reads: Reads,
}

/// The network interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NicConfig {
    /// how the interface and its driver work together
    pub kind: Nic,
}

/// The frames that the interface sends and receives.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// bytes of an Ethernet frame, CRC included
    #[default(1_518)]
    #[garde(range(min = 64, max = 65_535))]
    pub frame: u64,
}

impl Config {
    /// The link, if all values are right.
    ///
    /// # Errors
    ///
    /// The first value that is out of range or does not fit the others.
    pub fn link(&self) -> Result<Link, ConfigError> {
        linecard_config::check(self)?;
        let (bytes, most) = (self.reads.bytes, self.link.mrrs);
        if bytes > most {
            let what = format!("{bytes} bytes in a request: choose up to the link's MRRS, {most}");
            return Err(ConfigError::of_parameter("reads.bytes", what));
        }
        let (bytes, most) = (self.link.completion, self.link.mps);
        if bytes > most {
            let what =
                format!("{bytes} bytes in a completion: choose up to the link's MPS, {most}");
            return Err(ConfigError::of_parameter("link.completion", what));
        }
        Ok(Link::of(&self.link))
    }
}
