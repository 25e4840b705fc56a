//! A port and its guest on one thread, in virtual time.

use super::guest::{FrontEnd, Guest, Ring};
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::vhost::{VhostConfig, VhostDevice, VhostPort};
use linecard_tun::{BUFFER_LEN, Counters};
use std::path::PathBuf;
use tempfile::TempDir;

/// Calls that handle whatever a front end has sent, and after which a port at rest asks to be woken.
pub(crate) const CALLS: usize = 40;

pub(crate) struct Bench {
    pub(crate) port: VhostPort<Pool>,
    pub(crate) now: Instant,
    pub(crate) path: PathBuf,
    pub(crate) _folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(configure: impl FnOnce(&mut VhostConfig)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vm.sock");
        let mut config = VhostConfig::new(&path);
        configure(&mut config);
        let device = VhostDevice::open(&config).expect("a socket");
        let port = VhostPort::open(&device, 0, Pool::new(128, BUFFER_LEN)).expect("a port");
        Self { port, now: Instant::from_ns(1_000_000_000), path, _folder: folder }
    }

    /// A guest that has configured everything.
    pub(crate) fn guest(&mut self, features: u64) -> Guest {
        let guest = Guest::start(&self.path, features);
        assert!(self.receive().is_empty(), "nothing was sent");
        guest
    }

    /// Calls the port until it has handled what there was.
    pub(crate) fn receive(&mut self) -> Vec<Packet<PoolBuffer>> {
        let mut packets = Vec::new();
        for _ in 0..CALLS {
            let mut batch = Batch::new();
            self.port.receive(&mut batch, self.now);
            packets.extend(batch.drain());
        }
        packets
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.port.receive(&mut Batch::new(), self.now) == PortState::Ended
    }

    pub(crate) fn after_ns(&mut self, ns: u64) {
        self.now = self.now.plus_ns(ns);
    }

    /// Sends these, and returns how many are left.
    pub(crate) fn transmit(&mut self, packets: Vec<Packet<PoolBuffer>>) -> usize {
        let mut batch = batch(packets);
        self.port.transmit(&mut batch, self.now);
        batch.len()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.port.counters()
    }

    /// The reply to what was sent.
    pub(crate) fn reply(&mut self, front: &mut FrontEnd) -> u64 {
        self.receive();
        front.reply().expect("handled")
    }

    /// Whether a front end can still connect, and its guest send and receive.
    pub(crate) fn works(&mut self) -> bool {
        let mut guest = self.guest(super::guest::feature::USUAL);
        guest.send(&[0; 12], &[7; 60]);
        guest.post(1, 2048);
        let is_received = self.receive().len() == 1;
        let is_sent = self.transmit(vec![packet(&[8; 60], Meta::default())]) == 0;
        is_received && is_sent && guest.rx.next_packet(&guest.memory).is_some()
    }
}

pub(crate) fn batch(packets: Vec<Packet<PoolBuffer>>) -> Batch<PoolBuffer> {
    let mut batch = Batch::new();
    for packet in packets {
        assert!(batch.push(packet).is_ok(), "room");
    }
    batch
}

pub(crate) fn packet(frame: &[u8], meta: Meta) -> Packet<PoolBuffer> {
    let mut buffer = Pool::new(1, BUFFER_LEN).take().expect("one");
    buffer.as_mut()[..frame.len()].copy_from_slice(frame);
    buffer.truncate(frame.len());
    Packet::new(buffer, LinkType::Ethernet, meta)
}

/// Whether the guest was notified that the ring is broken.
pub(crate) fn is_broken(ring: &Ring) -> bool {
    Ring::is_signalled(&ring.error)
}
