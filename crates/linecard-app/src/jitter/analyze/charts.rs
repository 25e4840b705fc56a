//! Charts of a stream, and its answer in a sentence.

use super::capture::Candidate;
use super::outcome::AnalyzeOutcome;
use linecard_jitter::media::figures::Figures;
use linecard_report::{Page, Value};

impl AnalyzeOutcome {
    /// Adds a flow to the charts.
    pub(super) fn add_charts(&mut self, name: &str, found: &Candidate, figures: &Figures) {
        let times: Vec<u64> = found.flow.packets().iter().map(|packet| packet.at_ns).collect();
        self.distributions.add_times(name, &times);
        self.distributions.add_gaps(name, &figures.gaps);
        if let Some(lateness) = &figures.lateness {
            self.distributions.add_lateness(name, lateness);
        }
    }

    /// The answer, and the charts.
    pub(super) fn draw(&self, page: &mut Page) {
        page.headline(self.answer());
        self.distributions.draw(page);
    }

    /// How late the packets of the stream are.
    fn answer(&self) -> String {
        let stream = format!("{}, {}", self.stream.kind, self.stream.flow);
        let lost = match self.stream.lost {
            Some(lost) if lost > 0 => format!(" {} are missing.", Value::Count(lost)),
            _ => String::new(),
        };
        let (packets, judged) = (Value::Count(self.stream.packets), Value::Count(self.judged));
        let of_them = match self.judged == self.stream.packets {
            true => format!("{packets} packets"),
            false => format!("{judged} packets that have a due time, of {packets},"),
        };
        let late = self.lateness.as_ref().and_then(|late| late.p50.zip(late.range));
        let how = match late {
            Some((median, range)) => format!(
                "half of {of_them} are at most {} late, the latest {}",
                Value::Ns(median.ns as f64),
                Value::Ns(range.max_ns as f64)
            ),
            None => format!("{packets} packets without a schedule to be late against"),
        };
        let added = self.added.as_ref().and_then(|added| added.p50.zip(added.range));
        let added = added.map_or(String::new(), |(median, range)| {
            let [median, most] = [median.ns, range.max_ns].map(|ns| Value::Ns(ns as f64));
            format!(
                " The way to the second capture added {median} to half of them, and {most} at most."
            )
        });
        format!("{stream}: {how}.{lost}{added}")
    }
}
