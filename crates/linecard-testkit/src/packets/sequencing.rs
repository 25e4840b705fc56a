//! Drives the resequencer beside its twin, and checks what holds for any input.

use super::plain;
use super::resequencer::Twin;
use super::runner::{Buffer, packet};
use super::traffic::Arrival;
use linecard::offload::resequence::{Config, Counters, Exit, Pass, Release, Resequencer};
use linecard::packet::Packet;
use linecard::time::Instant;
use std::collections::{BTreeSet, HashMap};

/// Packets that left, and packets that were dropped.
pub struct Run {
    pub resequencer: Resequencer<Buffer>,
    pub out: Vec<(Packet<Buffer>, Exit)>,
}

impl Run {
    fn push(&mut self, number: usize, arrival: &Arrival) {
        let out = &mut self.out;
        self.resequencer.push(packet(number, arrival), arrival.now, &mut |p, e| out.push((p, e)));
    }

    fn advance(&mut self, now: u64) {
        let out = &mut self.out;
        self.resequencer.advance(Instant::from_ns(now), &mut |p, e| out.push((p, e)));
    }

    fn stop(&mut self) {
        let out = &mut self.out;
        self.resequencer.flush_all(&mut |p, e| out.push((p, e)));
    }

    pub fn numbers(&self) -> Vec<(usize, Exit)> {
        self.out.iter().map(|(packet, exit)| (packet.buffer().number, *exit)).collect()
    }
}

pub fn run(config: &Config, arrivals: &[Arrival], punctual: bool) -> (Run, Twin) {
    let mut real = Run { resequencer: Resequencer::new(config.clone()), out: Vec::new() };
    let mut twin = Twin::new(config.clone());
    for (number, arrival) in arrivals.iter().enumerate() {
        while let Some(wakeup) = twin.next_wakeup().filter(|_| punctual) {
            if wakeup > arrival.now.as_ns() {
                break;
            }
            assert_eq!(real.resequencer.next_wakeup(), Some(Instant::from_ns(wakeup)));
            twin.advance(wakeup);
            real.advance(wakeup);
        }
        twin.push(number, arrival);
        real.push(number, arrival);
        let held = real.resequencer.held();
        assert!(held <= config.max_held_packets.max(1) && held < 4_097);
        assert!(real.resequencer.held_bytes() <= config.max_held_bytes);
    }
    twin.stop();
    real.stop();
    (real, twin)
}

pub type Left = Vec<(usize, Exit)>;

/// Output of each flow; packets that show none under the empty key.
pub fn by_flow(out: &[(usize, Exit)], arrivals: &[Arrival]) -> HashMap<Vec<u8>, Left> {
    let mut flows: HashMap<Vec<u8>, Left> = HashMap::new();
    for (number, exit) in out {
        let arrival = &arrivals[*number];
        let view = plain::view(arrival.link, &arrival.bytes);
        let key = plain::flow_key(&arrival.bytes, &view, arrival.meta.lane).unwrap_or_default();
        flows.entry(key).or_default().push((*number, *exit));
    }
    flows
}

/// Properties of any input: every packet leaves unchanged, and packets without data overtake nothing
/// and is not overtaken.
pub fn check(run: &Run, arrivals: &[Arrival], config: &Config) {
    let counters = run.resequencer.counters();
    check_counters(counters, run, arrivals);
    assert!(config.drop_duplicates || counters.dropped == 0);
    let mut flows: HashMap<Vec<u8>, BTreeSet<usize>> = HashMap::new();
    let mut ends: Ends = HashMap::new();
    let views: Vec<_> = arrivals.iter().map(|a| plain::view(a.link, &a.bytes)).collect();
    let key = |n: usize| plain::flow_key(&arrivals[n].bytes, &views[n], arrivals[n].meta.lane);
    let ends_of = |n: usize| plain::ends(&arrivals[n].bytes, &views[n], arrivals[n].meta.lane);
    for (packet, _) in &run.out {
        let number = packet.buffer().number;
        assert!(packet.bytes() == arrivals[number].bytes, "packet {number} changed");
        if let Some(key) = key(number) {
            assert!(flows.entry(key).or_default().insert(number), "packet {number} left twice");
        }
        for level in levels(&ends_of(number)) {
            ends.entry(level).or_default().insert(number);
        }
    }
    let mut seen: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (number, exit) in run.numbers() {
        let Some(flow) = key(number) else { continue };
        let before = seen.entry(flow.clone()).or_default();
        before.push(number);
        let data = matches!(
            exit,
            Exit::Released(_) | Exit::Passed(Pass::InOrder | Pass::First | Pass::Old)
        );
        if !data && !matches!(exit, Exit::Passed(Pass::NoFlow | Pass::Stray)) {
            let earlier = flows[&flow].range(..=number).count();
            assert_eq!(before.len(), earlier, "packet {number}, {exit:?}, overtook its flow");
        }
    }
    check_ends(run, arrivals, &ends);
}

/// Packets without visible ports overtake nothing between their addresses.
fn check_ends(run: &Run, arrivals: &[Arrival], ends: &Ends) {
    let mut seen: HashMap<Vec<Vec<u8>>, usize> = HashMap::new();
    for (number, exit) in run.numbers() {
        let arrival = &arrivals[number];
        let view = plain::view(arrival.link, &arrival.bytes);
        let shown = plain::ends(&arrival.bytes, &view, arrival.meta.lane);
        for level in levels(&shown) {
            *seen.entry(level).or_default() += 1;
        }
        let carrier = plain::is_carrier(view.protocol) && !shown.is_empty();
        if exit == Exit::Passed(Pass::NoFlow) && carrier {
            let earlier = ends[&shown].range(..=number).count();
            assert_eq!(seen[&shown], earlier, "packet {number} overtook one of its ends");
        }
    }
}

/// Packets by the ends they show: of the outermost header, of the first two, and so on.
type Ends = HashMap<Vec<Vec<u8>>, BTreeSet<usize>>;

fn levels(ends: &[Vec<u8>]) -> impl Iterator<Item = Vec<Vec<u8>>> {
    (1..=ends.len()).map(|level| ends[..level].to_vec())
}

fn check_counters(counters: &Counters, run: &Run, arrivals: &[Arrival]) {
    let left = run.out.len() as u64;
    assert_eq!(counters.packets_in, arrivals.len() as u64);
    assert_eq!(counters.packets_in, left + counters.dropped);
    assert_eq!(counters.packets_out, left);
    assert_eq!(counters.passed.total() + counters.released.total(), left);
    assert_eq!(counters.hold_ns.count(), counters.released.total());
    assert_eq!(counters.bytes_in, arrivals.iter().map(|a| a.bytes.len() as u64).sum::<u64>());
    assert_eq!((run.resequencer.held(), run.resequencer.held_bytes()), (0, 0));
    for why in Release::ALL {
        let times = run.out.iter().filter(|(_, exit)| *exit == Exit::Released(*why)).count();
        assert_eq!(counters.released.of(*why), times as u64, "{why:?}");
    }
    for why in Pass::ALL {
        let times = run.out.iter().filter(|(_, exit)| *exit == Exit::Passed(*why)).count();
        assert_eq!(counters.passed.of(*why), times as u64, "{why:?}");
    }
}
