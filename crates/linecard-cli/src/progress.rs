//! How far what takes a while has come: a bar on a terminal, or the watch of a job.

use crate::watch;
use indicatif::{ProgressBar, ProgressStyle};
use linecard::watch::Watch;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

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
    /// Whoever has one shows it in a way of their own.
    watch: Option<Arc<Watch>>,
    next: u64,
    step: u64,
}

impl Progress {
    /// For reading `input`; no bar when it is short or nobody would see it.
    pub(crate) fn for_input(input: &Path) -> Self {
        let len = std::fs::metadata(input).map(|data| data.len()).unwrap_or(0);
        let style = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        Self { next: STEP, step: STEP, ..Self::new(len, LONG, style) }
    }

    /// For so many points of a sweep; no bar when they are few or nobody would see it.
    pub(crate) fn for_points(points: u64) -> Self {
        Self::new(points, MANY, "{bar:40} {human_pos} of {human_len} points, {eta} left")
    }

    /// For so many rounds of a measurement, of a second or so each; no bar when nobody would see it.
    pub(crate) fn for_rounds(rounds: u64) -> Self {
        Self::new(rounds, 0, "{bar:40} round {human_pos} of {human_len}, {eta} left")
    }

    fn new(all: u64, long: u64, style: &str) -> Self {
        let watch = watch::current();
        if let Some(watch) = &watch {
            watch.expect(all as usize);
        }
        let shown = watch.is_none() && all >= long && std::io::stderr().is_terminal();
        Self { bar: shown.then(|| bar(all, style)), watch, next: 0, step: 1 }
    }

    /// It has come to `offset`.
    pub(crate) fn at(&mut self, offset: u64) {
        if let Some(watch) = &self.watch {
            watch.reach(offset as usize);
        }
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
