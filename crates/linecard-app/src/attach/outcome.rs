//! The outcome of an attachment.

use super::hints;
use super::rates::reasons;
use crate::offload::{Flow, Merging, flows};
use linecard::offload::active_ack::{Answer, Silence};
use linecard::offload::coalesce::{Counters as Merges, Flush, Refusal};
use linecard::offload::resequence::{self, Pass, Release};
use linecard::stats::Histogram;
use linecard_io::attach::{AttachStats, MergeStats, Settings};
use linecard_io::flows::TopFlows;
use linecard_report::{BitRate, ByteCount, Item, Nanoseconds, Reasons, Seconds, Value};
use linecard_tun::Counters;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use std::borrow::Cow;
use std::time::Duration;

const OPEN_CHECKSUMS: &str =
    "packets whose checksum a sender in this machine had left open, completed where needed";

/// The statistics of an attachment from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttachOutcome {
    /// Attached
    pub summary: Summary,
    /// Near port
    pub near: PortOutcome,
    /// Far port
    pub far: PortOutcome,
    /// Workers
    pub workers: Vec<WorkerOutcome>,
    /// Merging (LRO)
    pub merging: Option<Merging>,
    /// Why held packets were flushed
    pub flushed: Reasons<Flush>,
    /// Why packets did not merge
    pub refused: Reasons<Refusal>,
    /// Merging, egress
    pub merging_egress: Option<Merging>,
    /// Why held packets were flushed, egress
    pub flushed_egress: Reasons<Flush>,
    /// Why packets did not merge, egress
    pub refused_egress: Reasons<Refusal>,
    /// Largest flows
    pub flows: Vec<Flow>,
    /// Put into sequence
    pub resequencing: Option<Resequencing>,
    /// Why packets held for sequence were released
    pub released: Reasons<Release>,
    /// Why packets were not held for sequence
    pub in_sequence: Reasons<Pass>,
    /// Acknowledged for the receiver
    pub active_ack: Option<Acknowledged>,
    /// Why packets were not acknowledged
    pub not_acknowledged: Reasons<Silence>,
    /// Where packets are left
    pub check: Check,
    /// Advice that follows from the figures.
    #[serde(skip)]
    pub hints: Vec<String>,
}

/// The whole of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// time
    pub seconds: Seconds,
}

/// One port, or the ports of all workers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PortOutcome {
    /// packets received
    pub received: u64,
    /// bytes received
    pub received_bytes: ByteCount,
    /// received, mean rate
    pub received_rate: BitRate,
    /// packets transmitted
    pub transmitted: u64,
    /// bytes transmitted
    pub transmitted_bytes: ByteCount,
    /// transmitted, mean rate
    pub transmitted_rate: BitRate,
    /// of them segmented (LSO)
    pub cut: u64,
    /// bytes copied, read and written once each
    pub copied_bytes: ByteCount,
    /// time inside, median
    pub delay_ns_p50: Option<Nanoseconds>,
    /// time inside, 99 %
    pub delay_ns_p99: Option<Nanoseconds>,
    /// Waits and losses.
    #[serde(flatten)]
    pub events: Events,
}

/// Times that a port had to wait, and packets that it lost, by reason: those that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events(pub Counters);

/// A worker, where there are several.
pub type WorkerOutcome = Item<WorkerPackets>;

/// Packets of a worker, from the near port to the far one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WorkerPackets {
    /// packets in
    pub packets_in: u64,
    /// packets out
    pub packets_out: u64,
    /// merged into one
    pub mean_aggregate: f64,
    /// lost
    pub dropped: u64,
}

/// Packets put into sequence, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Resequencing {
    /// packets in
    pub packets_in: u64,
    /// held for what was missing
    pub held: u64,
    /// held, median
    pub hold_ns_p50: Option<Nanoseconds>,
    /// held, longest
    pub hold_ns_max: Option<Nanoseconds>,
    /// duplicates dropped
    pub dropped: u64,
}

/// Acknowledgments on behalf of receivers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Acknowledged {
    /// packets towards it
    pub data_in: u64,
    /// acknowledgments sent
    pub sent: u64,
    /// packets from it
    pub answers_in: u64,
    /// Fates of the receiver's packets.
    #[serde(flatten)]
    pub answers: Reasons<Answer>,
}

/// Rings, and whether all packets are accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// workers' rings were full
    #[schemars(extend("x-reasons" = true))]
    pub ring_dropped: u64,
    /// most that waited to go out
    pub most_waiting: Option<u64>,
    /// unaccounted, near to far
    pub unaccounted_ingress: i64,
    /// unaccounted, far to near
    pub unaccounted_egress: i64,
}

impl linecard_report::Outcome for AttachOutcome {
    fn item(&self, section: &str, index: usize) -> Option<String> {
        if section == "flows" {
            return self.flows.get(index).map(|flow| flow.value.to_string());
        }
        let WorkerPackets { packets_in, packets_out, mean_aggregate, dropped } =
            self.workers.get(index).filter(|_| section == "workers")?.value;
        let [packets_in, packets_out, dropped] =
            [packets_in, packets_out, dropped].map(Value::Count);
        Some(format!(
            "{packets_in} packets in, {packets_out} out, {mean_aggregate:.2} merged into one, {dropped} lost"
        ))
    }

