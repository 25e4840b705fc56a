//! The simulation: state of all components, queues, and the event loop.

use super::client::{Sender, State};
use super::config::Config;
use super::cores::{Cores, Next, Task};
use super::dma::Requests;
use super::frame::{self, Direction, SegmentHeader};
use super::host::{Receiver, Shared};
use super::outcome::{Amount, NpuResults};
use super::stream::{Digest, Stream};
use super::thread::{Output, Thread};
use crate::{Events, Ps};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use linecard::packet::{LinkType, Meta, Packet, Toeplitz};
use linecard::progress::{Progress, Ticker};
use linecard::rng::Rng;
use linecard_config::Rate;

/// Ports of clients: those that Linux gives (32,768 to 60,999).
const PORTS: core::ops::Range<u16> = 32_768..61_000;

/// An event.
#[derive(Debug)]
pub(super) enum Event {
    /// A connection is opened.
    Connect(usize),
    /// A frame has arrived over the link.
    Arrived,
    /// A receive thread may issue instructions.
    Ready(u16),
    /// A receive thread has issued what it can until its next access to memory.
    Issued(u16),
    /// A receive thread has finished its task.
    Done(u16),
    /// The timeout thread checks the connections of a receive thread.
    Progress(u16),
    /// Its timeout message has arrived.
    Timeout(u16),
    /// The requests of a job have reached the DMA engine, or its balancer.
    Request(usize),
    /// The engine has served a request.
    Served,
    /// A job's data is in host memory, and the host has been interrupted.
    Interrupt(usize),
    /// The host has processed a packet.
    Handled,
    /// The application has freed buffer space.
    Opens(usize),
    /// A frame has reached the client.
    FrameReceived(Vec<u8>),
    /// A retransmission timer may be due.
    Timer(usize),
}

/// A packet being moved into host memory.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) thread: u16,
    pub(super) packet: Packet<Vec<u8>>,
    /// Packets that were merged into it.
    pub(super) segments: u64,
    /// Requests not served yet.
    pub(super) left: usize,
    pub(super) is_syn: bool,
}

/// Jobs by number; numbers are reused.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    places: Vec<Option<Job>>,
    free: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Machine<'s> {
    pub(super) config: &'s Config,
    pub(super) now: Ps,
    pub(super) events: Events<Event>,
    rng: Rng,
    pub(super) senders: Vec<Sender>,
    pub(super) receivers: Vec<Receiver>,
    /// Connections by port, sorted.
    ports: Vec<(u16, usize)>,
    /// The threads of connections.
    pub(super) homes: Vec<u16>,
    /// Connections queued for the link, and the frame on it.
    pub(super) line: VecDeque<usize>,
    pub(super) wire: Option<Vec<u8>>,
    pub(super) frames: u64,
    pub(super) late: Option<Vec<u8>>,
    toeplitz: Toeplitz,
    pub(super) turn: u16,
    pub(super) threads: Vec<Thread>,
    cores: Cores,
    /// Packets of each connection that wait to be merged.
    held: Vec<u64>,
    /// Packets in the unit.
    pub(super) buffers: u64,
    pub(super) requests: Requests<(usize, u64)>,
    pub(super) in_service: Option<usize>,
    pub(super) jobs: Jobs,
    pub(super) host_queue: VecDeque<usize>,
    pub(super) is_host_busy: bool,
    pub(super) shared: Shared,
    /// When the sending thread, and the link to the client, are free.
    pub(super) sender_free: Ps,
    pub(super) back_free: Ps,
    /// Connections that all others wait for.
    pub(super) awaited: u32,
    pub(super) left_to_finish: u32,
    /// Payload processed by threads since measuring began.
    measured_bytes: u64,
    output: Output,
    pub(super) outcome: NpuResults,
}

impl Jobs {
    pub(super) fn add(&mut self, job: Job) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(job);
        place
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Job> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(super) fn take(&mut self, place: usize) -> Option<Job> {
        let job = self.places.get_mut(place)?.take();
        self.free.push(place);
        job
    }

    fn iter(&self) -> impl Iterator<Item = &Job> {
        self.places.iter().flatten()
    }
}

