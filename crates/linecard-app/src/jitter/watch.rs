//! Live streams of other senders: received packets, late ones, and the place of their delay, without a limit in time.
//!
//! One thread receives all streams and gives each packet to its [`Watched`]; scrapers of metrics and signals look at
//! them in between. Memory does not depend on the running time.

mod causes;
mod error;
mod events;
mod lines;
pub mod metrics;
mod outcome;

pub use outcome::{
    Answer, Came, CauseTotal, Delays, Judged, Paths, StreamAnswer, StreamCame, StreamCause,
    StreamDelays, StreamPaths, WatchOutcome, Worst, WorstDelay,
};

use super::placement::{Placement, refused};
use super::recovery;
use crate::attach::error::JoinError;
use crate::attach::{self, Metrics, Observer};
use crate::{Context, Error, Failure, Finished, Job, Level};
use causes::{Causes, Conclusion, LateEpisode};
use error::WatchingError;
use events::EventFile;
use garde::Validate;
use linecard_config::{ConfigError, Duration, Parsed, Switch};
use linecard_jitter::ledger::LatePacket;
use linecard_jitter::linux::clock::{monotonic_ns, realtime_ns};
use linecard_jitter::linux::find::{Findings, FoundStream, find};
use linecard_jitter::linux::journal::{Journal, Store};
use linecard_jitter::linux::setting::Setting;
use linecard_jitter::linux::trace::{Examiner, FlightRecorder, Identity, TraceTarget, this_thread};
use linecard_jitter::linux::watch::{Buffers, Receiver, Target, TargetError, WatchError};
use linecard_jitter::media::live::{Arrival, Event, Pair, Watched};
use linecard_jitter::media::number::NumberField;
use linecard_jitter::media::rtp;
use linecard_jitter::trace::PinnedThread;
use linecard_report::{Value, report_of};
use lines::Lines;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Streams at once.
const MAX_STREAMS: usize = 64;
/// Streams that are followed of those found.
const MAX_FOUND: usize = 16;
/// Longest wait for packets, so that a stop and signals are noticed.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Calls that take packets of one stream before the next one's turn.
const TURN: u32 = 16;

