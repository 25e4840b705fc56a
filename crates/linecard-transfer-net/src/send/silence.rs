//! For how long a lane was not alive.

use super::notes::DOWN;
use linecard::time::Instant;
use std::time::Duration;

/// A lane that has not answered for this long is reported during the transfer, in ns: a burst of losses
/// is over by then.
const REPORT_NS: u64 = 1_000_000_000;
/// All silence, reported when the transfer has ended, in ns.
const TOTAL_NS: u64 = 200_000_000;

/// Times at which one lane stopped answering and answered again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Silence {
    /// Since when it is not alive; nothing while it is.
    since: Option<Instant>,
    /// When it stopped answering for the first time, after it had answered.
    first: Option<Instant>,
    times: u32,
    /// Of the times that have ended, in ns: before it answered first, and after.
    before_ns: u64,
    after_ns: u64,
}

impl Silence {
    /// A lane without any answer yet.
    pub(super) fn from(start: Instant) -> Self {
        Self { since: Some(start), ..Self::default() }
    }

    /// It answers.
    pub(super) fn ended(&mut self, now: Instant) {
        let Some(since) = self.since.take() else { return };
        let past = if self.times == 0 { &mut self.before_ns } else { &mut self.after_ns };
        *past += now.ns_since(since);
    }

    /// It has stopped answering.
    pub(super) fn began(&mut self, now: Instant) {
        if self.since.is_none() {
            self.since = Some(now);
            self.times += 1;
            self.first.get_or_insert(now);
        }
    }

    /// Whether it has answered once.
    pub(super) const fn has_ended(&self) -> bool {
        self.since.is_none() || self.first.is_some()
    }

    fn running_ns(&self, now: Instant) -> u64 {
        self.since.map_or(0, |since| now.ns_since(since))
    }

    /// How long it was not alive, until `now`.
    pub(super) fn total(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.before_ns + self.after_ns + self.running_ns(now))
    }

    /// Whether it stopped answering long enough ago for a remark.
    pub(super) fn is_long(&self, now: Instant) -> bool {
        self.first.is_some() && self.running_ns(now) >= REPORT_NS
    }

    /// The remark during the transfer, if the lane stopped answering long enough ago; `down` gives its interface if that
    /// is down.
    pub(super) fn running<'a>(
        &self,
        start: Instant,
        now: Instant,
        down: impl FnOnce() -> Option<&'a str>,
    ) -> Option<String> {
        let first = self.first.filter(|_| self.is_long(now))?;
        let down = down().map(|down| format!(", and {down} {DOWN}")).unwrap_or_default();
        Some(format!(
            "has stopped answering {} after the start{down}: its data goes over other lanes, and it is probed",
            seconds(first.ns_since(start))
        ))
    }

    /// The remark at the end, if the lane stopped answering for long enough.
    pub(super) fn summary(&self, start: Instant, now: Instant) -> Option<String> {
        let first = self.first?;
        let silent_ns = self.after_ns + self.running_ns(now);
        let (all_ns, first_ns) = (now.ns_since(start), first.ns_since(start));
        let times = if self.times == 1 { "once" } else { &format!("{} times", self.times) };
        let end = if self.since.is_some() { ", and did not answer at the end" } else { "" };
        (silent_ns >= TOTAL_NS).then(|| {
            format!(
                "did not answer for {} of {}: {times}, first {} after the start{end}",
                seconds(silent_ns),
                seconds(all_ns),
                seconds(first_ns)
            )
        })
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_lane_that_was_down_is_reported_with_its_time() {
        let mut silence = Silence::from(at(0));
        silence.ended(at(40));
        silence.began(at(3_200));
        assert_eq!(silence.running(at(0), at(3_900), || None), None);
        let running = silence.running(at(0), at(4_200), || None).expect("a line");
        assert!(running.starts_with("has stopped answering 3.2 s after the start: "), "{running}");
        let running = silence.running(at(0), at(4_200), || Some("eth1")).expect("a line");
        assert!(running.contains("start, and eth1 is down or has no carrier: "), "{running}");
        silence.ended(at(5_200));
        silence.began(at(9_000));
        let summary = silence.summary(at(0), at(10_000)).expect("a line");
        assert_eq!(
            summary,
            "did not answer for 3.0 s of 10.0 s: 2 times, first 3.2 s after the start, and did not answer at \
             the end"
        );
        assert_eq!(silence.total(at(10_000)), Duration::from_millis(3_040));
    }

    /// A lane that never had an answer has a line of its own.
    #[test]
    fn short_silence_and_lanes_that_never_answered_are_not_reported() {
        let mut silence = Silence::from(at(0));
        assert_eq!(silence.summary(at(0), at(9_000)), None);
        silence.ended(at(9_000));
        silence.began(at(9_100));
        silence.ended(at(9_250));
        assert_eq!(silence.summary(at(0), at(10_000)), None);
        assert_eq!(silence.total(at(10_000)), Duration::from_millis(9_150));
    }
}
