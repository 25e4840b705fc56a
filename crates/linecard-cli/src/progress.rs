//! A progress bar for captures that take a while, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;

/// Below this a capture is done before a bar can be read.
const LONG: u64 = 64 << 20;
/// Bytes between updates.
const STEP: u64 = 4 << 20;

/// Shows how far a capture has been read.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    next: u64,
}

impl Progress {
    /// A bar for reading `input`, nothing when it is short or nobody would see it.
    pub(crate) fn for_input(input: &Path) -> Self {
        let len = std::fs::metadata(input).map(|data| data.len()).unwrap_or(0);
        let shown = len >= LONG && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(len);
            let style = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        Self { bar, next: STEP }
    }

    /// Reading has come to `offset`.
    pub(crate) fn at(&mut self, offset: u64) {
        if offset >= self.next {
            self.next = offset + STEP;
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
