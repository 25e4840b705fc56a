//! Sockets that receive streams of other senders, with the time at which the kernel received each packet.

use super::clock::{monotonic_ns, realtime_ns};
use super::sink::{dropped, is_nothing, set_room};
use super::sys::receive::Batch;
use crate::media::live::Arrival;
use linecard_io::sys::socket::set_option;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

/// Bytes that may wait in a socket: at 1 Gbit/s, a stop of 60 ms.
const ROOM: usize = 8 << 20;
/// Two readings of both clocks that are at most so far apart are as good as one.
const NEAR_NS: u64 = 2_000;
/// Attempts to read both clocks so close to each other.
const ATTEMPTS: u32 = 5;
/// The clocks differ by more than they did at the last packet: one was set. NTP slews by at most 500 ppm.
const STEP_NS: u64 = 1_000_000;

/// Where a stream is received: an address of this host or a multicast group, and for a group the only source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The address and the port.
    pub address: SocketAddr,
    /// The source.
    pub source: Option<IpAddr>,
}

/// A text that is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not an address and a port: write 192.0.2.1:5004, [2001:db8::1]:5004 or SOURCE@239.0.0.1:5004"
)]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let refused = || TargetError(text.to_owned());
        let (source, address) = match text.split_once('@') {
            Some((source, address)) => (Some(source.parse().map_err(|_| refused())?), address),
            None => (None, text),
        };
        Ok(Self { address: address.parse().map_err(|_| refused())?, source })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            write!(f, "{source}@")?;
        }
        self.address.fmt(f)
    }
}