/// The filter of an interface that stamps all packets: `HWTSTAMP_FILTER_ALL` of `linux/net_tstamp.h`.
const STAMP_ALL: &str = "rx-filter=1";

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
    /// stream (ST 2022-7), which are compared; without any, streams that arrive at the interface are found
    #[schemars(extend("x-argument" = "ADDRESS:PORT"))]
    pub addresses: Option<Vec<Parsed<Streams>>>,
    /// the only interface of streams that are given without one; without, groups are joined on the one that routes choose,
    /// and addresses of this host receive on all
    pub interface: Option<String>,
    /// how long streams are looked for where none is named; needs root or `CAP_NET_RAW`
    #[default(Duration::from_secs(2))]
    #[garde(range(min = Duration::from_ms(1), max = Duration::from_secs(3_600)))]
    pub find: Duration,
    /// the only source of groups that are given without one
    #[schemars(extend("x-value" = "ADDRESS"))]
    pub source: Option<Parsed<IpAddr>>,
    /// where the packets of other protocols have a number that increases by one: offset and octets (1, 2 or 4) in the UDP
    /// payload, as 4:2, with :le behind if the least octet comes first; holds for all streams
    #[schemars(extend("x-value" = "OFFSET:OCTETS"))]
    pub number: Option<Parsed<NumberField>>,
    /// a packet is late when it reaches the application later than this after it was due
    #[default(Duration::from_ms(1))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_secs(10)))]
    pub late: Duration,
    /// trace the kernel by BPF meanwhile, and name the cause of late packets: interrupt, softirq, wait for the core, the
    /// program that ran instead; needs root, or `CAP_BPF` and `CAP_PERFMON`
    pub trace: Switch,
    /// have the interfaces of streams (--interface, %INTERFACE) stamp every packet by their own clock, and set them back at
    /// the end; needs root; what an interface stamps already is used without this
    pub hardware_stamps: Switch,
    /// how many of the worst delays are listed for each stream
    #[default(10)]
    #[garde(range(min = 1, max = 1_000))]
    pub worst: usize,
    /// append events (late packets with their cause, pauses, senders that begin again) to this file, as lines of JSON; at
    /// 16 MiB it becomes FILE.1, and a new one begins
    #[schemars(extend("x-value" = "FILE"))]
    pub events: Option<String>,
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
        let streams = config.addresses.iter().flatten().map(|one| one.0.to_string());
        let streams: Vec<String> = streams.chain(config.interface.clone()).collect();
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
    causes: Causes,
    /// The lower half of its socket's cookie.
    cookie: u32,
    /// Delays beyond this are among the worst.
    floor_ns: u64,
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
    /// Finds causes.
    examiner: Option<Examiner<LateEpisode, Conclusion>>,
    is_traced: bool,
    /// A file of events, and whether the last one could not be written.
    events: Option<(EventFile, bool)>,
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
    let targets = config.addresses.as_ref().map(|addresses| config.targets(addresses));
    let targets = targets.transpose()?;
    let listener = config.metrics.0.0.map(|address| attach::listen(address, observer));
    let listener = listener.transpose()?;
    let receivers: Vec<Receiver> = match targets {
        Some(targets) => {
            targets.into_iter().map(Receiver::open).collect::<Result<_, _>>().map_err(failed)?
        }
        None => {
            // A missing privilege is reported before streams are looked for.
            if config.trace.0 {
                FlightRecorder::check().map_err(untraced)?;
            }
            config.found(context, observer)?
        }
    };
    let events = config.events.as_ref().map(|name| {
        let path = context.path_of("events", name);
        EventFile::open(&path, events::MAX_BYTES).map_err(|source| Error::Open { path, source })
    });
    let mut state = State::new(config, &receivers);
    state.events = events.transpose()?.map(|file| (file, false));
    let shared = Shared(Arc::new(Mutex::new(state)));
    if let Some(listener) = listener {
        let seen = shared.clone();
        let served = listener.serve(move || metrics::of(&seen));
        served.map_err(JoinError::Metrics)?;
    }
    if config.trace.0 {
        shared.lock().trace(config, &receivers, observer)?;
    }
    let stamped = config.hardware_stamps.0.then(|| stamp_all(&receivers)).transpose()?;
    let placed = config.placement.placement().enter(false).map_err(refused)?;
    receive(config, context, (receivers.as_slice(), &shared), observer)?;
    drop(placed);
    let restored = stamped.map_or(Ok(Vec::new()), |journal| {
        let restorations = journal.roll_back().map_err(|error| Failure::NotRestored.with(error))?;
        recovery::end(restorations)
    });
    let mut state = shared.lock();
    state.finish(observer);
    // The figures of days are shown in any case.
    Ok(WatchOutcome::new(&state).with_restored(restored))
}

/// Has the interfaces of streams stamp every packet, until the journal ends.
fn stamp_all(receivers: &[Receiver]) -> Result<Journal, Error> {
    let names = receivers.iter().filter_map(|receiver| receiver.target().interface.clone());
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        let error = WatchingError::NoInterface;
        return Err(ConfigError::of_parameter("hardware_stamps", error).into());
    }
    let mut journal = Journal::begin(&Store::of_user()).map_err(WatchingError::Stamps)?;
    for name in names {
        journal.change(&Setting::stamps(name), STAMP_ALL).map_err(WatchingError::Stamps)?;
    }
    Ok(journal)
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
    let mut said = BTreeSet::new();
    for receiver in receivers {
        if let Err(error) = receiver.take_stamps(&mut buffers)
            && said.insert(error.to_string())
        {
            observer.say(Level::Notice, &error.to_string());
        }
    }
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
        shared.lock().look(receivers, observer);
        if observer.wants_statistics() {
            let outcome = WatchOutcome::new(&shared.lock());
            observer.statistics(&report_of(WatchStreams::COMMAND, &outcome));
            let so_far = crate::finished_with::<WatchStreams>(
                WatchStreams::COMMAND,
                config,
                context,
                &outcome,
            );
            observer.page(so_far.page);
        }
    }
    Ok(())
}

