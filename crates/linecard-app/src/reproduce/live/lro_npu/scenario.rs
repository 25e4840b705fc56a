//! The section `[live]` of papers/lro-npu.toml.

use garde::Validate;
use linecard_config::{Bytes, Duration};
use linecard_io::engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::live::section;

    #[test]
    fn what_comes_with_the_command_has_the_defaults() {
        let found: Scenario = section("lro-npu", None).expect("a file").config().expect("right");
        assert_eq!(format!("{found:?}"), format!("{:?}", Scenario::default()));
    }

    #[test]
    fn a_wrong_value_is_refused_where_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("wrong.toml");
        for (text, said) in [
            ("[live.cable]\nmtu = 10", "10 is out of range: choose 576 to 9000"),
            ("[live.cable]\nport = \"tap\"", "\"tap\" is not a choice"),
            ("[live.starvation]\norders = [\"heap\"]", "\"heap\" is not a choice"),
            ("[live.active_ack]\ntransfer = 7", "unknown key `active_ack.transfer`"),
            ("[live.active_ack]\nhold = \"2\"", "\"2\" is not a time"),
        ] {
            std::fs::write(&path, text).expect("written");
            let document = section("lro-npu", Some(&path)).expect("a file");
            let text = document.config::<Scenario>().expect_err("wrong").to_string();
            assert!(text.contains(said) && text.contains("wrong.toml:2"), "{text}");
        }
    }
}
