//! Lines about late packets, pauses and senders that begin again: of each, at most one per second and stream; the others
//! are counted in the next one.

use linecard_jitter::media::live::{Episode, Event};
use linecard_report::{Origin, Value};

/// Shortest time between two lines of a stream.
const EVERY_NS: u64 = 1_000_000_000;

/// When the last line of each sort was written, and what was not written since then.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last_ns: [Option<u64>; 4],
    suppressed: u64,
    /// Lines that were not written, in all.
    pub(super) suppressed_all: u64,
}

impl Lines {
    /// The line about an event, unless there was one just before.
    pub(super) fn of(&mut self, (name, offset_ns): (&str, i64), event: &Event) -> Option<String> {
        let (sort, at_ns, text) = match event {
            Event::Late(episode) => (0, episode.at_ns, late(episode)),
            Event::Silence { since_ns, at_ns } => {
                (1, *at_ns, format!("nothing has come since {}", time(*since_ns, offset_ns)))
            }
            Event::Pause { ns, at_ns } => {
                (3, *at_ns, format!("nothing came for {}", Value::Ns(*ns as f64)))
            }
            Event::Restart { at_ns } => {
                let text = "the sender began again, or another one took over; its schedule is learnt again";
                (2, *at_ns, text.to_owned())
            }
        };
        let last_ns = &mut self.last_ns[sort];
        if last_ns.is_some_and(|last_ns| at_ns.saturating_sub(last_ns) < EVERY_NS) {
            self.suppressed += 1;
            self.suppressed_all += 1;
            return None;
        }
        *last_ns = Some(at_ns);
        let more = match std::mem::take(&mut self.suppressed) {
            0 => String::new(),
            more => format!(" ({more} more since the last line)"),
        };
        Some(format!("{name}: {}: {text}{more}", time(at_ns, offset_ns)))
    }

    /// A line about what was not written, at the end.
    pub(super) fn finish(&mut self, name: &str) -> Option<String> {
        let more = std::mem::take(&mut self.suppressed);
        (more > 0).then(|| format!("{name}: {more} more since the last line"))
    }
}

/// The time of day, to the millisecond.
pub(super) fn time(at_ns: u64, offset_ns: i64) -> String {
    let day_ns = at_ns.saturating_add_signed(offset_ns);
    let utc = Origin::new(day_ns / 1_000_000_000, []).utc();
    let seconds = utc.trim_end_matches(" UTC");
    format!("{seconds}.{:03} UTC", day_ns / 1_000_000 % 1_000)
}

fn late(episode: &Episode) -> String {
    let Episode { packets, lasted_ns, worst, .. } = episode;
    let number = worst.number;
    let ns = |ns: u64| Value::Ns(ns as f64);
    let delay = format!(
        "{} late ({} before the socket, {} in it)",
        ns(episode.late_ns()),
        ns(worst.delay.before_ns),
        ns(worst.delay.waited_ns)
    );
    match packets {
        1 => format!("packet number {number} was {delay}"),
        _ => {
            format!(
                "{packets} packets were late within {}; the worst, number {number}, was {delay}",
                ns(*lasted_ns)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_jitter::media::live::{Delay, Late};

    #[test]
    fn lines_are_at_most_one_per_second_and_say_what_they_leave_out() {
        let mut lines = Lines::default();
        let mut line = |at_ns| {
            let delay = Delay { before_ns: 2_000_000, waited_ns: 500_000 };
            let worst = Late { number: 7, identity: 0, at_ns, delay };
            let episode = Episode { at_ns, lasted_ns: 0, packets: 1, worst };
            lines.of(("239.0.0.1:5004", 1_700_000_000_000_000_000), &Event::Late(episode))
        };
        let first = line(123_000_000).expect("the first one");
        assert_eq!(
            first,
            "239.0.0.1:5004: 2023-11-14 22:13:20.123 UTC: packet number 7 was 2.50 ms late (2.00 ms before the socket, \
             500 µs in it)"
        );
        assert_eq!((line(200_000_000), line(1_122_999_999)), (None, None));
        assert!(
            line(1_123_000_000).is_some_and(|line| line.ends_with("(2 more since the last line)"))
        );
        assert_eq!((line(1_200_000_000), lines.suppressed_all), (None, 3));
        assert!(lines.finish("a").is_some_and(|line| line.starts_with("a: 1 more")));
        assert_eq!(lines.finish("a"), None);
        // A line about late packets leaves out none about a pause or a sender that begins again.
        let mut line = |event| lines.of(("a", 0), &event);
        let (since_ns, at_ns) = (1_000_000_000, 2_000_000_000);
        assert_eq!(
            line(Event::Silence { since_ns, at_ns }).as_deref(),
            Some(
                "a: 1970-01-01 00:00:02.000 UTC: nothing has come since 1970-01-01 00:00:01.000 UTC"
            )
        );
        // Nor does the begin of a pause its end.
        let ended = line(Event::Pause { ns: 1_600_000_000, at_ns: at_ns + 600_000_000 });
        assert!(ended.is_some_and(|line| line.ends_with("nothing came for 1.60 s")));
        assert!(line(Event::Restart { at_ns }).is_some_and(|line| line.contains("began again")));
        assert_eq!(line(Event::Restart { at_ns }), None);
    }
}
