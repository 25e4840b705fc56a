//! Sockets that receive streams of other senders, with the time at which the kernel received each packet.

use super::clock::{monotonic_ns, realtime_ns};
use super::sink::{dropped, is_down, is_nothing, room, set_room};
use super::sys::packet::{self, datagram};
use super::sys::receive::{Batch, MESSAGES};
use super::wire::Devices;
use crate::media::live::Arrival;
use linecard_io::sys::ethtool::{self, Stamping};
use linecard_io::sys::socket::{option, set_option};
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

/// Bytes that may wait in a socket: at 1 Gbit/s, a stop of 60 ms.
pub const ROOM: usize = 8 << 20;
/// Two readings of both clocks that are at most so far apart are as good as one.
const NEAR_NS: u64 = 2_000;
/// Attempts to read both clocks so close to each other.
const ATTEMPTS: u32 = 5;
/// The clocks differ by more than they did at the last packet: one was set. NTP slews by at most 500 ppm.
const STEP_NS: u64 = 1_000_000;

/// Where a stream is received: an address of this host or a multicast group, for a group the only source, and the only
/// interface, on which a group is joined.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The address and the port.
    pub address: SocketAddr,
    /// The source.
    pub source: Option<IpAddr>,
    /// The name of the interface; without, the one that routes choose.
    pub interface: Option<String>,
}

/// A text that is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not an address and a port: write 192.0.2.1:5004, [2001:db8::1]:5004, SOURCE@239.0.0.1:5004 or \
     239.0.0.1:5004%INTERFACE"
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
        // As in [fe80::1%2]:5004, the number of an interface may be in an address.
        let (address, interface) = match address.rsplit_once('%') {
            Some((address, name)) if !name.contains(']') => (address, Some(name.to_owned())),
            _ => (address, None),
        };
        Ok(Self { address: address.parse().map_err(|_| refused())?, source, interface })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            write!(f, "{source}@")?;
        }
        self.address.fmt(f)?;
        self.interface.as_ref().map_or(Ok(()), |interface| write!(f, "%{interface}"))
    }
}

/// Why a stream cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The address cannot be had.
    #[error(
        "cannot receive at {target}: {source}; name an address of this host, or a multicast group, and a free port; \
         link-local ones need an interface (--interface)"
    )]
    Bind {
        /// Where.
        target: Target,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The interface does not exist.
    #[error("interface {name}: {source}; `ip link` lists those of this host")]
    Interface {
        /// Its name.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The interface cannot be listened at.
    #[error("cannot listen at {name}: {source}; this needs root or CAP_NET_RAW")]
    Packet {
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
    /// The interface can stamp packets, and does not.
    #[error(
        "{name} can stamp packets by ptp{clock}, and is not set to stamp all: --hardware-stamps, as root, has it do so"
    )]
    Unstamped {
        /// Its name.
        name: String,
        /// The number of its clock.
        clock: u32,
    },
    /// The clock of the interface's stamps cannot be read.
    #[error(
        "{name} stamps packets by ptp{clock}, which cannot be read: {source}; root can read /dev/ptp{clock}"
    )]
    Clock {
        /// Its name.
        name: String,
        /// The number of its clock.
        clock: u32,
        /// The error of the operating system.
        source: io::Error,
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
    /// It is a packet socket: what it receives begins with headers.
    is_packet: bool,
    /// How often a clock had been set when no packet waited.
    settled: Cell<u64>,
    /// The number of the clock by which its interface stamps packets.
    clock: Cell<Option<u32>>,
}

impl Receiver {
    /// Opens the socket, and joins the group.
    ///
    /// # Errors
    ///
    /// See [`WatchError`].
    pub fn open(target: Target) -> Result<Self, WatchError> {
        let (ip, filter) = (target.address.ip(), target.source);
        if let Some(filter) = filter.filter(|_| !ip.is_multicast()) {
            return Err(WatchError::Source { target, filter });
        }
        if filter.is_some_and(|source| source.is_ipv4() != ip.is_ipv4()) {
            return Err(WatchError::Families { target });
        }
        let mut address = target.address;
        let mut index = target.interface.as_deref().map(index).transpose()?.unwrap_or(0);
        if let SocketAddr::V6(address) = &mut address
            && (ip.is_multicast() || address.ip().is_unicast_link_local())
        {
            if index > 0 {
                address.set_scope_id(index);
            }
            index = address.scope_id();
        }
        // Packets to an address of this host may arrive on any interface.
        let device = if ip.is_multicast() { 0 } else { index };
        let socket = match socket(address, device) {
            Ok(socket) => socket,
            Err(source) => return Err(WatchError::Bind { target, source }),
        };
        if ip.is_multicast()
            && let Err(source) = join(&socket, &target, index)
        {
            return Err(WatchError::Join { target, source });
        }
        let mut target = target;
        match socket.local_addr() {
            Ok(local) => target.address.set_port(local.port()),
            Err(source) => return Err(WatchError::Bind { target, source }),
        }
        Ok(Self::new(target, socket, false))
    }

