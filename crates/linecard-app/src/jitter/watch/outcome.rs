//! The figures of watched streams.

use super::State;
use super::causes::Total;
use super::error::WatchingError;
use super::lines::time;
use crate::{Error, Failure};
use linecard::stats::Histogram;
use linecard_jitter::linux::watch::ROOM;
use linecard_jitter::media::live::{
    Content, Episode, PAUSE_NS, PairFigures, WINDOW_NS, WINDOWS, Watched,
};
use linecard_jitter::media::rate::Basis;
use linecard_report::{Axis, BitRate, Histograms, Item, Nanoseconds, Page, Seconds, Unit, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// The figures of all streams.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WatchOutcome {
    /// Late packets
    pub streams: Vec<StreamAnswer>,
    /// Packets
    pub packets: Vec<StreamCame>,
    /// From the wire to the kernel (time stamps of the interface)
    pub from_wire: Vec<StreamDelays>,
    /// Lateness when the kernel received the packet (before the socket)
    pub before_socket: Vec<StreamDelays>,
    /// From there to the application (in the socket)
    pub in_socket: Vec<StreamDelays>,
    /// Lateness at the application
    pub at_application: Vec<StreamDelays>,
    /// Two paths (ST 2022-7)
    pub paths: Vec<StreamPaths>,
    /// Causes of late packets
    pub causes: Vec<StreamCause>,
    /// Worst delays
    pub worst: Vec<Worst>,
    #[serde(skip)]
    notes: Vec<String>,
    #[serde(skip)]
    charts: Vec<Chart>,
    /// Settings that are not as before, if there are any.
    #[serde(skip)]
    not_restored: Option<String>,
}

/// The answer for a stream.
pub type StreamAnswer = Item<Answer>;
/// Packets of a stream.
pub type StreamCame = Item<Came>;
/// Delays of a stream.
pub type StreamDelays = Item<Delays>;
/// Two copies of a stream.
pub type StreamPaths = Item<Paths>;
/// A cause, by stream.
pub type StreamCause = Item<CauseTotal>;
/// Late packets that follow each other, by stream.
pub type Worst = Item<WorstDelay>;

/// How many packets are late, and by how much.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Packets that have a lateness: those after the schedule is learnt.
    pub judged: u64,
    /// Those that are later than the limit.
    pub late: u64,
    /// The limit.
    pub limit_ns: Nanoseconds,
    /// The latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<Nanoseconds>,
    /// The payload.
    pub kind: &'static str,
    /// Schedule of lateness.
    pub schedule: Judged,
}

/// The schedule against which packets are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// One packet each period.
    ConstantRate,
    /// The read times of ST 2110-21.
    #[serde(rename = "st2110-21")]
    Pictures,
    /// The times at which `linecard jitter send` was to send.
    DueTimes,
    /// RTP's time stamps, by the first packet of each.
    RtpTime,
    /// None: the stream follows none.
    None,
    /// None yet: too few packets have come.
    Unknown,
}

/// Packets of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Came {
    /// Received.
    pub packets: u64,
    /// Time from the first to the last.
    pub seconds: Seconds,
    /// Mean rate.
    pub packets_per_second: f64,
    /// Mean rate of UDP payload.
    pub bit_rate: BitRate,
    /// Lost, by their numbers; not counted where packets have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Arrived after a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// Arrived again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Arrived thousands of numbers late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<u64>,
    /// Dropped because the watcher was too slow: the socket was full.
    pub dropped: u64,
    /// Other packets on the same port.
    pub others: u64,
    /// Pauses of a second and more.
    pub pauses: u64,
    /// The longest of them.
    pub longest_pause_ns: Nanoseconds,
    /// Time since the last packet, if it is a second or more: the pause goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_ns: Option<Nanoseconds>,
    /// Times that the sender began again, or another one took over.
    pub restarts: u64,
    /// Time between packets, where it is constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<f64>,
    /// Interarrival jitter (RFC 3550), mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_mean_ns: Option<Nanoseconds>,
    /// Its greatest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max_ns: Option<Nanoseconds>,
}

