//! Opens ports, each on its own thread.

use super::ack_queue::FEW;
use super::files::{Player, Recorder};
use super::gate::{Gate, ThreadEvent};
use super::settings::{PortKind, PortSpec};
use super::{AttachError, Side};
use crate::port::vhost::{VhostConfig, VhostDevice, VhostPort};
use crate::port::xdp::{self, Attachment, Mode, XdpBuffer, XdpError, XdpPort, XdpQueues};
use crate::port::{Fanout, FanoutBy, LivePort, Pace, PacketConfig, PacketSocket};
use crate::rights::Account;
use crate::sys::ethtool;
use linecard_tun::{BUFFER_LEN, Buffers, DeviceConfig, DeviceKind, Tap};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffer size for frames of a wire: jumbo frames included, because the MTU may be raised later.
const FRAME_LEN: usize = 9_216 + 64;

/// Receive slots of AF_XDP, as many as a packet socket has: what senders may have in flight, 12 MB in
/// frames of 1500 bytes. An acknowledgment of a merged packet releases up to 90 packets in slow
/// start; if the peer is on the same machine, they arrive during the call that sends it, and those
/// of a batch have to fit.
pub(super) const RECEIVE_SLOTS: u32 = 8_192;

/// Receive slots of a queue at least, where a thread has several.
const LEAST_SLOTS: u32 = 2_048;

/// Packets that a few acknowledgments release fit, in slow start, into the rest of a crowded ring.
const _: () = assert!(LEAST_SLOTS as usize * 3 / 4 >= FEW * 90);

/// The parameters by which any thread opens its port.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) spec: PortSpec,
    pub(super) side: Side,
    /// Ports that share the interface: queues, or members of a fanout group.
    pub(super) shares: usize,
    /// Buffers of each.
    pub(super) buffers: usize,
    /// Whether received packets are merged.
    pub(super) merges: bool,
    /// The attachment from which AF_XDP receives.
    pub(super) attachment: Option<Attachment>,
    /// Its receive queues, which workers share out.
    pub(super) queues: usize,
    /// The device of a virtual machine.
    pub(super) vhost: Option<VhostDevice>,
    /// The capture that is read, which must not be overwritten.
    pub(super) input: Option<PathBuf>,
    /// The owner of a capture that is written.
    pub(super) owner: Option<Account>,
    /// The channel on which captures report errors.
    pub(super) gate: Arc<Gate>,
}

/// A port of any kind, and its description.
type Opened<S> = (Box<dyn LivePort<<S as Buffers>::Buffer>>, String);

impl Opening {
    /// Whether the kernel, or the guest, exchanges large packets with the port.
    fn offloads(&self) -> bool {
        if let Some(device) = &self.vhost {
            return device.offloads();
        }
        self.spec.offloads.unwrap_or(self.side == Side::Far)
    }

    fn buffer_len(&self) -> usize {
        // A capture may contain large packets, wherever it was taken, and a packet socket receives
        // packets that the kernel has merged before, whether or not it asks for them.
        let has_large = matches!(self.spec.kind, PortKind::File(_) | PortKind::Packet(_));
        if has_large || self.offloads() { BUFFER_LEN } else { FRAME_LEN }
    }

