//! Rates between two readings of an attachment's counters.

use linecard::offload::coalesce::{Counters as Merging, Flush, Refusal};
use linecard::stats::Histogram;
use linecard_io::attach::{AttachStats, MergeStats};
use linecard_tun::{Counters, Drops};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::cmp::Reverse;
use std::time::Duration;

/// Everything that an interval has to show. As JSON its keys are those of docs/howto/attach.md.
#[derive(Debug, Clone, Serialize)]
pub struct Rates {
    /// Length of the interval.
    pub seconds: f64,
    /// All near ports.
    pub near: PortRates,
    /// All far ports.
    pub far: PortRates,
    /// Merging on both ways, of all workers.
    #[serde(flatten)]
    pub merging: MergeRates,
    /// Each worker.
    pub workers: Vec<WorkerRates>,
    /// Packets lost.
    pub drops: DropCounts,
    /// Why held packets were flushed, the most frequent reason first.
    pub flushed: Reasons,
    /// Why packets did not merge, likewise.
    pub refused: Reasons,
}

/// Traffic through one port, or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PortRates {
    /// Large packets count once.
    pub received_packets_per_second: f64,
    /// Of frames.
    pub received_bits_per_second: f64,
    /// Large packets count once.
    pub transmitted_packets_per_second: f64,
    /// Of frames.
    pub transmitted_bits_per_second: f64,
    /// Median of the times inside of what was transmitted; 0 between captures.
    pub delay_ns_p50: u64,
    /// Their 99th percentile.
    pub delay_ns_p99: u64,
}

/// Merging in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MergeRates {
    /// Packets in an aggregate when it was flushed; 0 where there was none.
    pub mean_aggregate: f64,
    /// Median of the times that packets were held.
    pub hold_ns_p50: u64,
    /// Their 99th percentile.
    pub hold_ns_p99: u64,
    /// Packets held now.
    pub held: u64,
}

/// One worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkerRates {
    /// Its number.
    pub worker: usize,
    /// From the near port to the far one: received.
    pub packets_in_per_second: f64,
    /// The same: sent.
    pub packets_out_per_second: f64,
    /// Of frames that came; behind rings, of those that went to the coalescer.
    pub bits_per_second: f64,
    /// Its merging.
    #[serde(flatten)]
    pub merging: MergeRates,
    /// Packets lost at its ports, or because its ring was full.
    pub dropped: u64,
}

/// Packets lost, by place and reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DropCounts {
    /// At near ports.
    pub near: Reasons,
    /// At far ports.
    pub far: Reasons,
    /// Workers' rings were full.
    pub rings: u64,
}

/// Counts by reason, without those that did not occur: a map in JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasons(pub Vec<(&'static str, u64)>);

impl Serialize for Reasons {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, count)| map.serialize_entry(name, count))?;
        map.end()
    }
}

impl Reasons {
    /// Those that occurred, the most frequent first.
    fn of(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        Self(counts)
    }
}

impl Rates {
    /// From earlier statistics to later ones, `time` apart.
    #[must_use]
    pub fn between(earlier: &AttachStats, later: &AttachStats, time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(1e-9);
        let ports = |before: &[Counters], now: &[Counters]| {
            AttachStats::total(now).since(&AttachStats::total(before))
        };
        let (near, far) = (ports(&earlier.near, &later.near), ports(&earlier.far, &later.far));
        let delay = |of: fn(&AttachStats) -> &Histogram| of(later).since(of(earlier));
        let (before, now) = (merging(earlier), merging(later));
        let held = [&later.ingress, &later.egress].into_iter().flatten().map(|way| way.held).sum();
        let drops = DropCounts {
            near: dropped(&near.dropped),
            far: dropped(&far.dropped),
            rings: (0..later.spread.dropped.len()).map(|worker| ring(earlier, later, worker)).sum(),
        };
        Self {
            seconds,
            near: PortRates::of(&near, seconds, &delay(|account| &account.near_delay_ns)),
            far: PortRates::of(&far, seconds, &delay(|account| &account.far_delay_ns)),
            merging: MergeRates::of(&before, &now, held),
            workers: workers(earlier, later, seconds),
            drops,
            flushed: Reasons::of(Flush::ALL.iter().map(|&why| {
                (why.name(), now.flushed.of(why).saturating_sub(before.flushed.of(why)))
            })),
            refused: Reasons::of(Refusal::ALL.iter().map(|&why| {
                (why.name(), now.refused.of(why).saturating_sub(before.refused.of(why)))
            })),
        }
    }
}

impl PortRates {
    fn of(counters: &Counters, seconds: f64, delay_ns: &Histogram) -> Self {
        let each = |count: u64| count as f64 / seconds;
        Self {
            received_packets_per_second: each(counters.received),
            received_bits_per_second: each(counters.received_bytes) * 8.0,
            transmitted_packets_per_second: each(counters.transmitted),
            transmitted_bits_per_second: each(counters.transmitted_bytes) * 8.0,
            delay_ns_p50: delay_ns.quantile(0.5),
            delay_ns_p99: delay_ns.quantile(0.99),
        }
    }
}