/// A distribution of delays; quantiles are upper edges of buckets that are at most 12.5 % wide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Delays {
    /// Packets.
    pub packets: u64,
    /// Half are at most this.
    pub p50_ns: Nanoseconds,
    /// 99 % are.
    pub p99_ns: Nanoseconds,
    /// 99.9 % are.
    pub p999_ns: Nanoseconds,
    /// The longest, exact.
    pub max_ns: Nanoseconds,
}

/// How two copies of a stream differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Paths {
    /// Packets that arrived by both.
    pub both: u64,
    /// By the first only.
    pub first_only: u64,
    /// By the second only.
    pub second_only: u64,
    /// By neither.
    pub neither: u64,
    /// From a packet's first copy to its second.
    pub delay: Delays,
    /// The longest time by which the first path was behind the second.
    pub first_behind_ns: Nanoseconds,
    /// The longest time by which the second path was behind the first.
    pub second_behind_ns: Nanoseconds,
    /// Buffer that a receiver needs to switch between them without a gap: the longest delay.
    pub buffer_ns: Nanoseconds,
}

/// Late packets of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseTotal {
    /// Kind of cause.
    pub kind: &'static str,
    /// The cause.
    pub cause: String,
    /// Packets whose delay is mainly of this cause, with those that were late together with one.
    pub packets: u64,
    /// Examined delays of which it is the main cause.
    pub delays: u64,
    /// Time of all examined delays that is charged to it.
    pub time_ns: Nanoseconds,
}

/// Late packets that follow each other.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorstDelay {
    /// The stream.
    pub stream: String,
    /// When the first of them arrived, since 1970.
    pub unix_ns: u64,
    /// How many.
    pub packets: u64,
    /// From the first to the last.
    pub lasted_ns: Nanoseconds,
    /// The number of the latest: RTP's, counted on beyond 65,535.
    pub number: i64,
    /// Its lateness when the kernel received it.
    pub before_socket_ns: Nanoseconds,
    /// From there to the application.
    pub in_socket_ns: Nanoseconds,
    /// The main causes of its delay, with `--trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<String>,
}

/// Distributions of one stream.
#[derive(Debug, Clone)]
struct Chart {
    name: String,
    before_socket: Histogram,
    in_socket: Histogram,
}

/// Not part of the figures: equal figures have equal charts.
impl PartialEq for Chart {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl WatchOutcome {
    pub(super) fn new(state: &State) -> Self {
        let each = || state.streams.iter();
        let delays = |of: fn(&Watched) -> &Histogram| -> Vec<StreamDelays> {
            let named = each().map(|stream| (&stream.name, of(&stream.watched)));
            let some = named.filter(|(_, delays)| delays.count() > 0);
            some.map(|(name, delays)| item(name, Delays::of(delays))).collect()
        };
        let worst = each().flat_map(|stream| {
            let delay = |one: &Episode| WorstDelay::of(stream, one, state.day_offset_ns);
            stream.watched.worst().iter().map(delay)
        });
        let mut worst: Vec<WorstDelay> = worst.collect();
        worst.sort_by(|a, b| b.whole_ns().total_cmp(&a.whole_ns()));
        let label = |one: &WorstDelay| time(one.unix_ns, 0);
        let chart = |stream: &super::Stream| Chart {
            name: stream.name.clone(),
            before_socket: stream.watched.counts.before_socket.clone(),
            in_socket: stream.watched.counts.in_socket.clone(),
        };
        let answer =
            |stream: &super::Stream| item(&stream.name, Answer::of(&stream.watched, state.late_ns));
        let paths = state.pairs.iter().map(|(name, pair)| item(name, Paths::of(&pair.figures())));
        Self {
            streams: each().map(answer).collect(),
            packets: each()
                .map(|stream| item(&stream.name, Came::of(stream, state.now_ns)))
                .collect(),
            from_wire: delays(|stream| &stream.counts.from_wire),
            before_socket: delays(|stream| &stream.counts.before_socket),
            in_socket: delays(|stream| &stream.counts.in_socket),
            at_application: delays(|stream| &stream.counts.at_application),
            paths: paths.collect(),
            causes: each().flat_map(CauseTotal::of).collect(),
            worst: worst.iter().map(|one| item(&label(one), one.clone())).collect(),
            notes: notes(state),
            charts: each().map(chart).collect(),
            not_restored: None,
        }
    }