impl Config {
    /// Each address to receive at; the two of a pair follow each other.
    fn targets(&self, addresses: &[Parsed<Streams>]) -> Result<Vec<Target>, ConfigError> {
        let both = |one: &Parsed<Streams>| [Some(one.0.first.clone()), one.0.second.clone()];
        let mut targets: Vec<Target> = addresses.iter().flat_map(both).flatten().collect();
        let source = self.source.map(|Parsed(source)| source);
        let is_group = |target: &Target| target.address.ip().is_multicast();
        if source.is_some() && !targets.iter().any(is_group) {
            return Err(ConfigError::of_parameter("source", WatchingError::NoGroup));
        }
        for target in &mut targets {
            target.source = target.source.or(source.filter(|_| is_group(target)));
            target.interface = target.interface.take().or_else(|| self.interface.clone());
        }
        let again = (1..targets.len()).find(|at| targets[..*at].contains(&targets[*at]));
        let error = match again {
            Some(at) => WatchingError::Twice { target: targets.swap_remove(at) },
            None if targets.is_empty() => WatchingError::NoAddress,
            None if targets.len() > MAX_STREAMS => WatchingError::TooMany { count: targets.len() },
            None => return Ok(targets),
        };
        Err(ConfigError::of_parameter("addresses", error))
    }

    /// A copy of each stream that is found at the interface.
    fn found(
        &self,
        context: &Context<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Receiver>, Error> {
        let Some(interface) = &self.interface else {
            return Err(ConfigError::of_parameter("addresses", WatchingError::NoPlace).into());
        };
        if self.source.is_some() {
            return Err(ConfigError::of_parameter("source", WatchingError::NoGroup).into());
        }
        let is_stopped = || context.progress.is_stopped();
        let Findings { streams: found, forgotten } =
            find(interface, self.find.into(), &is_stopped).map_err(failed)?;
        if forgotten > 0 {
            observer.say(
                Level::Warning,
                &format!(
                    "{forgotten} packets went to more destinations than are counted at once; name a stream that is not \
                     found"
                ),
            );
        }
        if found.is_empty() {
            let interface = interface.clone();
            return Err(WatchingError::NothingFound { interface, time: self.find }.into());
        }
        for (at, one) in found.iter().enumerate() {
            let FoundStream { target, source, kind, payload_type, .. } = one;
            let kind = kind.name();
            let payload_type =
                payload_type.map_or(String::new(), |n| format!(", payload type {n}"));
            let rate = Value::BitRate(one.bits_per_second);
            let rest = if at < MAX_FOUND { "" } else { "; it is not followed" };
            observer.say(
                Level::Notice,
                &format!(
                    "found {target} from {source}: {kind}{payload_type}, {:.0} packets/s, {rate}{rest}",
                    one.rate
                ),
            );
        }
        let followed = found.iter().take(MAX_FOUND);
        followed.map(|one| Receiver::beside(interface, one.target).map_err(failed)).collect()
    }
}

impl State {
    fn new(config: &Config, receivers: &[Receiver]) -> Self {
        let late_ns = config.late.as_ps() / 1_000;
        let mut state = Self {
            streams: Vec::new(),
            pairs: Vec::new(),
            late_ns,
            clock_steps: 0,
            now_ns: 0,
            day_offset_ns: realtime_ns() as i64 - monotonic_ns() as i64,
            examiner: None,
            is_traced: config.trace.0,
            events: None,
        };
        let number = config.number.map(|Parsed(field)| field);
        let mut names = receivers.iter().map(|receiver| receiver.target().to_string()).peekable();
        let mut pairs = config.addresses.iter().flatten().map(|one| one.0.second.is_some());
        while names.peek().is_some() {
            let pair = pairs.next().unwrap_or(false).then_some(state.pairs.len());
            let paths: Vec<String> =
                names.by_ref().take(if pair.is_some() { 2 } else { 1 }).collect();
            if pair.is_some() {
                state.pairs.push((paths.join("+"), Pair::default()));
            }
            state.streams.extend(paths.into_iter().enumerate().map(|(path, name)| Stream {
                name,
                watched: Watched::with_numbers(late_ns, config.worst, number),
                pair: pair.map(|pair| (pair, path)),
                lines: Lines::default(),
                dropped: 0,
                room: usize::MAX,
                causes: Causes::default(),
                cookie: 0,
                floor_ns: 0,
            }));
        }
        state
    }

