//! Doubly linked lists over indices, in memory of fixed size: members move in O(1).

use alloc::boxed::Box;
use alloc::vec;

/// No member.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    list: u32,
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

    /// Puts `member` at the front of `list`, out of the list it was in.
    #[inline]
    pub(super) fn insert(&mut self, list: usize, member: u32) {
        self.remove(member);
        let next = self.heads[list];
        self.heads[list] = member;
        // Lists are numbered far below 2³².
        self.links[member as usize] = Link { list: list as u32, previous: NONE, next };
        if next != NONE {
            self.links[next as usize].previous = member;
        }
    }

    /// Takes `member` out of its list, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, member: u32) {
        let link = core::mem::replace(&mut self.links[member as usize], UNLINKED);
        if link.list == NONE {
            return;
        }
        match link.previous {
            NONE => self.heads[link.list as usize] = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        if link.next != NONE {
            self.links[link.next as usize].previous = link.previous;
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

    /// The member behind `member` in its list.
    #[inline]
    pub(super) fn next(&self, member: u32) -> Option<u32> {
        let next = self.links[member as usize].next;
        (next != NONE).then_some(next)
    }

    pub(super) fn members(&self, list: usize) -> impl Iterator<Item = u32> {
        core::iter::successors(self.first(list), |member| self.next(*member))
    }
}
