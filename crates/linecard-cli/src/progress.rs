//! A progress bar for what takes a while, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;

/// Below this a capture is done before a bar can be read.
const LONG: u64 = 64 << 20;
/// Bytes between updates.
const STEP: u64 = 4 << 20;

/// Below this a sweep is done before a bar can be read.
const MANY: u64 = 2_000;

/// Shows how far a capture has been read, or how many points of a sweep are done.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    next: u64,
    step: u64,
}

impl Progress {
    /// A bar for reading `input`, nothing when it is short or nobody would see it.
    pub(crate) fn for_input(input: &Path) -> Self {
        let len = std::fs::metadata(input).map(|data| data.len()).unwrap_or(0);
        let shown = len >= LONG && std::io::stderr().is_terminal();
        let style = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        Self { bar: shown.then(|| bar(len, style)), next: STEP, step: STEP }
    }

    /// A bar for so many points of a sweep, nothing when they are few or nobody would see it.
    pub(crate) fn for_points(points: u64) -> Self {
        let shown = points >= MANY && std::io::stderr().is_terminal();
        let style = "{bar:40} {human_pos} of {human_len} points, {eta} left";
        Self { bar: shown.then(|| bar(points, style)), next: 0, step: 1 }
    }

    /// A bar for so many rounds of a measurement, of a second or so each; nothing when nobody would see
    /// it.
    pub(crate) fn for_rounds(rounds: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        let style = "{bar:40} round {human_pos} of {human_len}, {eta} left";
        Self { bar: shown.then(|| bar(rounds, style)), next: 0, step: 1 }
    }

    /// Reading has come to `offset`.
    pub(crate) fn at(&mut self, offset: u64) {
        if offset >= self.next {
            self.next = offset + self.step;
            if let Some(bar) = &self.bar {
                bar.set_position(offset);
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(len: u64, style: &str) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let style = ProgressStyle::with_template(style);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
