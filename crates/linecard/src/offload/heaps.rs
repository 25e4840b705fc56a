//! Pairing heaps over indices, in memory of fixed size: insertion takes O(1), and removal of any
//! member O(log n) amortised (Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap", 1986).

use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec;

/// No member.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    key: Instant,
    /// Breaks ties: of equal keys, the member inserted first comes first.
    order: u64,
    heap: u32,
    /// The previous sibling, or the parent of a first child.
    previous: u32,
    next: u32,
    child: u32,
}

const UNLINKED: Node =
    Node { key: Instant::NEVER, order: 0, heap: NONE, previous: NONE, next: NONE, child: NONE };

/// Heaps `0..heaps` over members `0..members`; a member is in one heap or in none.
#[derive(Debug)]
pub(super) struct Heaps {
    roots: Box<[u32]>,
    nodes: Box<[Node]>,
    joined: u64,
    /// Pairs of members compared; counted in tests.
    pub(super) comparisons: u64,
}

impl Heaps {
    pub(super) fn new(heaps: usize, members: usize) -> Self {
        Self {
            roots: vec![NONE; heaps].into_boxed_slice(),
            nodes: vec![UNLINKED; members].into_boxed_slice(),
            joined: 0,
            comparisons: 0,
        }
    }

    /// Inserts `member` into `heap`, after removing it from the heap that it is in.
    #[inline]
    pub(super) fn insert(&mut self, heap: usize, member: u32, key: Instant) {
        self.remove(member);
        self.joined += 1;
        // Heaps are numbered far below 2³².
        let node = Node { key, order: self.joined, heap: heap as u32, ..UNLINKED };
        self.nodes[member as usize] = node;
        self.roots[heap] = self.meld(self.roots[heap], member);
    }

    /// Removes `member` from its heap, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, member: u32) {
        let Node { key, heap, previous, next, child, .. } = self.nodes[member as usize];
        if heap == NONE {
            return;
        }
        self.nodes[member as usize] = Node { key, ..UNLINKED };
        let below = self.meld_siblings(child);
        if previous == NONE {
            self.roots[heap as usize] = below;
            return;
        }
        let before = &mut self.nodes[previous as usize];
        let link = if before.child == member { &mut before.child } else { &mut before.next };
        *link = next;
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        self.roots[heap as usize] = self.meld(self.roots[heap as usize], below);
    }

    /// The heap that `member` is in.
    #[inline]
    pub(super) fn heap_of(&self, member: u32) -> Option<usize> {
        let heap = self.nodes[member as usize].heap;
        (heap != NONE).then_some(heap as usize)
    }

    /// The key with which `member` was last inserted.
    #[inline(always)]
    pub(super) fn key(&self, member: u32) -> Instant {
        self.nodes[member as usize].key
    }

    /// The member with the smallest key.
    #[inline]
    pub(super) fn first(&self, heap: usize) -> Option<u32> {
        let root = self.roots[heap];
        (root != NONE).then_some(root)
    }

    /// Merges two trees whose roots have no siblings, and returns the root.
    #[inline]
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        if one == NONE || other == NONE {
            return if one == NONE { other } else { one };
        }
        self.comparisons += u64::from(cfg!(test));
        let rank = |member: u32| {
            let node = &self.nodes[member as usize];
            (node.key, node.order)
        };
        let (root, below) = if rank(one) < rank(other) { (one, other) } else { (other, one) };
        let sibling = core::mem::replace(&mut self.nodes[root as usize].child, below);
        let node = &mut self.nodes[below as usize];
        (node.previous, node.next) = (root, sibling);
        if sibling != NONE {
            self.nodes[sibling as usize].previous = below;
        }
        root
    }

    /// Merges the trees of the siblings from `first` on: in pairs from the first to the last, then
    /// the pairs from the last to the first.
    fn meld_siblings(&mut self, first: u32) -> u32 {
        let (mut pairs, mut next) = (NONE, first);
        while next != NONE {
            let one = next;
            let other = self.detach(one);
            next = if other == NONE { NONE } else { self.detach(other) };
            let pair = self.meld(one, other);
            self.nodes[pair as usize].next = pairs;
            pairs = pair;
        }
        let mut root = NONE;
        while pairs != NONE {
            let pair = pairs;
            pairs = self.detach(pair);
            root = self.meld(root, pair);
        }
        root
    }

    /// Unlinks a tree from its list of siblings, and returns the next sibling.
    fn detach(&mut self, member: u32) -> u32 {
        let node = &mut self.nodes[member as usize];
        node.previous = NONE;
        core::mem::replace(&mut node.next, NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;

    /// Against the obvious twin, sorted sets.
    #[test]
    fn gives_the_smallest_key_and_the_first_of_equal_ones() {
        let (mut rng, mut heaps) = (Rng::new(5), Heaps::new(3, 40));
        let mut twin: [BTreeSet<(u64, u64, u32)>; 3] = Default::default();
        for order in 0..50_000 {
            let (heap, member) = (rng.below(3) as usize, rng.below(40) as u32);
            twin.iter_mut().for_each(|members| members.retain(|(.., other)| *other != member));
            if rng.chance(0.6) {
                let key = rng.below(20);
                heaps.insert(heap, member, Instant::from_ns(key));
                twin[heap].insert((key, order, member));
            } else {
                heaps.remove(member);
            }
            for (heap, members) in twin.iter().enumerate() {
                assert_eq!(heaps.first(heap), members.first().map(|(.., member)| *member));
                for (key, _, member) in members {
                    assert_eq!(heaps.heap_of(*member), Some(heap));
                    assert_eq!(heaps.key(*member), Instant::from_ns(*key));
                }
            }
        }
    }
}
