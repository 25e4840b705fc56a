//! One TCP connection in virtual time: a Reno sender, a box with the offloads, and a receiver, with
//! wires between them.

use super::frame::{ACK, Frame, PSH, SYN, add16, be16, be32, pseudo, sum16};
use super::plain;
use core::time::Duration;
use linecard::offload::active_ack::{self, ActiveAck, Answer};
use linecard::offload::coalesce::{self, Coalescer};
use linecard::offload::resequence::{self, Resequencer};
use linecard::packet::{LinkType, Meta, Packet};
use linecard::time::Instant;
use std::collections::BTreeMap;

const MSS: u32 = 1_448;
/// From the sender to the box, and from there to the receiver, in ns.
const FAR: u64 = 50_000;
const NEAR: u64 = 5_000;
/// A packet on a wire of 10 Gbit/s.
const PACE: u64 = 1_230;
const RTO: u64 = 200_000_000;
pub const SCALE: u8 = 7;

/// Shape of a run.
#[derive(Debug, Clone)]
pub struct Setting {
    pub active: Option<active_ack::Config>,
    pub bytes: u32,
    /// Window of the sender.
    pub outstanding: u32,
    /// The receiver's buffer, and how much it reads of it every 100 µs.
    pub buffer: u32,
    pub reads: u32,
    /// Packets of data that the network loses, by number.
    pub lost: Vec<u64>,
    /// The box misses the beginning of the connection.
    pub late: bool,
    /// One in this many data packets changes places with the next.
    pub swap: Option<u64>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            active: None,
            bytes: 1 << 20,
            outstanding: 16 << 10,
            buffer: 1 << 20,
            reads: u32::MAX,
            lost: Vec::new(),
            late: false,
            swap: None,
        }
    }
}

#[derive(Debug)]
enum Event {
    AtBox(Vec<u8>),
    AtReceiver { sequence: u32, len: u32 },
    FromReceiver(Vec<u8>),
    AtSender(Vec<u8>),
    Wake,
    Read,
    Timeout(u64),
}

/// RFC 5681, without selective acknowledgments.
#[derive(Debug, Default)]
pub struct Sender {
    una: u32,
    next: u32,
    end: u32,
    congestion: u32,
    threshold: u32,
    window: u32,
    field: u16,
    duplicates: u32,
    clock_seen: u32,
    sent: u64,
    free_at: u64,
    timer: u64,
    recover: u32,
    pub fast_retransmits: u64,
    pub timeouts: u64,
    /// Where the window that it was promised ends at most, and all acknowledgments it has seen.
    pub edge: u32,
    pub acks: u64,
    pub most_duplicates: u32,
}

#[derive(Debug, Default)]
pub struct Receiver {
    next: u32,
    unread: u32,
    edge: u32,
    clock: u32,
    echo: u32,
    /// Stretches behind a gap.
    beyond: BTreeMap<u32, u32>,
    pub packets: u64,
    /// Bytes that were dropped for lack of room.
    pub overrun: u64,
    pub received: u32,
}

pub struct Run {
    setting: Setting,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    pub sender: Sender,
    pub receiver: Receiver,
    resequencer: Resequencer<Vec<u8>>,
    pub active: Option<ActiveAck>,
    pub coalescer: Coalescer<Vec<u8>>,
    /// When the last byte was acknowledged.
    pub done_ns: Option<u64>,
}

