//! Live streams of other senders: what arrives, what is late, and where it was late, for as long as wanted.
//!
//! One thread receives all streams and gives each packet to its [`Watched`]; scrapers of metrics and signals look at
//! them in between. Memory does not depend on the time that this runs.

mod lines;
pub mod metrics;
mod outcome;

pub use outcome::{
    Answer, Came, Delays, Judged, Paths, StreamAnswer, StreamCame, StreamDelays, StreamPaths,
    WatchOutcome, Worst, WorstDelay,
};

use super::placement::{Placement, refused};
use crate::attach::{self, Metrics, Observer};
use crate::{Context, Error, Failure, Finished, Job, Level};
use garde::Validate;
use linecard_config::{ConfigError, Duration, Parsed};
use linecard_jitter::linux::clock::{monotonic_ns, realtime_ns};
use linecard_jitter::linux::watch::{Buffers, Receiver, Target, TargetError, WatchError};
use linecard_jitter::media::live::{Arrival, Event, Pair, Watched};
use linecard_jitter::media::rtp;
use linecard_report::report_of;
use lines::Lines;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Streams at once.
const MAX_STREAMS: usize = 64;
/// Longest wait for packets, so that a stop and signals are noticed.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Calls that take packets of one stream before the next one's turn.
const TURN: u32 = 16;

/// The job.
#[derive(Debug)]
pub struct WatchStreams;

/// The streams, and when a packet is late.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// where streams arrive: an address of this host, or a multicast group, which is joined; SOURCE@GROUP:PORT takes
    /// only packets of that source; GROUP:PORT%INTERFACE is joined on that interface; FIRST+SECOND are two copies of one
    /// stream (ST 2022-7), which are compared
    #[schemars(extend("x-argument" = "ADDRESS:PORT"))]
    pub addresses: Vec<Parsed<Streams>>,
    /// interface on which groups are joined that are given without one; without, the one that routes choose
    pub interface: Option<String>,
    /// the only source of groups that are given without one
    #[schemars(extend("x-value" = "ADDRESS"))]
    pub source: Option<Parsed<IpAddr>>,
    /// a packet is late when it reaches the application later than this after it was due
    #[default(Duration::from_ms(1))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_secs(10)))]
    pub late: Duration,
    /// how many of the worst delays are listed for each stream
    #[default(10)]
    #[garde(range(min = 1, max = 1_000))]
    pub worst: usize,
    /// end after this time; without, it runs until it is stopped
    #[garde(range(min = Duration::from_ms(1), max = Duration::from_secs(10_000_000)))]
    pub time: Option<Duration>,
    /// serve Prometheus metrics at this address, as 127.0.0.1:9100; a port alone is on loopback
    #[schemars(extend("x-value" = "ADDRESS"))]
    pub metrics: Parsed<Metrics>,
    /// Where the receiver runs.
    #[garde(dive)]
    pub placement: Placement,
}

/// A stream, or two copies of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    first: Target,
    second: Option<Target>,
}

impl FromStr for Streams {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (first, second) = match text.split_once('+') {
            Some((first, second)) => (first, Some(second.parse()?)),
            None => (text, None),
        };
        Ok(Self { first: first.parse()?, second })
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.second.as_ref().map_or(Ok(()), |second| write!(f, "+{second}"))
    }
}

impl Job for WatchStreams {
    const NAME: &'static str = "watch";
    const COMMAND: &'static str = "jitter watch";
    type Config = Config;
    type Outcome = WatchOutcome;

