//! The receiving end of a stream: when each packet reached the application, and how many packets
//! the kernel dropped because the socket buffer was full.
//!
//! A sink only checks that a packet is a probe, and reads its number. Receiving does not allocate:
//! the times go into a list of fixed capacity whose memory is touched in advance. Each receive mode
//! is one file; they differ in how they wait and in how many packets one call returns.

mod af_xdp;
mod busy_poll;
mod config;
mod epoll;
mod io_uring;
mod poll;
mod recvmmsg;
mod tally;

pub use config::{DEFAULT_CAPACITY, MAX_CAPACITY, SinkConfig, SinkError, SinkMode, UnknownMode};
pub use tally::Received;

use super::switches::{self, Switches};
use crate::linux::sys::uring;
use linecard_io::sys::socket;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tally::Tally;

/// Longest sleep of a call, so that a stop is noticed.
const PATIENCE: Duration = Duration::from_millis(50);
/// Room for the longest datagram.
const LONGEST: usize = 65_536;

/// Maximum calls that drain the socket after a stop: more than a socket holds, but bounded.
pub(super) const MOST_WAITING: u32 = 1 << 17;

/// A receiving socket, opened in the network namespace of the calling thread. It queues packets
/// from then on, except with [`SinkMode::AfXdp`], which starts with [`Sink::run`].
///
/// ```
/// use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
/// use linecard_jitter::linux::sink::{Sink, SinkConfig};
/// use std::sync::atomic::AtomicBool;
/// let sink = Sink::open(SinkConfig::new("127.0.0.1:0".parse()?))?;
/// let mut config = GeneratorConfig::new(sink.address()?);
/// config.count = 20;
/// let never = AtomicBool::new(false);
/// Generator::open(config)?.run(&never)?;
/// let received = sink.run(&never, Some(20))?;
/// assert_eq!(received.arrivals.len(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    socket: UdpSocket,
    xdp: Option<af_xdp::Prepared>,
}

/// One receive mode.
trait Receive {
    /// Takes waiting packets, or waits for some for at most 100 ms.
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()>;

    /// Packets dropped because a buffer other than the socket's was full.
    fn dropped(&self) -> u64 {
        0
    }
}

impl Sink {
    /// Opens the socket.
    ///
    /// # Errors
    ///
    /// See [`SinkError`].
    pub fn open(config: SinkConfig) -> Result<Self, SinkError> {
        config.check()?;
        let address = config.address;
        let socket =
            UdpSocket::bind(address).map_err(|source| SinkError::Bind { address, source })?;
        let mut sink = Self { config, socket, xdp: None };
        set_room(&sink.socket, sink.config.room_bytes).map_err(SinkError::Socket)?;
        sink.prepare()?;
        Ok(sink)
    }

    /// The address it receives at.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Size of the socket's receive buffer in bytes, as the kernel counts it: larger than
    /// requested, because it includes the kernel's memory per packet.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn room_bytes(&self) -> io::Result<usize> {
        room(&self.socket)
    }

    /// Receives on the calling thread until `expected` probes have arrived, `stop` is set, or
    /// nothing has arrived for the configured time.
    ///
    /// # Errors
    ///
    /// The thread cannot be placed as configured, or receiving failed.
    pub fn run(self, stop: &AtomicBool, expected: Option<u64>) -> Result<Received, SinkError> {
        let Self { config, socket, xdp } = self;
        let xdp = xdp.map(af_xdp::Prepared::open).transpose()?;
        let _placed = config.placement.enter(config.mode.is_busy())?;
        let mut tally = Tally::new(&config, expected);
        let before = Switches::of_this_thread();
        let result = match (config.mode, xdp) {
            (_, Some(xdp)) => drive(Ok(xdp), &mut tally, stop),
            (SinkMode::Poll | SinkMode::AfXdp, None) => {
                drive(poll::Poll::new(&socket), &mut tally, stop)
            }
            (SinkMode::Block | SinkMode::BusyPoll, None) => {
                drive(poll::Poll::blocking(&socket), &mut tally, stop)
            }
            (SinkMode::Epoll, None) => drive(epoll::Epoll::new(&socket), &mut tally, stop),
            (SinkMode::Recvmmsg, None) => drive(recvmmsg::Recvmmsg::new(&socket), &mut tally, stop),
            (SinkMode::IoUring, None) => drive(io_uring::Ring::new(&socket), &mut tally, stop),
        };
        let past_socket = result.map_err(SinkError::Receive)?;
        let switches = switches::between(before);
        let overflowed = past_socket + u64::from(dropped(&socket).map_err(SinkError::Receive)?);
        let busy_polled =
            (config.mode == SinkMode::BusyPoll).then(|| busy_poll::was_possible(&socket));
        Ok(Received { overflowed, switches, busy_polled, ..tally.finish() })
    }

    /// Preparations that only some modes need.
    fn prepare(&mut self) -> Result<(), SinkError> {
        let (config, socket) = (&self.config, &self.socket);
        match config.mode {
            SinkMode::BusyPoll => {
                busy_poll::ask(socket, config.busy_poll_us).map_err(SinkError::BusyPoll)
            }
            SinkMode::IoUring => uring::check().map_err(SinkError::IoUring),
            SinkMode::AfXdp => {
                let interface = config.interface.as_deref().ok_or(SinkError::NoInterface)?;
                let port = self.address().map_err(SinkError::Socket)?.port();
                self.xdp = Some(af_xdp::Prepared::new(interface, port)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Has the kernel keep as many bytes of packets for a socket, or as many as it allows.
pub(super) fn set_room(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    let (fd, bytes) = (socket.as_fd(), bytes as libc::c_int);
    // Only a process with CAP_NET_ADMIN may exceed the system's limit.
    let force = socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes);
    force.or_else(|_| socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
}

/// Bytes that a socket's receive buffer has, as the kernel counts them: twice those that were asked for.
pub(super) fn room(socket: &UdpSocket) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    socket::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &mut bytes)?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// The loop that all modes share; returns packets that were dropped before the socket.
fn drive(way: io::Result<impl Receive>, tally: &mut Tally, stop: &AtomicBool) -> io::Result<u64> {
    let mut way = way?;
    while !stop.load(Ordering::Relaxed) && !tally.is_done() {
        way.receive(tally)?;
    }
    // Packets that arrived before the stop are received, however late this thread is.
    for _ in 0..MOST_WAITING {
        let empty_calls = tally.empty_calls();
        if tally.is_done() {
            break;
        }
        way.receive(tally)?;
        if tally.empty_calls() > empty_calls {
            break;
        }
    }
    Ok(way.dropped())
}

/// Whether a call found no packet; an ICMP error of another datagram counts as that.
pub(super) fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}

/// Whether the interface of a packet socket is down: said once, and packets come again when it is up.
pub(super) fn is_down(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENETDOWN)
}

/// Packets that the kernel did not put into the socket (`SK_MEMINFO_DROPS` of `linux/sock_diag.h`),
/// those with a wrong checksum included, modulo 2³².
pub(super) fn dropped(socket: &UdpSocket) -> io::Result<u32> {
    const NUMBERS: usize = 9;
    const DROPS: usize = 8;
    let mut numbers = [0_u32; NUMBERS];
    socket::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut numbers)?;
    Ok(numbers[DROPS])
}

#[cfg(test)]
mod tests;
