//! The path model with stages as this host was measured to have them, beside later measurements: E3 to E8.
//!
//! Stage times come from a trace of packets at [`APART`] times the period of the stream, so that the model's figures
//! for the stream are out of sample. Throttled interrupts are not in the trace: the model adds them.

use super::Say;
use super::error::LiveError;
use crate::Context;
use linecard_jitter::linux::experiment::{Experiment, Setup, THROTTLE};
use linecard_jitter::linux::session::{Conditions, SessionOutcome, TestNetwork, measure};
use linecard_jitter::stats::sorted::Sorted;
use linecard_jitter::trace::{Joined, Stage};
use linecard_model::Ps;
use linecard_model::path::{LEVELS, Spread, Stream, Times, simulate};
use linecard_report::{Report, Section, Value};
use serde::{Deserialize, Serialize};

/// The experiments that the model predicts.
const PREDICTED: [Experiment; 6] = [
    Experiment::E3,
    Experiment::E4,
    Experiment::E5,
    Experiment::E6,
    Experiment::E7,
    Experiment::E8,
];
/// Packets of a measurement: 0.4 s of the stream, and three times that of what it is predicted from.
const COUNT: u64 = 60_000;
/// How much farther apart packets are from which stages are taken.
const APART: u64 = 3;
/// Packets that the model sends.
const MODELLED: usize = 200_000;
/// Quantiles of the gaps between packets at the application that are compared.
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Quantiles at [`LEVELS`], in ns.
type Quantiles = [u64; LEVELS.len()];

/// Times of the stages of a path, without what packets wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stages {
    /// From when a packet is due to the receiver's driver.
    wire: Quantiles,
    /// From there until the kernel takes it.
    interrupt: Quantiles,
    /// Up to the socket.
    softirq: Quantiles,
    /// Until the application runs.
    wake: Quantiles,
    /// Until it has the packet.
    read: Quantiles,
}

/// Stages and gaps of an experiment, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct HostPath {
    period_ps: u64,
    throttle_ns: u64,
    stages: Stages,
    /// Gaps at the application, by [`SHARES`], in ns.
    gaps_ns: [u64; SHARES.len()],
}

/// Measures stages and experiments, and adds them with the figures of the model.
pub fn add_path(context: &Context<'_>, say: Say<'_>, report: &mut Report) {
    let place = match TestNetwork::cable() {
        Ok(place) => place,
        Err(why) => {
            report.note(format!("The path model was not compared with this host: {why}"));
            return;
        }
    };
    let title = "Path model with this host's stages, and what was then measured: gaps of packets";
    let mut section = Section::list("path", title);
    for one in PREDICTED {
        if context.progress.is_stopped() {
            break;
        }
        say(&format!("{}: stages, and then the stream", one.id()));
        let value = match measured(one, &place, context) {
            Ok(path) => path.value(),
            Err(why) => Value::Text(format!("not measured: {why}")),
        };
        section.add("", format!("{} {}", one.id(), one.title()), value);
    }
    report.push(section);
    report.note(format!(
        "Path model: stages are traced with packets {APART} times as far apart as the stream's, and drawn independently \
         of each other. What is rarer than 99.99 %, as pauses of the host, is left out."
    ));
}

/// Measures one experiment, after its stages.
fn measured(
    one: Experiment,
    place: &TestNetwork,
    context: &Context<'_>,
) -> Result<HostPath, LiveError> {
    let base = Conditions { count: COUNT, ..Conditions::default() };
    let Setup::Stream(stream) = one.setup(&base, place.way()) else {
        return Err(LiveError::NoStream);
    };
    let period_ps = stream.period_ps.saturating_mul(APART);
    let apart = Conditions { period_ps, deferral: None, ..(*stream).clone() };
    let once = |conditions: &Conditions| measure(place, conditions, context.progress.stop_flag());
    Ok(HostPath {
        stages: Stages::of(once(&apart)?)?,
        gaps_ns: gaps_ns(&once(&stream)?)?,
        period_ps: stream.period_ps,
        throttle_ns: stream.deferral.map_or(0, |_| THROTTLE.as_nanos() as u64),
    })
}

fn gaps_ns(outcome: &SessionOutcome) -> Result<[u64; SHARES.len()], LiveError> {
    let arrivals = outcome.measured.arrivals.windows(2);
    let gaps: Vec<u64> = arrivals.map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns)).collect();
    quantiles(&gaps, SHARES.map(|(_, share)| share)).ok_or(LiveError::NoPacket)
}

/// The share of traced packets whose time a share of the stream's packets has at most. Above nine tenths are those that something
/// else on the host was before, which comes by the second: it is before [`APART`] times fewer of the stream's packets.
fn traced_share(share: f64) -> f64 {
    if share > 0.9 { 1.0 - (1.0 - share) * APART as f64 } else { share }
}

fn quantiles<const N: usize>(times_ns: &[u64], shares: [f64; N]) -> Option<[u64; N]> {
    let sorted = Sorted::of_unsigned(times_ns);
    sorted.min()?;
    Some(shares.map(|share| sorted.quantile(share).unwrap_or(0).max(0).unsigned_abs()))
}

