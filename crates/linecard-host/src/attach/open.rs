//! Ports are opened here, each on its thread.

use super::settings::{PortKind, PortSpec};
use super::{AttachError, Side};
use crate::port::xdp::{self, Attachment, XdpBuffer, XdpPort};
use crate::port::{
    BUFFER_LEN, Buffers, Fanout, FanoutBy, LivePort, PacketConfig, PacketSocket, Takeover, Tap,
    TapConfig, TapKind,
};

/// Bytes of a buffer for frames of a wire: jumbo frames too, for the MTU may be raised later.
const FRAME_LEN: usize = 9_216 + 64;

/// Slots to receive into by AF_XDP: what a sender may have under way, 6 MB in frames of 1500 bytes.
const RECEIVE_SLOTS: u32 = 4_096;

/// How one port is opened, by any thread.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) spec: PortSpec,
    pub(super) side: Side,
    /// Ports that share it: queues, members of a fanout.
    pub(super) shares: usize,
    /// Buffers of each.
    pub(super) buffers: usize,
    /// Whether what it receives is merged.
    pub(super) merges: bool,
    /// Where AF_XDP gets its packets.
    pub(super) attachment: Option<Attachment>,
    /// What keeps a packet socket's packets from the kernel.
    pub(super) _takeover: Option<Takeover>,
}

/// A port of any kind, and what there is to say of it.
type Opened<S> = (Box<dyn LivePort<<S as Buffers>::Buffer>>, String);

impl Opening {
    /// Whether the kernel gives and takes large packets.
    fn offloads(&self) -> bool {
        self.spec.offloads.unwrap_or(self.side == Side::Far)
    }

    fn buffer_len(&self) -> usize {
        if self.offloads() { BUFFER_LEN } else { FRAME_LEN }
    }

    /// Opens the share of a worker, which takes its buffers from what `pool` gives.
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
            PortKind::Tap(name) => self.tap(name, TapKind::Ethernet, pool()),
            PortKind::Tun(name) => self.tap(name, TapKind::Ip, pool()),
            PortKind::File(_) => Err(AttachError::Unsupported { what: "capture files as ports" }),
        }
    }

    fn xdp<S: Buffers>(&self, name: &str, worker: usize) -> Result<Opened<S>, AttachError>
    where
        S::Buffer: From<XdpBuffer> + 'static,
    {
        let attachment = match &self.attachment {
            Some(attachment) => attachment.clone(),
            None => Attachment::new(name)?,
        };
        let config = xdp::Config {
            spare_frames: u32::try_from(self.buffers).unwrap_or(u32::MAX),
            rx_slots: RECEIVE_SLOTS,
            zero_copy: !self.spec.copy,
            // Only packets in one piece merge: a copy costs less than what a packet costs alone.
            gather: !self.merges,
            ..xdp::Config::default()
        };
        // Workers are few.
        let port = XdpPort::open(&attachment, worker as u32, &config)?;
        let binding = port.binding();
        let how = if binding.zero_copy { "zero-copy" } else { "copy mode" };
        let said = format!("{}, queue {worker}: {how}", self.spec);
        Ok((Box::new(port), said))
    }

    fn packet<S: Buffers + 'static>(&self, name: &str, pool: S) -> Result<Opened<S>, AttachError> {
        // One group for this process: packet sockets of another would share what comes.
        let group = (std::process::id() & 0xFFFF) as u16;
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

    fn tap<S: Buffers + 'static>(
        &self,
        name: &str,
        kind: TapKind,
        pool: S,
    ) -> Result<Opened<S>, AttachError> {
        let config = TapConfig {
            kind,
            multi_queue: self.shares > 1,
            offloads: self.offloads(),
            ..TapConfig::new(name)
        };
        let tap = Tap::open(&config, pool)?;
        let large = if tap.offloads() > 0 { "large packets" } else { "packets as on a wire" };
        let said = format!("{}: {large}, virtio header {:?}", self.spec, tap.format());
        Ok((Box::new(tap), said))
    }
}
