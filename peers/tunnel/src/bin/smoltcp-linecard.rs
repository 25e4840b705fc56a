//! TCP by smoltcp over a TAP device, with the offloads of Linecard's: smoltcp leaves segmenting and TCP checksums to
//! the device, and takes packets of up to 64 KiB from it.

use linecard_peers_tunnel::tcp;
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig, Frame};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, PacketMeta};
use smoltcp::time::Instant;
use std::{error::Error, num::NonZero, os::fd::AsRawFd, os::fd::RawFd};

struct Tap {
    device: Device,
    received: Vec<u8>,
    sent: Vec<u8>,
}

struct Received<'t>(Frame<'t>);

struct Sent<'t> {
    device: &'t Device,
    frame: &'t mut [u8],
    size: u16,
}

impl phy::Device for Tap {
    type RxToken<'t> = Received<'t>;
    type TxToken<'t> = Sent<'t>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        // An Ethernet header has 14 bytes, and an IPv4 packet 65,535 at most.
        capabilities.max_transmission_unit = 1_514;
        capabilities.checksum.tcp = Checksum::None;
        capabilities.segmentation.tcpv4 = NonZero::new(65_549);
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sent<'_>)> {
        let frame = self.device.read(&mut self.received).ok()?;
        Some((Received(frame), Sent { device: &self.device, frame: &mut self.sent, size: 0 }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_>> {
        Some(Sent { device: &self.device, frame: &mut self.sent, size: 0 })
    }
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        // smoltcp drops an empty frame.
        take(if self.0.is_intact() { self.0.bytes } else { &[] })
    }
}

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, make: F) -> R {
        let result = make(&mut self.frame[..len]);
        // A device that is down or full loses frames, as any network does.
        let _written = self.device.write_large(&mut self.frame[..len], self.size);
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.size = meta.segmentation_offload_size.map_or(0, NonZero::get);
    }
}

impl AsRawFd for Tap {
    fn as_raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tcp::run(|name| {
        let device = Device::open(&DeviceConfig::tap(name))?;
        Ok(Tap { device, received: vec![0; BUFFER_LEN], sent: vec![0; BUFFER_LEN] })
    })
}
