//! Interrupts that can fire on the sink's core, and what moves them.

use super::{Check, Host, Observed, Planned, Remedy, Unreadable};
use crate::linux::setting::{Form, cpus, list, mask};

pub(super) const CHECKS: [Check; 4] = [
    Check {
        id: "irq-affinity",
        reads: "/proc/irq/*/smp_affinity_list, /proc/interrupts",
        cause: "other devices' interrupts take the sink's core for some µs each",
        source: "paper, section IV-A; core-api/irq/irq-affinity.rst",
        remedy: Remedy::Live,
        risk: "other cores have more to do; some interrupts cannot be moved",
        weight: 80,
        toggle: None,
        look: irq_affinity,
    },
    Check {
        id: "irq-of-interface",
        reads: "/proc/interrupts, /proc/irq/*/smp_affinity_list",
        cause: "an interrupt on another core wakes that one, and costs an interrupt between cores",
        source: "paper, sections IV-A and IV-C, figures 9a and 9b",
        remedy: Remedy::Live,
        risk: "a stream too fast for one core loses packets",
        weight: 60,
        toggle: None,
        look: irq_of_interface,
    },
    Check {
        id: "irq-default",
        reads: "/proc/irq/default_smp_affinity",
        cause: "devices added later interrupt the sink's core",
        source: "core-api/irq/irq-affinity.rst",
        remedy: Remedy::Live,
        risk: "none known",
        weight: 30,
        toggle: None,
        look: irq_default,
    },
    Check {
        id: "irqbalance",
        reads: "/proc/*/comm",
        cause: "irqbalance moves interrupts back, every ten seconds",
        source: "irqbalance(1)",
        remedy: Remedy::Program,
        risk: "interrupts of a busy device stay on one core",
        weight: 75,
        toggle: None,
        look: irqbalance,
    },
];

/// A numbered interrupt.
struct Interrupt {
    number: String,
    /// Whether it belongs to the interface.
    is_of_interface: bool,
    allowed: Vec<usize>,
    /// How often it has fired on the sink's core.
    fired: u64,
}

fn irq_affinity(host: &Host) -> Result<Observed, Unreadable> {
    let others = host.others();
    let all = interrupts(host)?;
    let can: Vec<&Interrupt> = all
        .iter()
        .filter(|one| !one.is_of_interface && one.allowed.contains(&host.core()))
        .collect();
    if can.is_empty() {
        return Ok(Observed::good("no other device can interrupt the sink's core"));
    }
    let fired: u64 = can.iter().map(|one| one.fired).sum();
    let found = format!("{} may fire on core {}, and have {fired} times", can.len(), host.core());
    if others.is_empty() {
        return Ok(Observed::note(found + "; there is no other core"));
    }
    let advice = format!("give them to {}", list(&others));
    let seen = Observed::advice(found, advice);
    Ok(can.into_iter().fold(seen, |seen, one| seen.change(affinity(host, one), list(&others))))
}

fn irq_of_interface(host: &Host) -> Result<Observed, Unreadable> {
    let name = match host.interface() {
        Ok(name) => name,
        Err(why) => return Ok(Observed::absent(why)),
    };
    let (core, all) = (host.core(), interrupts(host)?);
    let own: Vec<&Interrupt> = all.iter().filter(|one| one.is_of_interface).collect();
    if own.is_empty() {
        return Ok(Observed::absent(format!("{name} has no interrupt of its own here")));
    }
    let elsewhere: Vec<&&Interrupt> = own.iter().filter(|one| one.allowed != [core]).collect();
    if elsewhere.is_empty() {
        return Ok(Observed::good(format!("all of {name} are on core {core}")));
    }
    let found = format!("{} of {} of {name} may fire on another core", elsewhere.len(), own.len());
    let seen = Observed::advice(found, format!("give them to core {core}, where the sink runs"));
    let change =
        |seen: Observed, one: &&Interrupt| seen.change(affinity(host, one), core.to_string());
    Ok(elsewhere.into_iter().fold(seen, change))
}