    pub(super) fn draw(&self, page: &mut Page) {
        for (name, at) in self.streams.iter().zip(0..) {
            if let Some(text) = linecard_report::Outcome::item(self, "streams", at) {
                page.headline(format!("{}: {text}", name.label));
            }
        }
        for chart in self.charts.iter().filter(|chart| chart.before_socket.count() > 0) {
            let title = format!("Lateness of {}", chart.name);
            let mut delays = Histograms::new("delays", title, "packets");
            delays.x(Axis::new("delay", Unit::Ns).log());
            delays.histogram("before the socket", &chart.before_socket, 1.0);
            delays.histogram("in the socket", &chart.in_socket, 1.0);
            page.chart(delays);
        }
    }

    /// Nothing at all is not a measurement.
    /// The same with the state of settings that were changed.
    pub(super) fn with_restored(mut self, restored: Result<Vec<String>, Error>) -> Self {
        match restored {
            Ok(notes) => self.notes.extend(notes),
            Err(error) => self.not_restored = Some(error.to_string()),
        }
        self
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(settings) = &self.not_restored {
            return Err(Failure::NotRestored.with(settings.clone()));
        }
        if self.packets.iter().any(|stream| stream.value.packets > 0) {
            return Ok(());
        }
        let streams = self.packets.iter().map(|stream| stream.label.clone()).collect();
        Err(WatchingError::NoPacket { streams }.into())
    }
}

fn item<T>(label: &str, value: T) -> Item<T> {
    Item { label: label.to_owned(), value }
}

/// Sentences that the figures need.
fn notes(state: &State) -> Vec<String> {
    let mut notes = Vec::new();
    let window = Value::Seconds((WINDOW_NS * WINDOWS as u64) as f64 / 1e9);
    let is_judged = |stream: &super::Stream| stream.watched.counts.before_socket.count() > 0;
    if state.streams.iter().any(is_judged) {
        notes.push(format!(
            "A packet is late against the schedule of the fastest packets of the last {window}; a delay that all have \
             in common cannot be seen."
        ));
    }
    for stream in state.streams.iter().filter(|stream| stream.watched.counts.packets > 0) {
        if stream.watched.counts.from_wire.count() > 0 {
            notes.push(format!(
                "{}: times on the wire are known to within {}: half of the shortest reading of the interface's clock, \
                 and the drift between two of them.",
                stream.name,
                Value::Ns(stream.watched.counts.wire_error_ns as f64)
            ));
        }
        if stream.dropped > 0 {
            notes.push(format!(
                "{}: this command was too slow for {} packets, which count as lost: give it a core of its own \
                 (--core), and real-time priority (--fifo).",
                stream.name, stream.dropped
            ));
            if stream.room < 2 * ROOM {
                notes.push(format!(
                    "{}: its socket has {} KiB instead of {}: set net.core.rmem_max to {ROOM}, or run as root.",
                    stream.name,
                    stream.room >> 10,
                    (2 * ROOM) >> 10
                ));
            }
        }
        let no_schedule = stream.watched.content().is_some_and(|content| content.basis.is_none());
        if no_schedule {
            notes.push(format!(
                "{}: no packet is late, because the stream has no constant rate, and no time stamps of a clock that \
                 RTP uses.",
                stream.name
            ));
        }
        let changes = stream.watched.schedule_changes();
        if changes > 0 {
            let name = &stream.name;
            notes.push(format!("{name}: its schedule changed {changes} times without a pause."));
        }
    }
    let unexamined: u64 = state.streams.iter().map(|stream| stream.causes.unexamined).sum();
    if unexamined > 0 {
        notes.push(format!(
            "The cause of {unexamined} late packets was not looked for: about 250 delays per second are examined."
        ));
    }
    let suppressed: u64 = state.streams.iter().map(|stream| stream.lines.suppressed_all).sum();
    if suppressed > 0 {
        notes.push(format!("{suppressed} events had no line of their own."));
    }
    if state.clock_steps > 0 {
        notes.push(format!(
            "The clock of this host was set {} times: packets that waited then have the time of reading.",
            state.clock_steps
        ));
    }
    notes
}

impl Answer {
    fn of(watched: &Watched, late_ns: u64) -> Self {
        let delays = &watched.counts.at_application;
        let content = watched.content();
        Self {
            judged: delays.count(),
            late: watched.counts.late,
            limit_ns: Nanoseconds(late_ns as f64),
            max_ns: (delays.count() > 0).then_some(Nanoseconds(delays.max() as f64)),
            kind: content.map_or("nothing yet", |content| content.kind.name()),
            schedule: Judged::of(content),
        }
    }

