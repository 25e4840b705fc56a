//! Parameters and faults of a transfer, drawn from a seed.

use super::connection::ConnectionFault;
use super::lane::PathSettings;
use crate::control::Access;
use crate::end::Cores;
use crate::file::{Choice, ChunkBytes, Input};
use crate::lane::Spec;
use crate::receive::ReceiveOptions;
use crate::send::SendOptions;
use crate::send::simulated::Agreement;
use linecard::progress::Progress;
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::control::{LaneKind, Mode};
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::{AckSettings, Congestion};
use linecard_transfer::receive::ReceiveSettings;
use linecard_transfer::sim::{Faults, LinkSettings};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The patience of an end is one of these.
pub(super) const PATIENCES: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(40)];
/// How long an end may stand still that the other does not wait for, in ns.
const LONGEST_PAUSE_NS: u64 = 20_000_000_000;
/// The longest time for which a lane that others need is dead, in ns: its retries are seconds apart then.
const LONGEST_DEATH_NS: u64 = 2_000_000_000;
/// In this time news come over a lane that loses packets, in ns.
const NEWS_NS: u64 = 1_000_000_000;
/// Most of what happens does so before this, in ns after the start.
const EARLY_NS: u64 = 300_000_000;

/// How an end leaves before the transfer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyEnd {
    /// Its user stops it.
    Stops,
    /// It is killed, which its kernel says to the other if `is_heard`; otherwise its host is gone.
    Vanishes { is_heard: bool },
}

/// All parameters of a run.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) lanes: Vec<Spec>,
    pub(super) paths: Vec<PathSettings>,
    pub(super) control: ConnectionFault,
    pub(super) control_delay_ns: u64,
    pub(super) mode: Mode,
    pub(super) fec: Repair,
    pub(super) chunk_bytes: u32,
    pub(super) payload_bytes: u32,
    pub(super) window: u32,
    /// Of the receiver, for chunks.
    pub(super) memory_bytes: u64,
    /// The time that files take after a turn, in ns.
    pub(super) disk_ns: u64,
    /// Of the sender and of the receiver.
    pub(super) patience: [Duration; 2],
    /// 0 is the sender, 1 the receiver.
    pub(super) departure: Option<(EarlyEnd, usize, Instant)>,
    /// An end that stands still for a while.
    pub(super) pause: Option<(usize, Range<Instant>)>,
    /// The lengths of the files.
    pub(super) files: Vec<u64>,
    /// The sender asks before what it would send, and removes what only the receiver has.
    pub(super) is_dry: bool,
    pub(super) delete: bool,
    /// Each file has two names.
    pub(super) hard_links: bool,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// A number below one of these.
fn below(rng: &mut Rng, bounds: &[u64]) -> u64 {
    let bound = pick(rng, bounds);
    rng.below(bound)
}

/// A moment, mostly an early one.
fn moment(rng: &mut Rng) -> Instant {
    Instant::from_ns(1_000_000_000 + below(rng, &[EARLY_NS / 10, EARLY_NS, 10 * EARLY_NS]))
}

fn faults(rng: &mut Rng) -> Faults {
    let mut chance = |most: f64| {
        let often = rng.below(1_000) as f64 / 1_000.0;
        if rng.chance(0.4) { 0.0 } else { often * most }
    };
    let (loss, duplicate) = (chance(0.1), chance(0.1));
    Faults { loss, duplicate, reorder: chance(0.2), corrupt: chance(0.05), overtake: 0.0 }
}

fn path(rng: &mut Rng, is_needed: bool) -> PathSettings {
    let rate_bits_per_second = pick(rng, &[20_000_000, 200_000_000, 1_000_000_000]);
    let from = moment(rng);
    let until = match is_needed || rng.chance(0.5) {
        true => from.plus_ns(rng.below(LONGEST_DEATH_NS)),
        false => Instant::NEVER,
    };
    let dead = if rng.chance(0.3) { from..until } else { Instant::NEVER..Instant::NEVER };
    PathSettings {
        kind: LaneKind::Udp,
        visits: Vec::new(),
        link: LinkSettings {
            rate_bits_per_second,
            framing_bytes: 42,
            delay_ns: below(rng, &[100_000, 5_000_000, 40_000_000]),
            jitter_ns: if rng.chance(0.3) { rng.below(2_000_000) } else { 0 },
            queue_bytes: Some(20_000 + rng.below(200_000)),
            faults: faults(rng),
            dead,
        },
        rebinds: (0..pick(rng, &[0, 0, 0, 1, 3])).map(|_| moment(rng)).collect(),
        replayed: if rng.chance(0.2) { 0.05 } else { 0.0 },
        garbage: if rng.chance(0.2) { 0.1 } else { 0.0 },
        busy: if rng.chance(0.2) { 0.3 } else { 0.0 },
        is_noticed: rng.chance(0.3),
    }
}

