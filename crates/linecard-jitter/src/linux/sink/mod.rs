//! Where a stream ends: when each packet was in the application's hands, and how many the kernel
//! dropped for want of room.
//!
//! A sink looks at nothing of a packet but that it is a probe, and its number. Receiving takes no
//! memory: the times go to a list of fixed room, which has been written before. Each way to receive
//! is one file; they differ in how they wait and in how many packets one call gives.

mod af_xdp;
mod block;
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

/// The longest sleep of a call, so that a stop is seen.
const PATIENCE: Duration = Duration::from_millis(50);
/// Room for the longest datagram.
const LONGEST: usize = 65_536;

/// Calls that take what waits at a stop: more than a socket has room for, and not for ever.
const MOST_WAITING: u32 = 1 << 17;

/// A socket that receives, opened in the network namespace of the thread that made it. Packets are
/// kept from then on, but for [`SinkMode::AfXdp`], which has them from [`Sink::run`] on.
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

/// One way to receive.
trait Receive {
    /// Takes what is there, or waits for something, 100 ms at most.
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()>;

    /// Packets that were dropped for want of room, where that is not the socket's.
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
        sink.set_room().map_err(SinkError::Socket)?;
        sink.prepare()?;
        Ok(sink)
    }

    /// Where it receives.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Bytes that may wait in the socket, as the kernel counts them: it takes more than what was asked
    /// for, and counts its own memory of a packet with it.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn room_bytes(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        socket::option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &mut bytes)?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Receives on the calling thread, until `expected` probes came, `stop`,
    /// or nothing came for the time of the configuration.
    ///
    /// # Errors
    ///
    /// The thread cannot run as wished, or the kernel does not give what it has.
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
                drive(block::Block::new(&socket), &mut tally, stop)
            }
            (SinkMode::Epoll, None) => drive(epoll::Epoll::new(&socket), &mut tally, stop),
            (SinkMode::Recvmmsg, None) => drive(recvmmsg::Recvmmsg::new(&socket), &mut tally, stop),
            (SinkMode::IoUring, None) => drive(io_uring::Ring::new(&socket), &mut tally, stop),
        };
        let past_socket = result.map_err(SinkError::Receive)?;
        let switches = switches::between(before);
        let overflowed = past_socket + dropped(&socket).map_err(SinkError::Receive)?;
        let busy_polled =
            (config.mode == SinkMode::BusyPoll).then(|| busy_poll::was_possible(&socket));
        Ok(Received { overflowed, switches, busy_polled, ..tally.finish() })
    }

    /// What only some ways need.
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

    fn set_room(&self) -> io::Result<()> {
        let (fd, bytes) = (self.socket.as_fd(), self.config.room_bytes as libc::c_int);
        // Beyond the system's limit only for who may administer networks.
        let force = socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes);
        force.or_else(|_| socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
    }
}

/// The loop of every way to receive; packets that were dropped past the socket.
fn drive(way: io::Result<impl Receive>, tally: &mut Tally, stop: &AtomicBool) -> io::Result<u64> {
    let mut way = way?;
    while !stop.load(Ordering::Relaxed) && !tally.is_done() {
        way.receive(tally)?;
    }
    // What came before the stop is taken, however late this thread is.
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

/// What a call that found nothing says; the error of a datagram that went elsewhere is none of ours.
fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}

/// Packets that the kernel could not put into the socket (`SK_MEMINFO_DROPS` of `linux/sock_diag.h`),
/// those with a wrong checksum among them.
fn dropped(socket: &UdpSocket) -> io::Result<u64> {
    const NUMBERS: usize = 9;
    const DROPS: usize = 8;
    let mut numbers = [0_u32; NUMBERS];
    socket::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut numbers)?;
    Ok(numbers[DROPS].into())
}

#[cfg(test)]
mod tests;