    /// Opens a socket that receives a copy of what arrives for an address at an interface, as long as another program
    /// receives it or has joined the group; needs root or `CAP_NET_RAW`.
    ///
    /// # Errors
    ///
    /// See [`WatchError`].
    pub fn beside(interface: &str, address: SocketAddr) -> Result<Self, WatchError> {
        let name = Some(interface.to_owned());
        let target = Target { address, source: None, interface: name };
        let socket = packet::open(index(interface)?, Some(address)).and_then(prepare);
        match socket {
            Ok(socket) => Ok(Self::new(target, socket, true)),
            Err(source) => Err(WatchError::Packet { name: interface.to_owned(), source }),
        }
    }

    fn new(target: Target, socket: UdpSocket, is_packet: bool) -> Self {
        Self { target, socket, is_packet, settled: Cell::new(0), clock: Cell::new(None) }
    }

    /// Takes the interface's own time stamps as well, where its name is known and it stamps all packets: then returns the
    /// number of its clock.
    ///
    /// # Errors
    ///
    /// It could stamp packets; why it does not, or why its clock cannot be read.
    pub fn take_stamps(&self, buffers: &mut Buffers) -> Result<Option<u32>, WatchError> {
        let Some(name) = self.target.interface.clone() else { return Ok(None) };
        // A driver that cannot answer cannot stamp.
        let Ok(Some(Stamping { clock, every: true })) = ethtool::stamping(&name) else {
            return Ok(None);
        };
        if !ethtool::stamped(&name).is_ok_and(|[.., filter]| filter == libc::HWTSTAMP_FILTER_ALL) {
            return Err(WatchError::Unstamped { name, clock });
        }
        let kinds = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let opened = buffers.devices.open(clock, monotonic_ns());
        opened
            .and_then(|()| set_option(self.as_fd(), level, option, &kinds))
            .map_err(|source| WatchError::Clock { name, clock, source })?;
        self.clock.set(Some(clock));
        Ok(Some(clock))
    }

    /// Where it receives; with the port that it has, where 0 was given.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The lower half of the number by which the kernel knows the socket (`SO_COOKIE`).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn cookie(&self) -> io::Result<u32> {
        let mut cookie = 0_u64;
        option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
        Ok(cookie as u32)
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
            Err(error) if is_nothing(&error) || (self.is_packet && is_down(&error)) => {
                self.settled.set(buffers.clocks.steps);
                return Ok(0);
            }
            Err(source) => {
                return Err(WatchError::Receive { target: self.target.clone(), source });
            }
        };
        let clocks = buffers.clocks.read();
        // Stamps of packets that waited while a clock was set are of either time.
        let is_settled = self.settled.get() == buffers.clocks.steps;
        let relation =
            self.clock.get().and_then(|clock| buffers.devices.relation(clock, clocks.read_ns));
        for (mut payload, mut len, stamps) in buffers.batch.stamped_datagrams(came) {
            if self.is_packet {
                let Some(datagram) = datagram(payload) else { continue };
                (payload, len) = (datagram.payload, datagram.len);
            }
            let kernel_ns = stamps.kernel_ns.filter(|_| is_settled);
            let wire = relation
                .zip(stamps.wire_ns.zip(kernel_ns))
                .and_then(|(relation, (wire_ns, kernel_ns))| relation.delay(wire_ns, kernel_ns));
            let (at_ns, read_ns) = (clocks.monotonic_ns(kernel_ns), clocks.read_ns);
            take(&Arrival { at_ns, read_ns, wire, payload, len });
        }
        if came < MESSAGES {
            self.settled.set(buffers.clocks.steps);
        }
        Ok(came)
    }

    /// Packets that the kernel dropped because the socket's buffer was full, or whose checksum was wrong, if they were
    /// `before` at the last look.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn dropped(&self, before: u64) -> io::Result<u64> {
        Ok(counted_on(before, dropped(&self.socket)?))
    }

    /// Bytes of the socket's buffer, as the kernel counts them: 2 · [`ROOM`], or as much as it allows.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn room_bytes(&self) -> io::Result<usize> {
        room(&self.socket)
    }
}