    fn text(&self) -> String {
        let Self { judged, late, kind, .. } = self;
        let Some(Nanoseconds(max_ns)) = self.max_ns else {
            return match self.schedule {
                Judged::Unknown => "too few packets to learn a schedule".to_owned(),
                Judged::None => format!("{kind} without a schedule: no packet is late"),
                _ => format!("{kind}: its schedule is not learnt yet, which takes four seconds"),
            };
        };
        let [late, judged] = [*late, *judged].map(Value::Count);
        let [limit, max] = [self.limit_ns.0, max_ns].map(Value::Ns);
        format!("{late} of {judged} packets of {kind} were later than {limit}; the latest {max}")
    }
}

impl Judged {
    fn of(content: Option<Content>) -> Self {
        let Some(content) = content else { return Self::Unknown };
        match content.basis {
            None => Self::None,
            Some(Basis::Even) => Self::ConstantRate,
            Some(Basis::Picture) => Self::Pictures,
            Some(Basis::Due) => Self::DueTimes,
            Some(Basis::Rtp(_)) => Self::RtpTime,
        }
    }
}

impl Came {
    fn of(stream: &super::Stream, now_ns: u64) -> Self {
        let watched = &stream.watched;
        let (counts, order) = (&watched.counts, &watched.counts.order);
        let silent_ns = watched.last_ns().map(|last_ns| now_ns.saturating_sub(last_ns));
        let silent_ns = silent_ns.filter(|ns| *ns >= PAUSE_NS);
        let seconds = watched.span_ns() as f64 / 1e9;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let numbered = order.received > 0;
        let jitter = watched.jitter();
        Self {
            packets: counts.packets,
            seconds: Seconds(seconds),
            packets_per_second: rate(counts.packets),
            bit_rate: BitRate(rate(counts.octets) * 8.0),
            lost: numbered.then(|| order.lost()),
            reordered: numbered.then_some(order.reordered),
            duplicates: numbered.then_some(order.duplicates),
            stale: numbered.then_some(order.stale),
            dropped: stream.dropped,
            others: counts.others,
            pauses: counts.pauses,
            longest_pause_ns: Nanoseconds(counts.longest_pause_ns as f64),
            silent_ns: silent_ns.map(|ns| Nanoseconds(ns as f64)),
            restarts: counts.restarts,
            period_ns: watched.content().and_then(|content| content.period_ns),
            jitter_mean_ns: jitter.map(|jitter| Nanoseconds(jitter.mean_ns)),
            jitter_max_ns: jitter.map(|jitter| Nanoseconds(jitter.max_ns)),
        }
    }

