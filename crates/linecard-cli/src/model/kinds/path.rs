//! From the wire to the application, with the jitter of each stage: [`linecard_model::path`].

use super::super::key::{Key, Kind};
use super::super::scenario::Scenario;
use super::{Account, Model, Part, Ran, limits, number, put_time, ratio, time};
use crate::failure::Failure;
use linecard_model::Ps;
use linecard_model::path::{Config, Spread, Times, simulate};
use linecard_report::{Report, Section, Value};

/// A part of a stage: with the most packets, times stay far below what a number holds.
const LONGEST: (&str, &str) = ("0ns", "100ms");

/// The same for the time until something else stops the core.
const LONGEST_BETWEEN: (&str, &str) = ("0ns", "10s");

/// A stage that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    None,
    /// As the paper has it.
    Published,
    As(Spread),
}

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// But for the three below.
    of: Config,
    sleep: Stage,
    wake: Stage,
    is_stolen: bool,
    /// How long until the core is stolen next, and how long that takes.
    stolen: (Spread, Spread),
    packets: usize,
}

impl Default for Settings {
    /// The paper's baseline.
    fn default() -> Self {
        let of = Config::default();
        let stolen = of.stolen.unwrap_or_default();
        let (sleep, wake) = (Stage::None, Stage::None);
        Self { of, sleep, wake, is_stolen: true, stolen, packets: 100_000 }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "path";
    const KEYS: &'static [Key<Self>] = &[
        number!("load.seed", of.seed, 0 to 9223372036854775807, 1, "draws all times"),
        number!("load.packets", packets, 2 to 1000000, 100000, "packets of the stream"),
        time!("load.period", of.period, "1ns" to "1s", "7410ns",
            "between two packets at the sender"),
        Key {
            name: "stage.wire",
            what: "how much later a packet comes, as all stages: least time and how much more at most, \
                   \"0ns\" to \"100ms\"; if more comes once in so many, 1 to 4294967295, that number and \
                   how much [0ns,600ns]",
            set: |to, text| spread(text).map(|spread| to.of.wire = spread),
        },
        Key {
            name: "stage.dma",
            what: "until the packet is in memory [300ns,200ns]",
            set: |to, text| spread(text).map(|spread| to.of.dma = spread),
        },
        Key {
            name: "stage.interrupt",
            what: "from the interrupt to its handler, on a core that is awake [300ns,200ns]",
            set: |to, text| spread(text).map(|spread| to.of.interrupt = spread),
        },
        Key {
            name: "stage.sleep",
            what: "more than that where idle cores sleep: \"none\" with idle=poll, \"published\", or a \
                   stage [none]",
            set: |to, text| stage(text).map(|stage| to.sleep = stage),
        },
        Key {
            name: "stage.handler",
            what: "the handler, and the kernel's way to the first packet [500ns,100ns]",
            set: |to, text| spread(text).map(|spread| to.of.handler = spread),
        },
        Key {
            name: "stage.softirq",
            what: "the network stack, for a packet, up to the socket [500ns,200ns]",
            set: |to, text| spread(text).map(|spread| to.of.softirq = spread),
        },
        Key {
            name: "stage.wake",
            what: "a blocked application is woken: \"none\" where it polls, \"published\", or a stage \
                   [none]",
            set: |to, text| stage(text).map(|stage| to.wake = stage),
        },
        Key {
            name: "stage.read",
            what: "a read of a packet from the socket [200ns,100ns]",
            set: |to, text| spread(text).map(|spread| to.of.read = spread),
        },
        time!("core.throttle", of.throttle, "0us" to "1s", "0us",
            "between two interrupts at least (ITR)"),
        Key {
            name: "core.stolen_every",
            what: "how long until something else stops the core, as a stage with times of up \
                   to \"10s\", or \"none\" \
                   [900ms,1900ms]",
            set: |to, text| {
                to.is_stolen = text != "none";
                if !to.is_stolen {
                    return Ok(());
                }
                spread_within(text, LONGEST_BETWEEN).map(|spread| to.stolen.0 = spread)
            },
        },
        Key {
            name: "core.stolen_for",
            what: "how long that takes, as a stage [7us,1us]",
            set: |to, text| spread(text).map(|spread| to.stolen.1 = spread),
        },
    ];
}

/// `300ns,200ns` or, with what comes seldom, `300ns,200ns,1000,8us`.
fn spread(text: &str) -> Result<Spread, String> {
    spread_within(text, LONGEST)
}

