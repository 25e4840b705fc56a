//! The resequencing twin: held packets of a flow in a plain list, everything sought from the front.

use super::frame::{FIN, RST, SYN, TCP, URG, add16, be16, be32, pseudo, sum16};
use super::plain::{self, View};
use super::traffic::Arrival;
use linecard::offload::coalesce::ChecksumPolicy;
use linecard::offload::resequence::{Config, Exit, Pass, Release};
use linecard::packet::{ChecksumState, Form};
use linecard::time::ns;
use std::collections::HashMap;

#[derive(Debug, Clone)]
struct Held {
    number: usize,
    sequence: u32,
    end: u32,
    bytes: usize,
    arrived: u64,
}

#[derive(Debug, Clone, Default)]
struct Flow {
    ends: Vec<Vec<u8>>,
    next: u32,
    /// Bytes before `next` without a gap.
    run: u64,
    strayed: Option<u32>,
    held: Vec<Held>,
    /// Counts when it began to hold.
    since: u64,
    last: u64,
    interval: Option<u64>,
}

/// Class of a packet for resequencing.
enum Kind {
    Data { sequence: u32, end: u32 },
    Control { flags: u16, sequence: u32, end: u32 },
    Other(Pass),
}

pub struct Twin {
    config: Config,
    flows: HashMap<Vec<u8>, Flow>,
    pub out: Vec<(usize, Exit)>,
    pub dropped: Vec<usize>,
    now: u64,
    turns: u64,
}

fn ahead(of: u32, sequence: u32) -> i64 {
    i64::from(sequence.wrapping_sub(of) as i32)
}

impl Flow {
    fn earliest(&self) -> Option<u64> {
        self.held.iter().map(|held| held.arrived).min()
    }

    fn give_on(&mut self, end: u32) {
        let step = ahead(self.next, end);
        if step > 0 {
            self.run += step as u64;
            self.next = end;
        }
    }

    fn skip_to(&mut self, sequence: u32) {
        if ahead(self.next, sequence) > 0 {
            (self.next, self.run) = (sequence, 0);
        }
    }
}

impl Twin {
    pub fn new(config: Config) -> Self {
        let (out, dropped) = (Vec::new(), Vec::new());
        Self { config, flows: HashMap::new(), out, dropped, now: 0, turns: 0 }
    }

    pub fn next_wakeup(&self) -> Option<u64> {
        let next = self.flows.values().filter_map(|flow| self.deadline(flow)).min()?;
        Some(next.max(self.now))
    }

