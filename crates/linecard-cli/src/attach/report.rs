//! The account of an attachment.

use super::hints;
use super::rates::reasons;
use crate::account;
use linecard::offload::active_ack::{Answer, Counters as Acks, Silence};
use linecard::offload::coalesce::Counters as Merging;
use linecard::offload::resequence::{Counters as Sequenced, Pass, Release};
use linecard_io::attach::{Account, Merged, Settings, WorkerTotals};
use linecard_io::port::Counters;
use linecard_report::{Report, Section, Value};
use std::time::Duration;

/// All of it, and what to do about it.
pub(super) fn of(account: &Account, settings: &Settings, elapsed: Duration) -> Report {
    let mut report = Report::new("attach");
    let mut summary = Section::new("summary", "Attached");
    summary.add("seconds", "time", Value::Seconds(elapsed.as_secs_f64()));
    report.push(summary);
    report.push(port("near", "Near port", &Account::total(&account.near), elapsed));
    report.push(port("far", "Far port", &Account::total(&account.far), elapsed));
    if account.inward.len() > 1 {
        report.push(workers(account));
    }
    let inward = Account::merged(&account.inward);
    if inward.packets_in > 0 {
        report.push(account::merging(&inward));
        account::reasons(&inward).into_iter().for_each(|section| report.push(section));
    }
    merged_outward(&mut report, &Account::merged(&account.outward));
    resequenced(&mut report, account);
    acknowledged(&mut report, &account.active_ack);
    report.push(check(account));
    hints::of(account, settings).into_iter().for_each(|hint| report.note(hint));
    report
}

fn port(key: &'static str, title: &'static str, counters: &Counters, elapsed: Duration) -> Section {
    let mut section = Section::new(key, title);
    let rate = |bytes: u64| Value::BitRate(bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9));
    section.add("received", "packets received", Value::Count(counters.received));
    section.add("received_bytes", "bytes received", Value::Bytes(counters.received_bytes));
    section.add("received_rate", "received, mean rate", rate(counters.received_bytes));
    section.add("transmitted", "packets transmitted", Value::Count(counters.transmitted));
    let bytes = Value::Bytes(counters.transmitted_bytes);
    section.add("transmitted_bytes", "bytes transmitted", bytes);
    section.add("transmitted_rate", "transmitted, mean rate", rate(counters.transmitted_bytes));
    section.add("cut", "of them cut (LSO)", Value::Count(counters.cut));
    section.add_reason("starved", "times that no buffer was free", counters.starved);
    section.add_reason("blocked", "times that the kernel's queue was full", counters.blocked);
    for (name, why, count) in reasons(&counters.dropped) {
        section.add_reason(name, why, count);
    }
    section
}

/// A row for each worker.
fn workers(account: &Account) -> Section {
    let mut section = Section::list("workers", "Workers");
    for (worker, merged) in account.inward.iter().enumerate() {
        let WorkerTotals { packets_in, packets_out, dropped, .. } = account.of_worker(worker);
        let count = Value::Count;
        let mean = merged.coalesce.mean_aggregate();
        let text = format!(
            "{} packets in, {} out, {mean:.2} merged into one, {} lost",
            count(packets_in),
            count(packets_out),
            count(dropped),
        );
        let fields = vec![
            ("packets_in", count(packets_in)),
            ("packets_out", count(packets_out)),
            ("mean_aggregate", Value::Number(mean)),
            ("dropped", count(dropped)),
        ];
        section.add("worker", format!("worker {worker}"), Value::Fields(text, fields));
    }
    section
}

fn merged_outward(report: &mut Report, counters: &Merging) {
    if counters.packets_in == 0 {
        return;
    }
    let section = Section::new("merging_outward", "Merging on the way back");
    report.push(account::merging_in(section, counters));
    let sections = [
        Section::new("flushed_outward", "Why packets held on the way back were let go"),
        Section::new("refused_outward", "Why packets on the way back did not merge"),
    ];
    account::reasons_in(sections, counters).into_iter().for_each(|section| report.push(section));
}

/// What resequencing has done on both ways.
fn sequenced(ways: [&[Merged]; 2]) -> Option<Sequenced> {
    let mut all = ways.into_iter().flatten().filter_map(|merged| merged.resequence.as_ref());
    let mut sum = all.next()?.clone();
    all.for_each(|other| sum.add(other));
    Some(sum)
}

fn resequenced(report: &mut Report, account: &Account) {
    let Some(counters) = sequenced([&account.inward, &account.outward]) else { return };
    let mut section = Section::new("resequencing", "Put into sequence");
    section.add("packets_in", "packets in", Value::Count(counters.packets_in));
    section.add("held", "held for what was missing", Value::Count(counters.hold_ns.count()));
    if counters.hold_ns.count() > 0 {
        let hold = |ns: u64| Value::Ns(ns as f64);
        section.add("hold_ns_p50", "held, median", hold(counters.hold_ns.quantile(0.5)));
        section.add("hold_ns_max", "held, longest", hold(counters.hold_ns.max()));
    }
    section.add("dropped", "duplicates dropped", Value::Count(counters.dropped));
    report.push(section);
    let mut section = Section::new("released", "Why packets held for sequence were let go");
    for &why in Release::ALL {
        section.add_reason(why.name(), why.explanation(), counters.released.of(why));
    }
    report.push(section);
    let mut section = Section::new("in_sequence", "Why packets were not held for sequence");
    for &why in Pass::ALL {
        section.add_reason(why.name(), why.explanation(), counters.passed.of(why));
    }
    report.push(section);
}

