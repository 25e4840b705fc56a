//! A bar on a terminal that shows the progress of a job.

use crate::watch;
use indicatif::{ProgressBar, ProgressStyle};
use linecard::watch::Watch;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Time between two looks at the progress.
const INTERVAL: Duration = Duration::from_millis(100);

/// A kind of bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// The template of the bar, as `indicatif` reads it.
    template: &'static str,
    /// A job with less to do is done before a bar can be read.
    least: usize,
}

/// Bytes of a capture.
pub(crate) const BYTES: Kind = Kind {
    template: "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    least: 64 << 20,
};
/// Points of a sweep.
pub(crate) const POINTS: Kind =
    Kind { template: "{bar:40} {human_pos} of {human_len} points, {eta} left", least: 2_000 };
/// Rounds of a measurement, of a second or so each.
pub(crate) const ROUNDS: Kind =
    Kind { template: "{bar:40} round {human_pos} of {human_len}, {eta} left", least: 1 };

/// Runs a job. Where stderr is a terminal, and the job expects enough to do, a bar shows its progress until it ends.
pub(crate) fn shown<R>(kind: Kind, progress: &Watch, job: impl FnOnce() -> R) -> R {
    if !std::io::stderr().is_terminal() {
        return job();
    }
    thread::scope(|scope| {
        // Dropped when the job ends, also by a panic.
        let (running, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut shown: Option<ProgressBar> = None;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let (done, all) = progress.progress();
                if all >= kind.least.max(1) {
                    let bar = shown.get_or_insert_with(|| bar(all as u64, kind.template));
                    bar.set_length(all as u64);
                    bar.set_position(done as u64);
                }
            }
            if let Some(bar) = shown {
                bar.finish_and_clear();
            }
        });
        let result = job();
        drop(running);
        result
    })
}

/// Bytes between updates.
const STEP: u64 = 4 << 20;

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
        Self { next: STEP, step: STEP, ..Self::new(len, BYTES) }
    }

    /// For so many points of a sweep; no bar when they are few or nobody would see it.
    pub(crate) fn for_points(points: u64) -> Self {
        Self::new(points, POINTS)
    }

    fn new(all: u64, Kind { template, least }: Kind) -> Self {
        let watch = watch::current();
        if let Some(watch) = &watch {
            watch.expect(all as usize);
        }
        let shown = watch.is_none() && all >= least as u64 && std::io::stderr().is_terminal();
        Self { bar: shown.then(|| bar(all, template)), watch, next: 0, step: 1 }
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
