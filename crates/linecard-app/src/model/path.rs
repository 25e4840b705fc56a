//! From the wire to the application, with the jitter of each stage: [`linecard_model::path`].

use super::account::{Conserved, draw_busy, limit, ratio};
use crate::{Context, Error, Job};
use linecard_model::Ps;
use linecard_model::path::{Config, LEVELS, Spread, Stream, Times, simulate};
use linecard_report::{Nanoseconds, Outcome, Page, Share, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// The job.
#[derive(Debug)]
pub struct PathModel;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PathOutcome {
    /// Packets
    pub account: Account,
    /// Rates
    pub rates: Rates,
    /// Between two packets at the application
    pub packets: Gaps,
    /// Between two interrupts
    pub interrupts: Gaps,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    is_in_order: bool,
}

/// Packets: in is out, dropped and held together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// In, out, dropped and held.
    #[serde(flatten)]
    pub conserved: Conserved,
    /// interrupts
    pub interrupts: u64,
    /// virtual time
    pub ns: Nanoseconds,
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// packets in a second
    pub packets_per_second: u64,
    /// packets to an interrupt
    pub packets_per_interrupt: f64,
}

/// Quantiles of the times between one and the next.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Gaps {
    /// least
    pub least_ns: Nanoseconds,
    /// median
    pub median_ns: Nanoseconds,
    /// 99 % are at most
    pub p99_ns: Nanoseconds,
    /// 99.9 % are at most
    pub p999_ns: Nanoseconds,
    /// most
    pub most_ns: Nanoseconds,
    /// standard deviation
    pub deviation_ns: Nanoseconds,
}

/// Stages times what each takes on average.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// the stream's period
    pub stream_busy: Share,
    /// interrupts and network stack
    pub kernel_busy: Share,
    /// application, about
    pub application_busy: Share,
    /// interrupt throttling
    pub throttle_busy: Option<Share>,
    /// bottleneck
    pub limit: String,
}

impl Job for PathModel {
    const NAME: &'static str = "path";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = PathOutcome;

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &PathOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
        let Gaps { median_ns, p999_ns, most_ns, .. } = &outcome.packets;
        let [median, p999, most] = [median_ns, p999_ns, most_ns].map(|gap| Value::Ns(gap.0));
        page.headline(format!(
            "Packets reach the application {median} apart, 99.9 % of them {p999} or less, and {most} at most."
        ));
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<PathOutcome, Error> {
        linecard_config::check(config)?;
        let stream = config.stream();
        let times = simulate(&stream, config.load.packets);
        context.go_on()?;
        Ok(PathOutcome::new(&stream, config.load.packets, &times))
    }

    fn check(outcome: &PathOutcome) -> Result<(), Error> {
        outcome.account.conserved.check(outcome.is_in_order)
    }
}

impl Outcome for PathOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "account").then(|| self.title.clone())
    }
}

impl PathOutcome {
    fn new(stream: &Stream, packets: usize, times: &Times) -> Self {
        let throttle = match stream.throttle {
            Ps::ZERO => "not throttled".to_owned(),
            least => format!("{} ns apart at least", least.as_ns()),
        };
        let title = format!(
            "A packet every {} ns, interrupts {throttle}, sleep {}, application {}",
            stream.period.as_ns(),
            if stream.sleep.is_some() { "on" } else { "off" },
            if stream.wake.is_some() { "blocks" } else { "polls" },
        );
        let ended = times.packets.last().copied().unwrap_or(Ps::ZERO);
        let (came, interrupts) = (times.packets.len() as u64, times.interrupts.len() as u64);
        Self {
            account: Account {
                conserved: Conserved { came: packets as u64, went: came, dropped: 0, held: 0 },
                interrupts,
                ns: Nanoseconds(ended.0 as f64 / 1e3),
            },
            rates: Rates {
                packets_per_second: ratio(came as f64, ended.as_secs_f64()) as u64,
                packets_per_interrupt: ratio(came as f64, interrupts as f64),
            },
            packets: Gaps::between(&times.packets),
            interrupts: Gaps::between(&times.interrupts),
            busy: Busy::new(stream, times, ended),
            title,
            is_in_order: times.packets.is_sorted() && times.interrupts.is_sorted(),
        }
    }
}

impl Gaps {
    fn between(times: &[Ps]) -> Self {
        let mut gaps: Vec<u64> = Times::gaps(times).map(|gap| gap.0).collect();
        gaps.sort_unstable();
        let at = |share: f64| {
            let last = gaps.len().saturating_sub(1);
            let place = (last as f64 * share).round() as usize;
            Nanoseconds(gaps.get(place).map_or(0.0, |gap| *gap as f64 / 1e3))
        };
        Self {
            least_ns: at(0.0),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            most_ns: at(1.0),
            deviation_ns: Nanoseconds(deviation(&gaps) / 1e3),
        }
    }
}

/// The standard deviation, with n - 1 in its denominator.
fn deviation(gaps: &[u64]) -> f64 {
    let count = gaps.len() as f64;
    let mean = ratio(gaps.iter().map(|gap| *gap as f64).sum(), count);
    let squares = gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum();
    ratio(squares, count - 1.0).sqrt()
}

impl Busy {
    /// A blocked application is woken once an interrupt at most.
    fn new(stream: &Stream, times: &Times, ended: Ps) -> Self {
        let seconds = ended.as_secs_f64();
        let (packets, interrupts) = (times.packets.len() as f64, times.interrupts.len() as f64);
        let optional = |stage: &Option<Spread>| stage.as_ref().map_or(0.0, mean);
        let interrupt = mean(&stream.interrupt) + optional(&stream.sleep) + mean(&stream.handler);
        let kernel = interrupts * interrupt + packets * mean(&stream.softirq);
        let application = packets * mean(&stream.read) + interrupts * optional(&stream.wake);
        let held = interrupts * stream.throttle.as_secs_f64();
        let mut shares = vec![
            ("the stream's period", ratio(packets * stream.period.as_secs_f64(), seconds)),
            ("interrupts and network stack", ratio(kernel, seconds)),
            ("application, about", ratio(application, seconds)),
        ];
        let throttle = (stream.throttle > Ps::ZERO).then(|| ratio(held, seconds));
        shares.extend(throttle.map(|share| ("interrupt throttling", share)));
        Self {
            stream_busy: Share(shares[0].1),
            kernel_busy: Share(shares[1].1),
            application_busy: Share(shares[2].1),
            throttle_busy: throttle.map(Share),
            limit: limit(&shares),
        }
    }
}

/// In seconds, on average.
fn mean(spread: &Spread) -> f64 {
    if let Some(quantiles) = &spread.measured {
        let parts = LEVELS.windows(2).zip(quantiles.windows(2));
        let part = |(level, time): (&[f64], &[Ps])| {
            (level[1] - level[0]) * (time[0] + time[1]).as_secs_f64() / 2.0
        };
        return parts.map(part).sum();
    }
    let rare = ratio(spread.rare.as_secs_f64() / 2.0, spread.one_in.into());
    spread.least.as_secs_f64() + spread.width.as_secs_f64() / 2.0 + rare
}
