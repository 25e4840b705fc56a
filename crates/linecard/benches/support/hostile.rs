//! Cost of hostile single-packet flows for established flows, per packet.

use super::measure::{Account, Bench, CacheState, Clock, Receive, Times};
use super::receive::Coalesce;
use super::trace::Trace;
use super::{Slot, stride, traffic};
use linecard::offload::coalesce::Config;
use linecard::packet::{ChecksumState, LinkType, Meta};

/// Enough that each flow is new.
const NEW: usize = usize::MAX;
/// Hostile packets in a hundred, and the flows they belong to; the first stands for the established
/// flows alone. The cost of 64 flows with the same traffic shows the part that does not depend on
/// the number of flows.
const MIXTURES: [(usize, usize); 7] =
    [(0, NEW), (10, NEW), (50, NEW), (90, NEW), (100, NEW), (50, 64), (100, 64)];
/// Buffers: all held packets, and more than the second-level cache holds.
const SLOTS: usize = 1 << 15;

struct Subject<'a> {
    percent: usize,
    flows: usize,
    trace: Trace,
    coalesce: Coalesce<'a>,
    times: Times,
    account: Account,
}

/// Times 64 established flows with more and more hostile packets between theirs; the rounds of
/// all mixtures take turns. Gives a hash of all output when `packets` are few (`rounds` is 0).
pub(crate) fn receive(clock: Clock, packets: usize, rounds: usize) -> u64 {
    let trusted = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
    let mut hash = 0_u64;
    for held in [false, true] {
        for (name, meta) in [("trusted", trusted), ("verified", Meta::default())] {
            let config = Config { flush_at_batch_end: !held, ..Config::default() };
            let mode = if held { "held across bursts" } else { "let go after each burst" };
            let title = format!("checksum {name}, {mode}");
            hash = hash.rotate_left(9) ^ table(&title, (meta, config), clock, (packets, rounds));
        }
    }
    hash
}

fn table(
    title: &str,
    (meta, config): (Meta, Config),
    clock: Clock,
    (packets, rounds): (usize, usize),
) -> u64 {
    let mut arena = vec![0; SLOTS * stride(1_514)];
    let mut bench = Bench::new(clock, Slot::divide(&mut arena, stride(1_514)));
    let subject = |(percent, flows)| Subject {
        percent,
        flows,
        trace: traffic::hostile((percent, flows), packets),
        coalesce: Coalesce::new(LinkType::Ethernet, meta, config.clone()),
        times: Times::default(),
        account: Account::default(),
    };
    let mut subjects = MIXTURES.map(subject);
    if rounds == 0 {
        return subjects
            .iter_mut()
            .fold(0_u64, |hash, subject| hash.rotate_left(5) ^ subject.hash(&mut bench));
    }
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        subjects.iter_mut().for_each(|subject| subject.round(&mut bench, round > 0));
    }
    println!("\nHostile flows beside 64 established ones, {title}, hot");
    println!("hostile | flows | ns per packet: quiet median | ratio | packets/out");
    let alone = subjects[0].times.quiet();
    for Subject { percent, flows, times, account, .. } in &subjects {
        let (quiet, median) = (times.quiet(), times.median());
        let (ratio, out) = (quiet / alone, account.aggregate());
        let flows = if *flows == NEW { "new" } else { "64" };
        println!(
            "{percent:5} % | {flows:>5} | {quiet:20.1} {median:6.1} | {ratio:5.2} | {out:11.1}"
        );
    }
    0
}

impl<'a> Subject<'a> {
    fn round(&mut self, bench: &mut Bench<'a>, counts: bool) {
        let receiver: &mut dyn Receive<'a> = &mut self.coalesce;
        let (bursts, account) =
            bench.round(&self.trace, receiver, CacheState::Hot, Account::default());
        if counts {
            self.times.record(&bursts, self.trace.len());
            self.account = account;
        }
    }

    fn hash(&mut self, bench: &mut Bench<'a>) -> u64 {
        let receiver: &mut dyn Receive<'a> = &mut self.coalesce;
        let (_, account) = bench.round(&self.trace, receiver, CacheState::Hot, Account::hashing());
        account.hash.unwrap_or_default()
    }
}