/// Settings that move all interrupts of the host's interface to its core; none if it has no interrupts.
///
/// # Errors
///
/// The interface or its interrupts cannot be read.
pub fn interrupts_to(host: &Host) -> Result<Vec<Planned>, Unreadable> {
    let all = interrupts(host)?.into_iter().filter(|one| one.is_of_interface);
    let value = host.core().to_string();
    Ok(all.map(|one| Planned { setting: affinity(host, &one), value: value.clone() }).collect())
}

fn irq_default(host: &Host) -> Result<Observed, Unreadable> {
    without_core(host, "/proc/irq/default_smp_affinity")
}

fn irqbalance(host: &Host) -> Result<Observed, Unreadable> {
    let processes = host.entries("/proc");
    let is_it = |process: &String| {
        process.starts_with(|c: char| c.is_ascii_digit())
            && host.text(&format!("/proc/{process}/comm")).is_ok_and(|name| name == "irqbalance")
    };
    // A process that cannot see process 1 may not see this one either.
    host.text("/proc/1/comm")?;
    Ok(match processes.iter().find(|process| is_it(process)) {
        Some(process) => Observed::advice(
            format!("runs as process {process}"),
            format!("stop it, or set IRQBALANCE_BANNED_CPULIST={}", host.core()),
        ),
        None => Observed::good("does not run"),
    })
}

fn affinity(host: &Host, interrupt: &Interrupt) -> crate::linux::setting::Setting {
    host.setting(&format!("/proc/irq/{}/smp_affinity_list", interrupt.number), Form::Affinity)
}

/// All numbered interrupts; those that cores raise themselves, such as the timer's, have no number.
fn interrupts(host: &Host) -> Result<Vec<Interrupt>, Unreadable> {
    let table = host.text("/proc/interrupts")?;
    let mut lines = table.lines();
    let cores: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let wanted = format!("CPU{}", host.core());
    let column = cores.iter().position(|name| *name == wanted);
    let device = host.interface().ok().map(|name| Names::of(host, name));
    let one = |line: &str| {
        let (number, rest) = line.trim().split_once(':')?;
        number.parse::<u32>().ok()?;
        let counts: Vec<&str> = rest.split_whitespace().collect();
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        Some(Interrupt {
            number: number.to_owned(),
            is_of_interface: device.as_ref().is_some_and(|device| device.has(number, &counts)),
            allowed: cpus(&host.text(&path).ok()?)?,
            fired: counts.get(column?).and_then(|count| count.parse().ok()).unwrap_or(0),
        })
    };
    Ok(lines.filter_map(one).collect())
}

/// How an interface's interrupts are recognised: by the numbers of its device, or by names that
/// begin with its own.
struct Names {
    interface: String,
    numbers: Vec<String>,
}

impl Names {
    fn of(host: &Host, interface: &str) -> Self {
        let device = format!("/sys/class/net/{interface}/device");
        let mut numbers = host.entries(&format!("{device}/msi_irqs"));
        // A virtio device is a child of the one on the bus.
        numbers.extend(host.entries(&format!("{device}/../msi_irqs")));
        Self { interface: interface.to_owned(), numbers }
    }

    fn has(&self, number: &str, words: &[&str]) -> bool {
        let name = words.last().copied().unwrap_or_default();
        let rest = name.strip_prefix(self.interface.as_str());
        let is_named = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        is_named || self.numbers.iter().any(|own| own == number)
    }
}

/// Whether a setting that is a mask of cores leaves the sink's core out.
pub(super) fn without_core(host: &Host, path: &str) -> Result<Observed, Unreadable> {
    let (text, others) = (host.text(path)?, host.others());
    if !mask_has(&text, host.core()) {
        return Ok(Observed::good(format!("{text}, without core {}", host.core())));
    }
    if others.is_empty() {
        return Ok(Observed::note("there is no other core"));
    }
    let seen = Observed::advice(format!("{text}, with core {}", host.core()), "leave the core out");
    Ok(seen.change(host.setting(path, Form::Mask), mask(&others)))
}

/// Whether a mask contains a core.
pub(super) fn mask_has(text: &str, core: usize) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != ',').collect();
    let digit = digits.len().checked_sub(core / 4 + 1).and_then(|at| digits[at].to_digit(16));
    digit.is_some_and(|digit| digit >> (core % 4) & 1 == 1)
}
