//! Audit: what of this host makes packets late, what to change, and what that costs.
//!
//! Each check is a row of [`checks`]: what is read, how it is judged, what is advised and why. An audit
//! reads and changes nothing: it has no journal. What it would change is a [`Plan`], which
//! [`apply`](apply::apply) makes so through one. What cannot be read is unknown, with the reason, and
//! never good.
//!
//! Sources: the paper ("Chasing Linux Jitter Sources for Uncompressed Video", sections II to IV) and the
//! kernel's documentation, named at each check.

pub mod apply;
mod host;
mod interrupts;
mod kernel;
mod memory;
mod network;
mod power;
mod scheduler;

pub use host::{Host, Unread};

use super::setting::Setting;
use std::collections::BTreeMap;
use std::fmt;

/// One question to the host.
#[derive(Debug)]
pub struct Check {
    /// Its name, stable.
    pub id: &'static str,
    /// Where it is read.
    pub reads: &'static str,
    /// Which lateness it causes.
    pub cause: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// What changing it takes.
    pub remedy: Remedy,
    /// What can go wrong with the change.
    pub risk: &'static str,
    /// How much it usually matters, 0 … 100: the order of the table.
    pub weight: u8,
    /// The A/B toggle that measures it here, if there is one.
    pub toggle: Option<&'static str>,
    look: fn(&Host) -> Result<Seen, Unread>,
}

/// What changing it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It can be changed now, and put back.
    Live,
    /// The same, but only when the check is named: what can go wrong is a machine that stands still.
    Named,
    /// A parameter of the kernel's command line, or another kernel.
    Boot,
    /// Another machine, slot or core.
    Hardware,
    /// Another program is to be started, stopped or started differently.
    Program,
    /// Nothing: it explains other rows.
    Nothing,
}

impl Remedy {
    /// A word for tables.
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

/// How it was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// There is something to change.
    Advice,
    /// It cannot be read.
    Unknown,
    /// A fact, neither good nor bad.
    Note,
    /// As it should be.
    Good,
    /// There is no such thing here.
    Absent,
}

impl Verdict {
    /// A word for tables.
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

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How it was judged.
    pub verdict: Verdict,
    /// What was read, in words; for the unknown, why not.
    pub found: String,
    /// What to do; empty where nothing is.
    pub advice: String,
    /// What can be changed now.
    pub changes: Vec<Planned>,
}

impl Seen {
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

/// A setting, and what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The setting.
    pub setting: Setting,
    /// What it is to be.
    pub value: String,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.value)
    }
}

/// What an A/B run has measured of a toggle.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Which figure, with its unit.
    pub figure: String,
    /// Its mean without.
    pub without: f64,
    /// Its mean with.
    pub with: f64,
    /// Where the difference lies, with 95 %.
    pub interval: (f64, f64),
    /// The chance of it if there is none, after Holm's correction.
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

/// Measured effects, by the toggle's name.
pub type Effects = BTreeMap<String, Measured>;

/// A check and what it has found.
#[derive(Debug)]
pub struct Row {
    /// The question.
    pub check: &'static Check,
    /// The answer.
    pub seen: Seen,
    /// What the change has been measured to do here.
    pub measured: Option<Measured>,
}

/// All that was found.
#[derive(Debug)]
pub struct Audit {
    /// The most important first.
    pub rows: Vec<Row>,
}

/// What is to be changed, in order.
pub type Plan = Vec<(&'static Check, Planned)>;

impl Audit {
    /// Asks everything.
    ///
    /// ```
    /// use linecard_jitter::linux::audit::{Audit, Effects, Host, Unread};
    /// let audit = Audit::of(&Host::new(None, None)?, &Effects::new());
    /// assert!(audit.rows.iter().any(|row| row.check.id == "rt-throttling"));
    /// # Ok::<(), Unread>(())
    /// ```
    #[must_use]
    pub fn of(host: &Host, effects: &Effects) -> Self {
        let row = |check: &'static Check| {
            let unknown = |why: Unread| Seen::of(Verdict::Unknown, why.0);
            let seen = (check.look)(host).unwrap_or_else(unknown);
            let measured = check.toggle.and_then(|toggle| effects.get(toggle)).cloned();
            Row { check, seen, measured }
        };
        let mut rows: Vec<Row> = checks().map(row).collect();
        rows.sort_by_key(|row| (row.seen.verdict, std::cmp::Reverse(row.check.weight)));
        Self { rows }
    }

    /// What can be changed now: of these checks, or, where none is named, of all that may be changed
    /// without being named ([`Remedy::Named`]).
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