    fn notes(&self) -> Vec<String> {
        self.hints.clone()
    }
}

impl AttachOutcome {
    /// Of the statistics, with the advice that follows from them and from those when it was told to stop.
    pub(super) fn new(
        account: &AttachStats,
        at_stop: &AttachStats,
        settings: &Settings,
        elapsed: Duration,
    ) -> Self {
        let [ingress, egress] =
            [&account.ingress, &account.egress].map(|way| AttachStats::merged(way));
        let merging = |counters: &Merges| (counters.packets_in > 0).then(|| counters.into());
        let sequenced = sequenced([&account.ingress, &account.egress]);
        let counters = sequenced.clone().unwrap_or_default();
        let acks = &account.active_ack;
        Self {
            summary: Summary { seconds: Seconds(elapsed.as_secs_f64()) },
            near: PortOutcome::new(&account.near, &account.near_delay_ns, elapsed),
            far: PortOutcome::new(&account.far, &account.far_delay_ns, elapsed),
            workers: workers(account),
            merging: merging(&ingress),
            flushed: (&ingress.flushed).into(),
            refused: (&ingress.refused).into(),
            merging_egress: merging(&egress),
            flushed_egress: (&egress.flushed).into(),
            refused_egress: (&egress.refused).into(),
            flows: Vec::new(),
            resequencing: sequenced.as_ref().map(Resequencing::new),
            released: (&counters.released).into(),
            in_sequence: (&counters.passed).into(),
            active_ack: (acks.data_in + acks.answers_in > 0).then(|| Acknowledged {
                data_in: acks.data_in,
                sent: acks.sent,
                answers_in: acks.answers_in,
                answers: (&acks.answers).into(),
            }),
            not_acknowledged: (&acks.silent).into(),
            check: Check::new(account),
            hints: hints::of(account, at_stop, settings),
        }
    }

    /// With this many of the largest flows.
    pub(super) fn with_flows(mut self, flows: &TopFlows, most: usize) -> Self {
        self.flows = flows::largest(flows, most);
        self.hints.extend(flows::note(flows));
        self
    }
}

impl PortOutcome {
    fn new(ports: &[Counters], delay_ns: &Histogram, elapsed: Duration) -> Self {
        let counters = AttachStats::total(ports);
        let delay =
            |share| (delay_ns.count() > 0).then(|| Nanoseconds(delay_ns.quantile(share) as f64));
        let rate = |bytes: u64| BitRate(bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9));
        Self {
            received: counters.received,
            received_bytes: ByteCount(counters.received_bytes),
            received_rate: rate(counters.received_bytes),
            transmitted: counters.transmitted,
            transmitted_bytes: ByteCount(counters.transmitted_bytes),
            transmitted_rate: rate(counters.transmitted_bytes),
            cut: counters.cut,
            copied_bytes: ByteCount(counters.copied_bytes),
            delay_ns_p50: delay(0.5),
            delay_ns_p99: delay(0.99),
            events: Events(counters),
        }
    }
}

impl Events {
    /// Name, explanation and count of each.
    fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let waits = [
            ("no_buffer", "times that no buffer was free", self.0.no_buffer),
            ("blocked", "times that the kernel's queue was full", self.0.blocked),
            ("open_checksums", OPEN_CHECKSUMS, self.0.open_checksums),
        ];
        waits.into_iter().chain(reasons(&self.0.dropped))
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let occurred = self.all().filter(|(.., count)| *count > 0);
        serializer.collect_map(occurred.map(|(name, _, count)| (name, count)))
    }
}

impl JsonSchema for Events {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Events".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let schema = |what| json!({ "type": "integer", "description": what, "x-reasons": true });
        let none = Self(Counters::default());
        let all = none.all().map(|(name, what, _)| (name.to_owned(), schema(what)));
        json_schema!({ "type": "object", "properties": all.collect::<Map<_, _>>() })
    }
}

/// The workers, if there are several.
fn workers(account: &AttachStats) -> Vec<WorkerOutcome> {
    let worker = |(number, merged): (usize, &MergeStats)| {
        let totals = account.of_worker(number);
        let value = WorkerPackets {
            packets_in: totals.packets_in,
            packets_out: totals.packets_out,
            mean_aggregate: merged.coalesce.mean_aggregate(),
            dropped: totals.dropped,
        };
        WorkerOutcome { label: format!("worker {number}"), value }
    };
    match account.ingress.as_slice() {
        [] | [_] => Vec::new(),
        several => several.iter().enumerate().map(worker).collect(),
    }
}

/// Counters of resequencing in both directions.
fn sequenced(ways: [&[MergeStats]; 2]) -> Option<resequence::Counters> {
    let mut all = ways.into_iter().flatten().filter_map(|merged| merged.resequence.as_ref());
    let mut sum = all.next()?.clone();
    all.for_each(|other| sum.add(other));
    Some(sum)
}

