//! Which packets of a burst are of one flow: found at once, and only if some packet does not simply
//! continue the ones before it.

use super::store::{Alone, Store};
use crate::offload::coalesce::arrivals::parse_unusual;
use crate::offload::coalesce::candidate::{END_FLAGS, ends};
use crate::packet::{FlowHasher, Form, Glance, Layout, LinkType, prefetch_at, prefetch_line};
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::Range;

/// Headers are prefetched so many packets ahead.
pub(super) const AHEAD: usize = 12;

/// Places in the table for each packet at least: collisions cost a branch that cannot be predicted.
const SPACE: usize = 4;

/// Places of the table cleared at once.
const TABLE_PART: usize = 64;

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

impl Flow {
    const FREE: Self = Self { hash: 0, first: Number::NONE, note: Number::NONE };
}

/// Findings about a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Member {
    pub(super) layout: Layout,
    /// The place of its flow, if it is visible.
    flow: Number,
    /// The next packet of the flow.
    next: Number,
    pub(super) standing: Standing,
    pub(super) alone: Alone,
}

/// Properties of a packet.
pub(in crate::offload::coalesce) struct Look {
    layout: Layout,
    /// Of its flow, if that is visible.
    hash: Option<u64>,
    alone: Alone,
}

impl Look {
    /// At a packet with this layout and flow.
    #[inline(always)]
    pub(super) fn parsed(bytes: &[u8], (layout, hash): (Layout, Option<u64>)) -> Self {
        let alone = match layout.form() {
            Form::Datagram => Alone::of(layout.payload().is_empty(), ends(bytes, &layout)),
            _ => Alone::TRAILER,
        };
        Self { layout, hash, alone }
    }

    #[inline(always)]
    fn usual(Glance { layout, hash, is_empty, tcp_flags }: Glance) -> Self {
        Self { layout, hash: Some(hash), alone: Alone::of(is_empty, tcp_flags & END_FLAGS != 0) }
    }
}

/// The relation of a packet to its flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its flow is not visible.
    #[default]
    Hidden,
    /// Nothing of its flow is noted, no packet will join it, and nothing else is to be said of it.
    Alone,
    /// Nothing of its flow is noted.
    First,
    /// Something of its flow may be noted.
    Later,
}

/// The flows of a burst, by hash, with open addressing.
#[derive(Debug, Default)]
pub(super) struct Flows {
    table: Vec<Flow>,
    members: Vec<Member>,
    /// Whether they have been looked for.
    are_known: bool,
    /// The packets left whose flow is not visible, the first one last.
    hidden: Vec<u32>,
    left: Vec<Left>,
}

/// Which of [`PART`] packets are left, a bit for each, and which of these leave alone. So that the treatment of a
/// packet takes no branch for most, which could hardly be predicted.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    all: u64,
    alone: u64,
}

/// Packets of a [`Left`].
pub(super) const PART: usize = 64;

/// The next packets of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Those that leave alone, a bit for each.
    pub(super) alone: u64,
    /// The one behind them, if there is one in this part.
    pub(super) other: Option<usize>,
}

impl Flows {
    /// Forgets all.
    pub(super) fn begin(&mut self) {
        self.are_known = false;
        self.hidden.clear();
    }

    /// Whether they have been found.
    #[inline(always)]
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// Finds the flow of each packet from `start` on, and which of them leave alone.
    #[inline(never)]
    pub(super) fn find<S: Store>(&mut self, store: &S, start: usize, hasher: &mut FlowHasher) {
        let packets = store.len();
        self.begin_table((SPACE * packets).next_power_of_two());
        if self.members.len() < packets {
            self.members.resize(packets, Member::default());
        }
        self.members[..start].fill(Member::default());
        self.are_known = true;
        self.left.clear();
        self.left.resize(packets.div_ceil(PART), Left::default());
        (packets.saturating_sub(AHEAD)..packets).for_each(|at| prefetch_line(store.bytes(at)));
        for part in (start / PART..packets.div_ceil(PART)).rev() {
            let first = part * PART;
            self.find_part(store, start.max(first)..packets.min(first + PART), hasher);
        }
    }

    /// Finds the flow of each of these packets, all of which lie in one part.
    #[inline(always)]
    fn find_part<S: Store>(&mut self, store: &S, range: Range<usize>, hasher: &mut FlowHasher) {
        let mask = self.table.len() - 1;
        let mut all_alone = 0;
        for (at, member) in range.clone().zip(&mut self.members[range.clone()]).rev() {
            if let Some(ahead) = at.checked_sub(AHEAD) {
                prefetch_line(store.bytes(ahead));
            }
            all_alone <<= 1;
            let Look { layout, hash, alone } = store.look(at, hasher);
            let Some(hash) = hash else {
                *member = Member { layout, ..Member::default() };
                self.hidden.push(at as u32);
                continue;
            };
            let place = place_of(&self.table, mask, hash);
            let flow = &mut self.table[place];
            let is_alone = (flow.first == Number::NONE) | alone.is_sure();
            let standing = select_unpredictable(is_alone, Standing::Alone, Standing::First);
            let next = flow.first;
            *member = Member { layout, flow: Number::of(place), next, standing, alone };
            (flow.hash, flow.first) = (hash, Number::of(at));
            all_alone |= u64::from(is_alone);
        }
        let (first, count) = (range.start % PART, range.len());
        let all = u64::MAX >> (PART - count) << first;
        self.left[range.start / PART] = Left { all, alone: all_alone << first };
    }