    fn title(config: &Config) -> String {
        let streams: Vec<String> = config.addresses.iter().map(|one| one.0.to_string()).collect();
        format!("Live at {}", streams.join(", "))
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<WatchOutcome, Error> {
        watch(config, context, &mut ())
    }

    fn draw(outcome: &WatchOutcome, page: &mut linecard_report::Page) {
        outcome.draw(page);
    }

    fn check(outcome: &WatchOutcome) -> Result<(), Error> {
        outcome.check()
    }
}

/// Watches streams until the end; the observer is told of late packets and pauses.
///
/// # Errors
///
/// Addresses that cannot be received at, groups that cannot be joined, an address for metrics that is in use.
pub fn run(
    config: &Config,
    context: &Context<'_>,
    observer: &mut dyn Observer,
) -> Result<Finished, Error> {
    let outcome = watch(config, context, observer)?;
    Ok(crate::finished_with::<WatchStreams>(WatchStreams::COMMAND, config, context, &outcome))
}

/// One stream.
#[derive(Debug)]
struct Stream {
    name: String,
    watched: Watched,
    /// Its pair, and its place there.
    pair: Option<(usize, usize)>,
    lines: Lines,
    /// Packets that the socket had no room for.
    dropped: u64,
    /// Its room in bytes.
    room: usize,
}

/// Everything that is watched.
#[derive(Debug)]
struct State {
    streams: Vec<Stream>,
    pairs: Vec<(String, Pair)>,
    late_ns: u64,
    clock_steps: u64,
    now_ns: u64,
    /// Time of day minus monotonic time.
    day_offset_ns: i64,
}

/// A state that a scraper looks at now and then.
#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(
    config: &Config,
    context: &Context<'_>,
    observer: &mut dyn Observer,
) -> Result<WatchOutcome, Error> {
    let targets = config.targets()?;
    let open = |target: &Target| Receiver::open(target.clone()).map_err(failed);
    let receivers: Vec<Receiver> = targets.iter().map(open).collect::<Result<_, _>>()?;
    let shared = Shared(Arc::new(Mutex::new(State::new(config))));
    if let Some(address) = config.metrics.0.0 {
        let (listener, seen) = (attach::listen(address, observer)?, shared.clone());
        let served = listener.serve(move || metrics::of(&seen));
        served.map_err(|error| Failure::Attach.with(format!("--metrics: {error}")))?;
    }
    let _placed = config.placement.placement().enter(false).map_err(refused)?;
    receive(config, context, (receivers.as_slice(), &shared), observer)?;
    let mut state = shared.lock();
    state.finish(observer);
    Ok(WatchOutcome::new(&state))
}

/// Receives packets until the end.
fn receive(
    config: &Config,
    context: &Context<'_>,
    (receivers, shared): (&[Receiver], &Shared),
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let sockets: Vec<_> = receivers.iter().map(AsFd::as_fd).collect();
    let begun = Instant::now();
    let time = config.time.map_or(std::time::Duration::MAX, Into::into);
    let mut buffers = Buffers::default();
    while !context.progress.is_stopped() && begun.elapsed() < time {
        let rest = time.saturating_sub(begun.elapsed());
        linecard_tun::wait(&sockets, LOOK.min(rest))
            .map_err(|error| Failure::Attach.with(error))?;
        for (at, receiver) in receivers.iter().enumerate() {
            for _ in 0..TURN {
                let mut state = shared.lock();
                let came =
                    receiver.receive(&mut buffers, |arrival| state.push(at, arrival, observer));
                state.clock_steps = buffers.clocks.steps;
                if came.map_err(failed)? == 0 {
                    state.look_at(at, observer);
                    break;
                }
            }
        }
        shared.lock().look(receivers);
        if observer.wants_statistics() {
            let outcome = WatchOutcome::new(&shared.lock());
            observer.statistics(&report_of(WatchStreams::COMMAND, &outcome));
        }
    }
    Ok(())
}

impl Config {
    /// Each address to receive at; the two of a pair follow each other.
    fn targets(&self) -> Result<Vec<Target>, ConfigError> {
        let both = |one: &Parsed<Streams>| [Some(one.0.first.clone()), one.0.second.clone()];
        let mut targets: Vec<Target> = self.addresses.iter().flat_map(both).flatten().collect();
        let source = self.source.map(|Parsed(source)| source);
        let is_group = |target: &Target| target.address.ip().is_multicast();
        if source.is_some() && !targets.iter().any(is_group) {
            let what = "only a multicast group is received from one source, and none is given";
            return Err(ConfigError::of_parameter("source", what));
        }
        for target in &mut targets {
            target.source = target.source.or(source.filter(|_| is_group(target)));
            target.interface = target.interface.take().or_else(|| self.interface.clone());
        }
        let again = (1..targets.len()).find(|at| targets[..*at].contains(&targets[*at]));
        let refuse = |what: String| Err(ConfigError::of_parameter("addresses", what));
        match again {
            Some(at) => refuse(format!("{} is given twice", targets[at])),
            None if targets.is_empty() => {
                refuse("none: name where the stream arrives, as 239.0.0.1:5004".to_owned())
            }
            None if targets.len() > MAX_STREAMS => {
                refuse(format!("{} streams: at most {MAX_STREAMS} at once", targets.len()))
            }
            None => Ok(targets),
        }
    }
}

