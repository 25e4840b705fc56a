//! The progress of a transfer, on a terminal only.

use crate::say;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Over which time rates of lanes are taken.
const SPAN: Duration = Duration::from_millis(500);
/// Lanes whose rates fit into a line.
const MAX_SHOWN: usize = 16;

/// A bar with the rate of each lane; nothing without a terminal.
#[derive(Debug)]
pub(super) struct Bar(Mutex<State>);

#[derive(Debug)]
struct State {
    bar: Option<ProgressBar>,
    /// Bytes of each lane, and when that was.
    before: (Instant, Vec<u64>),
}

impl Bar {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::new()))
    }

    /// The bytes done, of a total if it is known, and the bytes that lanes have sent.
    pub(super) fn show(&self, done: u64, total: Option<u64>, lanes: impl Iterator<Item = u64>) {
        let mut state = self.state();
        // Not before there is something to show: printed lines redraw it.
        state.bar = state.bar.take().or_else(new_bar);
        let State { bar: Some(bar), before: (at, before) } = &*state else { return };
        if bar.length() != total {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_style(style(
                "{bar:30} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left{wide_msg}",
            ));
            // Data that was stored before is not counted as sent.
            bar.set_position(done);
            bar.reset_eta();
        }
        bar.set_position(done);
        let elapsed = at.elapsed();
        if before.is_empty() || elapsed >= SPAN {
            let bytes: Vec<u64> = lanes.collect();
            bar.set_message(rates(before, &bytes, elapsed));
            state.before = (Instant::now(), bytes);
        }
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, text: &str) {
        match &self.state().bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// Removes the bar; the next transfer has a new one.
    pub(super) fn done(&self) {
        let mut state = self.state();
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
        *state = State::new();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> Self {
        Self { bar: None, before: (Instant::now(), Vec::new()) }
    }
}

fn new_bar() -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::no_length();
        bar.set_style(style("{decimal_bytes}, {decimal_bytes_per_sec}{wide_msg}"));
        bar
    })
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Rate of each lane, in Mbit/s, and how many carry something if not all do.
fn rates(before: &[u64], now: &[u64], elapsed: Duration) -> String {
    if before.len() != now.len() || now.is_empty() {
        return String::new();
    }
    let rate = |(before, now): (&u64, &u64)| {
        let bits = now.saturating_sub(*before) as f64 * 8.0;
        format!("{:.0}", bits / elapsed.as_secs_f64().max(1e-3) / 1e6)
    };
    let shown: Vec<String> = before.iter().zip(now).take(MAX_SHOWN).map(rate).collect();
    let more = if now.len() > MAX_SHOWN { " …" } else { "" };
    let used = before.iter().zip(now).filter(|(before, now)| now > before).count();
    let used = match used < now.len() {
        true => format!("; {used} of {} lanes in use", now.len()),
        false => "; lanes".to_owned(),
    };
    format!("{used}: {}{more} Mbit/s", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_lanes() {
        let second = Duration::from_secs(1);
        assert_eq!(rates(&[], &[1], second), "");
        assert_eq!(rates(&[0, 1_000_000], &[1_000_000, 2_000_000], second), "; lanes: 8 8 Mbit/s");
        let one = rates(&[0, 1_000_000], &[1_000_000, 1_000_000], second);
        assert_eq!(one, "; 1 of 2 lanes in use: 8 0 Mbit/s");
        assert!(rates(&[0; 64], &[0; 64], second).ends_with("0 … Mbit/s"));
    }
}
