//! The statistics as `OpenMetrics` text, for scrapers.

use super::rates;
use linecard::offload::coalesce::{Counters as Merging, Flush, Refusal};
use linecard::stats::Histogram;
use linecard_io::attach::{AttachStats, MergeStats};
use linecard_tun::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Bounds of the buckets of hold times, in nanoseconds; a value may count in the one above its own
/// where it is within 12.5 % of the bound.
const HOLD_NS: [u64; 9] =
    [1_000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 10_000_000, 100_000_000];
/// Bounds of the buckets of packets merged into one, which the histogram knows exactly.
const AGGREGATES: [u64; 7] = [1, 3, 7, 15, 31, 47, 63];

/// A metric without its values.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
}

/// The labels of a value.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A metric of one counter among those of a `T`.
pub(crate) struct Counted<T> {
    pub(crate) metric: Metric,
    pub(crate) value: fn(&T) -> u64,
}

pub(crate) const fn counted<T>(
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: fn(&T) -> u64,
) -> Counted<T> {
    Counted { metric: Metric { name, help, unit }, value }
}

/// Counters of ports.
const PORTS: [Counted<Counters>; 9] = [
    counted("received_packets", "Packets received; a large one counts once", None, |c| c.received),
    counted("received", "Bytes of frames received", Some(Unit::Bytes), |c| c.received_bytes),
    counted("transmitted_packets", "Packets transmitted; a large one counts once", None, |c| {
        c.transmitted
    }),
    counted("transmitted", "Bytes of frames transmitted", Some(Unit::Bytes), |c| {
        c.transmitted_bytes
    }),
    counted("copied", "Bytes of frames copied, once or several times", Some(Unit::Bytes), |c| {
        c.copied_bytes
    }),
    counted("cut_packets", "Large packets segmented by the port (LSO)", None, |c| c.cut),
    counted("no_buffer", "Times that nothing was received for lack of buffers", None, |c| {
        c.no_buffer
    }),
    counted("blocked", "Times that the kernel's queue was full", None, |c| c.blocked),
    counted("open_checksum_packets", "Packets received with a checksum left open", None, |c| {
        c.open_checksums
    }),
];

/// Counters of the coalescer.
const MERGED: [Counted<Merging>; 3] = [
    counted("merge_in_packets", "Packets offered for merging", None, |c| c.packets_in),
    counted("merge_out_packets", "Packets passed on, merged ones counted once", None, |c| {
        c.packets_out
    }),
    counted("merged_packets", "Packets merged into another (LRO)", None, |c| c.merged),
];

/// The ports of an attachment, as the command line has them without their options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// As `xdp:eth0`.
    pub near: String,
    /// As `tap:lc0`.
    pub far: String,
}

/// All metrics of an attachment.
#[derive(Debug)]
struct Metrics(AttachStats, Ports);

/// The `OpenMetrics` text that a scraper gets of statistics.
#[must_use]
pub fn text(stats: &AttachStats, ports: &Ports) -> String {
    text_of(Metrics(stats.clone(), ports.clone()))
}

pub(crate) fn text_of(metrics: impl Collector) -> String {
    let mut registry = Registry::with_prefix("linecard");
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    // Strings take everything.
    let _written = text::encode(&mut text, &registry);
    text
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        info(&self.1, &mut encoder)?;
        write(&self.0, &mut encoder)
    }
}