impl<'s> Machine<'s> {
    /// The initial state: everything idle, connections scheduled. The configuration has been
    /// checked.
    pub(super) fn new(config: &'s Config) -> Self {
        let (client, host) = (&config.client, &config.host);
        let mut rng = Rng::new(config.run.seed);
        let count = (client.connections + client.idle_connections) as usize;
        let ports = ports(count, &mut rng);
        let senders = ports.iter().enumerate().map(|(index, port)| {
            let end = if index < client.connections as usize { client.bytes.0 } else { Some(0) };
            Sender::new(*port, rng.next_u64() as u32, end, client)
        });
        let senders: Vec<Sender> = senders.collect();
        let receivers = (0..count).map(|_| Receiver::new(rng.next_u64() as u32)).collect();
        let mut ports: Vec<_> = ports.into_iter().zip(0..).collect();
        ports.sort_unstable();
        let threads = config.npu.receive_threads();
        let shared = Shared {
            stream: Stream::new(config.run.seed),
            digest: Digest::default(),
            figures: Default::default(),
            receive_buffer: host.receive_buffer.into(),
            read_bits_per_second: host.read_rate.0.map(Rate::bits_per_second),
        };
        let mut machine = Self {
            now: Ps::ZERO,
            events: Events::default(),
            rng,
            senders,
            receivers,
            ports,
            homes: Vec::new(),
            line: VecDeque::new(),
            wire: None,
            frames: 0,
            late: None,
            toeplitz: Toeplitz::new(&Toeplitz::MICROSOFT),
            turn: 0,
            threads: (0..threads).map(|_| Thread::new(config)).collect(),
            cores: Cores::new(config),
            held: vec![0; count],
            buffers: 0,
            requests: Requests::new(config.dma.discipline, threads),
            in_service: None,
            jobs: Jobs::default(),
            host_queue: VecDeque::new(),
            is_host_busy: false,
            shared,
            sender_free: Ps::ZERO,
            back_free: Ps::ZERO,
            awaited: client.connections,
            left_to_finish: client.connections,
            measured_bytes: 0,
            output: Output::default(),
            outcome: NpuResults { duration: config.run.ends(), ..NpuResults::default() },
            config,
        };
        machine.homes = machine.senders.iter().map(|sender| machine.home(sender.port)).collect();
        machine.plan();
        machine
    }

    /// The thread to which a port's connection is steered.
    fn home(&self, port: u16) -> u16 {
        let header = SegmentHeader { sequence: 0, acknowledgment: 0, flags: 0, window: 0 };
        let bytes = frame::build(Direction::ToServer(port), &header, &[]);
        self.steer(&Packet::new(bytes, LinkType::Ethernet, Meta::default()))
    }

    /// Schedules the opening of connections.
    fn plan(&mut self) {
        let client = &self.config.client;
        for index in 0..self.senders.len() {
            let idle = index >= client.connections as usize;
            let head_start = if idle { client.head_start_ns } else { 0 };
            let at = Ps::from_ns(client.stagger_ns * index as u64 + head_start);
            self.events.add(at, Event::Connect(index));
        }
    }

