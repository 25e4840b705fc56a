//! The event loop, from the clients' links to the application and back.

use super::bus::{Bus, arrival};
use super::config::Config;
use super::host::{Answer, Host, Task};
use super::load::{Clients, Frame};
use super::outcome::{Frames, PciResults};
use crate::{Events, Ps};
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use linecard::progress::{Progress, Ticker};
use linecard::rng::Rng;
use linecard_config::ConfigError;

/// The link from the switch to the adapter, in bits per second.
const GIGABIT: u64 = 1_000_000_000;
/// Bytes of preamble before a frame.
const PREAMBLE: u32 = 8;
/// Retransmission timeout of a dropped frame; the minimum of most TCPs.
const RETRANSMIT: Ps = Ps::from_ns(200_000_000);
/// A gap of this length on the bus counts as a pause: hundreds of times the usual gap between
/// frames.
const PAUSE: Ps = Ps::from_ns(100_000);

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A client's link has sent a frame.
    Sent(usize),
    /// The first bit of a frame reaches the adapter.
    Arrives(Frame),
    /// The bus may be free, or the FIFO at its threshold.
    Bus,
    /// A frame and its status are in memory.
    Transferred(Frame),
    /// Buffers were returned to the adapter.
    Requeued(u32),
    /// A processor has completed its task.
    Finished(usize),
    /// An answer reaches its client: frames, and bytes to send.
    Answered(Answer, u32),
    /// A client detects that a frame was dropped.
    Lost(Frame),
    /// The warm-up is over.
    Measure,
}

/// Runs the model.
///
/// ```
/// use linecard_model::pci::{Config, simulate};
/// let outcome = simulate(&Config::default())?;
/// assert!(outcome.mbps() > 700.0 && outcome.frames.dropped == 0);
/// # Ok::<(), linecard_config::ConfigError>(())
/// ```
///
/// # Errors
/// A value out of its range.
pub fn simulate(config: &Config) -> Result<PciResults, ConfigError> {
    simulate_with_progress(config, &Progress::new())
}

/// [`simulate`] with progress in picoseconds of virtual time; on cancellation it ends with the
/// results so far.
///
/// # Errors
/// A value out of its range.
pub fn simulate_with_progress(
    config: &Config,
    progress: &Progress,
) -> Result<PciResults, ConfigError> {
    linecard_config::check(config)?;
    let mut simulation = Simulation::new(config)?;
    simulation.begin();
    let end = config.run.ends();
    let mut ticker = Ticker::new(progress, end.0 as usize);
    while simulation.events.next_time().is_some_and(|time| time <= end)
        && ticker.keep_going(simulation.now.0 as usize)
    {
        simulation.step();
    }
    Ok(simulation.finish())
}

struct Simulation<'c> {
    config: &'c Config,
    now: Ps,
    events: Events<Event>,
    rng: Rng,
    clients: Clients,
    /// When the switch's port has sent its frames.
    port_free: Ps,
    adapter: Adapter,
    host: Host,
    outcome: PciResults,
}

struct Adapter {
    bus: Bus,
    fifo: VecDeque<Frame>,
    /// In the FIFO or on the bus.
    fifo_bytes: u32,
    /// On the bus.
    moving: u64,
    /// The clock in which the bus is free.
    free: u64,
    /// The clock in which the last frame was moved, and the clocks of writes since.
    last_end: u64,
    writes: u64,
    /// The time of the scheduled check of the bus; one is enough.
    planned: Ps,
    buffers: u32,
    /// Buffers processed, but not returned yet.
    to_requeue: u32,
}

impl<'c> Simulation<'c> {
    fn new(config: &'c Config) -> Result<Self, ConfigError> {
        let bus = Bus::new(config.adapter.bus_mhz.hz())
            .map_err(|error| ConfigError::of_parameter("adapter.bus_mhz", error.to_string()))?;
        let adapter = Adapter {
            bus,
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            moving: 0,
            free: 0,
            last_end: 0,
            writes: 0,
            planned: Ps::ZERO,
            buffers: config.adapter.buffers,
            to_requeue: 0,
        };
        Ok(Self {
            config,
            now: Ps::ZERO,
            events: Events::default(),
            rng: Rng::new(config.run.seed),
            clients: Clients::new(&config.load),
            port_free: Ps::ZERO,
            adapter,
            host: Host::new(config),
            outcome: measured(config, Frames::default()),
        })
    }

