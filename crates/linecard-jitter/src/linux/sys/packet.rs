//! Packet sockets with a filter: UDP datagrams as an interface receives them, for any program.
#![expect(unsafe_code, reason = "addresses and filters of packet sockets have no safe form in std")]

use super::check;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Octets of a packet that are received: its headers, and the beginning of the payload.
const SNAP: u32 = 384;
/// Offset of the type of a packet in a filter, and that of packets which this host sends (`linux/filter.h`).
const TYPE: u32 = 0xFFFF_F004;
const OUTGOING: u32 = 4;
const UDP: u32 = 17;

/// A datagram in an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram<'p> {
    pub(crate) source: SocketAddr,
    pub(crate) target: SocketAddr,
    /// The payload, or its beginning.
    pub(crate) payload: &'p [u8],
    /// Octets of the payload.
    pub(crate) len: usize,
}

/// Reads an IP packet that the filter has let pass.
pub(crate) fn datagram(packet: &[u8]) -> Option<Datagram<'_>> {
    let (ips, header): ([IpAddr; 2], usize) = if packet.first()? >> 4 == 4 {
        let ip = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|ip| IpAddr::from(*ip));
        ([ip(12)?, ip(16)?], 4 * usize::from(packet[0] & 0x0F))
    } else {
        let ip = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|ip| IpAddr::from(*ip));
        ([ip(8)?, ip(24)?], 40)
    };
    let (&[s1, s0, t1, t0, l1, l0, ..], payload) =
        packet.get(header..)?.split_first_chunk::<8>()?;
    let [source, target, len] = [[s1, s0], [t1, t0], [l1, l0]].map(u16::from_be_bytes);
    let len = usize::from(len).checked_sub(8)?;
    let payload = payload.get(..len.min(payload.len()))?;
    Some(Datagram {
        source: SocketAddr::new(ips[0], source),
        target: SocketAddr::new(ips[1], target),
        payload,
        len,
    })
}

/// A socket that receives UDP datagrams which arrive at the interface with this number, those for one address or all, from
/// the IP header on. What is for other hosts is not received, unless another program has asked the interface for it.
pub(crate) fn open(interface: u32, target: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers; the result is checked. Protocol 0 receives nothing until the socket is bound.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: just opened, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let filter = filter(target);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let (value, len) = ((&raw const program).cast(), size_of_val(&program) as libc::socklen_t);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the program and its filter live during the call, which only reads them.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) })?;
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.cast_signed();
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a socket address of `len` bytes and lives during the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(socket)
}

/// Passes whole UDP datagrams and first fragments that this host receives, for one address or all.
fn filter(target: Option<SocketAddr>) -> Vec<libc::sock_filter> {
    let (word, half, byte) = (libc::BPF_W, libc::BPF_H, libc::BPF_B);
    let load = |size: u32, at: u32| (libc::BPF_LD | size | libc::BPF_ABS, at);
    let mut filter = Filter(Vec::new());
    filter.push(load(word, TYPE));
    filter.unless(OUTGOING);
    filter.push(load(byte, 0));
    filter.push((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xF0));
    // Each version's part ends with its verdict.
    let is_ipv4 = filter.0.len();
    filter.push((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0x40));
    if target.is_none_or(|target| target.is_ipv4()) {
        filter.push(load(byte, 9));
        filter.only(UDP);
        filter.push(load(half, 6));
        filter.push((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x1FFF));
        filter.only(0);
        if let Some(SocketAddr::V4(target)) = target {
            filter.push(load(word, 16));
            filter.only(target.ip().to_bits());
            filter.push((libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0));
            filter.push((libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 2));
            filter.only(target.port().into());
        }
        filter.push((libc::BPF_RET | libc::BPF_K, SNAP));
    } else {
        filter.push((libc::BPF_RET | libc::BPF_K, 0));
    }
    filter.0[is_ipv4].jf = (filter.0.len() - is_ipv4 - 1) as u8;
    filter.only(0x60);
    if target.is_some_and(|target| target.is_ipv4()) {
        filter.push((libc::BPF_RET | libc::BPF_K, 0));
        return filter.0;
    }
    filter.push(load(byte, 6));
    filter.only(UDP);
    if let Some(SocketAddr::V6(target)) = target {
        let octets = target.ip().octets();
        let (words, _) = octets.as_chunks::<4>();
        for (at, word_of) in (24..).step_by(4).zip(words) {
            filter.push(load(word, at));
            filter.only(u32::from_be_bytes(*word_of));
        }
        filter.push(load(half, 42));
        filter.only(target.port().into());
    }
    filter.push((libc::BPF_RET | libc::BPF_K, SNAP));
    filter.0
}

/// A filter under construction.
struct Filter(Vec<libc::sock_filter>);