    /// Runs until the time is over, no event is left, or it is cancelled.
    pub(super) fn run(mut self, progress: &Progress) -> NpuResults {
        let mut ticker = Ticker::new(progress, self.config.run.ends().0 as usize);
        // Every event is scheduled later or follows from one that is, so time advances.
        while let Some((at, event)) = self.events.next() {
            if at > self.config.run.ends() || !ticker.keep_going(at.0 as usize) {
                break;
            }
            self.now = at;
            self.handle(event);
        }
        self.finish()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connect(connection) => {
                self.senders[connection].connect();
                self.line_up(connection);
            }
            Event::Arrived => self.arrived(),
            Event::Ready(thread) => {
                let issues = self.cores.ready(thread, self.now);
                self.issue(issues);
            }
            Event::Issued(thread) => self.issued(thread),
            Event::Done(thread) => self.done(thread),
            Event::Progress(thread) => self.look(thread),
            Event::Timeout(thread) => {
                self.threads[usize::from(thread)].timeouts += 1;
                self.start(thread, Ps::ZERO);
            }
            Event::Request(job) => self.request(job),
            Event::Served => self.served(),
            Event::Interrupt(job) => self.interrupt(job),
            Event::Handled => self.handled(),
            Event::Opens(connection) => self.opens(connection),
            Event::FrameReceived(frame) => self.frame_received(&frame),
            Event::Timer(connection) => self.timer(connection),
        }
    }

    /// The thread of a packet's connection.
    pub(super) fn steer(&self, packet: &Packet<Vec<u8>>) -> u16 {
        let threads = u64::from(self.config.npu.receive_threads());
        // Below the number of threads.
        ((u64::from(self.toeplitz.of(packet)) * threads) >> 32) as u16
    }

    /// Starts a thread, `later` from now, on its pending work: timeout messages, then a packet
    /// (figure 4).
    pub(super) fn start(&mut self, number: u16, later: Ps) {
        let npu = &self.config.npu;
        let thread = &mut self.threads[usize::from(number)];
        if thread.is_busy {
            return;
        }
        let mut flushes = false;
        while thread.timeouts > 0 && !flushes {
            thread.timeouts -= 1;
            thread.offloads.advance(self.now, &mut self.output);
            flushes = !self.output.packets.is_empty();
        }
        thread.has_packet = !flushes && !thread.queue.is_empty();
        thread.is_busy = flushes || thread.has_packet;
        thread.began = self.now + later;
        if flushes {
            self.outcome.timeouts += 1;
            self.events.add(self.now + Ps::from_ns(npu.timeout_ns), Event::Done(number));
        } else if thread.has_packet {
            self.take_up(number, later);
        }
        self.emit(number);
        self.progress(number);
    }

    /// A thread begins with a packet: for a constant time, or with the steps that it takes.
    fn take_up(&mut self, number: u16, later: Ps) {
        let npu = &self.config.npu;
        let at = self.now + later;
        if let Some(packet_ns) = npu.packet_ns.0 {
            // Between mean minus jitter and mean plus jitter.
            let spread = packet_ns * 1_000 * npu.jitter_percent / 100;
            let time = packet_ns * 1_000 - spread + self.rng.below(2 * spread + 1);
            self.events.add(at + Ps(time), Event::Done(number));
            return;
        }
        let Some(packet) = self.threads[usize::from(number)].queue.front() else { return };
        let bytes = packet.bytes();
        let held = npu.merges().then(|| self.index_of(bytes).map_or(0, |index| self.held[index]));
        self.cores.assign(number, Task::of(&self.config.core, bytes.len(), held));
        self.events.add(at, Event::Ready(number));
    }

    /// A thread has issued its instructions: it waits for memory, or its task is done.
    fn issued(&mut self, number: u16) {
        let (next, issues) = self.cores.issued(number, self.now);
        self.issue(issues);
        match next {
            Next::Waits(until) => self.events.add(until, Event::Ready(number)),
            Next::Done => self.done(number),
        }
    }

    fn issue(&mut self, issues: Option<(u16, Ps)>) {
        if let Some((number, until)) = issues {
            self.events.add(until, Event::Issued(number));
        }
    }

    /// A thread has finished a packet, or a timeout message.
    fn done(&mut self, number: u16) {
        let thread = &mut self.threads[usize::from(number)];
        thread.is_busy = false;
        self.outcome.receiving += self.now.since(thread.began);
        if core::mem::take(&mut thread.has_packet)
            && let Some(packet) = thread.queue.pop_front()
        {
            let is_measured = self.now >= self.config.run.begins();
            self.measured_bytes += if is_measured { packet.payload_len() as u64 } else { 0 };
            if let Some(index) = self.index_of(packet.bytes()) {
                self.held[index] += 1;
            }
            let thread = &mut self.threads[usize::from(number)];
            thread.offloads.take(packet, self.now, &mut self.output);
            self.emit(number);
        }
        self.start(number, Ps::ZERO);
    }

    /// Forwards the output of a thread.
    fn emit(&mut self, number: u16) {
        let mut output = core::mem::take(&mut self.output);
        let gone = output.duplicates + output.corrupt;
        self.outcome.duplicates += output.duplicates;
        self.outcome.corrupt += output.corrupt;
        self.outcome.dropped.discarded.add(gone, output.discarded_bytes);
        self.buffers -= gone;
        for reply in output.replies.drain(..) {
            self.answer(reply.as_ref().to_vec());
        }
        for packet in output.packets.drain(..) {
            let segments: u64 = packet.meta.gso.map_or(1, |gso| gso.segments.into());
            if let Some(index) = self.index_of(packet.bytes()) {
                self.held[index] = self.held[index].saturating_sub(segments);
            }
            self.submit(number, packet);
        }
        // Lists are reused.
        let Output { packets, replies, .. } = output;
        self.output = Output { packets, replies, ..Output::default() };
    }

    /// Schedules the time at which the timeout thread notices due flows: it polls all connections
    /// in turn.
    fn progress(&mut self, number: u16) {
        let thread = &mut self.threads[usize::from(number)];
        let Some(due) = thread.offloads.next_wakeup() else { return };
        let round = Ps::from_ns(self.config.npu.check_ns).0 * self.senders.len().max(1) as u64;
        let at = Ps(due.max(self.now).0.div_ceil(round).saturating_mul(round));
        if at < thread.watched_at {
            thread.watched_at = at;
            self.events.add(at, Event::Progress(number));
        }
    }

    /// The timeout thread has reached a thread's connections.
    fn look(&mut self, number: u16) {
        let thread = &mut self.threads[usize::from(number)];
        if thread.watched_at > self.now {
            return;
        }
        thread.watched_at = Ps::NEVER;
        if thread.offloads.next_wakeup().is_some_and(|due| due <= self.now) {
            let at = self.now + Ps::from_ns(self.config.npu.message_ns);
            self.events.add(at, Event::Timeout(number));
        } else {
            self.progress(number);
        }
    }

    /// The connection of a frame.
    pub(super) fn index_of(&self, bytes: &[u8]) -> Option<usize> {
        let (Direction::ToServer(port) | Direction::ToClient(port), _) = frame::read(bytes)?;
        self.connection(port)
    }

    /// The connection of a port.
    pub(super) fn connection(&self, port: u16) -> Option<usize> {
        let place = self.ports.binary_search_by_key(&port, |(port, _)| *port).ok()?;
        Some(self.ports[place].1)
    }

    fn finish(mut self) -> NpuResults {
        let mut held = Amount::default();
        for thread in &self.threads {
            let waiting = thread.queue.iter().map(|packet| packet.payload_len() as u64);
            held.add(thread.queue.len() as u64, waiting.sum());
            held.add(thread.offloads.held(), thread.offloads.held_bytes());
        }
        for job in self.jobs.iter() {
            held.add(job.segments, job.packet.payload_len() as u64);
        }
        self.outcome.held = held;
        self.outcome.host = self.shared.figures;
        (self.outcome.issuing, self.outcome.moving) = (self.cores.issuing, self.cores.moving);
        let span = self.config.run.ends().since(self.config.run.begins());
        self.outcome.bits_per_second = (8 * self.measured_bytes) as f64 / span.as_secs_f64();
        let mut homes = self.homes[..self.config.client.connections as usize].to_vec();
        homes.sort_unstable();
        homes.dedup();
        self.outcome.threads_used = homes.len() as u64;
        self.count_threads();
        self.count_senders();
        self.outcome.digest = self.outcome.seal(self.shared.digest);
        self.outcome
    }

    fn count_threads(&mut self) {
        self.outcome.active_acks = self.threads.iter().map(|t| t.offloads.acknowledged()).sum();
        let mut merging = linecard::offload::coalesce::Counters::default();
        let counters = self.threads.iter().filter_map(|thread| thread.offloads.merging());
        counters.for_each(|counters| merging.add(counters));
        self.outcome.mean_aggregate = merging.mean_aggregate();
    }

    fn count_senders(&mut self) {
        let client = &mut self.outcome.client;
        let busy = self.config.client.connections as usize;
        for (index, sender) in self.senders.iter().enumerate() {
            let made = u64::from(sender.state == State::Established);
            client.established += made;
            client.idle_established += if index >= busy { made } else { 0 };
            client.failed += u64::from(sender.state == State::Failed);
            client.finished += u64::from(sender.is_finished());
            client.syns += sender.counters.syns;
            client.segments += sender.counters.segments;
            client.retransmitted += sender.counters.retransmitted;
            client.timeouts += sender.counters.timeouts;
        }
    }
}

/// The given number of distinct random ports.
fn ports(count: usize, rng: &mut Rng) -> Vec<u16> {
    let mut ports: Vec<u16> = PORTS.collect();
    for index in 0..count {
        let other = index + rng.below((ports.len() - index) as u64) as usize;
        ports.swap(index, other);
    }
    ports.truncate(count);
    ports
}
