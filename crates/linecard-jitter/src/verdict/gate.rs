//! Gates: conditions that must hold before a measurement gives a verdict.
//!
//! A tracer that loses records, clocks that differ, or a sender that stutters produce figures that
//! look valid. So each of these is checked; if one is found, the figures are shown and the verdict
//! is withheld, with the reason.

use crate::ledger::Ledger;
use crate::stream::Measured;
use crate::trace::{Event, EventKind, Joined, PinnedThread, Trace};
use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Minimum share of packets whose path is completely known.
pub const JOINED: f64 = 0.9999;
/// Minimum share of spikes whose cause is named, or known not to be a kernel event.
pub const NAMED: f64 = 0.95;
/// Maximum share of missing packets before the figures describe a different stream.
pub const MISSING: f64 = 0.001;

/// A condition, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Name for JSON.
    pub name: &'static str,
    /// Whether it holds.
    pub passes: bool,
    /// The finding, with figures.
    pub found: Cow<'static, str>,
}

impl Gate {
    /// A gate with its result.
    #[must_use]
    pub fn new(name: &'static str, passes: bool, found: impl Into<Cow<'static, str>>) -> Self {
        Self { name, passes, found: found.into() }
    }
}

/// Whether the figures give a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates(pub Vec<Gate>);

impl Gates {
    /// Whether all conditions hold.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.0.iter().all(|gate| gate.passes)
    }

    /// The findings of the conditions that do not hold.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let failed = self.0.iter().filter(|gate| !gate.passes);
        failed.map(|gate| format!("{}: {}", gate.name, gate.found)).collect()
    }
}

/// The gates for the measurements of both ends.
#[must_use]
pub fn of_ends(measured: &Measured) -> Vec<Gate> {
    let sent = measured.sent_ns.iter().filter(|at| **at > 0).count();
    let numbers: BTreeSet<u64> = measured.arrivals.iter().map(|arrival| arrival.sequence).collect();
    let was_sent = |number: &&u64| {
        let at = usize::try_from(**number).ok();
        at.and_then(|at| measured.sent_ns.get(at)).is_some_and(|sent_ns| *sent_ns > 0)
    };
    // Packets that were not sent do not make up for missing ones.
    let came = numbers.iter().filter(was_sent).count();
    let missing = sent - came;
    let enough = (missing as f64) <= sent as f64 * MISSING && sent > 1;
    let complete = Gate::new(
        "complete",
        enough,
        format!(
            "{missing} of {sent} packets are missing, {} for want of room",
            measured.overflowed
        ),
    );
    let strange = numbers.len() - came;
    let known =
        Gate::new("known", strange == 0, format!("{strange} packets arrived that were not sent"));
    let early = measured.arrivals.iter().filter(|arrival| {
        let sent_ns =
            usize::try_from(arrival.sequence).ok().and_then(|at| measured.sent_ns.get(at));
        sent_ns.is_some_and(|sent_ns| arrival.at_ns < *sent_ns)
    });
    let early = early.count();
    let clock =
        Gate::new("clock", early == 0, format!("{early} packets arrived before they were sent"));
    [complete, known, clock].into()
}

/// The gates for a trace.
#[must_use]
pub fn of_trace(trace: &Trace, joined: &Joined, ledger: &Ledger) -> Vec<Gate> {
    let counts = &joined.counts;
    let records = Gate::new(
        "records",
        trace.lost == 0,
        format!("the trace has {} events, and {} were lost", trace.events.len(), trace.lost),
    );
    // Count = records = packets of the application.
    let in_socket = counts.arrived + counts.refused;
    let off = counts.received.abs_diff(in_socket).max(counts.unmatched);
    let counted = Gate::new(
        "counts",
        off as f64 <= in_socket as f64 * (1.0 - JOINED),
        format!(
            "the trace saw {} packets received and {} of them in no socket, the application had \
             {} and its \
             socket refused {}",
            counts.received, counts.unmatched, counts.arrived, counts.refused
        ),
    );
    let join = Gate::new(
        "joined",
        counts.joined_share() >= JOINED,
        format!("{} of {} packets are known from end to end", counts.joined, counts.arrived),
    );
    let order = Gate::new(
        "order",
        counts.disordered == 0,
        format!("{} packets have times against the order of the stages", counts.disordered),
    );
    let share = ledger.named_share();
    let named = Gate::new(
        "named",
        share >= NAMED,
        format!("{:.1} % of {} spikes have a cause", share * 100.0, ledger.spikes.len()),
    );
    [records, counted, join, order, named, seated(trace)].into()
}

/// Whether both ends were seen on their cores: in a container, the kernel may know threads by other
/// ids than they know themselves, and their own time would be charged to another thread.
fn seated(trace: &Trace) -> Gate {
    let is_seen = |pinned: &PinnedThread| {
        let takes = |event: &Event| match event.what {
            EventKind::Switch { from, to, .. } => {
                event.core == pinned.core && [from, to].contains(&pinned.thread)
            }
            _ => false,
        };
        trace.events.iter().any(takes)
    };
    let ends = [("sink", &trace.sink), ("sender", &trace.generator)];
    let unseen =
        ends.iter().filter(|(_, pinned)| pinned.as_ref().is_some_and(|pinned| !is_seen(pinned)));
    let unseen: Vec<&str> = unseen.map(|(name, _)| *name).collect();
    let found = match unseen.as_slice() {
        [] => Cow::Borrowed("both ends were seen on their cores"),
        some => format!(
            "never seen on its core: the {}; in a container threads have other numbers for the kernel",
            some.join(", the ")
        )
        .into(),
    };
    Gate::new("seats", unseen.is_empty(), found)
}
