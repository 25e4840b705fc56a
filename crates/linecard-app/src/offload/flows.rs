//! The largest flows of a capture or an attachment, and why their packets do not merge.

use linecard::packet::FiveTuple;
use linecard_io::flows::{FlowCounts, TopFlows};
use linecard_report::{ByteCount, Item, Value};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A flow, one direction of a connection.
pub type Flow = Item<FlowPackets>;

/// The packets of a flow, by result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FlowPackets {
    /// packets
    pub packets: u64,
    /// bytes of payload
    pub payload: ByteCount,
    /// merged into another
    pub merged: u64,
    /// did not merge, by the most frequent reason
    pub refused: u64,
    /// that reason; empty if all merged
    pub reason: String,
}

impl fmt::Display for FlowPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, merged, refused, reason, .. } = self;
        let [packets, merged] = [*packets, *merged].map(Value::Count);
        write!(f, "{packets} packets, {} bytes, {merged} merged", Value::Count(self.payload.0))?;
        match refused {
            0 => Ok(()),
            refused => write!(f, "; {} did not merge: {reason}", Value::Count(*refused)),
        }
    }
}

/// The flows with the most packets.
pub(crate) fn largest(flows: &TopFlows, most: usize) -> Vec<Flow> {
    flows.largest(most).into_iter().map(|(flow, counts)| shown(flow, counts)).collect()
}

/// The note on packets that are missing in the counts.
pub(crate) fn note(flows: &TopFlows) -> Option<String> {
    let (most, missing) = (flows.capacity(), flows.forgotten());
    (missing > 0).then(|| {
        format!(
            "There are more than the {most} flows that are counted at a time: up to {missing} packets \
             of a flow may be missing, and flows with no more packets are not listed."
        )
    })
}

fn shown(flow: &FiveTuple, counts: &FlowCounts) -> Flow {
    let refused = counts.refused();
    let value = FlowPackets {
        packets: counts.packets,
        payload: ByteCount(counts.bytes),
        merged: counts.merged,
        refused: refused.map_or(0, |(_, count)| count),
        reason: refused.map_or(String::new(), |(reason, _)| reason.name().to_owned()),
    };
    let protocol = match flow.protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        other => format!("protocol {other}"),
    };
    Item { label: format!("{protocol} {}-{}", flow.source, flow.destination), value }
}
