//! Receives frames from the driver, bypassing the kernel's protocols: a program on the interface
//! redirects the datagrams of one port into a ring, which this sink polls. Other packets go to the
//! kernel.

use super::tally::Tally;
use super::{Receive, SinkError};
use crate::linux::clock::monotonic_ns;
use linecard::packet::Batch;
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::xdp::{Attachment, Config, XdpBuffer, XdpPort};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// The calling thread's network namespace.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Slots of the ring: 60 ms of a stream with a period of 7.41 µs.
const SLOTS: u32 = 8_192;

/// The program on its interface; the receiving thread opens the ring.
#[derive(Debug)]
pub(super) struct Prepared {
    attachment: Attachment,
    namespace: File,
}

impl Prepared {
    pub(super) fn new(interface: &str, port: u16) -> Result<Self, SinkError> {
        let attachment = Attachment::of_udp_port(interface, port)?;
        let namespace = File::open(NAMESPACE).map_err(SinkError::Socket)?;
        Ok(Self { attachment, namespace })
    }

    /// Opens the ring in the namespace of the interface, whichever namespace this thread is in.
    pub(super) fn open(self) -> Result<AfXdp, SinkError> {
        let here = File::open(NAMESPACE).map_err(SinkError::Socket)?;
        let identity = |file: &File| file.metadata().map(|data| (data.dev(), data.ino()));
        let is_away = identity(&here).ok() != identity(&self.namespace).ok();
        if is_away {
            enter(&self.namespace)?;
        }
        let config = Config { rx_slots: SLOTS, ..Config::default() };
        let port = XdpPort::open(&self.attachment, 0, &config);
        if is_away {
            enter(&here)?;
        }
        Ok(AfXdp { port: port?, batch: Batch::new() })
    }
}

fn enter(namespace: &File) -> Result<(), SinkError> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| SinkError::Socket(error.into()))
}

/// The ring.
pub(super) struct AfXdp {
    port: XdpPort,
    batch: Batch<XdpBuffer>,
}

impl Receive for AfXdp {
    fn receive(&mut self, tally: &mut Tally) -> io::Result<()> {
        let asked_ns = monotonic_ns();
        let state = self.port.receive(&mut self.batch, Instant::from_ns(asked_ns));
        if self.batch.is_empty() {
            tally.nothing();
            return match state {
                PortState::Ended => Err(io::Error::from_raw_os_error(libc::ENETDOWN)),
                _ => Ok(()),
            };
        }
        let at_ns = monotonic_ns();
        tally.call();
        for packet in self.batch.drain() {
            tally.datagram(payload(packet.bytes()), at_ns);
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        let counters = self.port.kernel_counters().unwrap_or_default();
        counters.rx_dropped.saturating_add(counters.rx_ring_full)
    }
}

/// The payload of a redirected datagram: the program passes no other headers.
fn payload(frame: &[u8]) -> &[u8] {
    let headers = match frame.get(12..14) {
        Some([0x86, 0xDD]) => 14 + 40 + 8,
        _ => 14 + 20 + 8,
    };
    frame.get(headers..).unwrap_or_default()
}
