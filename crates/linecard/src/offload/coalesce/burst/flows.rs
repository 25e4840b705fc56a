//! Which packets of a burst are of one flow: found at once, and only if some packet does not simply
//! continue the ones before it.

use super::store::Store;
use crate::offload::coalesce::bypass::has_ip_options;
use crate::packet::{FlowHasher, Form, Layout, LinkType, prefetch_line};
use alloc::vec::Vec;

/// Headers are prefetched so many packets ahead.
pub(super) const AHEAD: usize = 12;

/// Places in the table for each packet at least: collisions cost a branch that cannot be predicted.
const SPACE: usize = 4;

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
pub(super) struct Member {
    pub(super) layout: Layout,
    /// The place of its flow, if it is visible.
    flow: Number,
    /// The next packet of the flow.
    next: Number,
    pub(super) standing: Standing,
}

/// What a packet is to its flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its flow is not visible.
    #[default]
    Hidden,
    /// Nothing of its flow is noted.
    First,
    /// Something of its flow may be noted.
    Later,
    /// It has been handled.
    Done,
}

/// The flows of a burst, by hash, with open addressing.
#[derive(Debug, Default)]
pub(super) struct Flows {
    table: Vec<Flow>,
    /// Empty as long as flows have not been looked for.
    members: Vec<Member>,
    /// The packets left whose flow is not visible, the first one last.
    hidden: Vec<u32>,
}

impl Flows {
    /// Forgets all.
    pub(super) fn begin(&mut self) {
        self.members.clear();
        self.hidden.clear();
    }

    /// Whether they have been found.
    #[inline(always)]
    pub(super) fn are_known(&self) -> bool {
        !self.members.is_empty()
    }

    /// Finds the flow of each packet from `start` on.
    #[inline(never)]
    pub(super) fn find<S: Store>(&mut self, store: &S, start: usize, hasher: &mut FlowHasher) {
        let packets = store.len();
        self.table.clear();
        self.table.resize((SPACE * packets).next_power_of_two(), Flow::default());
        self.members.resize(packets, Member::default());
        let mask = self.table.len() - 1;
        for (at, member) in (start..packets).zip(&mut self.members[start..]).rev() {
            if let Some(ahead) = at.checked_sub(AHEAD) {
                prefetch_line(store.bytes(ahead));
            }
            let (layout, hash) = store.flow(at, hasher);
            let Some(hash) = hash else {
                *member = Member { layout, ..Member::default() };
                self.hidden.push(at as u32);
                continue;
            };
            let place = place_of(&self.table, mask, hash);
            let flow = &mut self.table[place];
            let standing = Standing::First;
            *member = Member { layout, flow: Number::of(place), next: flow.first, standing };
            (flow.hash, flow.first) = (hash, Number::of(at));
        }
    }

    /// Sets the note of the flow with this hash, if packets of it are left.
    pub(super) fn set_note_of(&mut self, hash: u64, note: u32) {
        let place = place_of(&self.table, self.table.len() - 1, hash);
        let flow = &mut self.table[place];
        flow.note = Number::of(note as usize);
        if let Some(first) = flow.first.get() {
            self.members[first].standing = Standing::Later;
        }
    }

    #[inline(always)]
    pub(super) fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    /// A packet has been handled.
    #[inline(always)]
    pub(super) fn done(&mut self, at: usize) {
        self.members[at].standing = Standing::Done;
    }

    /// When this packet comes, something of its flow is noted.
    #[inline(always)]
    pub(super) fn is_later(&mut self, at: usize) {
        self.members[at].standing = Standing::Later;
    }

    /// When the next packet of its flow comes, something of it is noted.
    #[inline(always)]
    pub(super) fn is_noted_at(&mut self, at: usize) {
        if let Some(next) = self.next_of(at) {
            self.is_later(next);
        }
    }

    /// Whether a packet is the last of its flow.
    #[inline(always)]
    pub(super) fn is_last(&self, at: usize) -> bool {
        self.members[at].next == Number::NONE
    }

    /// The next packet of the flow of a packet that has not been handled.
    #[inline(always)]
    pub(super) fn next_of(&self, at: usize) -> Option<usize> {
        let mut next = self.members[at].next;
        while let Some(at) = next.get() {
            let member = &self.members[at];
            if member.standing != Standing::Done {
                return Some(at);
            }
            next = member.next;
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

/// The hash of a packet's flow, if it is visible: the packet shows its ports, and may not be of another flow between
/// its addresses.
pub(super) fn visible_flow_of(
    hasher: &mut FlowHasher,
    bytes: &[u8],
    layout: &Layout,
    lane: u32,
) -> Option<u64> {
    let is_visible = matches!(layout.form(), Form::Datagram | Form::Padded);
    let is_visible = is_visible && !has_ip_options(bytes, layout);
    if is_visible { hasher.usual_flow_of(bytes, layout, lane) } else { None }
}

/// The layout of a frame and the hash of its flow, if it is visible.
#[inline(always)]
pub(super) fn parse_frame(
    hasher: &mut FlowHasher,
    link: LinkType,
    bytes: &[u8],
    lane: u32,
) -> (Layout, Option<u64>) {
    match hasher.parse_usual(link, bytes, lane) {
        Some((layout, hash)) => (layout, Some(hash)),
        None => parse_unusual(hasher, link, bytes, lane),
    }
}

#[inline(never)]
fn parse_unusual(
    hasher: &mut FlowHasher,
    link: LinkType,
    bytes: &[u8],
    lane: u32,
) -> (Layout, Option<u64>) {
    let layout = Layout::parse(link, bytes);
    (layout, visible_flow_of(hasher, bytes, &layout, lane))
}