/// A counter of which the kernel has the lowest 32 bits.
fn counted_on(before: u64, low: u32) -> u64 {
    before + u64::from(low.wrapping_sub(before as u32))
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
    devices: Devices,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { batch: Batch::stamped(), clocks: Clocks::default(), devices: Devices::default() }
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
    /// Time of day minus monotonic time.
    offset_ns: i64,
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
        Reading { read_ns, offset_ns }
    }
}

impl Reading {
    /// The monotonic time of a stamp. Without one it is the time of reading; a packet is never received after that.
    fn monotonic_ns(&self, stamp_ns: Option<u64>) -> u64 {
        let at_ns = stamp_ns.and_then(|stamp| stamp.checked_sub_signed(self.offset_ns));
        at_ns.unwrap_or(self.read_ns).min(self.read_ns)
    }
}

/// Other programs may receive the same group. An address of this host is only shared by taking its packets away.
fn socket(address: SocketAddr, device: u32) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    if address.ip().is_multicast() {
        set_socket_reuseaddr(&socket, true)?;
    }
    if device > 0 {
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &device)?;
    }
    rustix::net::bind(&socket, &address)?;
    prepare(socket)
}

pub(super) fn prepare(socket: OwnedFd) -> io::Result<UdpSocket> {
    let socket = socket.into();
    set_room(&socket, ROOM)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

pub(super) fn index(name: &str) -> Result<u32, WatchError> {
    let failed = |source: io::Error| WatchError::Interface { name: name.to_owned(), source };
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    name_to_index(&socket, name).map_err(|error| failed(error.into()))
}

/// Words of `struct sockaddr_storage`, and of what stands between an interface's number and one.
const ADDRESS: usize = 32;
const PADDING: usize = size_of::<usize>() / 4 - 1;

/// Joins the group (RFC 3678, section 5.1), from its source only if it has one. Packets that arrive on other interfaces,
/// because other programs have joined it there, are not received.
fn join(socket: &UdpSocket, target: &Target, index: u32) -> io::Result<()> {
    let (level, all) = if target.address.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL)
    };
    set_option(socket.as_fd(), level, all, &0_i32)?;
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
        for text in [
            "127.0.0.1:5004",
            "192.0.2.1@239.0.0.1:5004%eth1",
            "2001:db8::1@[ff3e::1]:5004",
            "[fe80::1%2]:5004",
            "[ff02::1]:5004%eth1",
        ] {
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
        let receiver = Receiver::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in 0..100 {
            sender.send_to(&[n; 20], receiver.target().address).unwrap();
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
        assert_eq!(receiver.dropped(0).unwrap(), 0);
        assert!(receiver.room_bytes().unwrap() > 0);
    }

    /// Interfaces without a clock of their own: software stamps, as without the wish for others.
    #[test]
    fn packets_that_no_interface_stamps_have_the_kernels_stamps() {
        let receiver = Receiver::open("127.0.0.1:0%lo".parse().unwrap()).unwrap();
        let mut buffers = Buffers::default();
        assert_eq!(receiver.take_stamps(&mut buffers).unwrap(), None);
        let kinds = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        set_option(receiver.as_fd(), level, name, &kinds).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"one", receiver.target().address).unwrap();
        let mut came = 0;
        for _ in 0..MOST_WAITING {
            thread::sleep(Duration::from_millis(1));
            let take = |arrival: &Arrival<'_>| {
                // Without a stamp, it would be the time of reading.
                assert!(arrival.at_ns < arrival.read_ns, "{arrival:?}");
                assert_eq!(arrival.wire, None);
                came += 1;
            };
            if receiver.receive(&mut buffers, take).unwrap() > 0 {
                break;
            }
        }
        assert_eq!(came, 1);
    }

    #[test]
    fn groups_are_joined_also_from_one_source() {
        // Two senders, of which the first is not the source of the second group.
        for (text, from, packets) in [
            ("239.77.1.1:0%lo", ["127.0.0.2:0", "127.0.0.1:0"], 2),
            ("127.0.0.1@239.77.1.2:0%lo", ["127.0.0.2:0", "127.0.0.1:0"], 1),
            ("[ff01::7701]:0%lo", ["[::1]:0", "[::1]:0"], 2),
            ("::1@[ff31::7702]:0%lo", ["[::1]:0", "[::1]:0"], 2),
        ] {
            let receiver = match Receiver::open(text.parse().unwrap()) {
                Ok(receiver) => receiver,
                Err(error) if text.contains("::") => {
                    linecard_testkit::skip(text, error);
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let group = receiver.target().address;
            let send = |from: &str| {
                let sender = UdpSocket::bind(from).unwrap();
                let chosen = if group.is_ipv4() {
                    let lo = std::net::Ipv4Addr::LOCALHOST;
                    rustix::net::sockopt::set_ip_multicast_if(&sender, &lo)
                } else {
                    rustix::net::sockopt::set_ipv6_multicast_if(&sender, index("lo").unwrap())
                };
                chosen.unwrap();
                sender.send_to(from.as_bytes(), group)
            };
            if let Some(error) = from.iter().find_map(|from| send(from).err()) {
                linecard_testkit::skip(text, error);
                continue;
            }
            // Over loopback, packets arrive in the order in which they were sent.
            let came: Vec<_> = received(&receiver, packets).into_iter().map(|one| one.0).collect();
            let right: Vec<_> =
                from[2 - packets..].iter().map(|from| from.as_bytes().to_vec()).collect();
            assert_eq!(came, right, "{text}");
        }
    }

    #[test]
    fn a_group_is_received_only_where_it_was_joined() {
        let receiver = Receiver::open("239.77.1.3:0%lo".parse().unwrap()).unwrap();
        let mut all = 1_i32;
        let (level, name) = (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL);
        option(receiver.as_fd(), level, name, &mut all).unwrap();
        assert_eq!(all, 0);
    }

    #[test]
    fn refusals_name_what_was_given() {
        let open = |text: &str| {
            let opened = Receiver::open(text.parse().unwrap());
            opened.map(drop).expect_err(text).to_string()
        };
        assert!(open("192.0.2.77:5004").contains("cannot receive at 192.0.2.77:5004"));
        assert!(open("239.0.0.1:0%no-such").contains("interface no-such"));
        assert!(open("192.0.2.1@127.0.0.1:0").contains("leave 192.0.2.1@ out"));
        assert!(open("::1@239.0.0.1:0").contains("both IPv4 or both IPv6"));
    }

    #[test]
    fn counters_of_the_kernel_go_on_beyond_32_bits() {
        let counts = [(0, 7), (7, 7), (7, u32::MAX), (u64::from(u32::MAX), 3), (1 << 40, 9)];
        let right = [7, 7, u64::from(u32::MAX), (1 << 32) + 3, (1 << 40) + 9];
        assert_eq!(counts.map(|(before, low)| counted_on(before, low)), right);
    }

    #[test]
    fn datagrams_count_as_long_as_they_are() {
        let receiver = Receiver::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[7; 20_000], receiver.target().address).unwrap();
        let (mut buffers, mut lengths) = (Buffers::default(), Vec::new());
        for _ in 0..MOST_WAITING {
            let take = |arrival: &Arrival<'_>| lengths.push((arrival.payload.len(), arrival.len));
            if receiver.receive(&mut buffers, take).unwrap() > 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(lengths, [(crate::linux::sys::receive::SLOT, 20_000)]);
    }

    #[test]
    fn packets_that_waited_while_a_clock_was_set_have_the_time_of_reading() {
        let receiver = Receiver::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffers = Buffers::default();
        buffers.clocks.read();
        for is_set in [true, false] {
            (0..100).for_each(|_| {
                sender.send_to(b"one", receiver.target().address).unwrap();
            });
            thread::sleep(Duration::from_millis(20));
            // A socket that is read before this one may find it.
            buffers.clocks.steps += u64::from(is_set);
            let mut came = 0;
            for _ in 0..MOST_WAITING {
                let take = |arrival: &Arrival<'_>| {
                    assert_eq!(arrival.at_ns == arrival.read_ns, is_set);
                    came += 1;
                };
                receiver.receive(&mut buffers, take).unwrap();
                if came == 100 {
                    break;
                }
            }
            assert_eq!(came, 100);
        }
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
        // Set back by ten seconds.
        clocks.compare(2_000, offset(0) - 10_000_000_000, 100);
        assert_eq!(clocks.steps, 1);
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
