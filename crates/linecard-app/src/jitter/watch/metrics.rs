//! Figures of watched streams as `OpenMetrics` text, for scrapers.

use super::causes::Total;
use super::{Shared, State};
use crate::attach::metrics::{Counted, Labels, Metric, counted, counters, histogram, text_of};
use linecard::stats::Histogram;
use linecard_jitter::linux::clock::monotonic_ns;
use linecard_jitter::media::live::{Counts, PairFigures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;

/// Bounds of the buckets of delays, in nanoseconds; a value may count in the one above its own where it is within 12.5 %
/// of the bound.
const DELAY_NS: [u64; 10] = [
    1_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Counters of streams.
const STREAMS: [Counted<Counts>; 8] = [
    counted("watch_packets", "Packets of the stream", None, |c| c.packets),
    counted("watch_payload", "Bytes of their UDP payload", Some(Unit::Bytes), |c| c.octets),
    counted("watch_late_packets", "Packets later than the limit (--late)", None, |c| c.late),
    counted("watch_reordered_packets", "Packets that arrived after a later one", None, |c| {
        c.order.reordered
    }),
    counted("watch_duplicate_packets", "Packets that arrived again", None, |c| c.order.duplicates),
    counted("watch_other_packets", "Other packets on the same port", None, |c| c.others),
    counted("watch_pauses", "Times that nothing came for a second", None, |c| c.pauses),
    counted(
        "watch_restarts",
        "Times that the sender began again, or another took over",
        None,
        |c| c.restarts,
    ),
];

/// Counters of pairs.
const PAIRS: [Counted<PairFigures>; 4] = [
    counted("watch_pair_packets", "Packets that arrived by both paths", None, |f| f.both),
    counted(
        "watch_pair_first_only_packets",
        "Packets that arrived by the first path only",
        None,
        |f| f.only[0],
    ),
    counted(
        "watch_pair_second_only_packets",
        "Packets that arrived by the second path only",
        None,
        |f| f.only[1],
    ),
    counted("watch_pair_lost_packets", "Packets that arrived by neither path", None, |f| f.neither),
];

/// The figures of a stream.
#[derive(Debug)]
struct Seen {
    name: String,
    counts: Counts,
    causes: BTreeMap<&'static str, Total>,
    unexamined: Option<u64>,
    dropped: u64,
    jitter_ns: Option<f64>,
    age_ns: Option<f64>,
}

/// Copied figures: packets wait while they are copied, and not while the text is made.
#[derive(Debug)]
struct Figures {
    streams: Vec<Seen>,
    pairs: Vec<(String, PairFigures)>,
}

/// The `OpenMetrics` text of the streams that are watched now.
pub(super) fn of(shared: &Shared) -> String {
    let figures = Figures::of(&shared.lock());
    text_of(figures)
}

/// Every metric, of a stream and of a pair without packets.
#[must_use]
pub fn sample() -> String {
    let stream = Seen {
        name: "239.0.0.1:5004".to_owned(),
        counts: Counts::default(),
        causes: BTreeMap::from([("thread", Total { ns: 1_500_000_000, ..Total::default() })]),
        unexamined: Some(0),
        dropped: 0,
        jitter_ns: Some(0.0),
        age_ns: Some(0.0),
    };
    let pair = ("239.0.0.1:5004+239.0.0.2:5004".to_owned(), PairFigures::default());
    text_of(Figures { streams: vec![stream], pairs: vec![pair] })
}

impl Figures {
    fn of(state: &State) -> Self {
        let now_ns = monotonic_ns();
        let seen = |stream: &super::Stream| Seen {
            name: stream.name.clone(),
            counts: stream.watched.counts.clone(),
            causes: stream.causes.kinds(),
            unexamined: state.is_traced.then_some(stream.causes.unexamined),
            dropped: stream.dropped,
            jitter_ns: stream.watched.jitter().map(|jitter| jitter.last_ns),
            age_ns: stream.watched.last_ns().map(|last| now_ns.saturating_sub(last) as f64),
        };
        let pairs = state.pairs.iter().map(|(name, pair)| (name.clone(), pair.figures()));
        Self { streams: state.streams.iter().map(seen).collect(), pairs: pairs.collect() }
    }

    /// A number of each stream that may also fall.
    fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        Metric { name, help, unit }: &Metric,
        value: impl Fn(&Seen) -> Option<f64>,
    ) -> fmt::Result {
        let unit = unit.as_ref();
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        let mut values = self.streams.iter().filter_map(|seen| Some((seen, value(seen)?)));
        values.try_for_each(|(seen, value)| {
            metric.encode_family(&stream(&seen.name))?.encode_gauge(&value)
        })
    }
}

fn stream(name: &str) -> Labels {
    vec![("stream", name.to_owned())]
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Counted { metric, value } in STREAMS {
            let values = self.streams.iter().map(|seen| (stream(&seen.name), value(&seen.counts)));
            counters(&mut encoder, &metric, values)?;
        }
        let help = "Packets that the socket had no room for: this command was too slow";
        let metric = Metric { name: "watch_dropped_packets", help, unit: None };
        let values = self.streams.iter().map(|seen| (stream(&seen.name), seen.dropped));
        counters(&mut encoder, &metric, values)?;
        self.causes(&mut encoder)?;
        let help = "Packets that did not arrive so far; fewer when one arrives after a later one";
        let metric = Metric { name: "watch_lost_packets", help, unit: None };
        self.gauge(&mut encoder, &metric, |seen| Some(seen.counts.order.lost() as f64))?;
        let help = "Interarrival jitter (RFC 3550) now";
        let metric = Metric { name: "watch_jitter", help, unit: Some(Unit::Seconds) };
        self.gauge(&mut encoder, &metric, |seen| seen.jitter_ns.map(|ns| ns / 1e9))?;
        let help = "Time since the last packet of the stream";
        let metric = Metric { name: "watch_last_packet_age", help, unit: Some(Unit::Seconds) };
        self.gauge(&mut encoder, &metric, |seen| seen.age_ns.map(|ns| ns / 1e9))?;
        for Counted { metric, value } in PAIRS {
            let values = self.pairs.iter().map(|(name, pair)| (stream(name), value(pair)));
            counters(&mut encoder, &metric, values)?;
        }
        self.histograms(&mut encoder)
    }
}