fn acknowledged(report: &mut Report, counters: &Acks) {
    if counters.data_in + counters.answers_in == 0 {
        return;
    }
    let mut section = Section::new("active_ack", "Acknowledged for the receiver");
    section.add("data_in", "packets towards it", Value::Count(counters.data_in));
    section.add("sent", "acknowledgments sent", Value::Count(counters.sent));
    section.add("answers_in", "packets from it", Value::Count(counters.answers_in));
    for &what in Answer::ALL {
        section.add_reason(what.name(), what.explanation(), counters.answers.of(what));
    }
    report.push(section);
    let mut section = Section::new("not_acknowledged", "Why packets were not acknowledged");
    for &why in Silence::ALL {
        section.add_reason(why.name(), why.explanation(), counters.silent.of(why));
    }
    report.push(section);
}

/// Rings, and whether all packets are accounted for.
fn check(account: &Account) -> Section {
    let mut section = Section::new("check", "Where packets are left");
    if !account.spread.packets.is_empty() {
        let full = "workers' rings were full";
        section.add_reason("ring_dropped", full, account.spread.dropped.iter().sum());
        let waiting = account.gather.most_waiting as u64;
        section.add("most_waiting", "most that waited to go out", Value::Count(waiting));
    }
    let [inward, outward] = unaccounted(account);
    section.add("unaccounted_inward", "unaccounted, near to far", Value::Difference(inward));
    section.add("unaccounted_outward", "unaccounted, far to near", Value::Difference(outward));
    section
}

/// Packets of each way that were received and are neither merged into others, dropped, held nor
/// transmitted; 0 after a clean end. More are left when somebody took nothing for a second at the end;
/// while it runs, counters of different threads are of different moments.
pub(super) fn unaccounted(account: &Account) -> [i64; 2] {
    let (near, far) = (Account::total(&account.near), Account::total(&account.far));
    let acks = &account.active_ack;
    let suppressed = acks.answers.of(Answer::Suppressed);
    let rings = account.spread.dropped.iter().sum::<u64>();
    let inward = [near.received, rings + gone_within(&account.inward), out(&far)];
    let outward =
        [far.received + acks.sent, suppressed + gone_within(&account.outward), out(&near)];
    // Counters are far from the limits of 63 bits.
    [inward, outward].map(|[came, within, went]| came as i64 - within as i64 - went as i64)
}

/// Packets that a way has not given on, for good or for now.
fn gone_within(workers: &[Merged]) -> u64 {
    let of = |merged: &Merged| {
        let dropped = merged.resequence.as_ref().map_or(0, |counters| counters.dropped);
        merged.coalesce.merged + dropped + merged.held
    };
    workers.iter().map(of).sum()
}

/// What has come to a port to be sent.
fn out(port: &Counters) -> u64 {
    port.transmitted + port.dropped.transmitted()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::{merged, port as port_of};
    use super::*;
    use linecard_io::engine::SpreadCounters;

    fn settings() -> Settings {
        let spec = |text: &str| text.parse().expect("a port");
        Settings::new(spec("file:a"), spec("tap:b"))
    }

    #[test]
    fn all_packets_are_accounted_for() {
        let mut account = Account {
            near: vec![port_of(1_000, 10, 3)],
            far: vec![port_of(10, 95, 0)],
            inward: vec![merged(995, 10, 7, 0)],
            spread: SpreadCounters { packets: vec![995], dropped: vec![5] },
            ..Account::default()
        };
        account.far[0].dropped.above_mtu = 4;
        // 995 became 99, of which 95 went out and 4 were refused.
        assert_eq!(unaccounted(&account), [0, 0]);
        account.far[0].transmitted -= 2;
        account.near[0].transmitted += 1;
        assert_eq!(unaccounted(&account), [2, -1]);
        account.active_ack.sent = 1;
        assert_eq!(unaccounted(&account), [2, 0]);
        let text = of(&account, &settings(), Duration::from_secs(1)).to_string();
        let words = ["unaccounted,", "near", "to", "far", "2"];
        assert!(text.lines().any(|line| line.split_whitespace().eq(words)), "{text}");
        assert!(text.contains("ring_dropped"), "{text}");
    }

    #[test]
    fn every_part_that_was_used_is_there_and_no_other() {
        let mut account = Account {
            near: vec![port_of(100, 10, 0), port_of(50, 0, 0)],
            far: vec![port_of(10, 10, 0), port_of(0, 50, 0)],
            inward: vec![merged(100, 10, 7, 0), merged(50, 1, 7, 0)],
            outward: vec![Merged::default(); 2],
            ..Account::default()
        };
        let keys = |account: &Account| {
            let report = of(account, &settings(), Duration::from_secs(1));
            let json = serde_json::to_value(&report).expect("it is JSON");
            json.as_object().expect("a map").keys().cloned().collect::<Vec<_>>()
        };
        let few = ["check", "far", "job", "merging", "near", "notes", "summary", "workers"];
        let mut found = keys(&account);
        found.sort();
        assert_eq!(found, few);
        account.outward[1] = merged(5, 1, 7, 0);
        account.inward[0].resequence = Some(Sequenced::default());
        account.active_ack.data_in = 1;
        let found = keys(&account);
        for key in ["merging_outward", "resequencing", "active_ack"] {
            assert!(found.iter().any(|other| other == key), "{key}: {found:?}");
        }
    }
}
