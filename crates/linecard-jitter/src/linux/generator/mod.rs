//! A stream of constant rate: packets on an absolute schedule, each with its number and its times.
//!
//! A late packet is sent at once and its lateness is recorded; the schedule does not move, so that
//! the effects of a pause of the sender stay visible (no coordinated omission). The sending loop
//! does not allocate. [`Departures::quality`] says how good the stream was: a late stream says
//! nothing about its receiver.

mod config;
mod quality;

pub use config::{Gap, GeneratorConfig, GeneratorError, MAX_COUNT, MAX_PAYLOAD};
pub use quality::{Quality, QualityLimits};

use super::clock::monotonic_ns;
use super::switches::{self, Switches};
use crate::stream::Schedule;
use crate::stream::probe::{MIN_LEN, Probe};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;

/// Time from the start of [`Generator::run`] to the first packet, so that the first one is not
/// late.
const LEAD_NS: u64 = 1_000_000;

/// A socket that sends a stream, opened in the network namespace of the calling thread.
///
/// ```
/// use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
/// use std::sync::atomic::AtomicBool;
/// let sink = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let mut config = GeneratorConfig::new(sink.local_addr()?);
/// config.count = 100;
/// let departures = Generator::open(config)?.run(&AtomicBool::new(false))?;
/// assert_eq!(departures.sent_ns.len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Generator {
    config: GeneratorConfig,
    socket: UdpSocket,
}

/// The packets sent, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departures {
    /// Due times, without the gap.
    pub schedule: Schedule,
    /// Pauses of the schedule.
    pub gap: Gap,
    /// Time just before the system call of each packet, by sequence number; 0 for a packet that the
    /// kernel refused. Shorter than configured after a stop.
    pub sent_ns: Vec<u64>,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Error of the last refused packet: ENOBUFS and EAGAIN mean that the queue was full,
    /// ECONNREFUSED that nobody receives at the target.
    pub last_error: Option<i32>,
    /// Time at which the last system call returned.
    pub ended_ns: u64,
    /// How often the sending thread was switched off its core.
    pub switches: Option<Switches>,
}

impl Generator {
    /// Opens the socket and connects it to the target.
    ///
    /// # Errors
    ///
    /// See [`GeneratorError`].
    pub fn open(config: GeneratorConfig) -> Result<Self, GeneratorError> {
        config.check()?;
        let bind = config.source();
        let opened = |source| GeneratorError::Bind { address: bind, source };
        let socket = UdpSocket::bind(bind).map_err(opened)?;
        socket.set_nonblocking(true).map_err(opened)?;
        let target = config.target;
        socket
            .connect(target)
            .map_err(|source| GeneratorError::Connect { address: target, source })?;
        Ok(Self { config, socket })
    }

    /// The source address of the stream.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn source(&self) -> io::Result<std::net::SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends the stream on the calling thread until its end or `stop`.
    ///
    /// # Errors
    ///
    /// The thread cannot be placed as configured; nothing has been sent.
    pub fn run(self, stop: &AtomicBool) -> Result<Departures, GeneratorError> {
        let _placed = self.config.placement.enter(true)?;
        let mut departures = self.prepared();
        let mut payload = vec![0; self.config.payload_len];
        let before = Switches::of_this_thread();
        departures.schedule.start_ns = monotonic_ns() + LEAD_NS;
        for sequence in 0..self.config.count {
            let due_ns = departures.due_ns(sequence);
            self.write_headers(sequence, &mut payload);
            let Some(sent_ns) = self.config.wait.until(due_ns, stop) else { break };
            if let Some(head) = payload.first_chunk_mut::<MIN_LEN>() {
                Probe { sequence, due_ns, sent_ns }.write(head);
            }
            let result = self.socket.send(&payload);
            departures.record(sent_ns, result);
        }
        departures.ended_ns = monotonic_ns();
        departures.switches = switches::between(before);
        Ok(departures)
    }