fn spread_within(text: &str, range: (&str, &str)) -> Result<Spread, String> {
    let form = || {
        format!(
            "\"{text}\" is no stage: write [\"300ns\", \"200ns\"], or [\"300ns\", \"200ns\", 1000, \"8us\"]"
        )
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let mut found = Spread::default();
    let (least, width) = match parts[..] {
        [least, width] => (least, width),
        [least, width, one_in, rare] => {
            super::put(one_in, (1, u32::MAX.into()), &mut found.one_in)?;
            put_time(rare, range, &mut found.rare)?;
            (least, width)
        }
        _ => return Err(form()),
    };
    put_time(least, range, &mut found.least)?;
    put_time(width, range, &mut found.width)?;
    Ok(found)
}

fn stage(text: &str) -> Result<Stage, String> {
    match text {
        "none" => Ok(Stage::None),
        "published" => Ok(Stage::Published),
        _ => spread(text).map(Stage::As),
    }
}

impl Settings {
    fn config(&self) -> Config {
        let mut config = self.of;
        config.stolen = self.is_stolen.then_some(self.stolen);
        // What the paper has for sleep depends on the application.
        config = match self.wake {
            Stage::None => config,
            Stage::Published => config.with_blocking(),
            Stage::As(spread) => Config { wake: Some(spread), ..config },
        };
        match self.sleep {
            Stage::None => config,
            Stage::Published => config.with_sleep(),
            Stage::As(spread) => Config { sleep: Some(spread), ..config },
        }
    }
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let (config, packets) = (scenario.settings.config(), scenario.settings.packets);
        let times = simulate(&config, packets);
        Ok(report(&config, packets, &times))
    }
}

fn report(config: &Config, packets: usize, times: &Times) -> Ran {
    let throttle = match config.throttle {
        Ps::ZERO => "not throttled".to_owned(),
        least => format!("{} ns apart at least", least.as_ns()),
    };
    let title = format!(
        "A packet every {} ns, interrupts {throttle}, sleep {}, application {}",
        config.period.as_ns(),
        if config.sleep.is_some() { "on" } else { "off" },
        if config.wake.is_some() { "blocks" } else { "polls" },
    );
    let came = times.packets.len() as u64;
    let mut account = Account::new(title, "packets", [packets as u64, came, 0, 0]);
    let wrong = account.wrong(times.packets.is_sorted() && times.interrupts.is_sorted());
    let ended = times.packets.last().copied().unwrap_or(Ps::ZERO);
    let interrupts = times.interrupts.len() as u64;
    account.section.add("interrupts", "interrupts", Value::Count(interrupts));
    account.section.add("ns", "virtual time", Value::Ns(ended.0 as f64 / 1e3));
    let mut rates = Section::new("rates", "Rates");
    let rate = ratio(came as f64, ended.as_secs_f64());
    rates.add("packets_per_second", "packets in a second", Value::Count(rate as u64));
    let each = Value::Number(ratio(came as f64, interrupts as f64));
    rates.add("packets_per_interrupt", "packets to an interrupt", each);
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(rates);
    report.push(gaps("packets", "Between two packets at the application", &times.packets));
    report.push(gaps("interrupts", "Between two interrupts", &times.interrupts));
    report.push(busy(config, times, ended));
    Ran { report, wrong }
}

/// How far times lie apart.
fn gaps(key: &'static str, title: &'static str, times: &[Ps]) -> Section {
    let mut gaps: Vec<u64> = Times::gaps(times).map(|gap| gap.0).collect();
    gaps.sort_unstable();
    let mut section = Section::new(key, title);
    let at = |share: f64| {
        let last = gaps.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        Value::Ns(gaps.get(place).map_or(0.0, |gap| *gap as f64 / 1e3))
    };
    for (key, label, share) in [
        ("least_ns", "least", 0.0),
        ("median_ns", "median", 0.5),
        ("p99_ns", "99 % are at most", 0.99),
        ("p999_ns", "99.9 % are at most", 0.999),
        ("most_ns", "most", 1.0),
    ] {
        section.add(key, label, at(share));
    }
    section
}

/// In seconds, on average.
fn mean(spread: &Spread) -> f64 {
    let rare = ratio(spread.rare.as_secs_f64() / 2.0, spread.one_in.into());
    spread.least.as_secs_f64() + spread.width.as_secs_f64() / 2.0 + rare
}

/// Stages times what each takes on average; a blocked application is woken once an interrupt at most.
fn busy(config: &Config, times: &Times, ended: Ps) -> Section {
    let seconds = ended.as_secs_f64();
    let (packets, interrupts) = (times.packets.len() as f64, times.interrupts.len() as f64);
    let optional = |stage: &Option<Spread>| stage.as_ref().map_or(0.0, mean);
    let interrupt = mean(&config.interrupt) + optional(&config.sleep) + mean(&config.handler);
    let kernel = interrupts * interrupt + packets * mean(&config.softirq);
    let application = packets * mean(&config.read) + interrupts * optional(&config.wake);
    let mut shares: Vec<Part> = vec![
        (
            "stream_busy",
            "the stream's period",
            ratio(packets * config.period.as_secs_f64(), seconds),
        ),
        ("kernel_busy", "interrupts and network stack", ratio(kernel, seconds)),
        ("application_busy", "application, about", ratio(application, seconds)),
    ];
    if config.throttle > Ps::ZERO {
        let held = interrupts * config.throttle.as_secs_f64();
        shares.push(("throttle_busy", "interrupt throttling", ratio(held, seconds)));
    }
    limits(&shares, &[])
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
