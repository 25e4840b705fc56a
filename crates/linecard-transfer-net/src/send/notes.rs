//! Remarks about lanes that carry nothing, stopped answering, or share a link.

use super::path::{LaneProblem, Path};
use super::silence::Silence;
use linecard::time::Instant;
use linecard_transfer::lane::{LaneSender, LaneState};
use linecard_transfer::send::Sender;
use std::time::Duration;

/// Probes without an answer after which a lane is reported as unreachable.
const UNANSWERED: u64 = 3;
/// How long a lane may take to be reached during the transfer, in ns.
pub(super) const REACH_NS: u64 = 2_000_000_000;

/// How long all lanes may take until the first is answered, in ns.
const ANSWER_NS: u64 = 3_000_000_000;

/// Behind the name of an interface.
pub(super) const DOWN: &str = "is down or has no carrier";

/// Lines for the user, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    lines: Vec<String>,
    /// Bit i: lane i was said not to be reached.
    unreached: u64,
    /// Of each lane.
    silences: Vec<Silence>,
    /// The line that says that a lane has stopped answering.
    silent: Vec<Option<usize>>,
    /// It was said that no lane is answered yet, or any more.
    none_answered: bool,
    none_answers: bool,
    start: Instant,
}

impl Notes {
    /// Remarks after the lanes have been opened.
    pub(super) fn of(paths: &[Path]) -> Self {
        let mut notes = Self { silent: vec![None; paths.len()], ..Self::default() };
        for (lane, path) in paths.iter().enumerate() {
            match &path.problem {
                None | Some(LaneProblem::Elsewhere) => {}
                Some(problem @ LaneProblem::Refused { .. }) => {
                    notes.add(lane, path, &format!("{problem}; nothing goes over it"));
                }
                Some(problem @ LaneProblem::Closed { .. }) => {
                    notes.add(lane, path, &format!("{problem}; it is tried again"));
                }
            }
            // Of an interface that is down, that is said.
            if let Some(detour) = path.detour.as_ref().filter(|_| path.down().is_none()) {
                notes.add(lane, path, detour);
            }
        }
        notes
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Lanes are probed from now on.
    pub(super) fn start(&mut self, start: Instant) {
        self.start = start;
        self.silences = vec![Silence::from(start); self.silent.len()];
    }

    /// `lane` answers, or has stopped answering.
    pub(super) fn turned(&mut self, lane: usize, is_up: bool, now: Instant) {
        match self.silences.get_mut(lane) {
            Some(silence) if is_up => silence.ended(now),
            Some(silence) => silence.began(now),
            None => {}
        }
    }

    /// How long `lane` was not alive.
    pub(super) fn silent_for(&self, lane: usize, now: Instant) -> Duration {
        self.silences.get(lane).map_or(Duration::ZERO, |silence| silence.total(now))
    }

    /// Reports lanes that have stopped answering: each while others work, and once that none does.
    pub(super) fn report_silence(&mut self, paths: &[Path], sender: &Sender, now: Instant) {
        let state = |lane: usize| sender.lane(lane).map(LaneSender::state);
        if !(0..paths.len()).any(|lane| state(lane) == Some(LaneState::Alive)) {
            self.report_all_silent(paths, now);
            return;
        }
        for (lane, path) in paths.iter().enumerate() {
            // The reason of a closed one was reported already.
            let is_silent = state(lane) == Some(LaneState::Suspect);
            let Some(silence) = self.silences.get(lane).filter(|_| is_silent) else { continue };
            if self.silent[lane].is_none()
                && let Some(text) = silence.running(self.start, now, || path.down())
            {
                self.silent[lane] = Some(self.lines.len());
                self.add(lane, path, &text);
            }
        }
    }

    /// Whether `lane` has stopped answering for longer than a burst of losses takes.
    pub(super) fn is_long_silent(&self, lane: usize, now: Instant) -> bool {
        self.silences.get(lane).is_some_and(|silence| silence.is_long(now))
    }

    fn report_all_silent(&mut self, paths: &[Path], now: Instant) {
        let mut lanes = 0..self.silences.len();
        if lanes.any(|lane| self.is_long_silent(lane, now)) && !self.none_answers {
            self.none_answers = true;
            let mut text = "no lane is answered any more".to_owned();
            if let Some(down) = paths.iter().find_map(Path::down) {
                text += &format!(", and {down} {DOWN}");
            }
            self.lines.push(text + ": all are probed, as long as --patience allows");
        }
        let is_late = now.ns_since(self.start) >= ANSWER_NS;
        let has_answered = self.silences.iter().any(Silence::has_ended);
        if is_late && !has_answered && !self.none_answered {
            self.none_answered = true;
            let down = paths.iter().find_map(Path::down);
            let why = down.map(|down| format!("{down} {DOWN}"));
            let why = why.unwrap_or_else(|| "a firewall may be in the way".into());
            self.lines.push(format!(
                "no lane is answered yet: {why}. All are probed, as long as --patience allows"
            ));
        }
    }

    /// Says for how long lanes did not answer, in place of that they have stopped.
    pub(super) fn sum_up_silence(&mut self, paths: &[Path], sender: &Sender, now: Instant) {
        for (lane, path) in paths.iter().enumerate() {
            let state = sender.lane(lane).map_or(LaneState::Closed, LaneSender::state);
            let is_shown = state != LaneState::Closed && path.is_shown(state);
            let silence = self.silences.get(lane).filter(|_| is_shown);
            let Some(text) = silence.and_then(|silence| silence.summary(self.start, now)) else {
                continue;
            };
            match self.silent[lane] {
                Some(at) => self.lines[at] = line(lane, path, &text),
                None => self.add(lane, path, &text),
            }
        }
    }

    /// A line about `lane`, which users count from 1.
    pub(super) fn add(&mut self, lane: usize, path: &Path, text: &str) {
        self.lines.push(line(lane, path, text));
    }

    /// Looks for lanes without any answer while others work. Gives those that are spare.
    pub(super) fn look(&mut self, paths: &[Path], sender: &Sender) -> Vec<usize> {
        let mut spares = Vec::new();
        let has = |state| {
            (0..paths.len()).any(|lane| sender.lane(lane).is_some_and(|lane| lane.state() == state))
        };
        if !has(LaneState::Alive) || !has(LaneState::Validating) {
            return spares;
        }
        for (lane, path) in paths.iter().enumerate() {
            let Some(sending) = sender.lane(lane) else { continue };
            let is_unreached = path.problem.is_none()
                && sending.state() == LaneState::Validating
                && sending.counters.probes >= UNANSWERED;
            if is_unreached && path.is_spare {
                spares.push(lane);
            } else if is_unreached && self.unreached >> lane & 1 == 0 {
                self.unreached |= 1 << lane;
                let text = match path.down() {
                    Some(down) => format!("not reached: {down} {DOWN}; nothing goes over it"),
                    None => format!(
                        "not reached: nobody answers at {}; nothing goes over it. Likely a firewall, or on \
                         a host with several interfaces strict reverse-path filtering (rp_filter = 1) or \
                         arp_ignore",
                        path.peer
                    ),
                };
                self.add(lane, path, &text);
            }
        }
        spares
    }
}

fn line(lane: usize, path: &Path, text: &str) -> String {
    format!("lane {} ({path}): {text}", lane + 1)
}