    /// Each session requests its first file at a different time.
    fn begin(&mut self) {
        self.events.add(self.config.run.begins(), Event::Measure);
        let load = &self.config.load;
        for session in 0..(load.clients * load.sessions) as usize {
            let answer = Answer { session, frames: 0, asks: true };
            let at = Ps(self.rng.below(Ps::from_ns(1_000_000).0));
            self.events.add(at, Event::Answered(answer, load.file_bytes));
        }
    }

    fn step(&mut self) {
        let Some((now, event)) = self.events.next() else { return };
        self.now = now;
        match event {
            Event::Sent(client) => self.sent(client),
            Event::Arrives(frame) => self.arrives(frame),
            Event::Bus => self.bus(),
            Event::Transferred(frame) => self.transferred(frame),
            Event::Requeued(buffers) => {
                self.adapter.buffers += buffers;
                self.bus();
            }
            Event::Finished(cpu) => self.finished(cpu),
            Event::Answered(Answer { session, frames, .. }, bytes) => {
                self.clients.grant(session, frames, bytes);
                self.send(self.clients.client_of(session));
            }
            Event::Lost(frame) => {
                self.clients.grant(frame.session, 1, frame.payload);
                self.send(self.clients.client_of(frame.session));
            }
            Event::Measure => self.outcome = measured(self.config, self.outcome.frames),
        }
    }

    fn send(&mut self, client: usize) {
        if let Some(time) = self.clients.begin(client) {
            self.events.add(self.now + time, Event::Sent(client));
        }
    }

    /// The switch has received a frame, and queues it on its port.
    fn sent(&mut self, client: usize) {
        if let Some(frame) = self.clients.sent(client) {
            let start = self.port_free.max(self.now);
            self.port_free = start + frame.wire_time(GIGABIT);
            let frame = Frame { first_byte: arrival(start, PREAMBLE), ..frame };
            self.events.add(start, Event::Arrives(frame));
        }
        self.send(client);
    }

    fn arrives(&mut self, frame: Frame) {
        self.outcome.frames.received += 1;
        if u64::from(self.adapter.fifo_bytes + frame.len()) > self.config.adapter.fifo.get() {
            self.outcome.frames.dropped += 1;
            self.events.add(self.now + RETRANSMIT, Event::Lost(frame));
            return;
        }
        self.adapter.fifo_bytes += frame.len();
        self.adapter.fifo.push_back(frame);
        self.bus();
    }

    /// Moves the next frame, if the frame and the bus are ready.
    fn bus(&mut self) {
        let adapter = &mut self.adapter;
        let Some(&frame) = adapter.fifo.front().filter(|_| adapter.buffers > 0) else { return };
        let clock = *adapter.bus.clock();
        let threshold = self.config.adapter.threshold.min(frame.len());
        let ready = arrival(frame.first_byte, threshold).max(clock.edge(adapter.free));
        if ready > self.now {
            if adapter.planned != ready {
                adapter.planned = ready;
                self.events.add(ready, Event::Bus);
            }
            return;
        }
        let (transfer, end) = adapter.bus.transfer(self.now, frame.first_byte, frame.len());
        adapter.fifo.pop_front();
        adapter.buffers -= 1;
        adapter.moving += 1;
        let gap = clock.at_or_after(self.now).saturating_sub(adapter.last_end);
        let idle = gap - core::mem::take(&mut adapter.writes).min(gap);
        self.outcome.idle_clocks += idle;
        if clock.cycles(gap) >= PAUSE {
            self.outcome.pauses += 1;
            self.outcome.pause_clocks += idle;
        }
        self.outcome.bus.add(&transfer);
        self.outcome.transfers += 1;
        (adapter.free, adapter.last_end) = (end, end);
        self.events.add(clock.edge(end), Event::Transferred(frame));
    }

    fn transferred(&mut self, frame: Frame) {
        self.adapter.moving -= 1;
        self.adapter.fifo_bytes -= frame.len();
        self.host.received(frame);
        self.dispatch();
        self.bus();
    }

    fn dispatch(&mut self) {
        for cpu in 0..usize::from(self.config.server.cpus) {
            let Some((task, time)) = self.host.start(cpu) else { continue };
            let outcome = &mut self.outcome;
            outcome.busy[cpu] += time;
            match task {
                Task::Handle(_) => {
                    outcome.handled += 1;
                    outcome.handler_time += time;
                }
                Task::Receive(_) | Task::Request(_) => outcome.protocol_time += time,
                Task::Answer(_) | Task::Take(_) => {}
            }
            self.events.add(self.now + time, Event::Finished(cpu));
        }
    }

