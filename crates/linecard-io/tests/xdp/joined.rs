//! An AF_XDP port and a TAP device, joined: what one receives the other sends.

use crate::cable::{Cable, PATIENCE, frame, now, with_cable};
use crate::sys::{self, PacketSocket};
use crate::tcp::{self, Kind};
use linecard::offload::virtio::{Endian, Format, Header, flag, gso_type};
use linecard::packet::{Batch, Pool};
use linecard_io::port::xdp::{Config, Mode};
use linecard_io::port::{Buffer, LivePort, LocalPool};
use linecard_tun::{BUFFER_LEN, DeviceConfig, Tap};

/// Both ports, and what passes between them.
struct Joined {
    ports: [Box<dyn LivePort<Buffer>>; 2],
    batches: [Batch<Buffer>; 2],
}

impl Joined {
    fn new(cable: &Cable) -> Self {
        let pool = LocalPool(Pool::new(256, BUFFER_LEN));
        let tap = Tap::open(&DeviceConfig::tap("lc0"), pool).expect("root may");
        linecard_tun::interface::set_up("lc0", true).expect("it was just made");
        let config = Config { tx_slots: 64, ..Config::default() };
        let queue = cable.port(Mode::Native, &config);
        Self { ports: [Box::new(queue), Box::new(tap)], batches: Default::default() }
    }

    fn turn(&mut self) {
        let ([a, b], [there, back]) = (&mut self.ports, &mut self.batches);
        a.receive(there, now());
        b.transmit(there, now());
        b.receive(back, now());
        a.transmit(back, now());
    }

    /// Turns until so much has been sent by this port.
    fn until_sent(&mut self, port: usize, count: u64) {
        let start = std::time::Instant::now();
        while self.ports[port].counters().transmitted < count {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.ports[port].counters());
            self.turn();
        }
    }
}

/// The virtio header of a large TCP packet for the kernel.
fn virtio(size: u16) -> Vec<u8> {
    let header = Header {
        flags: flag::NEEDS_CSUM,
        gso_type: gso_type::TCPV4,
        hdr_len: 54,
        gso_size: size,
        csum_start: 34,
        csum_offset: 16,
        ..Header::default()
    };
    let mut bytes = vec![0; sys::VNET_LEN];
    header.write(&mut bytes, Format::Legacy, Endian::NATIVE).expect("there is room");
    bytes
}

#[test]
fn an_xdp_port_and_a_tap_exchange_packets() {
    const LARGE: usize = 60_000;
    with_cable("an AF_XDP port joined to a TAP device", "1500", |cable| {
        let mut joined = Joined::new(cable);
        let tap = sys::interface("lc0").expect("it was just made");
        let mut kernel = PacketSocket::receiver(tap).expect("root may");
        for number in 0..200 {
            cable.send(&frame(number, 60 + number as usize * 7));
        }
        joined.until_sent(1, 200);
        for number in 0..200 {
            assert!(kernel.wait(PATIENCE).expect("open"), "frame {number} is missing");
            let came = kernel.receive().expect("open").expect("it is there").frame;
            assert!(came == frame(number, 60 + number as usize * 7), "frame {number}");
        }
        let sender = PacketSocket::sender(tap, sys::VNET_LEN).expect("root may");
        for number in 0..10 {
            let whole = tcp::packet(Kind::Ipv4, number, LARGE);
            sender.send(&[virtio(1_400), whole].concat()).expect("the kernel takes it");
        }
        joined.until_sent(0, 10);
        for number in 0..10 {
            let mut start = 0;
            while start < LARGE {
                start += tcp::check(&cable.next(), Kind::Ipv4, (number, start), LARGE);
            }
        }
        let [queue, tap] = joined.ports.each_mut().map(|port| port.counters());
        assert_eq!((queue.received, queue.transmitted, queue.cut), (200, 10, 10));
        assert_eq!((tap.received, tap.transmitted, tap.cut), (10, 200, 0));
        assert_eq!((queue.dropped.total(), tap.dropped.total()), (0, 0), "{queue:?} {tap:?}");
        assert_eq!((queue.gone, tap.gone), (0, 0));
    });
}
