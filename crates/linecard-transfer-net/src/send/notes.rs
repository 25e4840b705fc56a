//! What the user is told about lanes that carry nothing, or share a link.

use super::path::Path;
use linecard_transfer::lane::LaneState;
use linecard_transfer::send::Sender;

/// Probes without an answer after which a lane is said not to be reached.
const UNANSWERED: u64 = 3;
/// How long a lane may take to be reached while the transfer goes on, in ns.
pub(super) const REACH_NS: u64 = 2_000_000_000;

/// Lines for the user, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    lines: Vec<String>,
    /// Bit i: lane i was said not to be reached.
    unreached: u64,
}

impl Notes {
    /// What is known when the lanes have been opened.
    pub(super) fn of(paths: &[Path]) -> Self {
        let mut notes = Self::default();
        for (lane, path) in paths.iter().enumerate() {
            if let Some(problem) = &path.problem {
                notes.add(lane, path, &format!("{problem}; nothing goes over it"));
            }
            if let Some(detour) = &path.detour {
                notes.add(lane, path, detour);
            }
        }
        notes
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// A line about `lane`, which users count from 1.
    pub(super) fn add(&mut self, lane: usize, path: &Path, text: &str) {
        self.lines.push(format!("lane {} ({path}): {text}", lane + 1));
    }

    /// Looks for lanes that nobody has answered on while others work.
    pub(super) fn look(&mut self, paths: &[Path], sender: &Sender) {
        let has = |state| {
            (0..paths.len()).any(|lane| sender.lane(lane).is_some_and(|lane| lane.state() == state))
        };
        if !has(LaneState::Alive) || !has(LaneState::Validating) {
            return;
        }
        for (lane, path) in paths.iter().enumerate() {
            let Some(sending) = sender.lane(lane) else { continue };
            let is_unreached = path.problem.is_none()
                && sending.state() == LaneState::Validating
                && sending.counters.probes >= UNANSWERED;
            if is_unreached && self.unreached >> lane & 1 == 0 {
                self.unreached |= 1 << lane;
                let text = format!(
                    "not reached: nobody answers at {}; nothing goes over it. Likely a firewall, or on \
                     a host with several interfaces strict reverse-path filtering (rp_filter = 1) or \
                     arp_ignore",
                    path.peer
                );
                self.add(lane, path, &text);
            }
        }
    }
}