impl State {
    fn new(config: &Config) -> Self {
        let late_ns = config.late.as_ps() / 1_000;
        let mut state = Self {
            streams: Vec::new(),
            pairs: Vec::new(),
            late_ns,
            clock_steps: 0,
            now_ns: 0,
            day_offset_ns: realtime_ns() as i64 - monotonic_ns() as i64,
        };
        for Parsed(streams) in &config.addresses {
            let pair = streams.second.as_ref().map(|_| state.pairs.len());
            if pair.is_some() {
                state.pairs.push((streams.to_string(), Pair::default()));
            }
            let paths = std::iter::once(&streams.first).chain(&streams.second);
            state.streams.extend(paths.enumerate().map(|(path, target)| Stream {
                name: target.to_string(),
                watched: Watched::new(late_ns, config.worst),
                pair: pair.map(|pair| (pair, path)),
                lines: Lines::default(),
                dropped: 0,
                room: usize::MAX,
            }));
        }
        state
    }

    fn push(&mut self, at: usize, arrival: &Arrival<'_>, observer: &mut dyn Observer) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let Stream { watched, lines, name, pair, .. } = stream;
        let offset_ns = self.day_offset_ns;
        let restarts = watched.counts.restarts;
        let has_number =
            watched.push(arrival, |event| say(observer, lines, (name.as_str(), offset_ns), &event));
        let Some((pair, path)) = *pair else { return };
        let (_, pair) = &mut self.pairs[pair];
        if watched.counts.restarts > restarts {
            pair.restart();
        }
        if has_number && let Some(header) = rtp::Header::read(arrival.payload, arrival.len) {
            pair.push(path, header.sequence, arrival.at_ns);
        }
    }

    /// Looks at a stream of which no packet waits.
    fn look_at(&mut self, at: usize, observer: &mut dyn Observer) {
        let Some(Stream { watched, lines, name, .. }) = self.streams.get_mut(at) else { return };
        let offset_ns = self.day_offset_ns;
        watched.look(monotonic_ns(), |event| {
            say(observer, lines, (name.as_str(), offset_ns), &event);
        });
    }

    /// Looks at sockets and clocks.
    fn look(&mut self, receivers: &[Receiver]) {
        self.now_ns = monotonic_ns();
        self.day_offset_ns = realtime_ns() as i64 - self.now_ns as i64;
        for (stream, receiver) in self.streams.iter_mut().zip(receivers) {
            stream.dropped = receiver.dropped(stream.dropped).unwrap_or(stream.dropped);
            stream.room = receiver.room_bytes().unwrap_or(stream.room);
        }
    }

    fn finish(&mut self, observer: &mut dyn Observer) {
        let offset_ns = self.day_offset_ns;
        for Stream { watched, lines, name, .. } in &mut self.streams {
            watched.finish(|event| say(observer, lines, (name.as_str(), offset_ns), &event));
            lines.finish(name).iter().for_each(|line| observer.say(Level::Notice, line));
        }
    }
}

fn say(observer: &mut dyn Observer, lines: &mut Lines, stream: (&str, i64), event: &Event) {
    if let Some(line) = lines.of(stream, event) {
        observer.say(Level::Warning, &line);
    }
}

fn failed(error: WatchError) -> Error {
    match error {
        WatchError::Source { .. } | WatchError::Families { .. } => Failure::Usage.with(error),
        _ => Failure::Attach.with(error),
    }
}