fn options(value: u32, echo: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

/// Fields of a frame whose checksums are right.
fn read(bytes: &[u8]) -> (usize, plain::View) {
    let view = plain::view(LinkType::Ethernet, bytes);
    let (ip, covered) = (view.ip.expect("IP"), &bytes[view.transport..view.end]);
    let pseudo = pseudo(view.addresses(bytes).expect("IP"), 6, covered.len());
    assert_eq!(add16(sum16(&pseudo), sum16(covered)), 0xFFFF, "a TCP checksum is wrong");
    assert!(view.v6 || sum16(&bytes[ip..ip + 20]) == 0xFFFF, "an IP checksum is wrong");
    (view.transport, view)
}

pub fn run(setting: Setting) -> Run {
    // The coalescer waits for 64 KiB, or 10 ms.
    let wait = Duration::from_millis(10);
    let config = coalesce::Config { hold_budget: wait, idle_floor: wait, ..Default::default() };
    let active = setting.active.clone();
    let mut run = Run {
        now: 0,
        events: BTreeMap::new(),
        count: 0,
        sender: Sender {
            una: 1,
            next: 1,
            end: 1 + setting.bytes,
            congestion: 10 * MSS,
            threshold: u32::MAX,
            ..Sender::default()
        },
        receiver: Receiver { next: 1, edge: 1 + setting.buffer, ..Receiver::default() },
        resequencer: Resequencer::new(resequence::Config::default()),
        active: active.map(|config| ActiveAck::new(LinkType::Ethernet, config)),
        coalescer: Coalescer::new(config),
        done_ns: None,
        setting,
    };
    run.connect();
    while run.done_ns.is_none() {
        let Some(((now, _), event)) = run.events.pop_first() else { break };
        // A connection that makes no progress for ten timeouts is dead.
        if run.sender.timeouts > 10 {
            break;
        }
        run.now = now;
        run.take(event);
    }
    run
}

impl Run {
    fn at(&mut self, delay: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + delay, self.count), event);
    }

    /// SYN, SYN-ACK, ACK: at once, as the box sees them.
    fn connect(&mut self) {
        let scale = vec![1, 3, 3, SCALE];
        let syn = Frame {
            sequence: 0,
            flags: SYN,
            acknowledgment: 0,
            options: scale.clone(),
            payload: Vec::new(),
            ..Frame::default()
        };
        let answer = Frame {
            sequence: 500,
            acknowledgment: 1,
            flags: SYN | ACK,
            window: 0xFFFF,
            options: scale,
            ..self.answer_frame()
        };
        if let Some(active) = self.active.as_mut().filter(|_| !self.setting.late) {
            let mut packet = Packet::new(syn.bytes(), LinkType::Ethernet, Meta::default());
            assert!(active.data(&mut packet, true).is_err());
            let mut packet = Packet::new(answer.bytes(), LinkType::Ethernet, Meta::default());
            assert_eq!(active.answer(&mut packet), Answer::Passed);
        }
        self.sender.window = self.setting.buffer.min(0xFFFF);
        self.sender.edge = 1 + self.sender.window;
        self.at(100_000, Event::Read);
        self.send();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::AtBox(bytes) => self.forward(bytes),
            Event::AtReceiver { sequence, len } => self.receive(sequence, len),
            Event::FromReceiver(bytes) => self.back(bytes),
            Event::AtSender(bytes) => self.acknowledged(&bytes),
            Event::Wake => self.wake(),
            Event::Read => self.read(),
            Event::Timeout(timer) => self.time_out(timer),
        }
    }

    // The box.

    fn forward(&mut self, bytes: Vec<u8>) {
        let packet = Packet::new(bytes, LinkType::Ethernet, Meta::default());
        let now = Instant::from_ns(self.now);
        let mut ordered = Vec::new();
        self.resequencer.push(packet, now, &mut |packet, _| ordered.push(packet));
        self.merge(ordered);
    }

    fn merge(&mut self, ordered: Vec<Packet<Vec<u8>>>) {
        let now = Instant::from_ns(self.now);
        for mut packet in ordered {
            let reply = self.active.as_mut().and_then(|active| active.data(&mut packet, true).ok());
            let mut merged = Vec::new();
            self.coalescer.push(packet, now, &mut |packet, _| merged.push(packet));
            self.deliver(merged);
            if let Some(reply) = reply {
                self.at(FAR, Event::AtSender(reply.as_ref().to_vec()));
            }
        }
        let wakeups = [self.resequencer.next_wakeup(), self.coalescer.next_wakeup()];
        if let Some(wakeup) = wakeups.into_iter().flatten().min() {
            self.at(wakeup.as_ns().saturating_sub(self.now), Event::Wake);
        }
    }

    fn wake(&mut self) {
        let now = Instant::from_ns(self.now);
        let (mut ordered, mut merged) = (Vec::new(), Vec::new());
        self.resequencer.advance(now, &mut |packet, _| ordered.push(packet));
        self.coalescer.advance(now, &mut |packet, _| merged.push(packet));
        self.deliver(merged);
        self.merge(ordered);
    }

    fn deliver(&mut self, packets: Vec<Packet<Vec<u8>>>) {
        for packet in packets {
            let at = usize::from(packet.layout().transport().expect("TCP").offset);
            let sequence = be32(packet.bytes(), at + 4);
            self.receiver.echo = be32(packet.bytes(), at + 24);
            let len = packet.payload_len() as u32;
            self.at(NEAR, Event::AtReceiver { sequence, len });
        }
    }

    fn back(&mut self, bytes: Vec<u8>) {
        let mut packet = Packet::new(bytes, LinkType::Ethernet, Meta::default());
        let answer = self.active.as_mut().map(|active| active.answer(&mut packet));
        if answer != Some(Answer::Suppressed) {
            let (bytes, _) = packet.into_parts();
            self.at(FAR, Event::AtSender(bytes));
        }
    }

    // The receiver.

    fn answer_frame(&self) -> Frame {
        let room = self.receiver.edge.saturating_sub(self.receiver.next);
        Frame {
            source: 2,
            destination: 1,
            mac: 9,
            ports: (2_000, 1_000),
            sequence: 501,
            acknowledgment: self.receiver.next,
            window: (room >> SCALE).min(0xFFFF) as u16,
            options: options(self.receiver.clock, self.receiver.echo),
            payload: Vec::new(),
            ..Frame::default()
        }
    }

    fn receive(&mut self, sequence: u32, len: u32) {
        let receiver = &mut self.receiver;
        receiver.packets += 1;
        let end = sequence + len;
        if end > receiver.edge {
            receiver.overrun += u64::from(len);
        } else {
            let old = receiver.beyond.entry(sequence).or_default();
            *old = (*old).max(end);
            while let Some((start, end)) = receiver.beyond.pop_first() {
                if start > receiver.next {
                    receiver.beyond.insert(start, end);
                    break;
                }
                let new = end.saturating_sub(receiver.next);
                receiver.next += new;
                receiver.unread += new;
            }
        }
        receiver.received = receiver.next - 1;
        if self.setting.reads == u32::MAX {
            self.receiver.unread = 0;
        }
        self.say();
    }

    fn say(&mut self) {
        // A clock of milliseconds, as most have.
        self.receiver.clock = (self.now / 1_000_000) as u32;
        let room = self.setting.buffer - self.receiver.unread;
        // Its right edge never moves back (RFC 9293, section 3.8.6.2.2).
        self.receiver.edge = self.receiver.edge.max(self.receiver.next + room);
        let frame = self.answer_frame();
        self.at(NEAR, Event::FromReceiver(frame.bytes()));
    }

    fn read(&mut self) {
        self.at(100_000, Event::Read);
        let taken = self.receiver.unread.min(self.setting.reads);
        self.receiver.unread -= taken;
        let room = self.setting.buffer - self.receiver.unread;
        if self.receiver.next + room >= self.receiver.edge + 2 * MSS {
            self.say();
        }
    }

    // The sender.

    fn send(&mut self) {
        loop {
            let sender = &self.sender;
            let allowed = sender.congestion.min(sender.window).min(self.setting.outstanding);
            let len = MSS.min(sender.end - sender.next);
            if len == 0 || sender.next - sender.una + len > allowed {
                return;
            }
            self.segment(self.sender.next, len);
            self.sender.next += len;
        }
    }

    fn segment(&mut self, sequence: u32, len: u32) {
        let last = sequence + len == self.sender.end;
        let frame = Frame {
            id: self.sender.sent as u16,
            sequence,
            acknowledgment: 501,
            flags: ACK | if last { PSH } else { 0 },
            // A clock of 10 ms, so that packets merge.
            options: options((self.now / 10_000_000) as u32, self.sender.clock_seen),
            payload: vec![sequence as u8; len as usize],
            ..Frame::default()
        };
        let number = self.sender.sent;
        self.sender.sent += 1;
        let start = self.sender.free_at.max(self.now);
        self.sender.free_at = start + PACE;
        let swapped = self.setting.swap.is_some_and(|every| number.is_multiple_of(every));
        let delay = start - self.now + FAR + if swapped { PACE + 200 } else { 0 };
        if !self.setting.lost.contains(&number) {
            self.at(delay, Event::AtBox(frame.bytes()));
        }
        self.set_timer();
    }

    fn set_timer(&mut self) {
        self.sender.timer += 1;
        let timer = self.sender.timer;
        self.at(RTO, Event::Timeout(timer));
    }

    fn time_out(&mut self, timer: u64) {
        if timer != self.sender.timer || self.sender.una == self.sender.next {
            return;
        }
        self.sender.timeouts += 1;
        self.sender.threshold = (self.sender.congestion / 2).max(2 * MSS);
        self.sender.congestion = MSS;
        self.sender.duplicates = 0;
        self.retransmit();
    }

    fn retransmit(&mut self) {
        let len = MSS.min(self.sender.end - self.sender.una);
        self.segment(self.sender.una, len);
    }

    fn acknowledged(&mut self, bytes: &[u8]) {
        let (at, view) = read(bytes);
        let (sequence, number) = (be32(bytes, at + 4), be32(bytes, at + 8));
        let (field, clock) = (be16(bytes, at + 14), be32(bytes, at + 24));
        assert_eq!((sequence, view.payload_len()), (501, 0), "not a pure acknowledgment");
        assert!(clock >= self.sender.clock_seen, "the receiver's clock went back");
        assert!(number <= self.sender.next, "acknowledges what was never sent");
        self.sender.clock_seen = clock;
        self.sender.acks += 1;
        let sender = &mut self.sender;
        // An older number says nothing (RFC 9293, section 3.10.7.4).
        if number < sender.una {
            return;
        }
        let window = u32::from(field) << SCALE;
        let duplicate = number == sender.una && sender.next > sender.una && field == sender.field;
        (sender.window, sender.field) = (window, field);
        sender.edge = sender.edge.max(number + window);
        if duplicate {
            return self.duplicate();
        }
        if number > sender.una {
            sender.una = number;
            sender.duplicates = 0;
            let step = if sender.congestion < sender.threshold { MSS } else { MSS / 8 };
            sender.congestion = sender.congestion.saturating_add(step);
            if number < sender.recover {
                // A partial acknowledgment (RFC 6582).
                self.retransmit();
            }
            self.set_timer();
        }
        if self.sender.una == self.sender.end && self.done_ns.is_none() {
            self.done_ns = Some(self.now);
        }
        self.send();
    }

    fn duplicate(&mut self) {
        let sender = &mut self.sender;
        sender.duplicates += 1;
        sender.most_duplicates = sender.most_duplicates.max(sender.duplicates);
        if sender.duplicates == 3 && sender.una >= sender.recover {
            sender.fast_retransmits += 1;
            sender.threshold = (sender.congestion / 2).max(2 * MSS);
            sender.congestion = sender.threshold;
            sender.recover = sender.next;
            self.retransmit();
        }
    }
}
