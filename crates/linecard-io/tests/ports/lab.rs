//! A network namespace for each test, and frames for it.

use linecard::packet::{Batch, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::{PacketConfig, PacketSocket};
pub(crate) use linecard_testkit::lab::ip;
use linecard_tun::BUFFER_LEN;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How long a frame may take, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// For what should not come.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

/// Works in a thread with a network namespace of its own, or says loudly why not.
pub(crate) fn inside(what: &str, work: impl FnOnce() + Send) {
    linecard_testkit::lab::inside(what, |_| work());
}

/// A cable between `va` and `vb`, which are up.
pub(crate) fn cable() {
    ip("link add va type veth peer name vb");
    for name in ["va", "vb"] {
        linecard_tun::interface::set_up(name, true).expect("it was just made");
    }
    // A device that has just come up may lose frames for a moment: its carrier comes later.
    let carrier = || Command::new("ip").args(["-o", "link", "show", "va"]).output();
    for _ in 0..500 {
        let text = carrier().map(|output| output.stdout).unwrap_or_default();
        if String::from_utf8_lossy(&text).contains("LOWER_UP") {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn pool() -> Pool {
    Pool::new(256, BUFFER_LEN)
}

/// The port on `interface`, changed as asked.
pub(crate) fn open(interface: &str, change: impl FnOnce(&mut PacketConfig)) -> PacketSocket {
    let mut config = PacketConfig { receive_buffer: 2 << 20, ..PacketConfig::new(interface) };
    change(&mut config);
    PacketSocket::open(&config, pool()).expect("root may")
}

/// A UDP datagram in an Ethernet frame of `len` bytes in all, its checksums right. `flow` is in its
/// ports, `number` in its payload.
pub(crate) fn frame(len: usize, tag: Option<u16>, flow: u16, number: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some(tag) = tag {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([8, 0]);
    let ip = frame.len();
    let ip_len = (len - ip) as u16;
    frame.extend([0x45, 0]);
    frame.extend(ip_len.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = sum16(&frame[ip..]);
    frame[ip + 10..ip + 12].copy_from_slice(&(!sum).to_be_bytes());
    for word in [5_000 + flow, 9, ip_len - 20, 0, number] {
        frame.extend(word.to_be_bytes());
    }
    let payload = frame.len();
    frame.extend((payload..len).map(|at| (at * 7) as u8));
    let pseudo = [&frame[ip + 12..ip + 20], &[0, 17], &(ip_len - 20).to_be_bytes()].concat();
    let sum = sum16(&[&pseudo, &frame[ip + 20..]].concat());
    frame[ip + 26..ip + 28].copy_from_slice(&(!sum).to_be_bytes());
    frame
}

fn sum16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// A packet of these bytes, in a buffer of the pool.
pub(crate) fn packet(pool: &Pool, bytes: &[u8], meta: Meta) -> Packet<PoolBuffer> {
    let mut buffer = pool.take().expect("a buffer is free");
    buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
    buffer.truncate(bytes.len());
    Packet::new(buffer, LinkType::Ethernet, meta)
}

/// Sends all of them by the port, waiting where its queue is full.
pub(crate) fn send(port: &mut impl Port<PoolBuffer>, packets: Vec<Packet<PoolBuffer>>) {
    let deadline = std::time::Instant::now() + PATIENCE;
    let (mut batch, mut packets) = (Batch::new(), packets.into_iter());
    loop {
        while batch.room() > 0
            && let Some(packet) = packets.next()
        {
            assert!(batch.push(packet).is_ok());
        }
        if batch.is_empty() {
            return;
        }
        port.transmit(&mut batch, Instant::ZERO);
        assert!(std::time::Instant::now() < deadline, "{} packets are left", batch.len());
    }
}

/// Receives until `count` packets have come, or nothing for [`PATIENCE`].
pub(crate) fn receive<P: Port<PoolBuffer> + AsFd>(
    port: &mut P,
    count: usize,
) -> Vec<Packet<PoolBuffer>> {
    let mut packets = Vec::new();
    while packets.len() < count {
        let more = receive_within(port, PATIENCE);
        assert!(!more.is_empty(), "{} of {count} packets came", packets.len());
        packets.extend(more);
    }
    packets
}

/// Packets that arrive together, the first of them within `time`.
pub(crate) fn receive_within<P: Port<PoolBuffer> + AsFd>(
    port: &mut P,
    time: Duration,
) -> Vec<Packet<PoolBuffer>> {
    let (mut batch, deadline) = (Batch::new(), std::time::Instant::now() + time);
    loop {
        assert_eq!(port.receive(&mut batch, Instant::ZERO), PortState::Open);
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        if !batch.is_empty() || left.is_zero() {
            return batch.drain().collect();
        }
        linecard_tun::wait(&[port.as_fd()], left).expect("one descriptor");
    }
}