    fn text(&self) -> String {
        let count = |count: u64| Value::Count(count).to_string();
        let mut text = format!(
            "{} in {} ({:.1}/s, {})",
            count(self.packets),
            Value::Seconds(self.seconds.0),
            self.packets_per_second,
            Value::BitRate(self.bit_rate.0)
        );
        if let (Some(lost), Some(reordered), Some(duplicates)) =
            (self.lost, self.reordered, self.duplicates)
        {
            let [lost, reordered, duplicates] = [lost, reordered, duplicates].map(count);
            text += &format!("; lost {lost}, reordered {reordered}, duplicates {duplicates}");
        }
        let others = [
            ("stale", self.stale.unwrap_or(0)),
            ("dropped here", self.dropped),
            ("of others", self.others),
            ("pauses", self.pauses),
            ("restarts", self.restarts),
        ];
        for (name, number) in others.into_iter().filter(|(_, number)| *number > 0) {
            text += &format!(", {name} {}", count(number));
        }
        if let (Some(mean), Some(max)) = (self.jitter_mean_ns, self.jitter_max_ns) {
            let [mean, max] = [mean, max].map(|Nanoseconds(ns)| Value::Ns(ns));
            text += &format!("; jitter {mean}, greatest {max}");
        }
        if let Some(Nanoseconds(ns)) = self.silent_ns {
            text += &format!("; nothing for the last {}", Value::Ns(ns));
        }
        text
    }
}

impl Delays {
    fn of(delays: &Histogram) -> Self {
        let quantile = |q| Nanoseconds(delays.quantile(q) as f64);
        Self {
            packets: delays.count(),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: Nanoseconds(delays.max() as f64),
        }
    }

    fn text(&self) -> String {
        let [p50, p99, p999, max] = [self.p50_ns, self.p99_ns, self.p999_ns, self.max_ns]
            .map(|Nanoseconds(ns)| Value::Ns(ns));
        format!("median {p50}, p99 {p99}, p99.9 {p999}, most {max}")
    }
}

impl Paths {
    fn of(figures: &PairFigures) -> Self {
        let [first_behind_ns, second_behind_ns] =
            figures.behind_ns.map(|ns| Nanoseconds(ns as f64));
        let delay = Delays::of(&figures.delay);
        Self {
            both: figures.both,
            first_only: figures.only[0],
            second_only: figures.only[1],
            neither: figures.neither,
            delay,
            first_behind_ns,
            second_behind_ns,
            buffer_ns: delay.max_ns,
        }
    }