/// Names by which values of several hosts can be joined.
fn info(ports: &Ports, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "The ports that are joined, and the version of linecard; always 1";
    let mut metric = encoder.encode_descriptor("attachment", help, None, MetricType::Info)?;
    let labels = [
        ("near", ports.near.as_str()),
        ("far", ports.far.as_str()),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    metric.encode_info(&labels)
}

fn write(stats: &AttachStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for Counted { metric, value } in PORTS {
        let values = ports(stats).map(|(labels, port)| (labels, value(port)));
        counters(encoder, &metric, values)?;
    }
    drops(stats, encoder)?;
    for Counted { metric, value } in MERGED {
        let values = workers(stats).map(|(labels, merged)| (labels, value(&merged.coalesce)));
        counters(encoder, &metric, values)?;
    }
    held(stats, encoder)?;
    reasons(stats, encoder)?;
    histograms(stats, encoder)
}

/// Every port, with labels.
fn ports(stats: &AttachStats) -> impl Iterator<Item = (Labels, &Counters)> {
    let sides = [("near", &stats.near), ("far", &stats.far)];
    sides.into_iter().flat_map(|(side, ports)| {
        let number = |(worker, port)| {
            let worker: usize = worker;
            (vec![("port", side.to_owned()), ("worker", worker.to_string())], port)
        };
        ports.iter().enumerate().map(number)
    })
}

fn directions(stats: &AttachStats) -> [(&'static str, &[MergeStats]); 2] {
    [("ingress", &stats.ingress), ("egress", &stats.egress)]
}

/// Counters of each direction that merges, with labels.
fn workers(stats: &AttachStats) -> impl Iterator<Item = (Labels, &MergeStats)> {
    directions(stats).into_iter().flat_map(|(direction, workers)| {
        let number = |(worker, merged)| {
            let worker: usize = worker;
            (vec![("direction", direction.to_owned()), ("worker", worker.to_string())], merged)
        };
        workers.iter().enumerate().map(number)
    })
}

pub(crate) fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    values: impl IntoIterator<Item = (Labels, impl EncodeCounterValue)>,
) -> fmt::Result {
    let Metric { name, help, unit } = metric;
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    values.into_iter().try_for_each(|(labels, value)| {
        let mut value_of = metric.encode_family(&labels)?;
        value_of.encode_counter::<NoLabelSet, _, u64>(&value, None)
    })
}

fn drops(stats: &AttachStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let metric = Metric { name: "dropped_packets", help: "Packets lost at ports", unit: None };
    let values = ports(stats).flat_map(|(labels, port)| {
        rates::reasons(&port.dropped).map(|(reason, _, count)| {
            let reason = ("reason", reason.to_owned());
            ([labels.clone(), vec![reason]].concat(), count)
        })
    });
    counters(encoder, &metric, values)?;
    let help = "Packets lost because the ring of a worker was full";
    let metric = Metric { name: "ring_dropped_packets", help, unit: None };
    let rings = stats.spread.dropped.iter().enumerate();
    let values = rings.map(|(worker, count)| (vec![("worker", worker.to_string())], *count));
    counters(encoder, &metric, values)
}

fn held(stats: &AttachStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (name, help) = ("held_packets", "Packets held now");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let mut values = workers(stats);
    values
        .try_for_each(|(labels, merged)| metric.encode_family(&labels)?.encode_gauge(&merged.held))
}

fn reasons(stats: &AttachStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sums =
        directions(stats).map(|(direction, workers)| (direction, AttachStats::merged(workers)));
    let labels = |direction: &str, reason: &str| {
        vec![("direction", direction.to_owned()), ("reason", reason.to_owned())]
    };
    let help = "Times that held packets were flushed, by reason";
    let values = sums.iter().flat_map(|(direction, sum)| {
        Flush::ALL.iter().map(|&why| (labels(direction, why.name()), sum.flushed.of(why)))
    });
    counters(encoder, &Metric { name: "flushed", help, unit: None }, values)?;
    let help = "Packets that did not merge, by reason";
    let values = sums.iter().flat_map(|(direction, sum)| {
        Refusal::ALL.iter().map(|&why| (labels(direction, why.name()), sum.refused.of(why)))
    });
    counters(encoder, &Metric { name: "refused_packets", help, unit: None }, values)
}

fn histograms(stats: &AttachStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sums =
        directions(stats).map(|(direction, workers)| (direction, AttachStats::merged(workers)));
    let (name, help) = ("hold", "How long packets were held before they left in one");
    let unit = Some(Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
    for (direction, sum) in &sums {
        histogram(&mut metric, &[("direction", *direction)], &sum.hold_ns, &HOLD_NS, 1e9)?;
    }
    let (name, help) = ("aggregate_packets", "Packets merged into one, when it was flushed");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (direction, sum) in &sums {
        histogram(&mut metric, &[("direction", *direction)], &sum.segments, &AGGREGATES, 1.0)?;
    }
    Ok(())
}

/// Values that are `scale` times the metric's unit.
pub(crate) fn histogram<L: EncodeLabelSet>(
    metric: &mut MetricEncoder<'_>,
    labels: &L,
    values: &Histogram,
    bounds: &[u64],
    scale: f64,
) -> fmt::Result {
    let mut below = 0;
    let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(bounds.len() + 1);
    for &bound in bounds {
        let to = values.count_to(bound);
        buckets.push((bound as f64 / scale, to - below));
        below = to;
    }
    buckets.push((f64::INFINITY, values.count() - below));
    let sum = values.mean() * values.count() as f64 / scale;
    let mut metric = metric.encode_family(labels)?;
    metric.encode_histogram::<NoLabelSet>(sum, values.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::{merged, port};
    use super::*;

    /// Every metric, of an attachment with one worker behind a ring.
    fn sample() -> String {
        let mut stats = AttachStats {
            near: vec![port(1_000, 10, 3)],
            far: vec![port(10, 100, 0)],
            ingress: vec![merged(1_000, 10, 7_000, 2)],
            egress: vec![MergeStats::default()],
            ..AttachStats::default()
        };
        stats.spread.dropped = vec![0];
        // A quote is escaped.
        text(&stats, &Ports { near: "xdp:e\"0".into(), far: "tap:lc0".into() })
    }

    #[test]
    fn every_value_has_its_name_unit_and_labels() {
        let text = sample();
        for line in [
            "linecard_attachment_info{near=\"xdp:e\\\"0\",far=\"tap:lc0\",version=\"0.1.0\"} 1",
            "linecard_received_packets_total{port=\"near\",worker=\"0\"} 1000",
            "# UNIT linecard_received_bytes bytes",
            "linecard_received_bytes_total{port=\"near\",worker=\"0\"} 1000000",
            "linecard_transmitted_packets_total{port=\"far\",worker=\"0\"} 100",
            "linecard_dropped_packets_total{port=\"near\",worker=\"0\",reason=\"ring_full\"} 3",
            "linecard_merged_packets_total{direction=\"ingress\",worker=\"0\"} 900",
            "# TYPE linecard_held_packets gauge",
            "linecard_held_packets{direction=\"ingress\",worker=\"0\"} 2",
            "linecard_flushed_total{direction=\"egress\",reason=\"size\"} 0",
            "linecard_refused_packets_total{direction=\"ingress\",reason=\"checksum\"} 0",
            "linecard_hold_seconds_count{direction=\"ingress\"} 100",
            "linecard_hold_seconds_sum{direction=\"ingress\"} 0.0007",
            "linecard_hold_seconds_bucket{le=\"0.000001\",direction=\"ingress\"} 0",
            "linecard_hold_seconds_bucket{le=\"0.00001\",direction=\"ingress\"} 100",
            "linecard_hold_seconds_bucket{le=\"+Inf\",direction=\"ingress\"} 100",
            "linecard_aggregate_packets_bucket{le=\"7.0\",direction=\"ingress\"} 0",
            "linecard_aggregate_packets_bucket{le=\"15.0\",direction=\"ingress\"} 100",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
        // Each metric is described once, with all its values behind that.
        let types = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        let helps = text.lines().filter(|line| line.starts_with("# HELP")).count();
        assert_eq!((types, helps), (20, 20));
    }

    #[test]
    fn bounds_of_aggregates_are_exact() {
        for bound in AGGREGATES {
            let mut values = Histogram::default();
            values.record(bound);
            assert_eq!((values.count_to(bound), values.count_to(bound - 1)), (1, 0), "{bound}");
        }
    }
}
