//! What happens to a packet that cannot merge: it passes, behind all that it must not overtake.

use super::candidate::{Candidate, MAX_NESTED};
use super::reason::{Flush, Refusal};
use super::slab::SlotId;
use super::{Coalescer, Exit, Verdict};
use crate::packet::header::{self, Ipv4, Tcp, protocol, tcp_flags};
use crate::packet::{Form, LayerKind, Packet, same_ends};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Passes the packet that has landed behind all that it must not overtake.
    #[inline(never)]
    pub(super) fn bypass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        refusal: Refusal,
        out: &mut F,
    ) -> Verdict {
        let Some(packet) = self.held.take_landed() else { return Verdict::Passed(refusal) };
        match self.hasher.flow(&packet) {
            Some(hash) if !has_ip_options(&packet) => {
                if let Some(slot) = self.table.find(hash).and_then(|flow| self.table.held(flow)) {
                    self.flush(slot, Flush::Bypass, out);
                }
                if Candidate::controls(&packet, &self.config) {
                    self.follow_connection(&packet, hash, out);
                }
            }
            _ if may_belong_to_a_flow(packet.layout().protocol()) => self.flush_ends(&packet, out),
            _ => {}
        }
        self.held.land(packet);
        self.pass(refusal, out)
    }

    /// Passes the packet that has landed.
    pub(super) fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        refusal: Refusal,
        out: &mut F,
    ) -> Verdict {
        let Some(packet) = self.held.take_landed() else { return Verdict::Passed(refusal) };
        self.counters.refused.count(refusal);
        self.counters.sent(packet.bytes().len());
        self.counters.passed += 1;
        out(packet, Exit::Passed(refusal));
        Verdict::Passed(refusal)
    }

    /// Enters held data under the ends it shows, once for each IP header.
    pub(super) fn register_ends(&mut self, slot: SlotId) {
        let Some(packet) = &self.held.get(slot).packet else { return };
        for (hash, member) in self.hasher.ends(packet).zip(members(slot)) {
            self.ends.insert(hash as usize & self.ends_mask, member);
        }
    }

    /// Takes held data out of the lists of its ends.
    pub(super) fn forget_ends(&mut self, slot: SlotId) {
        for member in members(slot) {
            if self.ends.list_of(member).is_none() {
                return;
            }
            self.ends.remove(member);
        }
    }

    /// Lets go all held data between the ends that `packet` shows: it does not show its ports, or
    /// its headers differ from those of its flow.
    fn flush_ends<F: FnMut(Packet<B>, Exit)>(&mut self, packet: &Packet<B>, out: &mut F) {
        let Some(hash) = self.hasher.ends(packet).last() else { return };
        let list = hash as usize & self.ends_mask;
        let mut next = self.ends.first(list);
        while let Some(member) = next {
            next = self.ends.next(member);
            let slot = member / MAX_NESTED as u32;
            let held = self.held.get(slot).packet.as_ref();
            if held.is_some_and(|held| same_ends(held, packet)) {
                // Both headers of a tunnel between the same ends may be in the list.
                while next.is_some_and(|next| next / MAX_NESTED as u32 == slot) {
                    next = next.and_then(|next| self.ends.next(next));
                }
                self.flush(slot, Flush::Bypass, out);
            }
        }
    }

    /// SYN makes a flow and FIN or RST removes it, when flows open on SYN.
    fn follow_connection<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: &Packet<B>,
        hash: u64,
        out: &mut F,
    ) {
        let Some(flags) = tcp_flags_of(packet) else { return };
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

/// The members of lists that stand for a slot, outermost IP header first.
fn members(slot: SlotId) -> impl Iterator<Item = u32> {
    (0..MAX_NESTED as u32).map(move |level| slot * MAX_NESTED as u32 + level)
}

/// Whether TCP or UDP may lie behind this protocol number: ICMP need not wait for data.
pub(in crate::offload) fn may_belong_to_a_flow(number: u8) -> bool {
    use protocol::{DESTINATION, FRAGMENT, GRE, HOP_BY_HOP, IPV4, IPV6, MPLS, ROUTING, TCP, UDP};
    matches!(
        number,
        TCP | UDP | HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION | IPV4 | IPV6 | GRE | MPLS
    )
}

/// Whether its headers differ from those of its flow: with options, it may belong to any between
/// its ends.
pub(in crate::offload) fn has_ip_options<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    let ipv4 = packet.layout().layers().filter(|layer| layer.kind == LayerKind::Ipv4);
    let lens = ipv4.map(|layer| header::at::<Ipv4>(packet.bytes(), layer.at()).header_len());
    lens.into_iter().any(|len| len != Ipv4::LEN)
}

fn tcp_flags_of<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<u16> {
    let layout = packet.layout();
    let transport = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
    let whole = matches!(layout.form(), Form::Datagram | Form::Padded);
    whole.then(|| header::at::<Tcp>(packet.bytes(), transport.at()).offset_flags.get())
}
