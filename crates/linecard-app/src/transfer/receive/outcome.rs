//! The received data.

use crate::Error;
use crate::transfer::outcome::{Transferred, failures, nanoseconds};
use linecard_report::{Item, Nanoseconds, Value};
use linecard_transfer_net::end::SocketCounters;
use linecard_transfer_net::receive::{ReceiveProgress, Received};
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome of receiving.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReceiveOutcome {
    /// Transfer
    pub transfer: Transfer,
    /// Lanes
    pub lanes: Vec<Lane>,
    /// Not transferred
    pub failures: Vec<Item<String>>,
}

/// The received data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Transfer {
    /// The transferred data.
    #[serde(flatten)]
    pub transferred: Transferred,
    /// from
    pub from: Option<String>,
    /// whose key is
    pub sender: Option<String>,
    /// processor time of this end
    pub cpu_ns: Option<Nanoseconds>,
    /// packets taken
    pub packets: u64,
    /// groups repaired
    pub repaired: Option<u64>,
    /// packets that came twice
    pub repeated: Option<u64>,
}

/// A lane: its kind, own end and peer.
pub type Lane = Item<LaneOutcome>;

/// Traffic of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaneOutcome {
    /// packets
    pub packets: u64,
    /// dropped by this host
    pub dropped: u64,
}

impl linecard_report::Outcome for ReceiveOutcome {
    fn item(&self, section: &str, index: usize) -> Option<String> {
        (section == "lanes").then(|| {
            let LaneOutcome { packets, dropped } = self.lanes[index].value;
            format!("{} packets, {dropped} dropped by this host", Value::Count(packets))
        })
    }
}

impl ReceiveOutcome {
    /// All was received that could be.
    pub(super) fn new(got: &Received) -> Self {
        let transferred = Transferred::of_bytes(got.bytes, got.had_bytes, got.elapsed);
        Self {
            transfer: Transfer {
                transferred: transferred
                    .with_files(got.objects, got.unchanged, &got.failures)
                    .with_removed(got.removed, &got.unremoved),
                from: Some(got.from.to_string()),
                sender: got.sender.map(|sender| sender.to_string()),
                cpu_ns: Some(nanoseconds(got.processor)),
                packets: got.counters.taken,
                repaired: Some(got.counters.repaired),
                repeated: Some(got.counters.repeated),
            },
            lanes: lanes(&got.lanes),
            failures: failures(&got.failures, &got.unremoved),
        }
    }

    /// It ended early.
    pub(super) fn part(progress: &ReceiveProgress, error: &Error) -> Self {
        Self {
            transfer: Transfer {
                transferred: Transferred::part(
                    error,
                    progress.done_bytes,
                    progress.had_bytes,
                    progress.elapsed,
                ),
                from: progress.from.map(|(from, _)| from.to_string()),
                sender: progress.from.and_then(|(_, key)| key).map(|key| key.to_string()),
                cpu_ns: None,
                packets: progress.counters.taken,
                repaired: None,
                repeated: None,
            },
            lanes: lanes(&progress.lanes),
            failures: Vec::new(),
        }
    }

    /// A line for each of the first files that could not be transferred.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        self.transfer.transferred.missing(&self.failures)
    }
}

fn lanes(lanes: &[(String, SocketCounters)]) -> Vec<Lane> {
    let lane = |(name, counters): &(String, SocketCounters)| Lane {
        label: name.clone(),
        value: LaneOutcome { packets: counters.received, dropped: counters.dropped },
    };
    lanes.iter().map(lane).collect()
}
