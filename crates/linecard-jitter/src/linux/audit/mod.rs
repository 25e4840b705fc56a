//! Audit: which settings of this host delay packets, what to change, and what the change costs.
//!
//! Each check is one entry of [`checks`]: what it reads, how it judges that, its advice and the
//! reason. An audit only reads; it needs no journal. The changes it recommends are a [`Plan`],
//! which [`apply`](apply::apply) makes through a journal. A value that cannot be read is unknown,
//! with the reason, and never good.
//!
//! Sources: the paper ("Chasing Linux Jitter Sources for Uncompressed Video", sections II to IV)
//! and the kernel's documentation, named at each check.

pub mod apply;
mod host;
mod interrupts;
mod kernel;
mod memory;
mod network;
mod power;
mod scheduler;

pub use host::{Host, Unreadable};
pub use interrupts::interrupts_to;

use super::setting::Setting;
use std::collections::BTreeMap;
use std::fmt;

/// One check of the host.
#[derive(Debug)]
pub struct Check {
    /// Stable name.
    pub id: &'static str,
    /// The value that it reads.
    pub reads: &'static str,
    /// The delay it causes.
    pub cause: &'static str,
    /// Reference for that.
    pub source: &'static str,
    /// How it can be changed.
    pub remedy: Remedy,
    /// Risk of the change.
    pub risk: &'static str,
    /// Usual importance, 0 … 100; orders the table.
    pub weight: u8,
    /// The A/B toggle that measures it on this host, if any.
    pub toggle: Option<&'static str>,
    look: fn(&Host) -> Result<Observed, Unreadable>,
}

/// How a setting can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// At run time, and it can be restored.
    Live,
    /// At run time, but only when the check is named: a mistake can stop the machine.
    Named,
    /// By a parameter of the kernel's command line, or another kernel.
    Boot,
    /// By another machine, slot or core.
    Hardware,
    /// By starting, stopping or reconfiguring another program.
    Program,
    /// Not at all: the check explains others.
    Nothing,
}

impl Remedy {
    /// Word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Named => "live, if named by --only",
            Self::Boot => "boot",
            Self::Hardware => "hardware",
            Self::Program => "program",
            Self::Nothing => "-",
        }
    }
}

/// The judgement of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A change is recommended.
    Advice,
    /// The value cannot be read.
    Unknown,
    /// A fact, neither good nor bad.
    Note,
    /// As it should be.
    Good,
    /// This host has no such thing.
    Absent,
}

impl Verdict {
    /// Word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Advice => "CHANGE",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Good => "good",
            Self::Absent => "absent",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The judgement.
    pub verdict: Verdict,
    /// The value that was read, in words; when unknown, the reason.
    pub found: String,
    /// The advice; empty when there is none.
    pub advice: String,
    /// Changes that can be made now.
    pub changes: Vec<Planned>,
}

impl Observed {
    fn of(verdict: Verdict, found: impl Into<String>) -> Self {
        Self { verdict, found: found.into(), advice: String::new(), changes: Vec::new() }
    }

    fn good(found: impl Into<String>) -> Self {
        Self::of(Verdict::Good, found)
    }

    fn note(found: impl Into<String>) -> Self {
        Self::of(Verdict::Note, found)
    }

    fn absent(why: impl Into<String>) -> Self {
        Self::of(Verdict::Absent, why)
    }

    fn advice(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..Self::of(Verdict::Advice, found) }
    }

    fn change(mut self, setting: Setting, value: impl Into<String>) -> Self {
        self.changes.push(Planned { setting, value: value.into() });
        self
    }

    fn saying(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

/// A setting and its recommended value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The setting.
    pub setting: Setting,
    /// The recommended value.
    pub value: String,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.value)
    }
}

/// The effect of a toggle measured by an A/B run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Name of the figure, with its unit.
    pub figure: String,
    /// Mean without the change.
    pub without: f64,
    /// Mean with the change.
    pub with: f64,
    /// 95 % confidence interval of the difference.
    pub interval: (f64, f64),
    /// p-value after Holm's correction.
    pub p: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, without, with, interval: (lower, upper), p } = self;
        let difference = with - without;
        write!(
            f,
            "{figure}: {without:.2} to {with:.2} ({difference:+.2}, 95 % {lower:+.2} to {upper:+.2}, \
             p {p:.3})"
        )
    }
}

/// Measured effects by toggle name.
pub type Effects = BTreeMap<String, Measured>;

/// A check and its result.
#[derive(Debug)]
pub struct Row {
    /// The check.
    pub check: &'static Check,
    /// The result.
    pub seen: Observed,
    /// Measured effect of the change on this host.
    pub measured: Option<Measured>,
}

/// All results of an audit.
#[derive(Debug)]
pub struct Audit {
    /// Most important first.
    pub rows: Vec<Row>,
}

/// Changes to make, in order.
pub type Plan = Vec<(&'static Check, Planned)>;

impl Audit {
    /// Runs all checks.
    ///
    /// ```
    /// use linecard_jitter::linux::audit::{Audit, Effects, Host, Unreadable};
    /// let audit = Audit::of(&Host::new(None, None)?, &Effects::new());
    /// assert!(audit.rows.iter().any(|row| row.check.id == "rt-throttling"));
    /// # Ok::<(), Unreadable>(())
    /// ```
    #[must_use]
    pub fn of(host: &Host, effects: &Effects) -> Self {
        let row = |check: &'static Check| {
            let unknown = |why: Unreadable| Observed::of(Verdict::Unknown, why.0);
            let seen = (check.look)(host).unwrap_or_else(unknown);
            let measured = check.toggle.and_then(|toggle| effects.get(toggle)).cloned();
            Row { check, seen, measured }
        };
        let mut rows: Vec<Row> = checks().map(row).collect();
        rows.sort_by_key(|row| (row.seen.verdict, std::cmp::Reverse(row.check.weight)));
        Self { rows }
    }

    /// Changes that can be made now: those of the named checks, or, when none is named, all that do
    /// not need to be named ([`Remedy::Named`]).
    #[must_use]
    pub fn plan(&self, only: &[String]) -> Plan {
        let is_wanted = |row: &&Row| match only {
            [] => row.check.remedy != Remedy::Named,
            named => named.iter().any(|id| id == row.check.id),
        };
        let rows = self.rows.iter().filter(is_wanted);
        rows.flat_map(|row| row.seen.changes.iter().map(|change| (row.check, change.clone())))
            .collect()
    }
}

/// All checks.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let tables: [&[Check]; 6] = [
        &kernel::CHECKS,
        &interrupts::CHECKS,
        &network::CHECKS,
        &power::CHECKS,
        &scheduler::CHECKS,
        &memory::CHECKS,
    ];
    tables.into_iter().flatten()
}

#[cfg(test)]
mod tests;