    fn finished(&mut self, cpu: usize) {
        let done = self.host.finish(cpu);
        self.outcome.phases += u64::from(done.phase);
        for answer in done.answers {
            let least = Ps::from(self.config.load.answer);
            let at = self.now + least + Ps(self.rng.below(least.0));
            let bytes = if answer.asks { self.config.load.file_bytes } else { 0 };
            self.events.add(at, Event::Answered(answer, bytes));
        }
        if let Some(bytes) = done.taken {
            self.outcome.frames.delivered += 1;
            self.outcome.delivered_bytes += u64::from(bytes);
        }
        self.outcome.runs += u64::from(done.caught_up);
        if done.handled {
            self.requeue();
        }
        self.dispatch();
    }

    /// A buffer is free: buffers are returned in batches over the bus.
    fn requeue(&mut self) {
        let (adapter, config) = (&mut self.adapter, &self.config.adapter);
        adapter.to_requeue += 1;
        if adapter.to_requeue < config.requeue_batch {
            return;
        }
        let buffers = core::mem::take(&mut adapter.to_requeue);
        let clocks = Bus::writes(if config.one_write.0 { 1 } else { buffers });
        let begin = adapter.bus.clock().at_or_after(self.now);
        adapter.free = adapter.free.max(begin) + clocks;
        adapter.writes += clocks;
        self.outcome.requeue_clocks += clocks;
        self.events.add(adapter.bus.clock().edge(adapter.free), Event::Requeued(buffers));
    }

    fn finish(mut self) -> PciResults {
        self.outcome.frames.held =
            self.adapter.fifo.len() as u64 + self.adapter.moving + self.host.held();
        self.outcome
    }
}

