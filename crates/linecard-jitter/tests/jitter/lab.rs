//! One measurement at a time, and whether this host permits any.

use linecard_io::placement::{Placement, PlacementGuard};
use linecard_jitter::linux::session::{
    Conditions, CoreAssignment, Receive, SessionOutcome, TestNetwork, measure,
};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

/// Measurements are of the whole host.
static ONE: Mutex<()> = Mutex::new(());

/// Tries of a test: other programs have the cores, too.
pub(crate) const TRIES: usize = 6;

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Alone with a cable; or nothing, with the reason on stderr.
pub(crate) fn cable(test: &str) -> Option<(MutexGuard<'static, ()>, TestNetwork)> {
    let alone = alone();
    if !CoreAssignment::of_this_host().are_apart() {
        linecard_testkit::skip(test, "two cores are needed");
        return None;
    }
    match TestNetwork::cable() {
        Ok(place) => Some((alone, place)),
        Err(error) => {
            linecard_testkit::skip(test, error);
            None
        }
    }
}

/// This thread at a core, before other programs, until what it gives is dropped.
pub(crate) fn placed(core: u16) -> PlacementGuard {
    let placement = Placement { core: Some(core.into()), fifo: Some(50), ..Placement::default() };
    placement.enter(false).expect("root may")
}

/// Conditions under which little happens by itself.
pub(crate) fn calm() -> Conditions {
    Conditions {
        period_ps: 20_000_000,
        count: 60_000,
        payload_len: 64,
        receive: Receive::Sender,
        ..Conditions::default()
    }
}

/// Measures; or nothing where this kernel cannot be traced.
pub(crate) fn traced(
    place: &TestNetwork,
    conditions: &Conditions,
    test: &str,
) -> Option<SessionOutcome> {
    let outcome = measure(place, conditions, &AtomicBool::new(false)).expect("a measurement");
    if let Err(why) = &outcome.trace {
        linecard_testkit::skip(test, why);
        return None;
    }
    Some(outcome)
}
