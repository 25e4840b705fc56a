//! Handles a packet that cannot merge: it passes, after all data that it must not overtake.

use super::arrivals::visible_flow_of;
use super::candidate::Candidate;
use super::ids::SlotId;
use super::reason::{Flush, Refusal};
use super::{Coalescer, Exit, Verdict};
use crate::packet::header::{self, Ipv4, Tcp, protocol, tcp_flags};
use crate::packet::{Form, Layer, LayerKind, Layout, Packet, same_ends};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Passes the packet that has landed, after all data that it must not overtake. Its flow may be known.
    #[inline(never)]
    pub(super) fn bypass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        refusal: Refusal,
        hash: Option<u64>,
        out: &mut F,
    ) -> Verdict {
        match hash.or_else(|| self.flow_of_landed()) {
            Some(hash) => {
                if let Some(slot) = self.table.find(hash).and_then(|flow| self.table.held(flow)) {
                    self.flush(slot, Flush::Bypass, out);
                }
                self.follow_connection(hash, out);
            }
            None => self.flush_ends(out),
        }
        self.pass(refusal, out)
    }

    /// The hash of the flow of the packet that has landed, if it is visible.
    pub(super) fn flow_of_landed(&mut self) -> Option<u64> {
        let packet = self.held.landed()?;
        visible_flow_of(&mut self.hasher, packet.bytes(), packet.layout(), packet.meta.lane)
    }

    /// Passes the packet that has landed.
    pub(super) fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        refusal: Refusal,
        out: &mut F,
    ) -> Verdict {
        if let Some(packet) = self.held.take_landed() {
            self.send_refused(packet, refusal, out);
        }
        Verdict::Passed(refusal)
    }

    pub(super) fn send_refused<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        refusal: Refusal,
        out: &mut F,
    ) {
        self.count_refused(packet.bytes().len(), refusal);
        out(packet, Exit::Passed(refusal));
    }

    pub(super) fn count_refused(&mut self, len: usize, refusal: Refusal) {
        self.counters.refused.count(refusal);
        self.counters.sent(len);
        self.counters.passed += 1;
    }

    /// Flushes all held data between the addresses of the packet that has landed, whose ports are not visible or
    /// whose headers differ from those of its flow.
    fn flush_ends<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        let Some(packet) = self.held.take_landed() else { return };
        if may_belong_to_a_flow(packet.layout().protocol()) {
            self.settle();
            self.list_ends();
            while let Some(slot) = self.ends.find(&self.hasher, &packet, |slot| {
                self.held.get(slot).packet.as_ref().is_some_and(|held| same_ends(held, &packet))
            }) {
                self.flush(slot, Flush::Bypass, out);
            }
        }
        self.held.land(packet);
    }

    /// Lists by address what has been opened since this was done last: most data is flushed before
    /// any packet asks for it.
    fn list_ends(&mut self) {
        let is_listed = |slot: SlotId| self.held.get(slot).entry.listed;
        let mut next = None;
        for slot in self.ages.members_backwards(0).take_while(|slot| !is_listed(*slot)) {
            next = Some(slot);
        }
        while let Some(slot) = next {
            let held = self.held.get_mut(slot);
            if let Some(packet) = &held.packet {
                self.ends.enter(&self.hasher, packet, slot);
                held.entry.listed = true;
            }
            next = self.ages.next(slot);
        }
    }

    /// Creates a flow at SYN and removes it at FIN or RST, if flows are created at SYN.
    fn follow_connection<F: FnMut(Packet<B>, Exit)>(&mut self, hash: u64, out: &mut F) {
        let controls = |packet: &&Packet<B>| Candidate::controls(packet, &self.config);
        let flags = self.held.landed().filter(controls).and_then(tcp_flags_of);
        let Some(flags) = flags else { return };
        match (flags & tcp_flags::SYN != 0, self.table.find(hash)) {
            (true, None) => {
                self.create(hash, out);
                self.counters.flows_on_syn += 1;
            }
            (false, Some(flow)) => self.release_at_end(flow, flags),
            _ => {}
        }
    }
}

/// Whether TCP or UDP may follow this protocol number. ICMP need not wait for data.
pub(in crate::offload) fn may_belong_to_a_flow(number: u8) -> bool {
    use protocol::{DESTINATION, FRAGMENT, GRE, HOP_BY_HOP, IPV4, IPV6, MPLS, ROUTING, TCP, UDP};
    matches!(
        number,
        TCP | UDP | HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION | IPV4 | IPV6 | GRE | MPLS
    )
}

/// Whether its headers differ from those of its flow: with IP options, it may belong to any flow
/// between its addresses.
#[inline]
pub(in crate::offload) fn has_ip_options(bytes: &[u8], layout: &Layout) -> bool {
    let has_options = |layer: Layer| {
        let shows = layer.kind == LayerKind::Ipv4;
        shows && header::at::<Ipv4>(bytes, layer.at()).header_len() != Ipv4::LEN
    };
    !layout.has_no_ip_options() && layout.layers().any(has_options)
}

fn tcp_flags_of<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<u16> {
    let layout = packet.layout();
    let transport = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
    let whole = matches!(layout.form(), Form::Datagram | Form::Padded);
    whole.then(|| header::at::<Tcp>(packet.bytes(), transport.at()).offset_flags)
}