impl Resequencing {
    fn new(counters: &resequence::Counters) -> Self {
        let held = counters.hold_ns.count();
        let ns = |ns: u64| (held > 0).then_some(Nanoseconds(ns as f64));
        Self {
            packets_in: counters.packets_in,
            held,
            hold_ns_p50: ns(counters.hold_ns.quantile(0.5)),
            hold_ns_max: ns(counters.hold_ns.max()),
            dropped: counters.dropped,
        }
    }
}

impl Check {
    fn new(account: &AttachStats) -> Self {
        let waiting = account.gather.most_waiting as u64;
        let [unaccounted_ingress, unaccounted_egress] = unaccounted(account);
        Self {
            ring_dropped: account.spread.dropped.iter().sum(),
            most_waiting: account.has_rings().then_some(waiting),
            unaccounted_ingress,
            unaccounted_egress,
        }
    }
}

/// Packets of each way that were received and are neither merged into others, dropped, held nor
/// transmitted; 0 after a clean end. More are left when a port took nothing for a second at the end;
/// while it runs, counters of different threads are of different moments.
fn unaccounted(account: &AttachStats) -> [i64; 2] {
    let (near, far) = (AttachStats::total(&account.near), AttachStats::total(&account.far));
    let acks = &account.active_ack;
    let suppressed = acks.answers.of(Answer::Suppressed);
    let rings = account.spread.dropped.iter().sum::<u64>();
    let ingress = [near.received, rings + gone_within(&account.ingress), out(&far)];
    let egress = [far.received + acks.sent, suppressed + gone_within(&account.egress), out(&near)];
    // Counters are far from the limits of 63 bits.
    [ingress, egress].map(|[came, within, went]| came as i64 - within as i64 - went as i64)
}

/// Packets that a way has not given on, for good or for now.
fn gone_within(workers: &[MergeStats]) -> u64 {
    let of = |merged: &MergeStats| {
        let dropped = merged.resequence.as_ref().map_or(0, |counters| counters.dropped);
        merged.coalesce.merged + dropped + merged.held
    };
    workers.iter().map(of).sum()
}

/// Packets that came to a port to be sent.
fn out(port: &Counters) -> u64 {
    port.transmitted + port.dropped.transmitted()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::{merged, port as port_of};
    use super::*;
    use linecard_io::engine::SpreadCounters;
    use linecard_report::{Report, report_of};

    fn settings() -> Settings {
        let spec = |text: &str| text.parse().expect("a port");
        Settings::new(spec("file:a"), spec("tap:b"))
    }

    fn of(account: &AttachStats) -> Report {
        report_of(
            "attach",
            &AttachOutcome::new(account, account, &settings(), Duration::from_secs(1)),
        )
    }

    #[test]
    fn all_packets_are_accounted_for() {
        let mut account = AttachStats {
            near: vec![port_of(1_000, 10, 3)],
            far: vec![port_of(10, 95, 0)],
            ingress: vec![merged(995, 10, 7, 0)],
            spread: SpreadCounters { packets: vec![995], dropped: vec![5] },
            ..AttachStats::default()
        };
        account.far[0].dropped.above_mtu = 4;
        // 995 became 99, of which 95 went out and 4 were refused.
        assert_eq!(unaccounted(&account), [0, 0]);
        account.far[0].transmitted -= 2;
        account.near[0].transmitted += 1;
        assert_eq!(unaccounted(&account), [2, -1]);
        account.active_ack.sent = 1;
        assert_eq!(unaccounted(&account), [2, 0]);
        let text = of(&account).to_string();
        let words = ["unaccounted,", "near", "to", "far", "2"];
        assert!(text.lines().any(|line| line.split_whitespace().eq(words)), "{text}");
        assert!(text.contains("ring_dropped"), "{text}");
    }

    #[test]
    fn every_part_that_was_used_is_there_and_no_other() {
        let mut account = AttachStats {
            near: vec![port_of(100, 10, 0), port_of(50, 0, 0)],
            far: vec![port_of(10, 10, 0), port_of(0, 50, 0)],
            ingress: vec![merged(100, 10, 7, 0), merged(50, 1, 7, 0)],
            egress: vec![MergeStats::default(); 2],
            ..AttachStats::default()
        };
        let keys = |account: &AttachStats| {
            let json = serde_json::to_value(of(account)).expect("it is JSON");
            json.as_object().expect("a map").keys().cloned().collect::<Vec<_>>()
        };
        let few = ["check", "far", "job", "merging", "near", "notes", "summary", "workers"];
        let mut found = keys(&account);
        found.sort();
        assert_eq!(found, few);
        account.egress[1] = merged(5, 1, 7, 0);
        account.ingress[0].resequence = Some(resequence::Counters::default());
        account.active_ack.data_in = 1;
        let found = keys(&account);
        for key in ["merging_egress", "resequencing", "active_ack"] {
            assert!(found.iter().any(|other| other == key), "{key}: {found:?}");
        }
    }
}
