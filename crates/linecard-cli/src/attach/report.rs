//! The account of an attachment.

use crate::account;
use linecard::report::{Report, Section, Value};
use linecard_host::attach::Account;
use linecard_host::port::Counters;
use std::time::Duration;

/// All of it.
pub(super) fn of(account: &Account, elapsed: Duration) -> Report {
    let mut report = Report::new("attach");
    let mut summary = Section::new("summary", "Attached");
    summary.add("seconds", "time", Value::Seconds(elapsed.as_secs_f64()));
    report.push(summary);
    report.push(port("near", "Near port", &Account::total(&account.near), elapsed));
    report.push(port("far", "Far port", &Account::total(&account.far), elapsed));
    let merged = Account::merged(&account.inward);
    if merged.packets_in > 0 {
        report.push(account::merging(&merged));
        account::reasons(&merged).into_iter().for_each(|section| report.push(section));
    }
    report
}

fn port(key: &'static str, title: &'static str, counters: &Counters, elapsed: Duration) -> Section {
    let mut section = Section::new(key, title);
    let rate = |bytes: u64| Value::BitRate(bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9));
    section.add("received", "packets received", Value::Count(counters.received));
    section.add("received_rate", "received, mean rate", rate(counters.received_bytes));
    section.add("transmitted", "packets transmitted", Value::Count(counters.transmitted));
    section.add("transmitted_rate", "transmitted, mean rate", rate(counters.transmitted_bytes));
    section.add("cut", "of them cut (LSO)", Value::Count(counters.cut));
    let drops = counters.dropped;
    for (name, why, count) in [
        ("too_long", "received, longer than a buffer", drops.too_long),
        ("bad_header", "received, described wrongly", drops.bad_header),
        ("ring_full", "received by the kernel, no room in the ring", drops.ring_full),
        ("above_mtu", "to be sent, longer than the MTU", drops.above_mtu),
        ("refused", "to be sent, refused: the interface is down or gone", drops.refused),
        ("unsendable", "to be sent, neither describable nor to be cut", drops.unsendable),
    ] {
        section.add_reason(name, why, count);
    }
    section
}