    /// Opens a worker's share of the port, with buffers from `pool`.
    pub(super) fn open<S: Buffers + 'static>(
        &self,
        worker: usize,
        pool: impl Fn(usize, usize) -> S,
    ) -> Result<Opened<S>, AttachError>
    where
        S::Buffer: From<XdpBuffer> + 'static,
    {
        let pool = || pool(self.buffers, self.buffer_len());
        match &self.spec.kind {
            PortKind::Xdp(name) => self.xdp::<S>(name, worker),
            PortKind::Packet(name) => self.packet(name, pool()),
            PortKind::Tap(name) => self.tap(name, DeviceKind::Tap, pool()),
            PortKind::Tun(name) => self.tap(name, DeviceKind::Tun, pool()),
            PortKind::Vhost(path) => self.vhost(path, worker, pool()),
            PortKind::File(path) => self.file(path, pool),
        }
    }

    /// A capture is read at the near end and written at the far one.
    fn file<S: Buffers + 'static>(
        &self,
        path: &Path,
        pool: impl Fn() -> S,
    ) -> Result<Opened<S>, AttachError> {
        if self.side == Side::Far {
            let recorder = Recorder::create(path, self.input.as_deref(), self.owner, &self.gate)?;
            return Ok((Box::new(recorder), format!("{}: opened for writing", self.spec)));
        }
        let (pace, how) = if self.spec.recorded {
            (Pace::Recorded, "at the pace of its recording")
        } else {
            (Pace::Fast, "as fast as its packets are processed")
        };
        let player = Player::open(path, pool(), pace, &self.gate)?;
        Ok((Box::new(player), format!("{}: read {how}", self.spec)))
    }

    fn xdp<S: Buffers>(&self, name: &str, worker: usize) -> Result<Opened<S>, AttachError>
    where
        S::Buffer: From<XdpBuffer> + 'static,
    {
        let attachment = match &self.attachment {
            Some(attachment) => attachment.clone(),
            None => attach(&self.spec, name)?,
        };
        let queues = (worker..self.queues.max(worker + 1)).step_by(self.shares);
        // All are small numbers.
        let queues: Vec<u32> = queues.map(|queue| queue as u32).collect();
        let slots = RECEIVE_SLOTS / (queues.len() as u32).next_power_of_two();
        let config = xdp::Config {
            // Of each queue: all that are held may be of one.
            spare_frames: u32::try_from(self.buffers).unwrap_or(u32::MAX),
            rx_slots: slots.max(LEAST_SLOTS),
            zero_copy: !self.spec.copy,
            // Only contiguous packets merge, and a copy costs less than an unmerged packet.
            gather: !self.merges,
            open_checksums: leaves_checksums_open(name),
            ..xdp::Config::default()
        };
        let said = |port: Option<&XdpPort>, which| {
            let is_zero_copy = port.is_some_and(|port| port.binding().zero_copy);
            let how = if is_zero_copy { "zero-copy" } else { "copy mode" };
            format!("{}, {which}: {how}", self.spec)
        };
        if let [queue] = queues[..] {
            let port = XdpPort::open(&attachment, queue, &config)?;
            let said = said(Some(&port), format!("queue {queue}"));
            return Ok((Box::new(port), said));
        }
        let numbers: Vec<_> = queues.iter().map(u32::to_string).collect();
        let port = XdpQueues::open(&attachment, queues, &config)?;
        let said = said(port.ports().first(), format!("queues {}", numbers.join(", ")));
        Ok((Box::new(port), said))
    }

    fn packet<S: Buffers + 'static>(&self, name: &str, pool: S) -> Result<Opened<S>, AttachError> {
        // A group for each port of this process: packet sockets of another group member would share
        // its packets, and a group has one interface.
        let group = (std::process::id() << 1 | u32::from(self.side == Side::Far)) as u16;
        let fanout = Fanout { group, by: FanoutBy::Hash };
        let config = PacketConfig {
            fanout: (self.shares > 1).then_some(fanout),
            promiscuous: self.spec.promiscuous,
            offloads: self.offloads(),
            ..PacketConfig::new(name)
        };
        let port = PacketSocket::open(&config, pool)?;
        let large = if port.offloads() { "large packets" } else { "packets as on the wire" };
        let said = format!("{}: {large}", self.spec);
        Ok((Box::new(port), said))
    }

    fn vhost<S: Buffers + 'static>(
        &self,
        path: &Path,
        worker: usize,
        pool: S,
    ) -> Result<Opened<S>, AttachError> {
        let device = match &self.vhost {
            Some(device) => device.clone(),
            None => VhostDevice::open(&VhostConfig::new(path))?,
        };
        let port = VhostPort::open(&device, worker, pool)?;
        let large = if device.offloads() { "large packets" } else { "packets as on a wire" };
        let front = if self.spec.client { "connects once there is one to" } else { "listens" };
        let said = match device.pairs() {
            1 => format!("{}: {front}, {large}", self.spec),
            pairs => format!("{}: {front}, {large}, {pairs} queue pairs", self.spec),
        };
        Ok((Box::new(port), said))
    }

    fn tap<S: Buffers + 'static>(
        &self,
        name: &str,
        kind: DeviceKind,
        pool: S,
    ) -> Result<Opened<S>, AttachError> {
        let config = DeviceConfig {
            kind,
            multi_queue: self.shares > 1,
            offloads: self.offloads(),
            ..DeviceConfig::tap(name)
        };
        let tap = Tap::open(&config, pool)?;
        if let Ok(queue) = tap.as_fd().try_clone_to_owned() {
            self.gate.tell(ThreadEvent::Queue(self.side, queue));
        }
        let large = if tap.offloads() > 0 { "large packets" } else { "packets as on a wire" };
        let said = format!("{}: {large}, virtio header {:?}", self.spec, tap.format());
        Ok((Box::new(tap), said))
    }
}

/// Attaches the program of an AF_XDP port to its interface.
pub(super) fn attach(spec: &PortSpec, name: &str) -> Result<Attachment, XdpError> {
    if spec.generic { Attachment::in_mode(name, Mode::Generic) } else { Attachment::new(name) }
}

/// Whether senders in this machine may be behind an interface: only they leave checksums open.
fn leaves_checksums_open(name: &str) -> bool {
    ethtool::driver(name).is_ok_and(|driver| matches!(driver.as_str(), "veth" | "tun"))
}
