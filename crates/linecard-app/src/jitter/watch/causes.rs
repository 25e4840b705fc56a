//! Causes of late packets, as the trace has them: totals of a stream, and the text of each.

use linecard_jitter::ledger::{Cause, Spike};
use linecard_jitter::media::live::Episode;
use linecard_jitter::trace::Names;
use linecard_report::Value;
use std::collections::BTreeMap;

/// Different causes of a stream; others than these have one sum.
const MAX_CAUSES: usize = 64;
/// Causes in a text, and the smallest share of a delay that one has there.
const TOLD: usize = 3;
const SHARE: f64 = 0.1;
/// Delays whose texts are kept until it is known which are the worst.
const MAX_TEXTS: usize = 2_048;

/// The causes of a stream's late packets.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// By kind and text.
    pub(super) totals: BTreeMap<(&'static str, String), Total>,
    /// Late packets that were not examined.
    pub(super) unexamined: u64,
    /// By time and number of the worst packet.
    texts: BTreeMap<(u64, i64), String>,
}

/// Late packets of a cause.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    /// Packets whose delay is mainly of this cause, with those that were late together with one.
    pub(super) packets: u64,
    /// The same as episodes.
    pub(super) episodes: u64,
    /// Time of the examined packets that is charged to it.
    pub(super) ns: u64,
}

/// Late packets to be examined.
#[derive(Debug)]
pub(super) struct LateEpisode {
    /// Their stream.
    pub(super) stream: usize,
    pub(super) episode: Episode,
    /// The line about them, if there is to be one.
    pub(super) line: Option<String>,
    /// The file of events has them.
    pub(super) is_kept: bool,
}

/// Their causes.
#[derive(Debug)]
pub(super) struct Conclusion {
    pub(super) told: LateEpisode,
    /// Kind and text of each cause, and the time charged to it, the largest first.
    causes: Vec<(&'static str, String, u64)>,
    pub(super) text: String,
}

impl Conclusion {
    pub(super) fn of(told: LateEpisode, spike: &Spike, names: &Names) -> Self {
        let named = |(cause, ns): (Cause, u64)| (cause.kind(), cause.group(names), ns);
        let causes = spike.by_cause().into_iter().map(named).collect();
        Self { told, causes, text: text(spike, names) }
    }
}

impl Causes {
    /// Adds what was found out about late packets.
    pub(super) fn add(&mut self, Conclusion { told, causes, text }: Conclusion) {
        for (at, (kind, name, ns)) in causes.into_iter().enumerate() {
            let total = self.total((kind, name));
            total.ns = total.ns.saturating_add(ns);
            if at == 0 {
                total.packets += told.episode.packets;
                total.episodes += 1;
            }
        }
        if self.texts.len() >= MAX_TEXTS {
            self.texts.pop_first();
        }
        let worst = told.episode.worst;
        self.texts.insert((worst.at_ns, worst.number), text);
    }

    fn total(&mut self, key: (&'static str, String)) -> &mut Total {
        let is_new = self.totals.len() >= MAX_CAUSES && !self.totals.contains_key(&key);
        let key = if is_new { (key.0, "others".to_owned()) } else { key };
        self.totals.entry(key).or_default()
    }

    /// The text about the worst packet of an episode.
    pub(super) fn text(&self, episode: &Episode) -> Option<&String> {
        self.texts.get(&(episode.worst.at_ns, episode.worst.number))
    }

    /// Forgets the texts of episodes that are not among the worst any more.
    pub(super) fn keep(&mut self, worst: &[Episode]) {
        if self.texts.len() > MAX_TEXTS / 2 {
            let is_worst = |&(at_ns, number): &(u64, i64)| {
                worst.iter().any(|one| (one.worst.at_ns, one.worst.number) == (at_ns, number))
            };
            self.texts.retain(|key, _| is_worst(key));
        }
    }

    /// Packets and time by kind of cause.
    pub(super) fn kinds(&self) -> BTreeMap<&'static str, Total> {
        let mut kinds: BTreeMap<&'static str, Total> = BTreeMap::new();
        for ((kind, _), total) in &self.totals {
            let sum = kinds.entry(kind).or_default();
            sum.packets += total.packets;
            sum.episodes += total.episodes;
            sum.ns = sum.ns.saturating_add(total.ns);
        }
        kinds
    }
}

/// The main causes of a delay: "thread backup (4711) 2.10 ms, softirq `NET_RX` 310 µs".
fn text(spike: &Spike, names: &Names) -> String {
    let least = spike.excess_ns as f64 * SHARE;
    let causes = spike.by_cause().into_iter().take(TOLD).enumerate();
    let told = causes.filter(|(at, (_, ns))| *at == 0 || *ns as f64 >= least);
    let told =
        told.map(|(_, (cause, ns))| format!("{} {}", cause.describe(names), Value::Ns(ns as f64)));
    told.collect::<Vec<_>>().join(", ")
}