    /// The next packets of a part, which are not left then. What is compared of the headers of those behind them may lie
    /// in a second line, which is prefetched.
    #[inline(always)]
    pub(super) fn turn<S: Store>(&mut self, part: usize, store: &S) -> Turn {
        let left = &mut self.left[part];
        let others = left.all & !left.alone;
        let other = others & others.wrapping_neg();
        // All, if it is the only one.
        let alone = left.all & left.alone & other.wrapping_sub(1);
        left.all ^= alone | other;
        if let Some(after) = first_of(others ^ other, part) {
            let Member { layout, next, .. } = &self.members[after];
            let second_line = |at: usize| prefetch_at(store.bytes(at), layout.header_len());
            second_line(after);
            next.get().into_iter().for_each(second_line);
        }
        Turn { alone, other: first_of(other, part) }
    }

    /// Makes all of a table of so many places free.
    fn begin_table(&mut self, places: usize) {
        if self.table.len() == places {
            // In parts of some cache lines: they are written faster than all at once.
            self.table.chunks_mut(TABLE_PART).for_each(|part| part.fill(Flow::FREE));
        } else {
            self.table.clear();
            self.table.resize(places, Flow::FREE);
        }
    }

    /// Sets the note of the flow with this hash, if packets of it are left.
    pub(super) fn set_note_of(&mut self, hash: u64, note: u32) {
        let place = place_of(&self.table, self.table.len() - 1, hash);
        let flow = &mut self.table[place];
        flow.note = Number::of(note as usize);
        let first = flow.first;
        if let Some(first) = self.first_left(first) {
            self.is_later(first);
        }
    }

    #[inline(always)]
    pub(super) fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    /// A packet had been handled before flows were found, out of turn; it may have left.
    pub(super) fn forget(&mut self, at: usize) {
        self.done(at);
        self.hidden.retain(|hidden| *hidden as usize != at);
    }

    /// A packet has been handled.
    #[inline(always)]
    pub(super) fn done(&mut self, at: usize) {
        self.left[at / PART].all &= !(1 << (at % PART));
    }

    /// When this packet, which is left, comes, something of its flow is noted.
    #[inline(always)]
    pub(super) fn is_later(&mut self, at: usize) {
        self.members[at].standing = Standing::Later;
        self.left[at / PART].alone &= !(1 << (at % PART));
    }

    /// When the next packet of its flow comes, something of it is noted.
    #[inline(always)]
    pub(super) fn is_noted_at(&mut self, at: usize) {
        if let Some(next) = self.next_of(at) {
            self.is_later(next);
        }
    }

    /// The next packet of the flow of a packet that has not been handled.
    #[inline(always)]
    pub(super) fn next_of(&self, at: usize) -> Option<usize> {
        self.first_left(self.members[at].next)
    }

    /// The first packet that is left, of this one and those of its flow behind it.
    #[inline(always)]
    fn first_left(&self, mut next: Number) -> Option<usize> {
        while let Some(at) = next.get() {
            if self.left[at / PART].all >> (at % PART) & 1 != 0 {
                return Some(at);
            }
            next = self.members[at].next;
        }
        None
    }

    /// Packets of one flow may be handled together up to this one: behind it is one whose flow is not visible.
    #[inline(always)]
    pub(super) fn last_visible(&self) -> usize {
        self.hidden.last().map_or(usize::MAX, |at| *at as usize)
    }

    /// The first packet left whose flow is not visible has been handled.
    pub(super) fn pass_hidden(&mut self) {
        self.hidden.pop();
    }

    /// The latest note of the flow of a packet, which may be gone.
    #[inline(always)]
    pub(super) fn latest_note_of(&self, at: usize) -> Option<u32> {
        let flow = self.table.get(self.members[at].flow.get()?)?;
        flow.note.get().map(|note| note as u32)
    }

    /// Sets the note of the flow of a packet.
    #[inline(always)]
    pub(super) fn set_note(&mut self, at: usize, note: u32) {
        if let Some(place) = self.members[at].flow.get() {
            self.table[place].note = Number::of(note as usize);
            self.is_noted_at(at);
        }
    }
}

/// The first of the packets of a part that these bits name.
#[inline(always)]
fn first_of(bits: u64, part: usize) -> Option<usize> {
    (bits != 0).then(|| part * PART + bits.trailing_zeros() as usize)
}

/// The place of the flow with this hash, or the free place for it.
#[inline(always)]
fn place_of(table: &[Flow], mask: usize, hash: u64) -> usize {
    let mut place = hash as usize & mask;
    loop {
        let Flow { hash: other, first, .. } = table[place];
        // One branch: whether a flow is new can hardly be predicted.
        if (other ^ hash).min(first.0.into()) == 0 {
            return place;
        }
        place = (place + 1) & mask;
    }
}

/// A look at a frame.
#[inline(always)]
pub(super) fn look_at_frame(
    hasher: &mut FlowHasher,
    link: LinkType,
    bytes: &[u8],
    lane: u32,
) -> Look {
    match hasher.glance(link, bytes, lane) {
        Some(glance) => Look::usual(glance),
        None => look_at_unusual(hasher, link, bytes, lane),
    }
}

#[inline(never)]
fn look_at_unusual(hasher: &mut FlowHasher, link: LinkType, bytes: &[u8], lane: u32) -> Look {
    Look::parsed(bytes, parse_unusual(hasher, link, bytes, lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_flow_has_the_next_place_that_is_free_or_its_own() {
        let mut table = vec![Flow::FREE; 4];
        for (hash, place) in [(3, 3), (7, 0), (4, 1), (11, 2)] {
            for _ in 0..2 {
                assert_eq!(place_of(&table, 3, hash), place);
                table[place] = Flow { hash, first: Number::of(0), note: Number::NONE };
            }
        }
    }
}
