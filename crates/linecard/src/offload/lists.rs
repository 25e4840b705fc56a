//! Doubly linked lists over indices, in memory of fixed size: any member can be removed in O(1).

use alloc::boxed::Box;
use alloc::vec;

/// No member.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    list: u32,
    /// For the first member: the last member.
    previous: u32,
    next: u32,
}

const UNLINKED: Link = Link { list: NONE, previous: NONE, next: NONE };

/// Lists `0..lists` over members `0..members`; a member is in one list or in none.
#[derive(Debug)]
pub(super) struct Lists {
    heads: Box<[u32]>,
    links: Box<[Link]>,
}

impl Lists {
    pub(super) fn new(lists: usize, members: usize) -> Self {
        let heads = vec![NONE; lists].into_boxed_slice();
        Self { heads, links: vec![UNLINKED; members].into_boxed_slice() }
    }

    /// Appends `member` to `list`, after removing it from the list that it is in.
    #[inline]
    pub(super) fn insert(&mut self, list: usize, member: u32) {
        self.remove(member);
        let head = self.heads[list];
        let last = if head == NONE {
            self.heads[list] = member;
            member
        } else {
            let last = core::mem::replace(&mut self.links[head as usize].previous, member);
            self.links[last as usize].next = member;
            last
        };
        // Lists are numbered far below 2³².
        self.links[member as usize] = Link { list: list as u32, previous: last, next: NONE };
    }

    /// Removes `member` from its list, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, member: u32) {
        let link = core::mem::replace(&mut self.links[member as usize], UNLINKED);
        if link.list == NONE {
            return;
        }
        let head = self.heads[link.list as usize];
        if head == member {
            self.heads[link.list as usize] = link.next;
        } else {
            self.links[link.previous as usize].next = link.next;
        }
        // The follower, or the head if there is none, points back to the member before.
        let follower = if link.next != NONE { link.next } else { head };
        if follower != member {
            self.links[follower as usize].previous = link.previous;
        }
    }

    /// The list that `member` is in.
    #[inline]
    pub(super) fn list_of(&self, member: u32) -> Option<usize> {
        let list = self.links[member as usize].list;
        (list != NONE).then_some(list as usize)
    }

    #[inline]
    pub(super) fn first(&self, list: usize) -> Option<u32> {
        let head = self.heads[list];
        (head != NONE).then_some(head)
    }

    /// The member after `member` in its list.
    #[inline]
    pub(super) fn next(&self, member: u32) -> Option<u32> {
        let next = self.links[member as usize].next;
        (next != NONE).then_some(next)
    }

    /// The members from the last to the first.
    pub(super) fn members_backwards(&self, list: usize) -> impl Iterator<Item = u32> {
        let head = self.first(list);
        let previous = |member: u32| self.links[member as usize].previous;
        let before = move |member: &u32| (Some(*member) != head).then(|| previous(*member));
        core::iter::successors(head.map(previous), before)
    }

    pub(super) fn members(&self, list: usize) -> impl Iterator<Item = u32> {
        core::iter::successors(self.first(list), |member| self.next(*member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec::Vec;

    /// Against the obvious twin, vectors.
    #[test]
    fn keeps_the_order_of_joining() {
        let (mut rng, mut lists) = (Rng::new(5), Lists::new(3, 12));
        let mut twin: [Vec<u32>; 3] = Default::default();
        for _ in 0..20_000 {
            let (list, member) = (rng.below(3) as usize, rng.below(12) as u32);
            twin.iter_mut().for_each(|members| members.retain(|other| *other != member));
            if rng.chance(0.6) {
                lists.insert(list, member);
                twin[list].push(member);
            } else {
                lists.remove(member);
            }
            for (list, members) in twin.iter().enumerate() {
                assert_eq!(lists.members(list).collect::<Vec<_>>(), *members);
                assert!(lists.members_backwards(list).eq(members.iter().rev().copied()));
                assert!(members.iter().all(|member| lists.list_of(*member) == Some(list)));
            }
        }
    }
}