impl Stages {
    fn of(outcome: SessionOutcome) -> Result<Self, LiveError> {
        let joined = Joined::of(&outcome.trace?, &outcome.measured);
        let stage = |from, to| {
            let times = quantiles(&own_ns(&joined, from, to), LEVELS.map(traced_share));
            times.ok_or(LiveError::NotFollowed)
        };
        Ok(Self {
            wire: stage(Stage::Generator, Stage::Send)?,
            interrupt: stage(Stage::Notify, Stage::Softirq)?,
            softirq: stage(Stage::Batch, Stage::Protocols)?,
            wake: stage(Stage::Wakeup, Stage::Wakeup)?,
            read: stage(Stage::Application, Stage::Application)?,
        })
    }

    fn named(&self) -> [(&'static str, &Quantiles); 5] {
        let Self { wire, interrupt, softirq, wake, read } = self;
        [
            ("wire", wire),
            ("interrupt", interrupt),
            ("softirq", softirq),
            ("wake", wake),
            ("read", read),
        ]
    }
}

/// Times from the begin of a stage to the end of another, from when the packet before was done.
fn own_ns(joined: &Joined, from: Stage, to: Stage) -> Vec<u64> {
    let mut done_ns = 0;
    let whole = joined.passages.iter().filter(|passage| passage.is_whole());
    let own = whole.map(|passage| {
        let begin_ns = passage.begin_ns(from).max(done_ns);
        done_ns = passage.end_ns(to).max(done_ns);
        done_ns - begin_ns
    });
    own.collect()
}

impl HostPath {
    /// Gaps as the model predicts them, in ns.
    fn predicted_ns(&self) -> [u64; SHARES.len()] {
        let spread = |quantiles: Quantiles| Spread::of_quantiles(quantiles.map(Ps::from_ns));
        let stages = self.stages;
        let stream = Stream {
            period: Ps(self.period_ps),
            wire: spread(stages.wire),
            dma: Spread::default(),
            throttle: Ps::from_ns(self.throttle_ns),
            interrupt: spread(stages.interrupt),
            sleep: None,
            handler: Spread::default(),
            softirq: spread(stages.softirq),
            wake: Some(spread(stages.wake)),
            read: spread(stages.read),
            stolen: None,
            seed: 1,
        };
        let times = simulate(&stream, MODELLED);
        let gaps: Vec<u64> = Times::gaps(&times.packets).map(Ps::as_ns).collect();
        quantiles(&gaps, SHARES.map(|(_, share)| share)).unwrap_or_default()
    }

    fn value(&self) -> Value {
        let mut text = Vec::new();
        let mut fields = Vec::new();
        let names = [
            ["p50_modelled_ns", "p50_measured_ns", "p50_error"],
            ["p99_modelled_ns", "p99_measured_ns", "p99_error"],
            ["p999_modelled_ns", "p999_measured_ns", "p999_error"],
        ];
        let compared = self.predicted_ns().into_iter().zip(self.gaps_ns);
        for (((name, _), [modelled, measured, error]), (says, is)) in
            SHARES.into_iter().zip(names).zip(compared)
        {
            let off = says as f64 / is.max(1) as f64 - 1.0;
            let [says, is] = [says, is].map(|ns| Value::Ns(ns as f64));
            text.push(format!("{name} {says}, measured {is} ({:+.0} %)", off * 100.0));
            fields.extend([(modelled, says), (measured, is), (error, Value::Number(off))]);
        }
        for (name, quantiles) in self.stages.named() {
            let times: Vec<String> = quantiles.iter().map(|ns| format!("\"{ns}ns\"")).collect();
            fields.push((name, Value::Text(format!("[{}]", times.join(", ")))));
        }
        Value::Fields(text.join("; "), fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on a guest with two cores under load, in the order of [`PREDICTED`].
    const RECORDED: &str = include_str!("linux_jitter.json");

    /// Promise (Jitter): From stages traced at another rate, the path model predicts the gaps of a recorded host within 10 %:
    /// the median of a polling application (E3), 99 % with sleep, interrupts between cores and blocking (E4, E5, E7), 99
    /// and 99.9 % with throttled interrupts (E8).
    #[test]
    fn stages_of_a_recorded_host_predict_its_gaps() {
        let recorded: Vec<HostPath> = serde_json::from_str(RECORDED).expect("results");
        let error = |found: &HostPath| {
            let pairs = found.predicted_ns().into_iter().zip(found.gaps_ns);
            pairs.map(|(says, is)| says as f64 / is as f64 - 1.0).collect::<Vec<f64>>()
        };
        let errors: Vec<Vec<f64>> = recorded.iter().map(error).collect();
        let [e3, e4, e5, _, e7, e8] = &errors[..] else { panic!("{errors:?}") };
        for error in [e3[0], e4[1], e5[1], e7[1], e8[1], e8[2]] {
            assert!(error.abs() < 0.1, "{errors:.3?}");
        }
        // Without its own throttling the model has no steps.
        let free = HostPath { throttle_ns: 0, ..recorded[5] };
        assert!(free.predicted_ns()[1] < 30_000, "{:?}", free.predicted_ns());
    }

    #[test]
    fn tails_come_by_the_second() {
        assert_eq!((traced_share(0.5), traced_share(0.9)), (0.5, 0.9));
        assert!((traced_share(0.99) - 0.97).abs() < 1e-12);
        assert_eq!(quantiles(&[30, 10, 20], [0.0, 0.5]), Some([10, 20]));
        assert_eq!(quantiles(&[], [0.5]), None);
    }
}