    fn write_headers(&self, sequence: u64, payload: &mut [u8]) {
        let offset_ps = self.config.gap.offset_ps(self.config.period_ps, sequence);
        if let Some(head) = payload.first_chunk_mut() {
            self.config.headers.write(sequence, offset_ps, head);
        }
    }

    /// Allocates and touches the memory for all times.
    fn prepared(&self) -> Departures {
        // Not zeros: the kernel maps zero pages lazily. The configuration has bounded the number.
        let mut sent_ns = vec![1; self.config.count as usize];
        sent_ns.clear();
        Departures {
            schedule: Schedule { start_ns: 0, period_ps: self.config.period_ps },
            gap: self.config.gap,
            sent_ns,
            refused: 0,
            last_error: None,
            ended_ns: 0,
            switches: None,
        }
    }
}

impl Departures {
    /// Due time of a packet.
    #[must_use]
    pub fn due_ns(&self, sequence: u64) -> u64 {
        self.gap.due_ns(self.schedule, sequence)
    }

    /// Lateness of each accepted packet when it was handed to the kernel, by sequence number.
    pub fn lateness_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let taken = (0..).zip(&self.sent_ns).filter(|(_, sent_ns)| **sent_ns > 0);
        taken.map(|(sequence, sent_ns)| sent_ns.saturating_sub(self.due_ns(sequence)))
    }

    fn record(&mut self, sent_ns: u64, result: io::Result<usize>) {
        match result {
            Ok(_) => self.sent_ns.push(sent_ns),
            Err(error) => {
                self.sent_ns.push(0);
                self.refused += 1;
                self.last_error = error.raw_os_error();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::clock::Wait;
    use std::sync::atomic::Ordering;

    fn to(address: &str, count: u64) -> (UdpSocket, GeneratorConfig) {
        let sink = UdpSocket::bind(address).unwrap();
        sink.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let mut config = GeneratorConfig::new(sink.local_addr().unwrap());
        (config.count, config.period_ps) = (count, 50_000_000);
        (sink, config)
    }

    #[test]
    fn packets_carry_their_numbers_and_times() {
        for (address, wait) in [("127.0.0.1:0", Wait::Spin), ("[::1]:0", Wait::Sleep)] {
            let (sink, mut config) = to(address, 30);
            config.wait = wait;
            let departures = Generator::open(config).unwrap().run(&AtomicBool::new(false)).unwrap();
            let mut buffer = [0; 2_000];
            for sequence in 0..30 {
                assert_eq!(sink.recv(&mut buffer).unwrap(), 1_396);
                let probe = Probe::read(&buffer).unwrap();
                let due_ns = departures.schedule.due_ns(sequence);
                let sent_ns = departures.sent_ns[sequence as usize];
                assert_eq!(probe, Probe { sequence, due_ns, sent_ns });
                assert_eq!((buffer[0], buffer[3]), (0x80, sequence as u8));
                assert!(sent_ns >= due_ns && sent_ns <= departures.ended_ns);
            }
            assert_eq!(departures.refused, 0);
        }
    }

    #[test]
    fn a_stop_ends_it() {
        let (_sink, mut config) = to("127.0.0.1:0", 100);
        config.period_ps = 1_000_000_000_000;
        let stop = AtomicBool::new(false);
        let departures = std::thread::scope(|scope| {
            let sending = scope.spawn(|| Generator::open(config).unwrap().run(&stop).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
            sending.join().unwrap()
        });
        assert!(departures.sent_ns.len() <= 1);
    }

    #[test]
    fn what_nobody_receives_is_counted() {
        let (sink, config) = to("127.0.0.1:0", 20);
        drop(sink);
        let departures = Generator::open(config).unwrap().run(&AtomicBool::new(false)).unwrap();
        assert_eq!(departures.sent_ns.len(), 20);
        assert!(departures.refused > 0);
        assert_eq!(departures.last_error, Some(libc::ECONNREFUSED));
        let refused = departures.sent_ns.iter().filter(|sent_ns| **sent_ns == 0).count();
        assert_eq!(refused as u64, departures.refused);
        assert_eq!(departures.lateness_ns().count(), 20 - refused);
    }
}