    fn text(&self) -> String {
        let [both, first, second, neither] =
            [self.both, self.first_only, self.second_only, self.neither].map(Value::Count);
        let [first_ns, second_ns, buffer] =
            [self.first_behind_ns, self.second_behind_ns, self.buffer_ns]
                .map(|Nanoseconds(ns)| Value::Ns(ns));
        format!(
            "by both {both}, by the first only {first}, by the second only {second}, by neither {neither}; delay \
             between them {}; the first was behind by at most {first_ns}, the second by {second_ns}; switching without a \
             gap takes a buffer of {buffer}",
            self.delay.text()
        )
    }
}

impl CauseTotal {
    fn of(stream: &super::Stream) -> Vec<StreamCause> {
        let mut totals: Vec<_> = stream.causes.totals.iter().collect();
        totals.sort_by_key(|(_, total)| std::cmp::Reverse((total.packets, total.ns)));
        let total = |((kind, cause), total): (&(&'static str, String), &Total)| {
            let (packets, delays) = (total.packets, total.episodes);
            let (cause, time_ns) = (cause.clone(), Nanoseconds(total.ns as f64));
            item(&stream.name, Self { kind: *kind, cause, packets, delays, time_ns })
        };
        // Causes of a part of a delay, and of the whole of none.
        let (main, further): (Vec<_>, Vec<_>) =
            totals.into_iter().partition(|(_, total)| total.episodes > 0);
        let mut causes: Vec<_> = main.into_iter().map(total).collect();
        if !further.is_empty() {
            let ns = further.iter().fold(0, |sum: u64, (_, total)| sum.saturating_add(total.ns));
            let time_ns = Nanoseconds(ns as f64);
            let cause = format!("{} further causes", further.len());
            let packets = further.iter().map(|(_, total)| total.packets).sum();
            let sum = Self { kind: "others", cause, packets, delays: 0, time_ns };
            causes.push(item(&stream.name, sum));
        }
        causes
    }

    fn text(&self) -> String {
        let [packets, delays] = [self.packets, self.delays].map(Value::Count);
        let time = Value::Ns(self.time_ns.0);
        format!("{}: main cause of {delays} delays ({packets} packets), {time} in all", self.cause)
    }
}

impl WorstDelay {
    fn of(stream: &super::Stream, episode: &Episode, day_offset_ns: i64) -> Self {
        Self {
            causes: stream.causes.text(episode).cloned(),
            stream: stream.name.clone(),
            unix_ns: episode.at_ns.saturating_add_signed(day_offset_ns),
            packets: episode.packets,
            lasted_ns: Nanoseconds(episode.lasted_ns as f64),
            number: episode.worst.number,
            before_socket_ns: Nanoseconds(episode.worst.delay.before_ns as f64),
            in_socket_ns: Nanoseconds(episode.worst.delay.waited_ns as f64),
        }
    }

    fn whole_ns(&self) -> f64 {
        self.before_socket_ns.0 + self.in_socket_ns.0
    }

    fn text(&self) -> String {
        let [whole, before, inside, lasted] =
            [self.whole_ns(), self.before_socket_ns.0, self.in_socket_ns.0, self.lasted_ns.0]
                .map(Value::Ns);
        let packets = match self.packets {
            1 => "1 packet".to_owned(),
            more => format!("{} packets in {lasted}", Value::Count(more)),
        };
        let causes = self.causes.as_ref().map_or(String::new(), |causes| format!("; {causes}"));
        let stream = &self.stream;
        format!("{whole} ({before} before the socket, {inside} in it), {packets}, {stream}{causes}")
    }
}

impl linecard_report::Outcome for WatchOutcome {
    fn item(&self, section: &str, index: usize) -> Option<String> {
        let delays = |list: &[StreamDelays]| list.get(index).map(|one| one.value.text());
        match section {
            "streams" => self.streams.get(index).map(|one| one.value.text()),
            "packets" => self.packets.get(index).map(|one| one.value.text()),
            "from_wire" => delays(&self.from_wire),
            "before_socket" => delays(&self.before_socket),
            "in_socket" => delays(&self.in_socket),
            "at_application" => delays(&self.at_application),
            "causes" => self.causes.get(index).map(|one| one.value.text()),
            "paths" => self.paths.get(index).map(|one| one.value.text()),
            _ => self.worst.get(index).map(|one| one.value.text()),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of a long run were lost where a setting could not be restored.
    #[test]
    fn settings_that_are_not_restored_are_said_beside_the_figures() {
        let outcome = WatchOutcome {
            streams: Vec::new(),
            packets: Vec::new(),
            from_wire: Vec::new(),
            before_socket: Vec::new(),
            in_socket: Vec::new(),
            at_application: Vec::new(),
            paths: Vec::new(),
            causes: Vec::new(),
            worst: Vec::new(),
            notes: Vec::new(),
            charts: Vec::new(),
            not_restored: None,
        };
        let error = Failure::NotRestored.with("stamps of eth1");
        let failed = outcome.clone().with_restored(Err(error)).check().expect_err("not restored");
        assert_eq!((failed.code(), failed.to_string().as_str()), (12, "stamps of eth1"));
        let noted = outcome.with_restored(Ok(vec!["left alone".to_owned()]));
        assert_eq!(noted.notes, ["left alone"]);
    }
}