impl Figures {
    fn causes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let each = || {
            let label =
                |kind: &str, name: &str| [stream(name), vec![("cause", kind.to_owned())]].concat();
            let of = move |seen: &Seen| {
                let causes = seen.causes.iter();
                let causes = causes.map(|(kind, total)| (label(kind, &seen.name), *total));
                causes.collect::<Vec<_>>()
            };
            self.streams.iter().flat_map(of)
        };
        let help = "Late packets by the main cause, with --trace";
        let metric = Metric { name: "watch_late_packets_by_cause", help, unit: None };
        counters(encoder, &metric, each().map(|(labels, total)| (labels, total.packets)))?;
        let help = "Delay of examined late packets by cause, with --trace";
        let metric = Metric { name: "watch_late_time", help, unit: Some(Unit::Seconds) };
        let seconds = |total: Total| total.ns as f64 / 1e9;
        counters(encoder, &metric, each().map(|(labels, total)| (labels, seconds(total))))?;
        let help = "Late packets whose cause was not looked for, with --trace";
        let metric = Metric { name: "watch_unexamined_late_packets", help, unit: None };
        let traced = self.streams.iter().filter_map(|seen| Some((seen, seen.unexamined?)));
        counters(encoder, &metric, traced.map(|(seen, count)| (stream(&seen.name), count)))
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = Some(Unit::Seconds);
        let help = "Lateness of packets before and in the socket, and at the application";
        let (name, kind) = ("watch_delay", MetricType::Histogram);
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for Seen { name, counts, .. } in &self.streams {
            let places: [(&str, &Histogram); 3] = [
                ("before_socket", &counts.before_socket),
                ("in_socket", &counts.in_socket),
                ("at_application", &counts.at_application),
            ];
            for (place, delays) in places {
                let labels = [stream(name), vec![("place", place.to_owned())]].concat();
                histogram(&mut metric, &labels, delays, &DELAY_NS, 1e9)?;
            }
        }
        let help = "Time from the wire to the kernel, where the interface stamps packets";
        let name = "watch_wire_delay";
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for Seen { name, counts, .. } in &self.streams {
            histogram(&mut metric, &stream(name), &counts.from_wire, &DELAY_NS, 1e9)?;
        }
        let help = "Time from a packet's copy by one path to that by the other";
        let name = "watch_pair_delay";
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (name, pair) in &self.pairs {
            histogram(&mut metric, &stream(name), &pair.delay, &DELAY_NS, 1e9)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_name_and_labels() {
        let text = sample();
        for line in [
            "linecard_watch_packets_total{stream=\"239.0.0.1:5004\"} 0",
            "linecard_watch_late_packets_total{stream=\"239.0.0.1:5004\"} 0",
            "linecard_watch_late_packets_by_cause_total{stream=\"239.0.0.1:5004\",cause=\"thread\"} 0",
            "linecard_watch_late_time_seconds_total{stream=\"239.0.0.1:5004\",cause=\"thread\"} 1.5",
            "linecard_watch_lost_packets{stream=\"239.0.0.1:5004\"} 0.0",
            "linecard_watch_last_packet_age_seconds{stream=\"239.0.0.1:5004\"} 0.0",
            "linecard_watch_delay_seconds_count{stream=\"239.0.0.1:5004\",place=\"in_socket\"} 0",
            "linecard_watch_wire_delay_seconds_count{stream=\"239.0.0.1:5004\"} 0",
            "linecard_watch_pair_packets_total{stream=\"239.0.0.1:5004+239.0.0.2:5004\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }
}