    fn deadline(&self, flow: &Flow) -> Option<u64> {
        let budget = ns(self.config.hold_budget);
        let wait = flow
            .interval
            .map_or(budget, |interval| (interval * 10).max(ns(self.config.gap_floor)).min(budget));
        Some(flow.earliest()?.saturating_add(wait))
    }

    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        let keys: Vec<Vec<u8>> = self.flows.keys().cloned().collect();
        for key in keys {
            while self.deadline(&self.flows[&key]).is_some_and(|deadline| deadline <= self.now) {
                let arrived = self.flows[&key].earliest().expect("it has a deadline");
                let spent = self.now - arrived >= ns(self.config.hold_budget);
                let why = if spent { Release::Budget } else { Release::Gap };
                self.give_up_gap(&key, why);
            }
        }
    }

    pub fn push(&mut self, number: usize, arrival: &Arrival) {
        self.advance(arrival.now.as_ns());
        let view = plain::view(arrival.link, &arrival.bytes);
        let key = plain::flow_key(&arrival.bytes, &view, arrival.meta.lane);
        let options = |ip: usize| !view.v6 && arrival.bytes[ip] & 15 != 5;
        let Some(key) = key.filter(|_| !view.ip.is_some_and(options)) else {
            return self.pass_without_flow(number, arrival, &view);
        };
        if view.protocol != TCP {
            return self.out.push((number, Exit::Passed(Pass::NotTcp)));
        }
        match self.kind(arrival, &view) {
            Kind::Other(why) => {
                self.release_all(&key, Release::Bypass);
                self.out.push((number, Exit::Passed(why)));
            }
            Kind::Control { flags, sequence, end } => {
                self.release_all(&key, Release::Bypass);
                let urgent = flags & (SYN | FIN | RST) == 0;
                let why = if urgent { Pass::Urgent } else { Pass::Control };
                self.out.push((number, Exit::Passed(why)));
                if flags & SYN != 0 {
                    let run = u64::from(end.wrapping_sub(sequence)) - u64::from(flags & SYN != 0);
                    self.open(&key, arrival, &view, (end, run - u64::from(flags & FIN != 0)));
                } else if !urgent {
                    self.flows.remove(&key);
                } else if let Some(flow) = self.flows.get_mut(&key) {
                    flow.skip_to(sequence);
                    flow.give_on(end);
                }
            }
            Kind::Data { sequence, end } => {
                self.data(number, &key, (arrival, &view), (sequence, end));
            }
        }
    }

    pub fn stop(&mut self) {
        while let Some((key, _)) = self.oldest() {
            self.release_all(&key, Release::Stop);
        }
    }

    fn oldest(&self) -> Option<(Vec<u8>, u64)> {
        let holding = self.flows.iter().filter(|(_, flow)| !flow.held.is_empty());
        holding.map(|(key, flow)| (key.clone(), flow.since)).min_by_key(|(_, since)| *since)
    }

    fn pass_without_flow(&mut self, number: usize, arrival: &Arrival, view: &View) {
        let ends = plain::ends(&arrival.bytes, view, arrival.meta.lane);
        if !ends.is_empty() && plain::is_carrier(view.protocol) {
            let between = self.flows.iter().filter(|(_, flow)| flow.ends.starts_with(&ends));
            let keys: Vec<Vec<u8>> = between.map(|(key, _)| key.clone()).collect();
            keys.iter().for_each(|key| self.release_all(key, Release::Bypass));
        }
        self.out.push((number, Exit::Passed(Pass::NoFlow)));
    }

    fn kind(&self, arrival: &Arrival, view: &View) -> Kind {
        let (bytes, at) = (&arrival.bytes, view.transport);
        if !self.vouched(arrival, view) {
            return Kind::Other(Pass::Checksum);
        }
        let (sequence, flags) = (be32(bytes, at + 4), be16(bytes, at + 12) & 0xFFF);
        let len = view.payload_len() as u32;
        let extra = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let end = sequence.wrapping_add(len + extra);
        if flags & (SYN | FIN | RST | URG) != 0 {
            Kind::Control { flags, sequence, end }
        } else if len == 0 {
            Kind::Other(Pass::NoPayload)
        } else {
            Kind::Data { sequence, end }
        }
    }

    fn vouched(&self, arrival: &Arrival, view: &View) -> bool {
        let (bytes, ip) = (&arrival.bytes, view.ip.expect("a flow has addresses"));
        if !view.v6 && sum16(&bytes[ip..ip + usize::from(bytes[ip] & 15) * 4]) != 0xFFFF {
            return false;
        }
        let trust = self.config.checksum == ChecksumPolicy::Trust;
        if trust || arrival.meta.checksum != ChecksumState::Unknown {
            return true;
        }
        let covered = &bytes[view.transport..view.end];
        let pseudo = pseudo(view.addresses(bytes).expect("as above"), TCP, covered.len());
        view.form == Form::Datagram && add16(sum16(&pseudo), sum16(covered)) == 0xFFFF
    }

    fn open(&mut self, key: &[u8], arrival: &Arrival, view: &View, (next, run): (u32, u64)) {
        let ends = plain::ends(&arrival.bytes, view, arrival.meta.lane);
        let flow = Flow { ends, next, run, last: self.now, ..Flow::default() };
        self.flows.insert(key.to_vec(), flow);
    }

    fn data(
        &mut self,
        number: usize,
        key: &[u8],
        (arrival, view): (&Arrival, &View),
        (sequence, end): (u32, u32),
    ) {
        let len = u64::from(end.wrapping_sub(sequence));
        let (now, window) = (self.now, self.config.max_flow_bytes as i64);
        let Some(flow) = self.flows.get_mut(key) else {
            self.open(key, arrival, view, (end, len));
            return self.out.push((number, Exit::Passed(Pass::First)));
        };
        let delta = (now - flow.last).min(u64::from(u32::MAX - 1));
        flow.interval = Some(flow.interval.map_or(delta, |interval| (interval + delta) / 2));
        flow.last = now;
        let bytes = arrival.bytes.len();
        loop {
            let flow = self.flows.get_mut(key).expect("it is there");
            let (from, reach) = (ahead(flow.next, sequence), ahead(flow.next, end));
            if from == 0 {
                return self.give(number, key, end, Pass::InOrder);
            } else if from > 0 && reach > window || from < -window && reach <= 0 {
                return self.stray(number, key, (sequence, end));
            } else if from < 0 {
                let seen = reach <= 0 && -from as u64 <= flow.run.min(1 << 30);
                if seen && self.config.drop_duplicates {
                    flow.strayed = None;
                    return self.dropped.push(number);
                }
                return self.give(number, key, end, Pass::Old);
            }
            if bytes > self.config.max_flow_bytes.min(self.config.max_held_bytes) {
                self.release_all(key, Release::FlowLimit);
                let flow = self.flows.get_mut(key).expect("it is there");
                flow.skip_to(sequence);
                flow.give_on(end);
                return self.out.push((number, Exit::Passed(Pass::TooLarge)));
            }
            let held = |flow: &Flow| flow.held.iter().map(|held| held.bytes).sum::<usize>();
            if flow.held.len() >= self.config.max_flow_packets.max(1)
                || held(flow) + bytes > self.config.max_flow_bytes
            {
                self.give_up_gap(key, Release::FlowLimit);
                continue;
            }
            let all: usize = self.flows.values().map(|flow| flow.held.len()).sum();
            let all_bytes: usize = self.flows.values().map(held).sum();
            if all >= self.config.max_held_packets.max(1)
                || all_bytes + bytes > self.config.max_held_bytes
            {
                let (oldest, _) = self.oldest().expect("something is held");
                self.release_all(&oldest, Release::HeldLimit);
                continue;
            }
            return self.hold(key, Held { number, sequence, end, bytes, arrived: now });
        }
    }

    fn hold(&mut self, key: &[u8], new: Held) {
        self.turns += 1;
        let flow = self.flows.get_mut(key).expect("it is there");
        flow.strayed = None;
        if flow.held.is_empty() {
            flow.since = self.turns;
        }
        let next = flow.next;
        let place = (flow.held.iter())
            .position(|held| ahead(next, held.sequence) > ahead(next, new.sequence))
            .unwrap_or(flow.held.len());
        let twin = place.checked_sub(1).map(|before| &flow.held[before]);
        let covered =
            twin.is_some_and(|twin| twin.sequence == new.sequence && ahead(new.end, twin.end) >= 0);
        if covered && self.config.drop_duplicates {
            self.dropped.push(new.number);
        } else {
            flow.held.insert(place, new);
        }
    }

    fn give(&mut self, number: usize, key: &[u8], end: u32, why: Pass) {
        let flow = self.flows.get_mut(key).expect("it is there");
        flow.strayed = None;
        flow.give_on(end);
        self.out.push((number, Exit::Passed(why)));
        self.release_ready(key, Release::Filled);
    }

    fn stray(&mut self, number: usize, key: &[u8], (sequence, end): (u32, u32)) {
        let flow = &self.flows[key];
        let agrees = flow.strayed == Some(sequence);
        if agrees || ahead(flow.next, sequence) > 0 {
            self.release_all(key, Release::Stray);
        }
        let flow = self.flows.get_mut(key).expect("it is there");
        if agrees {
            flow.next = end;
            flow.run = u64::from(end.wrapping_sub(sequence));
            flow.strayed = None;
        } else {
            flow.strayed = Some(end);
        }
        self.out.push((number, Exit::Passed(Pass::Stray)));
    }

    fn release_ready(&mut self, key: &[u8], why: Release) {
        let flow = self.flows.get_mut(key).expect("it is there");
        while flow.held.first().is_some_and(|first| ahead(flow.next, first.sequence) <= 0) {
            let first = flow.held.remove(0);
            flow.give_on(first.end);
            self.out.push((first.number, Exit::Released(why)));
        }
    }

    fn give_up_gap(&mut self, key: &[u8], why: Release) {
        let flow = self.flows.get_mut(key).expect("it is there");
        let first = flow.held[0].sequence;
        flow.skip_to(first);
        self.release_ready(key, why);
    }

    fn release_all(&mut self, key: &[u8], why: Release) {
        while self.flows.get(key).is_some_and(|flow| !flow.held.is_empty()) {
            self.give_up_gap(key, why);
        }
    }
}
