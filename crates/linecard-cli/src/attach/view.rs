//! The live view: drawn over itself on a terminal, with plain ANSI sequences.
//!
//! It goes to stderr, so that stdout has only data. The cursor stays visible below it and never moves above its top, so
//! that nothing has to be restored, however the process ends.

use linecard_app::attach::{PortRates, Rates, Reasons, WorkerRates};
use linecard_report::Value;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use terminal_size::terminal_size_of;

/// Reasons of a kind that are named.
const REASONS: usize = 4;

/// Room on a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Size {
    /// The size of terminals that do not report one.
    const USUAL: Self = Self { width: 80, height: 24 };
}

/// A view on stderr.
#[derive(Debug)]
pub(super) struct View {
    /// Lines drawn before.
    lines: usize,
}

impl View {
    /// None without a terminal.
    pub(super) fn on_terminal() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        (io::stderr().is_terminal() && !is_dumb).then_some(Self { lines: 0 })
    }

    /// Draws over what was drawn before. What the terminal does not take is not seen.
    pub(super) fn show(&mut self, rates: &Rates, elapsed: Duration) {
        let size = terminal_size_of(io::stderr()).map_or(Size::USUAL, |(width, height)| Size {
            width: width.0.into(),
            height: height.0.into(),
        });
        let text = draw(rates, elapsed, size);
        let frame = frame(&text, self.lines.min(size.height.saturating_sub(1)));
        self.lines = text.lines().count();
        let _seen = io::stderr().lock().write_all(frame.as_bytes());
    }
}

/// The text, over as many lines as were there before.
fn frame(text: &str, before: usize) -> String {
    let mut frame = String::new();
    if before > 0 {
        frame.push_str(&format!("\x1b[{before}A"));
    }
    // A line is cleared before it is written: behind a full one the cursor still stands on it.
    text.lines().for_each(|line| frame.push_str(&format!("\r\x1b[K{line}\n")));
    frame.push_str("\x1b[J");
    frame
}

