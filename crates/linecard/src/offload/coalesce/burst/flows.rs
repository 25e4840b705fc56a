//! Which packets of a burst are of one flow: found at once, and only if some packet does not simply
//! continue the ones before it.

use super::store::Store;
use crate::packet::{FlowHasher, Layout};
use alloc::vec::Vec;

/// A number, or none: 0, so that tables are cleared fast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Number(u32);

impl Number {
    const NONE: Self = Self(0);

    #[inline(always)]
    fn of(number: usize) -> Self {
        Self(number as u32 + 1)
    }

    #[inline(always)]
    fn get(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// A flow of the burst, or a free place.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    hash: u64,
    /// Its first packet; none of a free place.
    first: Number,
    note: Number,
}

/// What is known of a packet.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    /// The place of its flow.
    flow: Number,
    /// The next packet of the flow.
    next: Number,
}

/// The flows of a burst, by hash, with open addressing.
#[derive(Debug, Default)]
pub(super) struct Flows {
    table: Vec<Flow>,
    /// Empty as long as flows have not been looked for.
    members: Vec<Member>,
}

impl Flows {
    /// Forgets all.
    pub(super) fn begin(&mut self) {
        self.members.clear();
    }

    /// Whether they have been found.
    #[inline(always)]
    pub(super) fn are_known(&self) -> bool {
        !self.members.is_empty()
    }

    /// Finds the flow of each packet; of packets that have left, it does not matter.
    #[inline(never)]
    pub(super) fn find<S: Store>(&mut self, store: &S, hasher: &mut FlowHasher) {
        let packets = store.len();
        self.table.clear();
        self.table.resize((2 * packets).next_power_of_two(), Flow::default());
        self.members.resize(packets, Member::default());
        let mask = self.table.len() - 1;
        for (at, member) in self.members.iter_mut().enumerate().rev() {
            let Some(hash) = hash_of((store, at), || store.layout(at), hasher) else { continue };
            let mut place = hash as usize & mask;
            while let Flow { hash: other, first, .. } = self.table[place]
                && first != Number::NONE
                && other != hash
            {
                place = (place + 1) & mask;
            }
            let flow = &mut self.table[place];
            *member = Member { flow: Number::of(place), next: flow.first };
            (flow.hash, flow.first) = (hash, Number::of(at));
        }
    }

    /// The next packet of the flow of a packet.
    #[inline(always)]
    pub(super) fn next_of(&self, at: usize) -> Option<usize> {
        self.members.get(at)?.next.get()
    }

    /// Whether the flow of a packet is known.
    #[inline(always)]
    pub(super) fn has(&self, at: usize) -> bool {
        self.members.get(at).is_some_and(|member| member.flow != Number::NONE)
    }

    /// The latest note of the flow of a packet, which may be gone.
    #[inline(always)]
    pub(super) fn latest_note_of(&self, at: usize) -> Option<u32> {
        let flow = self.table.get(self.members.get(at)?.flow.get()?)?;
        flow.note.get().map(|note| note as u32)
    }

    /// Sets the note of the flow of a packet, if flows are known.
    #[inline(always)]
    pub(super) fn set_note(&mut self, at: usize, note: u32) {
        let place = self.members.get(at).and_then(|member| member.flow.get());
        if let Some(flow) = place.and_then(|place| self.table.get_mut(place)) {
            flow.note = Number::of(note as usize);
        }
    }
}

/// A hash of a packet's flow; none if its layout, which is asked for only if it takes one, does not show any. A packet
/// that is cut short may have one.
#[inline(always)]
pub(super) fn hash_of<S: Store>(
    (store, at): (&S, usize),
    layout: impl FnOnce() -> Layout,
    hasher: &mut FlowHasher,
) -> Option<u64> {
    let (link, meta) = store.origin(at);
    let bytes = store.bytes(at);
    let plain = hasher.plain_flow(link, bytes, meta.lane);
    plain.or_else(|| hasher.flow_of(bytes, &layout(), meta.lane))
}