impl MergeRates {
    fn of(earlier: &Merging, later: &Merging, held: u64) -> Self {
        let hold: Histogram = later.hold_ns.since(&earlier.hold_ns);
        Self {
            mean_aggregate: later.segments.since(&earlier.segments).mean(),
            hold_ns_p50: hold.quantile(0.5),
            hold_ns_p99: hold.quantile(0.99),
            held,
        }
    }
}

/// Merging on both ways.
fn merging(account: &AttachStats) -> Merging {
    let mut sum = AttachStats::merged(&account.ingress);
    sum.add(&AttachStats::merged(&account.egress));
    sum
}

fn workers(earlier: &AttachStats, later: &AttachStats, seconds: f64) -> Vec<WorkerRates> {
    let numbers = 0..later.ingress.len();
    numbers.map(|number| worker(number, earlier, later, seconds)).collect()
}

fn worker(number: usize, earlier: &AttachStats, later: &AttachStats, seconds: f64) -> WorkerRates {
    let merged = |account: &AttachStats| {
        // With inline deployment egress is its own, too.
        let ways = [account.ingress.get(number), egress(account, number)];
        let mut sum = Merging::default();
        ways.into_iter().flatten().for_each(|way| sum.add(&way.coalesce));
        sum
    };
    let ways = [later.ingress.get(number), egress(later, number)];
    let held = ways.into_iter().flatten().map(|way| way.held).sum();
    let (now, before) = (later.of_worker(number), earlier.of_worker(number));
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    WorkerRates {
        worker: number,
        packets_in_per_second: rate(now.packets_in, before.packets_in),
        packets_out_per_second: rate(now.packets_out, before.packets_out),
        bits_per_second: rate(now.bytes_in, before.bytes_in) * 8.0,
        merging: MergeRates::of(&merged(earlier), &merged(later), held),
        dropped: now.dropped.saturating_sub(before.dropped),
    }
}

/// A worker's counters of merging on egress, where it merges.
fn egress(account: &AttachStats, number: usize) -> Option<&MergeStats> {
    let is_its_own = account.egress.len() == account.ingress.len();
    account.egress.get(number).filter(|_| is_its_own && !account.has_rings())
}

/// Packets that a worker's ring had no room for.
fn ring(earlier: &AttachStats, later: &AttachStats, worker: usize) -> u64 {
    let count = |account: &AttachStats| account.spread.dropped.get(worker).copied().unwrap_or(0);
    count(later).saturating_sub(count(earlier))
}

fn dropped(drops: &Drops) -> Reasons {
    Reasons::of(reasons(drops).map(|(name, _, count)| (name, count)))
}