/// Why a stream cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The address cannot be had.
    #[error(
        "cannot receive at {target}: {source}; name an address of this host, or a multicast group, and a free port"
    )]
    Bind {
        /// Where.
        target: Target,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no such interface.
    #[error("--interface {name}: {source}; `ip link` lists those of this host")]
    Interface {
        /// Its name.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The group cannot be joined.
    #[error("cannot join {target}: {source}; name an interface that has an address by --interface")]
    Join {
        /// The group.
        target: Target,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Only groups have sources.
    #[error("{target}: only a multicast group is received from one source; leave {filter}@ out")]
    Source {
        /// Where.
        target: Target,
        /// The source.
        filter: IpAddr,
    },
    /// Source and group are not of one family.
    #[error("{target}: source and group are not both IPv4 or both IPv6")]
    Families {
        /// Both.
        target: Target,
    },
    /// Packets cannot be had.
    #[error("cannot receive at {target}: {source}")]
    Receive {
        /// Where.
        target: Target,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A socket that receives a stream, opened in the network namespace of the calling thread.
#[derive(Debug)]
pub struct Receiver {
    target: Target,
    socket: UdpSocket,
}

impl Receiver {
    /// Opens the socket, and joins the group on this interface, or on the one that routes choose.
    ///
    /// # Errors
    ///
    /// See [`WatchError`].
    pub fn open(target: Target, interface: Option<&str>) -> Result<Self, WatchError> {
        let ip = target.address.ip();
        if let Some(filter) = target.source
            && !ip.is_multicast()
        {
            return Err(WatchError::Source { target, filter });
        }
        if target.source.is_some_and(|source| source.is_ipv4() != ip.is_ipv4()) {
            return Err(WatchError::Families { target });
        }
        let mut address = target.address;
        let index = interface.map(index).transpose()?.unwrap_or(0);
        if let SocketAddr::V6(address) = &mut address
            && (ip.is_multicast() || address.ip().is_unicast_link_local())
        {
            address.set_scope_id(index);
        }
        let failed = |source| WatchError::Bind { target, source };
        let socket = bind(address).map_err(failed)?;
        set_room(&socket, ROOM).map_err(failed)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
            .map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        if ip.is_multicast() {
            let joined = join(&socket, target, index);
            joined.map_err(|source| WatchError::Join { target, source })?;
        }
        Ok(Self { target, socket })
    }

    /// Where it receives; with the port that it has, where 0 was given.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes waiting packets, at most 64; their number.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn receive(
        &self,
        buffers: &mut Buffers,
        mut take: impl FnMut(&Arrival<'_>),
    ) -> Result<usize, WatchError> {
        let came = match buffers.batch.receive(self.socket.as_fd()) {
            Ok(came) => came,
            Err(error) if is_nothing(&error) => return Ok(0),
            Err(source) => return Err(WatchError::Receive { target: self.target, source }),
        };
        let clocks = buffers.clocks.read();
        for (payload, stamp) in buffers.batch.stamped_datagrams(came) {
            let at_ns = clocks.monotonic_ns(stamp);
            let arrival = Arrival { at_ns, read_ns: clocks.read_ns, payload, len: payload.len() };
            take(&arrival);
        }
        Ok(came)
    }

    /// Packets that the kernel dropped because the socket's buffer was full, or whose checksum was wrong.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn dropped(&self) -> io::Result<u64> {
        dropped(&self.socket)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for the packets of one call, and the clocks, which all sockets of a thread share.
#[derive(Debug)]
pub struct Buffers {
    batch: Batch,
    /// The clocks.
    pub clocks: Clocks,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { batch: Batch::stamped(), clocks: Clocks::default() }
    }
}

/// The difference between the two clocks: the kernel stamps packets with the time of day, which can be set.
#[derive(Debug, Default)]
pub struct Clocks {
    offset_ns: Option<i64>,
    /// Times that a clock was set.
    pub steps: u64,
}

/// Both clocks at one time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    read_ns: u64,
    /// Time of day minus monotonic time; `None` when one of them was just set.
    offset_ns: Option<i64>,
}

impl Clocks {
    fn read(&mut self) -> Reading {
        let (mut read_ns, mut offset_ns, mut width_ns) = (0, 0, u64::MAX);
        for _ in 0..ATTEMPTS {
            let before_ns = monotonic_ns();
            let day_ns = realtime_ns();
            let after_ns = monotonic_ns();
            if read_ns == 0 {
                read_ns = before_ns;
            }
            // The thread may have been interrupted between the two.
            if after_ns - before_ns < width_ns {
                width_ns = after_ns - before_ns;
                offset_ns = day_ns as i64 - before_ns as i64;
            }
            if width_ns <= NEAR_NS {
                break;
            }
        }
        self.compare(read_ns, offset_ns, width_ns)
    }

    fn compare(&mut self, read_ns: u64, offset_ns: i64, width_ns: u64) -> Reading {
        let before = self.offset_ns.replace(offset_ns);
        let is_step = before
            .is_some_and(|before| before.abs_diff(offset_ns) > STEP_NS.saturating_add(width_ns));
        self.steps += u64::from(is_step);
        Reading { read_ns, offset_ns: (!is_step).then_some(offset_ns) }
    }
}

impl Reading {
    /// The monotonic time of a stamp. Without one, or when a clock was set, it is the time of reading; a packet is never
    /// received after that.
    fn monotonic_ns(&self, stamp_ns: Option<u64>) -> u64 {
        let stamped = stamp_ns.zip(self.offset_ns);
        let at_ns =
            stamped.and_then(|(stamp, offset)| stamp.checked_add_signed(offset.checked_neg()?));
        at_ns.unwrap_or(self.read_ns).min(self.read_ns)
    }
}

/// Other programs may receive the same group. An address of this host is only shared by taking its packets away.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    if address.ip().is_multicast() {
        set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

fn index(name: &str) -> Result<u32, WatchError> {
    let failed = |source: io::Error| WatchError::Interface { name: name.to_owned(), source };
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    name_to_index(&socket, name).map_err(|error| failed(error.into()))
}

/// Words of `struct sockaddr_storage`, and of what stands between an interface's number and one.
const ADDRESS: usize = 32;
const PADDING: usize = size_of::<usize>() / 4 - 1;

/// Joins the group (RFC 3678, section 5.1), from its source only if it has one.
fn join(socket: &UdpSocket, target: Target, index: u32) -> io::Result<()> {
    let level = if target.address.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let group = storage(target.address.ip());
    let Some(source) = target.source else {
        let mut request = [0_u32; 1 + PADDING + ADDRESS];
        request[0] = index;
        request[1 + PADDING..].copy_from_slice(&group);
        return set_option(socket.as_fd(), level, libc::MCAST_JOIN_GROUP, &request);
    };
    let mut request = [0_u32; 1 + PADDING + 2 * ADDRESS];
    request[0] = index;
    request[1 + PADDING..][..ADDRESS].copy_from_slice(&group);
    request[1 + PADDING + ADDRESS..].copy_from_slice(&storage(source));
    set_option(socket.as_fd(), level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
}

/// The address as a `struct sockaddr_storage`, without port.
fn storage(ip: IpAddr) -> [u32; ADDRESS] {
    let mut bytes = [0; 4 * ADDRESS];
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    match ip {
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes[8..24].copy_from_slice(&ip.octets()),
    }
    let (words, _) = bytes.as_chunks::<4>();
    let mut storage = [0; ADDRESS];
    storage.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_ne_bytes(*bytes));
    storage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::sink::MOST_WAITING;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn targets_have_an_address_and_may_have_a_source() {
        for text in ["127.0.0.1:5004", "192.0.2.1@239.0.0.1:5004", "2001:db8::1@[ff3e::1]:5004"] {
            assert_eq!(
                text.parse::<Target>().map(|target| target.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "5004", "239.0.0.1", "@239.0.0.1:5004", "a@239.0.0.1:5004", "x:1"] {
            let refused = text.parse::<Target>().expect_err(text).to_string();
            assert!(refused.contains(text) && refused.contains("SOURCE@"), "{refused}");
        }
    }

    /// All packets that arrive at the receiver until there are as many.
    fn received(receiver: &Receiver, packets: usize) -> Vec<(Vec<u8>, u64, u64)> {
        let (mut buffers, mut came) = (Buffers::default(), Vec::new());
        for _ in 0..MOST_WAITING {
            let take = |arrival: &Arrival<'_>| {
                came.push((arrival.payload.to_vec(), arrival.at_ns, arrival.read_ns));
            };
            if receiver.receive(&mut buffers, take).unwrap() == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            if came.len() >= packets {
                break;
            }
        }
        came
    }

    #[test]
    fn packets_have_the_time_at_which_the_kernel_received_them() {
        let receiver = Receiver::open("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in 0..100 {
            sender.send_to(&[n; 20], receiver.address().unwrap()).unwrap();
        }
        let sent_ns = monotonic_ns();
        thread::sleep(Duration::from_millis(20));
        let came = received(&receiver, 100);
        assert_eq!(came.len(), 100);
        for (n, (payload, at_ns, read_ns)) in came.iter().enumerate() {
            assert_eq!(payload, &[n as u8; 20]);
            // Without a stamp, it would be the time of reading.
            assert!(at_ns < read_ns && *read_ns >= sent_ns + 20_000_000, "{at_ns} {read_ns}");
        }
        assert_eq!(receiver.dropped().unwrap(), 0);
    }

    #[test]
    fn groups_are_joined_also_from_one_source() {
        for (text, from) in [
            ("239.77.1.1:0", "127.0.0.1:0"),
            ("127.0.0.1@239.77.1.2:0", "127.0.0.1:0"),
            ("[ff01::7701]:0", "[::1]:0"),
            ("::1@[ff31::7702]:0", "[::1]:0"),
        ] {
            let receiver = match Receiver::open(text.parse().unwrap(), Some("lo")) {
                Ok(receiver) => receiver,
                Err(error) if text.contains("::") => {
                    linecard_testkit::skip(text, error);
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let (sender, other) = (UdpSocket::bind(from).unwrap(), receiver.address().unwrap());
            let lo = index("lo").unwrap();
            let from: SocketAddr = from.parse().unwrap();
            let chosen = match from.ip() {
                IpAddr::V4(ip) => rustix::net::sockopt::set_ip_multicast_if(&sender, &ip),
                IpAddr::V6(_) => rustix::net::sockopt::set_ipv6_multicast_if(&sender, lo),
            };
            chosen.unwrap();
            if let Err(error) = sender.send_to(b"one", other) {
                linecard_testkit::skip(text, error);
                continue;
            }
            assert_eq!(received(&receiver, 1).len(), 1, "{text}");
        }
    }

    #[test]
    fn refusals_name_what_was_given() {
        let open = |text: &str, interface| {
            let opened = Receiver::open(text.parse().unwrap(), interface);
            opened.map(drop).expect_err(text).to_string()
        };
        assert!(open("192.0.2.77:5004", None).contains("cannot receive at 192.0.2.77:5004"));
        assert!(open("239.0.0.1:0", Some("no-such")).contains("--interface no-such"));
        assert!(open("192.0.2.1@127.0.0.1:0", None).contains("leave 192.0.2.1@ out"));
        assert!(open("::1@239.0.0.1:0", None).contains("both IPv4 or both IPv6"));
    }

    #[test]
    fn a_clock_that_is_set_makes_no_packet_late() {
        let mut clocks = Clocks::default();
        let day = 1_700_000_000_000_000_000_u64;
        let offset = |read_ns: u64| (day + read_ns) as i64 - read_ns as i64;
        let first = clocks.compare(1_000, offset(0), 100);
        assert_eq!(first.monotonic_ns(Some(day + 600)), 600);
        assert_eq!(first.monotonic_ns(Some(day + 1_600)), 1_000);
        assert_eq!(first.monotonic_ns(None), 1_000);
        // Set back by ten seconds: the stamps that wait are of either time.
        let stepped = clocks.compare(2_000, offset(0) - 10_000_000_000, 100);
        assert_eq!((stepped.monotonic_ns(Some(day + 1_900)), clocks.steps), (2_000, 1));
        let after = clocks.compare(3_000, offset(0) - 10_000_000_000, 100);
        assert_eq!(
            (after.monotonic_ns(Some(day + 2_900 - 10_000_000_000)), clocks.steps),
            (2_900, 1)
        );
        // A reading that was interrupted is not a step.
        clocks.compare(4_000, offset(0) - 9_990_000_000, 20_000_000);
        assert_eq!(clocks.steps, 1);
    }
}