impl Filter {
    fn push(&mut self, (code, k): (u32, u32)) {
        self.0.push(libc::sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    /// Refuses packets whose loaded value is another one.
    fn only(&mut self, value: u32) {
        self.push((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value));
        self.refuse(1, 0);
    }

    /// Refuses packets whose loaded value is this one.
    fn unless(&mut self, value: u32) {
        self.push((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value));
        self.refuse(0, 1);
    }

    fn refuse(&mut self, jt: u8, jf: u8) {
        if let Some(jump) = self.0.last_mut() {
            (jump.jt, jump.jf) = (jt, jf);
        }
        self.push((libc::BPF_RET | libc::BPF_K, 0));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An IP packet with a whole datagram.
    pub(crate) fn udp(source: SocketAddr, target: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let len = 8 + payload.len() as u16;
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let mut packet = if target.is_ipv4() {
            [&[0x45, 0][..], &(20 + len).to_be_bytes(), &[0, 0, 0x40, 0, 64, 17, 0, 0]].concat()
        } else {
            [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[17, 64]].concat()
        };
        packet.extend(octets(source.ip()));
        packet.extend(octets(target.ip()));
        for field in [source.port(), target.port(), len, 0] {
            packet.extend(field.to_be_bytes());
        }
        packet.extend(payload);
        packet
    }

    /// How much of a packet of a type the kernel passes with this filter, as `Documentation/networking/filter.rst` says;
    /// 0 also for a load beyond its end.
    fn passed(filter: &[libc::sock_filter], packet: &[u8], packet_type: u32) -> u32 {
        let (mut a, mut x, mut at) = (0, 0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter[at];
            let load = |from: u32, len: u32| {
                let bytes = packet.get(from as usize..(from + len) as usize)?;
                Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
            };
            at += 1;
            let loaded = match u32::from(code) {
                0x20 if k == TYPE => Some(packet_type),
                0x20 => load(k, 4),
                0x28 => load(k, 2),
                0x30 => load(k, 1),
                0x48 => load(x + k, 2),
                0x54 => Some(a & k),
                0xB1 => {
                    let Some(first) = load(k, 1) else { return 0 };
                    x = 4 * (first & 0x0F);
                    continue;
                }
                0x15 => {
                    at += usize::from(if a == k { jt } else { jf });
                    continue;
                }
                0x06 => return k,
                other => panic!("{other:#x} is not one of ours"),
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
        }
    }

    #[test]
    fn the_filter_passes_datagrams_for_the_address() {
        let addresses =
            ["192.0.2.1:5004", "192.0.2.1:5005", "192.0.2.2:5004", "[2001:db8::1]:5004"];
        let more = ["[2001:db8::1]:5005", "[2001:db8::2]:5004", "[2001:db9::1]:5004"];
        let addresses = addresses.iter().chain(&more);
        let addresses: Vec<SocketAddr> = addresses.map(|text| text.parse().unwrap()).collect();
        for wanted in addresses.iter().copied().map(Some).chain([None]) {
            let filter = filter(wanted);
            for target in &addresses {
                let mut packet = udp(*target, *target, b"payload");
                let is_wanted = wanted.is_none_or(|wanted| wanted == *target);
                let right = if is_wanted { SNAP } else { 0 };
                assert_eq!(passed(&filter, &packet, 0), right, "{wanted:?} {target}");
                // No packets that this host sends, none that end before their ports, no other protocol.
                assert_eq!(passed(&filter, &packet, OUTGOING), 0);
                let header = if target.is_ipv4() { 20 } else { 40 };
                if wanted.is_some() {
                    assert_eq!(passed(&filter, &packet[..header + 3], 0), 0);
                }
                packet[if target.is_ipv4() { 9 } else { 6 }] = 6;
                assert_eq!(passed(&filter, &packet, 0), 0);
            }
        }
    }

    #[test]
    fn the_filter_knows_fragments_options_and_other_versions() {
        let target: SocketAddr = "192.0.2.1:5004".parse().unwrap();
        let packet = udp(target, target, b"payload");
        for filter in [filter(Some(target)), filter(None)] {
            let with = |at: usize, octet: u8| {
                let mut packet = packet.clone();
                packet[at] = octet;
                passed(&filter, &packet, 0)
            };
            // The first fragment, and a later one.
            assert_eq!((with(6, 0x20), with(7, 1)), (SNAP, 0));
            assert_eq!((with(0, 0x55), passed(&filter, &[], 0)), (0, 0));
            let mut options = packet.clone();
            options.splice(20..20, [1; 8]);
            options[0] = 0x47;
            assert_eq!(passed(&filter, &options, 0), SNAP);
        }
    }

    #[test]
    fn datagrams_are_read_from_packets() {
        let mut packet = vec![0x46; 24];
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 239, 1, 2, 3]);
        packet.extend([0x13, 0x8C, 0x13, 0x8E, 0, 28, 0, 0]);
        packet.extend([7; 10]);
        let read = datagram(&packet).expect("whole headers");
        assert_eq!(
            (read.source.to_string(), read.target.to_string()),
            ("10.0.0.1:5004".to_owned(), "239.1.2.3:5006".to_owned())
        );
        assert_eq!((read.payload, read.len), (&[7_u8; 10][..], 20));
        for len in 0..32 {
            assert_eq!(datagram(&packet[..len]), None, "{len}");
        }
        // Padding of a short frame is not payload.
        packet[29] = 12;
        assert_eq!(datagram(&packet).expect("whole headers").payload, [7; 4]);
        let mut packet = vec![0x60; 40];
        packet[24..40].copy_from_slice(&[0xFF; 16]);
        packet.extend([0, 1, 0, 2, 0, 9, 0, 0, 5]);
        let read = datagram(&packet).expect("whole headers");
        assert_eq!(
            (read.target.port(), read.target.is_ipv6(), read.payload),
            (2, true, &[5_u8][..])
        );
    }
}