    /// Traces the kernel from now on, for the calling thread.
    fn trace(
        &mut self,
        config: &Config,
        receivers: &[Receiver],
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let mut target = TraceTarget { identity: Identity::Start, ..TraceTarget::default() };
        for (receiver, stream) in receivers.iter().zip(&mut self.streams) {
            target.add(receiver.target().address);
            stream.cookie = receiver.cookie().map_err(untraced)?;
            target.sockets.push(stream.cookie);
        }
        let core = config.placement.core.and_then(|core| u16::try_from(core).ok());
        let reader = PinnedThread { thread: this_thread(), core: core.unwrap_or(u16::MAX) };
        let recorder = FlightRecorder::start(&target, reader).map_err(untraced)?;
        if !recorder.absent().is_empty() {
            let absent = recorder.absent().join(", ");
            observer.say(Level::Notice, &format!("this kernel has no tracepoints {absent}"));
        }
        let examiner = Examiner::start(recorder, Conclusion::of);
        self.examiner = Some(examiner.map_err(untraced)?);
        Ok(())
    }

    /// A stream, and the writer of its events.
    fn teller<'s>(
        &'s mut self,
        at: usize,
        observer: &'s mut dyn Observer,
    ) -> Option<(&'s mut Watched, Teller<'s>)> {
        let Stream { watched, lines, name, causes, cookie, floor_ns, .. } =
            self.streams.get_mut(at)?;
        let place = (name.as_str(), self.day_offset_ns);
        let (examiner, socket) = (self.examiner.as_mut(), *cookie);
        let (floor_ns, events) = (*floor_ns, &mut self.events);
        let teller =
            Teller { at, observer, lines, place, causes, examiner, socket, floor_ns, events };
        Some((watched, teller))
    }

    fn push(&mut self, at: usize, arrival: &Arrival<'_>, observer: &mut dyn Observer) {
        let Some((watched, mut teller)) = self.teller(at, observer) else { return };
        let restarts = watched.counts.restarts;
        let has_number = watched.push(arrival, |event| teller.tell(&event));
        let is_new = watched.counts.restarts > restarts;
        let Some((pair, path)) = self.streams[at].pair else { return };
        let (_, pair) = &mut self.pairs[pair];
        if is_new {
            pair.restart();
        }
        if has_number && let Some(header) = rtp::Header::read(arrival.payload, arrival.len) {
            pair.push(path, header.sequence, arrival.at_ns);
        }
    }

    /// Looks at a stream of which no packet waits.
    fn look_at(&mut self, at: usize, observer: &mut dyn Observer) {
        let Some((watched, mut teller)) = self.teller(at, observer) else { return };
        watched.look(monotonic_ns(), |event| teller.tell(&event));
    }

    /// Looks at sockets, clocks and causes.
    fn look(&mut self, receivers: &[Receiver], observer: &mut dyn Observer) {
        let found = self.examiner.iter().flat_map(Examiner::concluded).collect();
        self.conclude(found, observer);
        self.now_ns = monotonic_ns();
        self.day_offset_ns = realtime_ns() as i64 - self.now_ns as i64;
        for (stream, receiver) in self.streams.iter_mut().zip(receivers) {
            stream.dropped = receiver.dropped(stream.dropped).unwrap_or(stream.dropped);
            stream.room = receiver.room_bytes().unwrap_or(stream.room);
            stream.floor_ns = stream.watched.floor_ns();
            stream.causes.keep(stream.watched.worst());
        }
    }

