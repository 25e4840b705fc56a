//! Queues over indices, in memory of fixed size: members are added at the back and can be removed
//! from anywhere in O(1).

use alloc::boxed::Box;
use alloc::vec;

/// No member, or no queue.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Ends {
    front: u32,
    back: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    queue: u32,
    ahead: u32,
    behind: u32,
}

const UNLINKED: Link = Link { queue: NONE, ahead: NONE, behind: NONE };

/// Queues `0..queues` over members `0..members`; a member is in one queue or in none.
#[derive(Debug)]
pub(super) struct Queues {
    ends: Box<[Ends]>,
    links: Box<[Link]>,
}

impl Queues {
    pub(super) fn new(queues: usize, members: usize) -> Self {
        Self {
            ends: vec![Ends { front: NONE, back: NONE }; queues].into_boxed_slice(),
            links: vec![UNLINKED; members].into_boxed_slice(),
        }
    }

    /// Appends `member` to `queue`, after removing it from the queue that it is in.
    pub(super) fn push(&mut self, queue: usize, member: u32) {
        self.remove(member);
        let ends = &mut self.ends[queue];
        let ahead = core::mem::replace(&mut ends.back, member);
        match ahead {
            NONE => ends.front = member,
            ahead => self.links[ahead as usize].behind = member,
        }
        // Queues are numbered far below 2³².
        self.links[member as usize] = Link { queue: queue as u32, ahead, behind: NONE };
    }

    /// Removes `member` from its queue, if it is in one.
    pub(super) fn remove(&mut self, member: u32) {
        let link = core::mem::replace(&mut self.links[member as usize], UNLINKED);
        if link.queue == NONE {
            return;
        }
        let ends = &mut self.ends[link.queue as usize];
        match link.ahead {
            NONE => ends.front = link.behind,
            ahead => self.links[ahead as usize].behind = link.behind,
        }
        match link.behind {
            NONE => ends.back = link.ahead,
            behind => self.links[behind as usize].ahead = link.ahead,
        }
    }

    pub(super) fn front(&self, queue: usize) -> Option<u32> {
        let front = self.ends[queue].front;
        (front != NONE).then_some(front)
    }

    pub(super) fn members(&self, queue: usize) -> impl Iterator<Item = u32> {
        let some = |member: u32| (member != NONE).then_some(member);
        core::iter::successors(self.front(queue), move |member| {
            some(self.links[*member as usize].behind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::VecDeque;

    #[test]
    fn queues_behave_as_deques() {
        let mut rng = Rng::new(1);
        let mut queues = Queues::new(3, 20);
        let mut twin = [const { VecDeque::<u32>::new() }; 3];
        for _ in 0..20_000 {
            let (queue, member) = (rng.below(3) as usize, rng.below(20) as u32);
            twin.iter_mut().for_each(|deque| deque.retain(|other| *other != member));
            if rng.chance(0.6) {
                queues.push(queue, member);
                twin[queue].push_back(member);
            } else {
                queues.remove(member);
            }
            for (queue, deque) in twin.iter().enumerate() {
                assert_eq!(queues.members(queue).collect::<VecDeque<_>>(), *deque);
                assert_eq!(queues.front(queue), deque.front().copied());
            }
        }
    }
}
