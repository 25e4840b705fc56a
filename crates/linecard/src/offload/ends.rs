//! An index of held data by address pair, for packets whose ports are not visible and which must
//! not overtake held data of any flow between their addresses.

use super::lists::Lists;
use crate::packet::{FlowHasher, MAX_TUNNELS, Packet};

/// IP headers in one packet: held data is listed under each of them.
const MAX_ENDS: usize = MAX_TUNNELS + 1;

/// Table places that hold data, in lists by the hash of their address pair.
#[derive(Debug)]
pub(super) struct Ends {
    lists: Lists,
    mask: usize,
}

impl Ends {
    /// An index for `places` table places.
    pub(super) fn new(places: usize) -> Self {
        let lists = places.next_power_of_two();
        Self { lists: Lists::new(lists, places * MAX_ENDS), mask: lists - 1 }
    }

    /// Records that `place` holds `packet`.
    pub(super) fn enter<B: AsRef<[u8]>>(
        &mut self,
        hasher: &FlowHasher,
        packet: &Packet<B>,
        place: u32,
    ) {
        for (hash, member) in hasher.ends(packet).zip(members(place)) {
            self.lists.insert(hash as usize & self.mask, member);
        }
    }

    /// Records that `place` holds nothing.
    pub(super) fn leave(&mut self, place: u32) {
        // A packet with fewer IP headers is listed under the first of them only.
        let entered = members(place).take_while(|member| self.lists.list_of(*member).is_some());
        let entered = entered.count();
        members(place).take(entered).for_each(|member| self.lists.remove(member));
    }

    /// A place that holds data between the addresses of `packet`: candidates are found by hash and
    /// confirmed by `holds`. Call repeatedly, flushing each, until it returns none.
    pub(super) fn find<B: AsRef<[u8]>>(
        &self,
        hasher: &FlowHasher,
        packet: &Packet<B>,
        holds: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let list = hasher.ends(packet).last()? as usize & self.mask;
        self.lists.members(list).map(|member| member / MAX_ENDS as u32).find(|place| holds(*place))
    }
}

/// The members of lists that stand for a place, outermost IP header first.
fn members(place: u32) -> impl Iterator<Item = u32> {
    (0..MAX_ENDS as u32).map(move |level| place * MAX_ENDS as u32 + level)
}