    /// Takes causes that were found.
    fn conclude(&mut self, found: Vec<Conclusion>, observer: &mut dyn Observer) {
        for mut one in found {
            let LateEpisode { stream, episode, is_kept, .. } = one.told;
            let stream = &mut self.streams[stream];
            if is_kept {
                let place = (stream.name.as_str(), self.day_offset_ns);
                let (event, causes) = (Event::Late(episode), Some(one.text.as_str()));
                keep(&mut self.events, place, (&event, causes), observer);
            }
            if let Some(line) = one.told.line.take() {
                observer.say(Level::Warning, &format!("{line}: {}", one.text));
            }
            stream.causes.add(one);
        }
    }

    fn finish(&mut self, observer: &mut dyn Observer) {
        for at in 0..self.streams.len() {
            let Some((watched, mut teller)) = self.teller(at, observer) else { continue };
            watched.finish(|event| teller.tell(&event));
        }
        let found = self.examiner.take().map(Examiner::finish);
        self.conclude(found.into_iter().flatten().collect(), observer);
        for Stream { lines, name, .. } in &mut self.streams {
            lines.finish(name).iter().for_each(|line| observer.say(Level::Notice, line));
        }
    }
}

/// Reports the events of a stream, and has late packets examined.
struct Teller<'s> {
    at: usize,
    observer: &'s mut dyn Observer,
    lines: &'s mut Lines,
    /// Its name, and time of day minus monotonic time.
    place: (&'s str, i64),
    causes: &'s mut Causes,
    examiner: Option<&'s mut Examiner<LateEpisode, Conclusion>>,
    socket: u32,
    floor_ns: u64,
    events: &'s mut Option<(EventFile, bool)>,
}

impl Teller<'_> {
    fn tell(&mut self, event: &Event) {
        let mut line = self.lines.of(self.place, event);
        let matters = matches!(event, Event::Late(episode) if episode.late_ns() > self.floor_ns);
        // The file has what a line tells of, and the worst.
        let is_kept = line.is_some() || matters;
        if let (Event::Late(episode), Some(examiner)) = (event, &mut self.examiner) {
            let told = LateEpisode { stream: self.at, episode: *episode, line, is_kept };
            let Err(told) =
                examiner.ask(told, LatePacket::new(&episode.worst, self.socket), matters)
            else {
                return;
            };
            self.causes.unexamined += episode.packets;
            line = told.line;
        }
        if is_kept {
            keep(self.events, self.place, (event, None), self.observer);
        }
        if let Some(line) = line {
            self.observer.say(Level::Warning, &line);
        }
    }
}

/// Writes an event to the file, if there is one. If that fails, it is said once until it works again.
fn keep(
    events: &mut Option<(EventFile, bool)>,
    place: (&str, i64),
    (event, causes): (&Event, Option<&str>),
    observer: &mut dyn Observer,
) {
    let Some((file, has_failed)) = events else { return };
    match file.write(place, event, causes) {
        Ok(()) if *has_failed => {
            let line = format!("events are written to {} again", file.path().display());
            observer.say(Level::Notice, &line);
            *has_failed = false;
        }
        Ok(()) => {}
        Err(_) if *has_failed => {}
        Err(error) => {
            let path = file.path().display();
            let line = format!(
                "an event was not written to {path}: {error}; the next ones are tried, without a line"
            );
            observer.say(Level::Warning, &line);
            *has_failed = true;
        }
    }
}

fn untraced(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    WatchingError::Trace(Box::new(error)).into()
}

fn failed(error: WatchError) -> Error {
    match error {
        WatchError::Source { .. } | WatchError::Families { .. } => Failure::Usage.with(error),
        _ => Failure::Attach.with(error),
    }
}
