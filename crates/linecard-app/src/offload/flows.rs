//! The largest flows of a capture, and why their packets do not merge.

use linecard::offload::coalesce::{Refusal, Verdict};
use linecard::packet::{FiveTuple, Packet};
use linecard_io::convert::Numbered;
use linecard_report::{ByteCount, Item, Value};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

/// Flows that are counted: the first ones of the capture. Packets of others count together.
const MAX_FLOWS: usize = 65_536;

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

/// Counts packets by flow.
#[derive(Debug, Default)]
pub(super) struct Flows {
    counted: HashMap<FiveTuple, Counts>,
    others: u64,
    /// The flow of the packet that is being decided on.
    current: Option<FiveTuple>,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    merged: u64,
    /// Few reasons ever occur in one flow.
    refused: Vec<(Refusal, u64)>,
}

impl Flows {
    /// A packet is about to be decided on.
    pub(super) fn arrives(&mut self, packet: &Packet<Numbered>) {
        self.current = FiveTuple::of(packet.layout(), packet.bytes());
        let Some(flow) = self.current else { return };
        if self.counted.len() >= MAX_FLOWS && !self.counted.contains_key(&flow) {
            self.others += 1;
            self.current = None;
            return;
        }
        let counts = self.counted.entry(flow).or_default();
        counts.packets += 1;
        counts.bytes += packet.payload_len() as u64;
    }

    /// The result for that packet.
    pub(super) fn decided(&mut self, verdict: Verdict) {
        let counts = self.current.take().and_then(|flow| self.counted.get_mut(&flow));
        let Some(counts) = counts else { return };
        let reason = match verdict {
            Verdict::Merged => {
                counts.merged += 1;
                return;
            }
            Verdict::Opened(reason) => reason,
            Verdict::Passed(reason) => Some(reason),
        };
        let Some(reason) = reason else { return };
        match counts.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.refused.push((reason, 1)),
        }
    }

    /// The flows with the most packets.
    pub(super) fn largest(&self, most: usize) -> Vec<Flow> {
        let mut all: Vec<_> = self.counted.iter().collect();
        all.sort_by_key(|(flow, counts)| (Reverse(counts.packets), flow.ends(), flow.protocol));
        all.into_iter().take(most).map(|(flow, counts)| counts.shown(flow)).collect()
    }

    /// The note on packets of flows that were not counted by themselves.
    pub(super) fn note(&self) -> Option<String> {
        let others = self.others;
        (others > 0).then(|| {
            format!(
                "{others} packets are of flows beyond the first {MAX_FLOWS}, which are not listed."
            )
        })
    }
}

impl Counts {
    fn shown(&self, flow: &FiveTuple) -> Flow {
        let most =
            self.refused.iter().max_by_key(|(reason, count)| (*count, Reverse(reason.name())));
        let value = FlowPackets {
            packets: self.packets,
            payload: ByteCount(self.bytes),
            merged: self.merged,
            refused: most.map_or(0, |(_, count)| *count),
            reason: most.map_or(String::new(), |(reason, _)| reason.name().to_owned()),
        };
        let protocol = match flow.protocol {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            other => format!("protocol {other}"),
        };
        Item { label: format!("{protocol} {}-{}", flow.source, flow.destination), value }
    }
}
