//! The short way for the common packet: the next of the flow that came last, with a header that
//! differs from the first's only as it must.
//!
//! That is Van Jacobson's header prediction, for merging: one comparison under a mask stands for
//! all rules on equal fields, and the IPv4 header is intact if the few words that may differ sum up
//! as the first's did. Everything else takes the long way ([`Candidate::examine`]), which comes to
//! the same result for what is taken here.

use super::Coalescer;
use super::aggregate::Aggregate;
use super::candidate::{Candidate, ChecksumKind, Derived, MIN_FRAME, Padding, verify};
use super::config::ChecksumPolicy;
use super::slab::SlotId;
use crate::packet::header::{self, Ipv4, Tcp, Udp};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Packet};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// The packet as a candidate that fits what is held at the place given, if it is the common one.
    #[inline(always)]
    pub(super) fn predicted(
        &mut self,
        packet: &Packet<B>,
        ahead: &[u8],
    ) -> Option<(SlotId, Candidate)> {
        let slot = self.current?;
        let held = self.held.get(slot);
        let (aggregate, first) = (&held.aggregate, held.packet.as_ref()?);
        let layout = packet.layout();
        if !aggregate.predictable() || !first.layout().same_headers(layout) || !alike(first, packet)
        {
            return None;
        }
        let vouched = match packet.meta.checksum {
            ChecksumState::Valid => true,
            ChecksumState::Unknown if self.config.checksum == ChecksumPolicy::Verify => false,
            _ => return None,
        };
        let shape = self.hasher.shape(layout)?;
        let (network, transport) = shape.plain()?;
        if !shape.mergeable(first.bytes(), packet.bytes()) {
            return None;
        }
        let candidate = read(packet, (network, transport), aggregate)?;
        let intact = vouched || verify(packet, transport, false, ahead).is_ok();
        (intact && aggregate.predicts(&candidate)).then_some((slot, candidate))
    }
}

/// What is known beside the bytes is equal, and the frame ends with the datagram.
#[inline(always)]
fn alike<B: AsRef<[u8]>>(first: &Packet<B>, packet: &Packet<B>) -> bool {
    let (layout, len) = (packet.layout(), packet.bytes().len());
    layout.form() == Form::Datagram
        && packet.meta.lane == first.meta.lane
        && packet.meta.mark == first.meta.mark
        && packet.meta.gso.is_none()
        && !packet.is_merged()
        && len == layout.end()
        && len >= MIN_FRAME
}

/// Reads the fields that may differ; none when the IPv4 header or the form of the checksum is not
/// as predicted.
#[inline(always)]
fn read<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    (network, transport): (Layer, Layer),
    aggregate: &Aggregate,
) -> Option<Candidate> {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let mut derived = Derived { sum_count: 1, summed: 1, ..Derived::default() };
    if network.kind == LayerKind::Ipv4 {
        let ip = header::at::<Ipv4>(bytes, network.at());
        if !aggregate.predicts_ipv4(ip) {
            return None;
        }
        (derived.ids[0], derived.id_count) = (ip.id.get(), 1);
    }
    let (mut sequence, mut flags) = (0, 0);
    let fields = if transport.kind == LayerKind::Tcp {
        let tcp = header::at::<Tcp>(bytes, transport.at());
        if tcp.checksum.get() == 0xFFFF {
            return None;
        }
        (sequence, flags) = (tcp.sequence.get(), tcp.offset_flags.get());
        u64::from(sequence) + u64::from(flags) + u64::from(tcp.checksum.get())
    } else {
        let udp = header::at::<Udp>(bytes, transport.at());
        if udp.checksum.get() == 0 {
            return None;
        }
        u64::from(udp.length.get()) + u64::from(udp.checksum.get())
    };
    derived.sums[0] = fields + (layout.end() - transport.at()) as u64;
    Some(Candidate {
        kind: transport.kind,
        payload_len: layout.payload().len() as u32,
        sequence,
        flags: flags & 0x01FF,
        checksum: ChecksumKind::Full,
        padding: Padding::NotNeeded,
        derived,
    })
}