/// The view, at most as large as the terminal, with the cursor's line below it.
pub(super) fn draw(rates: &Rates, elapsed: Duration, size: Size) -> String {
    let mut lines = totals(rates, elapsed);
    lines.extend(reasons(rates));
    // One more for the cursor, one for the head of the table.
    let room = size.height.saturating_sub(lines.len() + 2);
    lines.extend(table(&rates.workers, room));
    lines.truncate(size.height.saturating_sub(1).max(1));
    let cut = lines.iter().map(|line| line.chars().take(size.width).collect::<String>());
    cut.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn totals(rates: &Rates, elapsed: Duration) -> Vec<String> {
    let port = |name: &str, port: &PortRates| {
        format!(
            "{name:<9}{:>14}{:>14}{:>17}{:>14}",
            count(port.received_packets_per_second),
            Value::BitRate(port.received_bits_per_second),
            count(port.transmitted_packets_per_second),
            Value::BitRate(port.transmitted_bits_per_second),
        )
    };
    let delay = |name: &str, port: &PortRates| {
        format!("{name} {} (half), {} (99 %)", ns(port.delay_ns_p50), ns(port.delay_ns_p99))
    };
    let merging = &rates.merging;
    vec![
        format!(
            "{:<9}{:>14}{:>14}{:>17}{:>14}",
            clock(elapsed),
            "received/s",
            "",
            "transmitted/s",
            ""
        ),
        port("near", &rates.near),
        port("far", &rates.far),
        format!("delay    {}, {}", delay("near", &rates.near), delay("far", &rates.far)),
        format!(
            "merged   {:.2} packets into one, held {} (half), {} (99 %), {} now",
            merging.mean_aggregate,
            ns(merging.hold_ns_p50),
            ns(merging.hold_ns_p99),
            Value::Count(merging.held),
        ),
    ]
}

/// Flushes and refusals with their reasons, a line each, if there were any.
fn reasons(rates: &Rates) -> Vec<String> {
    let named = |title: &str, list: String| format!("{title:<9}{list}");
    let mut lines = Vec::new();
    for (title, reasons) in [("flushed", &rates.flushed), ("apart", &rates.refused)] {
        if !reasons.0.is_empty() {
            lines.push(named(title, list(reasons, "").join(", ")));
        }
    }
    let mut lost = list(&rates.drops.near, "near ");
    lost.extend(list(&rates.drops.far, "far "));
    lost.extend(
        (rates.drops.rings > 0).then(|| format!("rings {}", Value::Count(rates.drops.rings))),
    );
    if !lost.is_empty() {
        lines.push(named("lost", lost.join(", ")));
    }
    lines
}

fn list(reasons: &Reasons, place: &str) -> Vec<String> {
    let named = reasons.0.iter().take(REASONS);
    named.map(|(name, count)| format!("{place}{name} {}", Value::Count(*count))).collect()
}

/// The workers, of which `room` rows can be shown.
fn table(workers: &[WorkerRates], room: usize) -> Vec<String> {
    let shown = if workers.len() > room { room.saturating_sub(1) } else { workers.len() };
    let mut lines = vec![format!(
        "{:<6}{:>11}{:>11}{:>13}{:>7}{:>9}{:>9}{:>7}{:>7}",
        "worker", "in/s", "out/s", "rate", "merged", "held 50%", "held 99%", "held", "lost"
    )];
    lines.extend(workers.iter().take(shown).map(row));
    if shown < workers.len() {
        lines.push(format!("and {} workers more", workers.len() - shown));
    }
    lines
}

fn row(worker: &WorkerRates) -> String {
    let merging = &worker.merging;
    format!(
        "{:<6}{:>11}{:>11}{:>13}{:>7.2}{:>9}{:>9}{:>7}{:>7}",
        worker.worker,
        count(worker.packets_in_per_second),
        count(worker.packets_out_per_second),
        Value::BitRate(worker.bits_per_second),
        merging.mean_aggregate,
        ns(merging.hold_ns_p50),
        ns(merging.hold_ns_p99),
        Value::Count(merging.held),
        Value::Count(worker.dropped),
    )
}

fn count(number: f64) -> Value {
    Value::Count(number.round() as u64)
}

fn ns(time: u64) -> Value {
    Value::Ns(time as f64)
}

/// `5 s`, `2:05` or `1:02:05`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_app::attach::{DropCounts, MergeRates};

    const SIZE: Size = Size { width: 80, height: 24 };

    fn busy(workers: usize) -> Rates {
        let port = PortRates {
            received_packets_per_second: 14_880_952.4,
            received_bits_per_second: 999.4e9,
            transmitted_packets_per_second: 7.0,
            transmitted_bits_per_second: 3_696.0,
            delay_ns_p50: 15_000,
            delay_ns_p99: 1_200_000,
        };
        let merging = MergeRates {
            mean_aggregate: 44.25,
            hold_ns_p50: 120_000,
            hold_ns_p99: 1_100_000,
            held: 12_345,
        };
        let worker = |worker| WorkerRates {
            worker,
            packets_in_per_second: 14_880_952.4,
            packets_out_per_second: 340_000.0,
            bits_per_second: 99.94e9,
            merging,
            dropped: 99_999,
        };
        Rates {
            seconds: 1.0,
            near: port,
            far: PortRates::default(),
            merging,
            workers: (0..workers).map(worker).collect(),
            drops: DropCounts {
                near: Reasons(vec![("ring_full", 4_200)]),
                rings: 7,
                ..Default::default()
            },
            flushed: Reasons(vec![("size", 10_000), ("end-flag", 20)]),
            refused: Reasons(vec![("a", 5), ("b", 4), ("c", 3), ("d", 2), ("e", 1)]),
        }
    }

    #[test]
    fn all_of_it_as_it_is_seen() {
        let expected = "\
1:02:05      received/s                  transmitted/s
near         14,880,952    999 Gbit/s                7   3.70 kbit/s
far                   0       0 bit/s                0       0 bit/s
delay    near 15.00 µs (half), 1.20 ms (99 %), far 0 ns (half), 0 ns (99 %)
merged   44.25 packets into one, held 120 µs (half), 1.10 ms (99 %), 12,345 now
flushed  size 10,000, end-flag 20
apart    a 5, b 4, c 3, d 2
lost     near ring_full 4,200, rings 7
worker       in/s      out/s         rate merged held 50% held 99%   held   lost
0      14,880,952    340,000 99.94 Gbit/s  44.25   120 µs  1.10 ms 12,345 99,999
";
        let text = draw(&busy(1), Duration::from_secs(3_725), SIZE);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn nothing_yet() {
        let rates = Rates {
            near: PortRates::default(),
            merging: MergeRates::default(),
            drops: DropCounts::default(),
            flushed: Reasons::default(),
            refused: Reasons::default(),
            ..busy(0)
        };
        let text = draw(&rates, Duration::from_secs(5), SIZE);
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(text.starts_with("5 s ") && !text.contains("lost  "), "{text}");
    }

    #[test]
    fn it_fits_any_terminal() {
        for (width, height) in [(80, 24), (80, 9), (40, 10), (10, 3), (1, 1), (0, 0), (200, 60)] {
            for workers in [0, 1, 8, 1_024] {
                let text = draw(&busy(workers), Duration::from_secs(75), Size { width, height });
                assert!(
                    text.lines().count() <= height.saturating_sub(1).max(1),
                    "{height}:\n{text}"
                );
                let longest = text.lines().map(|line| line.chars().count()).max();
                assert!(longest <= Some(width), "{width}:\n{text}");
            }
        }
        let text = draw(&busy(1_024), Duration::ZERO, Size { width: 80, height: 13 });
        let last: Vec<&str> = text.lines().skip(8).collect();
        assert!(last[1].starts_with("0 ") && last[2].starts_with("1 "), "{text}");
        assert_eq!(last[3..], ["and 1022 workers more"]);
    }

    #[test]
    fn it_is_drawn_over_itself() {
        assert_eq!(frame("a\nb\n", 0), "\r\x1b[Ka\n\r\x1b[Kb\n\x1b[J");
        assert!(frame("a\n", 3).starts_with("\x1b[3A\r\x1b[Ka\n"));
    }
}