/// Name, explanation and count of every reason to lose a packet at a port.
#[must_use]
pub fn reasons(drops: &Drops) -> [(&'static str, &'static str, u64); 9] {
    [
        ("too_long", "received, longer than a buffer", drops.too_long),
        ("bad_header", "received, described wrongly", drops.bad_header),
        (
            "bad_descriptors",
            "received from a virtual machine, in descriptors that are not those of a frame",
            drops.bad_descriptors,
        ),
        (
            "ring_full",
            "received by the kernel, no room in the ring; dropped by the kernel before a device was read",
            drops.ring_full,
        ),
        ("above_mtu", "to be sent, longer than the MTU", drops.above_mtu),
        (
            "refused",
            "to be sent, refused: the interface is down or gone, or takes nothing",
            drops.refused,
        ),
        ("invalid", "to be sent, no frame that the kernel takes there", drops.invalid),
        ("other_link", "to be sent, of another link type than the port", drops.other_link),
        ("unsendable", "to be sent, neither describable nor divisible", drops.unsendable),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use linecard_io::engine::{GatherCounters, SpreadCounters};

    /// A port that has received and transmitted this many packets of 1,000 bytes, and dropped some.
    pub(in super::super) fn port(received: u64, transmitted: u64, ring_full: u64) -> Counters {
        let mut port = Counters::default();
        (port.received, port.received_bytes) = (received, received * 1_000);
        (port.transmitted, port.transmitted_bytes) = (transmitted, transmitted * 1_000);
        port.dropped.ring_full = ring_full;
        port
    }

    /// A worker that has merged `packets` by `aggregate`, held for `hold_ns`.
    pub(in super::super) fn merged(
        packets: u64,
        aggregate: u64,
        hold_ns: u64,
        held: u64,
    ) -> MergeStats {
        let mut merged = MergeStats { held, ..MergeStats::default() };
        let out = packets / aggregate;
        merged.coalesce.packets_in = packets;
        merged.coalesce.bytes_in = packets * 1_000;
        merged.coalesce.packets_out = out;
        merged.coalesce.merged = packets - out;
        merged.coalesce.segments.record_n(aggregate, out);
        merged.coalesce.hold_ns.record_n(hold_ns, out);
        merged
    }

    #[test]
    fn only_what_is_new_counts() {
        let mut earlier = AttachStats {
            near: vec![port(1_000, 10, 5), port(0, 0, 0)],
            far: vec![port(10, 100, 0), port(0, 0, 0)],
            ingress: vec![merged(1_000, 10, 900_000, 7), merged(0, 1, 0, 0)],
            egress: vec![MergeStats::default(); 2],
            ..AttachStats::default()
        };
        earlier.near_delay_ns.record_n(900_000, 100);
        let mut later = earlier.clone();
        later.near = vec![port(3_000, 10, 8), port(2_000, 20, 0)];
        later.far = vec![port(10, 200, 0), port(20, 500, 0)];
        later.ingress[0].coalesce.add(&merged(2_000, 20, 7, 0).coalesce);
        later.ingress[0].held = 3;
        later.ingress[1] = merged(2_000, 4, 7, 1);
        later.near_delay_ns.record_n(7, 10);
        let rates = Rates::between(&earlier, &later, Duration::from_secs(2));
        let near = PortRates {
            received_packets_per_second: 2_000.0,
            received_bits_per_second: 16e6,
            transmitted_packets_per_second: 10.0,
            transmitted_bits_per_second: 80e3,
            delay_ns_p50: 7,
            delay_ns_p99: 7,
        };
        assert_eq!((rates.seconds, rates.near), (2.0, near));
        assert_eq!(rates.far.transmitted_packets_per_second, 300.0);
        assert_eq!(rates.merging.mean_aggregate, 4_000.0 / 600.0);
        let holds = (rates.merging.hold_ns_p50, rates.merging.hold_ns_p99, rates.merging.held);
        assert_eq!(holds, (7, 7, 4), "the earlier millisecond is over");
        assert_eq!(rates.drops.near, Reasons(vec![("ring_full", 3)]));
        let [first, second] = rates.workers[..] else { unreachable!("two workers") };
        assert_eq!((first.packets_in_per_second, first.packets_out_per_second), (1_000.0, 50.0));
        assert_eq!((first.bits_per_second, first.dropped), (8e6, 3));
        assert_eq!((first.merging.mean_aggregate, second.merging.mean_aggregate), (20.0, 4.0));
        assert_eq!((second.worker, second.packets_out_per_second), (1, 250.0));
    }

    #[test]
    fn workers_behind_rings_are_counted_there() {
        let earlier =
            AttachStats { ingress: vec![MergeStats::default(); 2], ..AttachStats::default() };
        let later = AttachStats {
            near: vec![port(50, 0, 0)],
            far: vec![port(0, 11, 0)],
            ingress: vec![merged(30, 10, 5, 0), merged(10, 1, 5, 0)],
            egress: vec![MergeStats::default()],
            spread: SpreadCounters { packets: vec![30, 10], dropped: vec![4, 6] },
            gather: GatherCounters { packets: vec![3, 8], most_waiting: 0 },
            ..AttachStats::default()
        };
        let rates = Rates::between(&earlier, &later, Duration::from_secs(1));
        let row = |worker: &WorkerRates| {
            (worker.packets_in_per_second, worker.packets_out_per_second, worker.dropped)
        };
        assert_eq!(
            rates.workers.iter().map(row).collect::<Vec<_>>(),
            [(30.0, 3.0, 4), (10.0, 8.0, 6)]
        );
        assert_eq!((rates.workers[0].bits_per_second, rates.drops.rings), (240e3, 10));
    }

    #[test]
    fn nothing_at_all_is_zeros() {
        let rates =
            Rates::between(&AttachStats::default(), &AttachStats::default(), Duration::ZERO);
        assert_eq!((rates.near, rates.merging), (PortRates::default(), MergeRates::default()));
        assert!(rates.workers.is_empty() && rates.flushed.0.is_empty());
    }

    #[test]
    fn keys_and_their_order_are_stable() {
        let later = AttachStats {
            near: vec![port(1_000, 10, 3)],
            far: vec![port(10, 100, 0)],
            ingress: vec![merged(1_000, 10, 7, 2)],
            ..AttachStats::default()
        };
        let rates = Rates::between(&AttachStats::default(), &later, Duration::from_secs(1));
        let port = |received, bits, transmitted, transmitted_bits| {
            format!(
                "{{\"received_packets_per_second\":{received},\"received_bits_per_second\":{bits},\
                 \"transmitted_packets_per_second\":{transmitted},\
                 \"transmitted_bits_per_second\":{transmitted_bits},\
                 \"delay_ns_p50\":0,\"delay_ns_p99\":0}}"
            )
        };
        let merging = r#""mean_aggregate":10.0,"hold_ns_p50":7,"hold_ns_p99":7,"held":2"#;
        let expected = format!(
            "{{\"seconds\":1.0,\"near\":{},\"far\":{},\
             {merging},\"workers\":[{{\"worker\":0,\"packets_in_per_second\":1000.0,\
             \"packets_out_per_second\":100.0,\"bits_per_second\":8000000.0,{merging},\
             \"dropped\":3}}],\"drops\":{{\"near\":{{\"ring_full\":3}},\"far\":{{}},\"rings\":0}},\
             \"flushed\":{{}},\"refused\":{{}}}}",
            port("1000.0", "8000000.0", "10.0", "80000.0"),
            port("10.0", "80000.0", "100.0", "800000.0"),
        );
        assert_eq!(serde_json::to_string(&rates).ok(), Some(expected));
    }
}
