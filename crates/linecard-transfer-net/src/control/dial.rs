//! A TCP connection to the other end, though its first packet is lost.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// After how long without an answer a second connection is tried beside the first: the kernel repeats a SYN after 1 s
/// only (RFC 6298, section 2), as it knows no round-trip time.
const SECOND: Duration = Duration::from_millis(300);

/// Connects before `deadline`. The other end never sees the connection that is not needed: it is not established when
/// it is given up, unless both are at the same moment.
pub(super) fn dial(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let mut tries = vec![begin(address)?];
    let second = Instant::now() + SECOND;
    loop {
        let now = Instant::now();
        let is_alone = tries.len() == 1;
        let until = if is_alone { second.min(deadline) } else { deadline };
        if let Some(at) = answered(&tries, until.saturating_duration_since(now))? {
            let socket = tries.swap_remove(at);
            return match socket.take_error()? {
                Some(error) => Err(error),
                None => Ok(socket.into()),
            };
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        if is_alone && now >= second {
            tries.push(begin(address)?);
        }
    }
}

fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// The first connection that is there or has failed; none after `left`, or earlier.
fn answered(tries: &[Socket], left: Duration) -> io::Result<Option<usize>> {
    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    let mut events: Vec<_> = tries.iter().map(|of| PollFd::new(of, PollFlags::OUT)).collect();
    match poll(&mut events, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(events.iter().position(|of| !of.revents().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::thread;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn what_listens_is_connected_and_a_closed_port_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(dial(address, soon()).unwrap().peer_addr().unwrap(), address);
        drop(listener);
        assert_eq!(dial(address, soon()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }

    /// Connections to a port that have no answer yet (`SYN_SENT`).
    fn unanswered(port: u16) -> usize {
        let to = format!("0100007F:{port:04X} 02 ");
        fs::read_to_string("/proc/net/tcp").unwrap().matches(&to).count()
    }

    /// A listener whose queue is full drops what comes.
    #[test]
    fn a_second_connection_is_tried_beside_one_without_an_answer() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let _first = TcpStream::connect(address).unwrap();
        let expired = dial(address, Instant::now()).unwrap_err();
        assert_eq!(expired.kind(), ErrorKind::TimedOut);

        let dialing = thread::spawn(move || dial(address, soon()));
        while unanswered(address.port()) < 2 {
            thread::yield_now();
        }
        let _accepted = listener.accept().unwrap();
        let mut stream = dialing.join().unwrap().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.write_all(b"here").unwrap();
        let mut accepted: TcpStream = listener.accept().unwrap().0.into();
        let mut word = [0; 4];
        accepted.read_exact(&mut word).unwrap();
        assert_eq!((&word, unanswered(address.port())), (b"here", 0));
    }
}
