//! A bar on a terminal that shows the progress of a job.

use indicatif::{ProgressBar, ProgressStyle};
use linecard::progress::Progress;
use std::io::IsTerminal;
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
pub(crate) fn shown<R>(kind: Kind, progress: &Progress, job: impl FnOnce() -> R) -> R {
    if !std::io::stderr().is_terminal() {
        return job();
    }
    thread::scope(|scope| {
        // Dropped when the job ends, also by a panic.
        let (running, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut shown: Option<ProgressBar> = None;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let (done, all) = progress.counts();
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

fn bar(len: u64, style: &str) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let style = ProgressStyle::with_template(style);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