/// The outcome of a run without measurements.
fn measured(config: &Config, frames: Frames) -> PciResults {
    PciResults {
        duration: config.run.duration.into(),
        frames,
        busy: vec![Ps::ZERO; usize::from(config.server.cpus)],
        ..PciResults::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::{Adapter, Load, Protocol, Run, Server};
    use linecard_config::{Bytes, Duration, Frequency, Switch};

    fn config(mhz: u32, clients: u32, sessions: u32) -> Config {
        let base = Config::default();
        Config {
            server: Server { mhz, ..base.server },
            load: Load { clients, sessions, ..base.load },
            ..base
        }
    }

    fn run(config: &Config) -> PciResults {
        let outcome = simulate(config).expect("a run");
        let Frames { received, delivered, dropped, held } = outcome.frames;
        assert_eq!(received, delivered + dropped + held, "{config:?}");
        outcome
    }

    #[test]
    fn same_seed_same_outcome() {
        let config = config(550, 7, 3);
        assert_eq!(run(&config), run(&config));
    }

    #[test]
    fn each_client_adds_its_link_until_the_server_is_full() {
        for clients in 1..=7 {
            let mbps = run(&config(700, clients, 6)).mbps();
            let links = f64::from(clients) * 94.9;
            assert!((mbps / links - 1.0).abs() < 0.01, "{clients} clients: {mbps}");
        }
        let (eight, ten) = (run(&config(700, 8, 6)).mbps(), run(&config(700, 10, 6)).mbps());
        assert!(eight > 740.0 && ten < eight * 1.01, "{eight}, {ten}");
    }

    /// Promise (Hardware model): At saturating load, the modelled PCI host handles frames in bursts of all windows at 400
    /// MHz, and of few frames at 550 MHz, whatever the seed.
    ///
    /// A handler that is slower than the frames come runs until windows are used up, as its answers wait behind all that
    /// it has deferred; a faster one gives way to them, and answers clock the senders.
    #[test]
    fn a_slow_server_handles_bursts_of_all_windows_and_a_faster_one_of_few_frames() {
        for seed in 1..=5 {
            let burst = |mhz, clients, sessions| {
                let mut config = config(mhz, clients, sessions);
                config.run.seed = seed;
                run(&config).burst_frames()
            };
            let (slow, middle, fast) = (burst(400, 7, 5), burst(550, 7, 7), burst(700, 6, 6));
            assert!((180.0..=215.0).contains(&slow), "{seed}: {slow}");
            assert!((2.0..10.0).contains(&middle) && fast < 5.0, "{seed}: {middle}, {fast}");
        }
    }

    /// Frames that come while several deferred calls run are handled as one burst.
    #[test]
    fn a_budget_of_deferred_calls_makes_bursts() {
        let mut config = config(550, 7, 7);
        config.server.budget = 18;
        let burst = run(&config).burst_frames();
        assert!((16.0..20.0).contains(&burst), "{burst}");
    }

    #[test]
    fn a_second_processor_helps_and_a_third_does_not() {
        let mbps = |cpus| {
            let mut config = config(550, 8, 6);
            config.server.cpus = cpus;
            run(&config).mbps()
        };
        let (one, two, four) = (mbps(1), mbps(2), mbps(4));
        assert!(two > one * 1.1 && (four / two - 1.0).abs() < 0.02, "{one}, {two}, {four}");
    }

    #[test]
    fn a_high_threshold_frees_the_bus_at_the_same_throughput() {
        let base = config(700, 8, 6);
        let adapter = Adapter { threshold: 1_024, ..base.adapter };
        let (low, high) = (run(&base), run(&Config { adapter, ..base.clone() }));
        assert_eq!(high.bus.waits, 0);
        assert!((high.mbps() / low.mbps() - 1.0).abs() < 0.01, "{} {}", low.mbps(), high.mbps());
    }

    #[test]
    fn what_the_paper_suggests_helps() {
        let base = config(400, 10, 7);
        let with = |protocol, copies, one_write| {
            let server = Server { protocol, copies: Switch(copies), ..base.server };
            let adapter = Adapter { one_write: Switch(one_write), ..base.adapter };
            run(&Config { server, adapter, ..base.clone() })
        };
        let as_is = run(&base);
        assert!(with(Protocol::Parallel, true, false).mbps() > as_is.mbps() * 1.1);
        assert!(with(Protocol::Deferred, false, false).mbps() > as_is.mbps() * 1.2);
        let one_write = with(Protocol::Deferred, true, true);
        assert!(one_write.requeue_clocks * 10 < as_is.requeue_clocks);
        let in_handler = with(Protocol::InHandler, true, false);
        assert!(in_handler.mbps() > as_is.mbps() * 0.98, "{}", in_handler.mbps());
    }

    /// Promise (Hardware model): The modelled PCI host loses no frame uncounted in 60 random
    /// configurations.
    #[test]
    fn no_frame_is_lost_unseen_whatever_is_configured() {
        let mut rng = Rng::new(9);
        for _ in 0..60 {
            let mut draw = |least: u64, most: u64| (least + rng.below(most - least + 1)) as u32;
            let buffers = draw(1, 64);
            let base = Config::default();
            let config = Config {
                adapter: Adapter {
                    fifo: Bytes::new(draw(1_518, 20_000).into()),
                    threshold: draw(0, 1_518),
                    buffers,
                    requeue_batch: draw(1, buffers.into()),
                    ..base.adapter
                },
                server: Server {
                    mhz: draw(50, 2_000),
                    cpus: draw(1, 4) as u8,
                    copies: Switch(draw(0, 1) == 1),
                    protocol: [Protocol::Deferred, Protocol::InHandler, Protocol::Parallel]
                        [draw(0, 2) as usize],
                    budget: draw(1, 20),
                },
                load: Load {
                    clients: draw(1, 12),
                    sessions: draw(1, 8),
                    window_frames: draw(2, 12),
                    file_bytes: draw(1, 200_000),
                    ..base.load
                },
                run: Run {
                    seed: draw(0, 1_000).into(),
                    warm_up: Duration::ZERO,
                    duration: Duration::from_ms(400),
                },
                ..base
            };
            assert!(run(&config).delivered_bytes > 0, "{config:?}");
        }
    }

    #[test]
    fn what_finds_no_room_is_dropped_counted_and_sent_again() {
        let base = config(400, 10, 6);
        let adapter = Adapter { buffers: 20, fifo: Bytes::new(8_192), ..base.adapter };
        let run_for = Run { duration: Duration::from_secs(1), ..base.run };
        let outcome = run(&Config { adapter, run: run_for, ..base });
        assert!(outcome.frames.dropped > 0 && outcome.mbps() > 10.0, "{outcome:?}");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let mut config = config(0, 8, 6);
        let refused = |config: &Config| simulate(config).unwrap_err().to_string();
        assert_eq!(refused(&config), "server.mhz: 0 is out of range: choose 1 to 10000");
        config = self::config(700, 8, 6);
        config.adapter.bus_mhz = Frequency::from_hz(500);
        assert!(refused(&config).starts_with("adapter.bus_mhz: 0.0005 is out of range"));
        config.adapter = Adapter { requeue_batch: 21, buffers: 20, ..Adapter::default() };
        assert!(refused(&config).starts_with("adapter.requeue_batch: 21 of 20 buffers"));
    }
}
