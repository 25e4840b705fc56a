//! The scenario: live interfaces, and the model.

use super::model::Settings;
use crate::failure::Failure;
use garde::Validate;
use linecard_config::{Bytes, Document, Duration};
use linecard_io::engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::Path;

/// The one that comes with the command.
const BUILT_IN: &str = include_str!("../../../../../scenarios/lro-npu.toml");

/// All parameters.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Scenario {
    /// the cable between the two hosts
    #[garde(dive)]
    pub(super) cable: Cable,
    /// figure 13: throughput of TCP over the number of connections
    #[garde(dive)]
    pub(super) throughput: Throughput,
    /// section V.B: new connections beside flows that ask for more than the output can give
    #[garde(dive)]
    pub(super) starvation: Starvation,
    /// section V.C: merging waits for more than the sender may have outstanding
    #[garde(dive)]
    pub(super) active_ack: ActiveAck,
    /// the network processor in virtual time
    #[garde(dive)]
    pub(super) model: Settings,
}

/// The cable between the two hosts.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct Cable {
    /// the longest packet
    #[default(1_500)]
    #[garde(range(min = 576, max = 9_000))]
    pub(super) mtu: u32,
    /// how linecard receives from the cable
    pub(super) port: PortKind,
}

/// Kinds of ports on a cable.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PortKind {
    /// AF_XDP
    #[default]
    Xdp,
    /// a packet socket
    Packet,
}

/// Figure 13.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Throughput {
    /// connections of the points
    #[default(vec![1, 2, 4, 8, 16, 32, 64])]
    #[garde(inner(range(min = 1, max = 128)))]
    pub(super) connections: Vec<u32>,
    /// seconds of each measurement
    #[default(2)]
    #[garde(range(min = 1, max = 600))]
    pub(super) seconds: u64,
    /// measurements of each point; medians are given
    #[default(3)]
    #[garde(range(min = 1, max = 100))]
    pub(super) rounds: usize,
    /// threads that receive; the paper has 13
    #[default(1)]
    #[garde(range(min = 1, max = 64))]
    pub(super) workers: u16,
}

/// Section V.B.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct Starvation {
    /// threads that receive
    #[default(4)]
    #[garde(range(min = 1, max = 64))]
    pub(super) workers: u16,
    /// cores of workers, near port and far port: the output is short of time
    #[default(vec![1, 1, 1, 1, 0, 1])]
    #[garde(inner(range(min = 0, max = 1_023)))]
    pub(super) cores: Vec<usize>,
    /// packets that a worker may ask for
    #[default(1_024)]
    #[garde(range(min = 1, max = 65_536))]
    pub(super) ring: usize,
    /// busy flows
    #[default(2)]
    #[garde(range(min = 0, max = 64))]
    pub(super) flows: usize,
    /// connections tried, one after the other
    #[default(24)]
    #[garde(range(min = 1, max = 1_000))]
    pub(super) attempts: usize,
    /// the time that each has
    #[default(Duration::from_ms(500))]
    #[garde(range(min = Duration::from_ns(1_000), max = Duration::from_secs(1)))]
    pub(super) timeout: Duration,
    /// the orders that are compared
    #[default(vec![Order::RoundRobin, Order::Fifo, Order::Stack])]
    pub(super) orders: Vec<Order>,
}

/// The order in which the output takes packets from workers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// a packet of each in turn
    RoundRobin,
    /// the oldest
    Fifo,
    /// the newest
    Stack,
}

/// Section V.C.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ActiveAck {
    /// how long a packet is held, unless 64 KiB are together
    #[default(Duration::from_ms(200))]
    #[garde(range(min = Duration::from_ns(1_000), max = Duration::from_secs(1)))]
    pub(super) hold: Duration,
    /// bytes of a transfer, each on a connection of its own
    #[default(Bytes::new(60 << 10))]
    #[garde(range(min = Bytes::new(1), max = Bytes::new(1 << 30)))]
    pub(super) block: Bytes,
    /// transfers
    #[default(7)]
    #[garde(range(min = 1, max = 1_000))]
    pub(super) transfers: usize,
}

impl Order {
    /// As scenarios name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Fifo => "fifo",
            Self::Stack => "stack",
        }
    }

    /// As the engine has it.
    pub(super) const fn of_engine(self) -> engine::Order {
        match self {
            Self::RoundRobin => engine::Order::RoundRobin,
            Self::Fifo => engine::Order::Fifo,
            Self::Stack => engine::Order::Stack,
        }
    }
}

impl PortKind {
    /// As ports are named.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Packet => "packet",
        }
    }
}

/// Reads a scenario, or takes the one that comes with the command.
pub(super) fn read(path: Option<&Path>) -> Result<Scenario, Failure> {
    let document = match path {
        Some(path) => Document::read(path)?,
        None => Document::of_text("scenarios/lro-npu.toml", BUILT_IN)?,
    };
    Ok(document.config()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_that_comes_with_the_command_has_the_defaults() {
        let [whole, nothing] = [BUILT_IN, ""].map(|text| {
            let document = Document::of_text("x.toml", text).expect("TOML");
            format!("{:?}", document.config::<Scenario>().expect("right"))
        });
        assert_eq!(whole, nothing);
    }

    #[test]
    fn rates_under_their_former_names_are_read() {
        let old = BUILT_IN
            .replace("\nrate = \"16G\"", "\nbits_per_second = 15_000_000_000")
            .replace("\nslow_rate = \"100M\"", "\nslow_bits_per_second = 99_000_000");
        let document = Document::of_text("x.toml", old).expect("TOML");
        let [old, new] = [document, Document::of_text("x.toml", BUILT_IN).expect("TOML")]
            .map(|document| format!("{:?}", document.config::<Scenario>().expect("right")));
        assert_eq!(old.replace("15000000000", "16000000000").replace("99000000", "100000000"), new);
    }

    #[test]
    fn a_wrong_value_is_refused_where_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("wrong.toml");
        for (from, to, said) in [
            ("mtu = 1500", "mtu = 10", "10 is out of range: choose 576 to 9000"),
            ("port = \"xdp\"", "port = \"tap\"", "\"tap\" is not a choice"),
            ("\"stack\"]", "\"heap\"]", "\"heap\" is not a choice"),
            ("transfers = 7", "transfer = 7", "unknown key `active_ack.transfer`"),
            ("hold = \"200ms\"", "hold = \"2\"", "\"2\" is not a time"),
            ("packet_ns = 32_000", "packet_ns = -1", "-1 is out of range: choose 0 to"),
            ("ring = 1_024", "ring = 100_000", "shared memory has 16777216 bytes"),
            ("check_ns = 200", "check_ns = 0", "0 is out of range: choose 1 to"),
            ("busy = 3", "bussy = 3", "unknown key `model.starvation.bussy`"),
            ("attempts = 64", "attempts = 1_025", "1025 is out of range: choose 0 to 1024"),
            ("outstanding = 16_384", "outstanding = 99", "99 is out of range: choose 1460 to"),
        ] {
            std::fs::write(&path, BUILT_IN.replace(from, to)).expect("written");
            let text = read(Some(&path)).expect_err("wrong").to_string();
            assert!(text.contains(said) && text.contains("wrong.toml:"), "{text}");
        }
    }
}