/// Makes some lanes those over TCP.
fn make_streams(rng: &mut Rng, paths: &mut [PathSettings]) {
    if !rng.chance(0.3) {
        return;
    }
    for path in paths {
        if rng.chance(0.6) {
            path.kind = LaneKind::Tcp;
            path.visits = (0..pick(rng, &[0, 0, 1, 3, 20])).map(|_| moment(rng)).collect();
        }
    }
}

/// A control connection whose path is lost, for a while or forever.
fn lost(rng: &mut Rng) -> ConnectionFault {
    let from = moment(rng);
    let noticed = [(); 2].map(|()| from.plus_ns(below(rng, &[1_000_000_000, 20_000_000_000])));
    let until = match rng.chance(0.5) {
        true => from.plus_ns(below(rng, &[1_000_000_000, 10_000_000_000])),
        false => Instant::NEVER,
    };
    ConnectionFault::Lost { from, noticed, until }
}

impl Scenario {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        // The first lane always comes back.
        let mut paths: Vec<PathSettings> =
            (0..pick(rng, &[1, 2, 2, 3, 4])).map(|lane| path(rng, lane == 0)).collect();
        make_streams(&mut Rng::new(seed ^ 5), &mut paths);
        let lanes = paths.iter().map(|path| Spec {
            rate_bits_per_second: rng.chance(0.5).then_some(path.link.rate_bits_per_second),
            congestion: pick(rng, &[Congestion::Bbr, Congestion::Bbr, Congestion::Cubic]),
            ..Spec::new(path.kind, [127, 0, 0, 1].into())
        });
        let lanes = lanes.collect();
        let fec = ["none", "none", "auto", "auto", "xor:5", "rs:4,2", "rs:28,4", "duplicate"];
        let control = match rng.below(10) {
            0 => ConnectionFault::Cut(moment(rng)),
            1..=3 => lost(rng),
            _ => ConnectionFault::Lives,
        };
        let departure = rng.chance(0.2).then(|| {
            let how = match rng.below(3) {
                0 => EarlyEnd::Stops,
                heard => EarlyEnd::Vanishes { is_heard: heard == 1 },
            };
            (how, rng.below(2) as usize, moment(rng))
        });
        let pause = rng.chance(0.1).then(|| {
            let from = moment(rng);
            let most = pick(rng, &[LONGEST_DEATH_NS, LONGEST_DEATH_NS, LONGEST_PAUSE_NS]);
            (rng.below(2) as usize, from..from.plus_ns(rng.below(most)))
        });
        Self {
            seed,
            lanes,
            paths,
            control,
            control_delay_ns: rng.below(40_000_000),
            mode: pick(rng, &[Mode::Stable, Mode::LowLatency, Mode::Auto]),
            fec: pick(rng, &fec).parse().expect("a known code"),
            chunk_bytes: 4_096 << rng.below(5),
            payload_bytes: pick(rng, &[512, 1_408, 1_408, 4_096]),
            window: 4 + rng.below(60) as u32,
            memory_bytes: memory_bytes(seed),
            disk_ns: below(rng, &[10_000, 1_000_000, 30_000_000]),
            patience: [pick(rng, &PATIENCES), pick(rng, &PATIENCES)],
            departure,
            pause,
            files: (0..1 + rng.below(6)).map(|_| length(rng)).collect(),
            is_dry: false,
            delete: rng.chance(0.3),
            hard_links: seed.is_multiple_of(3),
        }
    }

    /// The same transfer once more, when nothing goes wrong.
    pub(super) fn once_more(&self) -> Self {
        let path = |path: &PathSettings| PathSettings {
            link: LinkSettings {
                faults: Faults::default(),
                dead: Instant::NEVER..Instant::NEVER,
                ..path.link.clone()
            },
            kind: path.kind,
            visits: Vec::new(),
            rebinds: Vec::new(),
            replayed: 0.0,
            garbage: 0.0,
            busy: 0.0,
            is_noticed: false,
        };
        Self {
            seed: !self.seed,
            paths: self.paths.iter().map(path).collect(),
            control: ConnectionFault::Lives,
            departure: None,
            pause: None,
            ..self.clone()
        }
    }

    /// The same transfer, of which the sender only asks what it would send.
    pub(super) fn dry(&self) -> Self {
        Self { is_dry: true, ..self.clone() }
    }

    /// Whether nothing happens that may end a transfer.
    pub(super) fn must_complete(&self) -> bool {
        let is_kept = match self.control {
            ConnectionFault::Lives => true,
            ConnectionFault::Cut(_) => false,
            ConnectionFault::Lost { noticed, until, .. } => {
                let (first, last) = (noticed[0].min(noticed[1]), noticed[0].max(noticed[1]));
                // A reset is no end if the news came over lanes before it.
                let is_reset = (first..last).contains(&until);
                let is_told = until.ns_since(first) >= NEWS_NS && self.is_calm();
                !is_reset || is_told
            }
        };
        self.departure.is_none() && is_kept && !self.is_long_pause()
    }

    /// Whether an end stands still for so long that the other may give it up.
    pub(super) fn is_long_pause(&self) -> bool {
        let pause = self.pause.as_ref();
        pause.is_some_and(|(_, pause)| pause.end.ns_since(pause.start) > LONGEST_DEATH_NS)
    }

    /// Whether no lane dies or moves, and no end stands still.
    fn is_calm(&self) -> bool {
        let is_calm = |path: &PathSettings| path.link.dead.is_empty() && path.rebinds.is_empty();
        self.pause.is_none() && self.paths.iter().all(is_calm)
    }

    /// From then on an end can have a turn.
    pub(super) fn running_from(&self, end: usize, at: Instant) -> Instant {
        match &self.pause {
            Some((who, pause)) if *who == end && pause.contains(&at) => pause.end,
            _ => at,
        }
    }

    /// With a receiver that takes so many chunks at first.
    pub(super) fn agreement(&self, window_chunks: u32) -> Agreement {
        Agreement {
            payload_bytes: self.payload_bytes,
            connection: self.seed as u32,
            window_chunks,
            seed: self.seed ^ 2,
        }
    }

    pub(super) fn receive_settings(&self) -> ReceiveSettings {
        ReceiveSettings {
            connection: self.seed as u32,
            lanes: self.lanes.len(),
            payload_bytes: self.payload_bytes,
            chunk_bytes: self.chunk_bytes,
            fec: self.fec.scheme(),
            window: self.window,
            memory_bytes: self.memory_bytes,
            ack: AckSettings::default(),
        }
    }

    pub(super) fn send_options(&self, from: &Path) -> SendOptions {
        SendOptions {
            input: Input::Paths(vec![from.into()]),
            choice: Choice { hard_links: self.hard_links, ..Choice::default() },
            dry_run: self.is_dry,
            delete: self.delete,
            max_delete: Some(100),
            peer: ([203, 0, 113, 1], 7_000).into(),
            name: "memory".into(),
            access: Access::Open,
            lanes: self.lanes.clone(),
            rate_bits_per_second: None,
            mode: self.mode,
            fec: self.fec,
            chunk_bytes: ChunkBytes::new(self.chunk_bytes.into()).expect("a power of two"),
            payload_bytes: Some(self.payload_bytes),
            cores: Cores::default(),
            patience: self.patience[0],
            stop: Arc::new(Progress::new()),
        }
    }

    pub(super) fn receive_options(&self, into: &Path) -> ReceiveOptions {
        ReceiveOptions {
            folder: Some(into.into()),
            bucket: None,
            overwrite: false,
            allow_delete: true,
            allow_links_out: false,
            access: Access::Open,
            lanes: Vec::new(),
            at_once: None,
            memory_bytes: 1 << 26,
            cores: Cores::default(),
            patience: self.patience[1],
            stop: Arc::new(Progress::new()),
        }
    }
}

/// In one of three cases, less than the window may have. Drawn apart, so that the other values of a seed stay.
fn memory_bytes(seed: u64) -> u64 {
    let mut rng = Rng::new(!seed);
    if rng.chance(0.33) { rng.below(1 << 18) } else { u64::MAX }
}

/// Of a file: empty, less than a packet, or some chunks.
fn length(rng: &mut Rng) -> u64 {
    below(rng, &[1, 2, 1_000, 20_000, 20_000, 300_000])
}
