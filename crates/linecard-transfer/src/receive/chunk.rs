//! A chunk being received: which parts of it have arrived.

use super::Refusal;
use crate::layout::{Layout, PacketRole};
use alloc::vec;
use alloc::vec::Vec;

/// A chunk being received.
#[derive(Debug)]
pub(super) struct Incoming {
    /// As announced, or that of a full chunk before the announcement.
    layout: Layout,
    announced: bool,
    /// One bit for each data packet.
    have: Vec<u64>,
    missing: u32,
    groups: Vec<Group>,
    /// A data packet that was shorter than the others, and its length: it has to be the last.
    short: Option<(u32, u32)>,
    /// A group whose repair is shorter than that of others, and its length: it has to be the last.
    short_group: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// Packets received; without repair all of a chunk are one group.
    data: u32,
    repair: u16,
    /// Rows received.
    rows: u64,
    repaired: bool,
}

/// The effect of a packet on its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It was stored.
    Taken,
    /// This group can be repaired now.
    Repairable(u32),
}

impl Incoming {
    pub(super) fn new(layout: Layout, announced: bool) -> Self {
        Self {
            announced,
            have: vec![0; (layout.packets() as usize).div_ceil(64)],
            missing: layout.packets(),
            groups: vec![Group::default(); layout.groups() as usize],
            short: None,
            short_group: None,
            layout,
        }
    }

    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether all data has arrived.
    pub(super) const fn is_whole(&self) -> bool {
        self.announced && self.missing == 0
    }

    pub(super) fn has(&self, index: u32) -> bool {
        self.have.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Sets its length. Returns the groups that can be repaired now.
    pub(super) fn announce(&mut self, layout: Layout) -> Result<Vec<u32>, Refusal> {
        if self.announced {
            return if self.layout == layout { Ok(Vec::new()) } else { Err(Refusal::Length) };
        }
        if self.contradicts(&layout) {
            return Err(Refusal::Length);
        }
        self.missing -= self.layout.packets() - layout.packets();
        self.have.truncate((layout.packets() as usize).div_ceil(64));
        self.groups.truncate(layout.groups() as usize);
        self.layout = layout;
        self.announced = true;
        let all = 0..layout.groups();
        Ok(all.filter(|&group| self.is_repairable(group)).collect())
    }

    /// Whether packets received contradict `layout`.
    fn contradicts(&self, layout: &Layout) -> bool {
        let full = self.layout.data_bytes(0);
        let (last, last_group) = (layout.packets() - 1, layout.groups() - 1);
        let beyond = (layout.packets()..self.layout.packets()).any(|index| self.has(index))
            || self.groups[layout.groups() as usize..].iter().any(|group| group.repair > 0);
        // A shorter packet or group has to be the last one, and the last one has to be as short as
        // announced.
        let differs = |short: Option<(u32, u32)>, end: (u32, u32), came: bool| match short {
            Some(short) => short != end,
            None => came && end.1 != full,
        };
        let repair = (last_group, layout.repair_bytes(last_group));
        beyond
            || differs(self.short, (last, layout.data_bytes(last)), self.has(last))
            || differs(self.short_group, repair, self.groups[last_group as usize].repair > 0)
    }

    /// Checks that `place` is valid and new; its length is checked as far as it is known.
    pub(super) fn check(&self, place: PacketRole, bytes: u32) -> Result<(), Refusal> {
        if !self.layout.contains(place) {
            return Err(Refusal::Place);
        }
        let full = self.layout.place_bytes(place);
        let may_be_short = !self.announced && (1..full).contains(&bytes);
        // Also what is as short as in a full chunk: something else that was shorter shows that it is not full.
        let is_short = !self.announced && bytes < self.layout.data_bytes(0);
        let may_be_last = match place {
            PacketRole::Data { index } => self.short.is_none_or(|short| short == (index, bytes)),
            PacketRole::Repair { group, .. } => {
                self.short_group.is_none_or(|short| short == (group, bytes))
            }
        };
        if bytes != full && !may_be_short || is_short && !may_be_last {
            return Err(Refusal::Length);
        }
        let repeated = match place {
            PacketRole::Data { index } => self.has(index),
            PacketRole::Repair { group, row } => {
                let group = self.groups[group as usize];
                group.repaired || group.rows >> row & 1 == 1
            }
        };
        if repeated { Err(Refusal::Repeated) } else { Ok(()) }
    }

    /// Records a checked packet.
    pub(super) fn take(&mut self, place: PacketRole, bytes: u32) -> Step {
        let number = match place {
            PacketRole::Data { index } => {
                self.set(index);
                if !self.announced && bytes < self.layout.data_bytes(0) {
                    self.short = Some((index, bytes));
                }
                let number = self.layout.group_of_index(index);
                self.groups[number as usize].data += 1;
                number
            }
            PacketRole::Repair { group, row } => {
                if !self.announced && bytes < self.layout.data_bytes(0) {
                    self.short_group = Some((group, bytes));
                }
                let state = &mut self.groups[group as usize];
                state.rows |= 1 << row;
                state.repair += 1;
                group
            }
        };
        if self.is_repairable(number) { Step::Repairable(number) } else { Step::Taken }
    }

    fn set(&mut self, index: u32) {
        self.have[index as usize / 64] |= 1 << (index % 64);
        self.missing -= 1;
    }

    /// Whether packets are missing and can be repaired.
    fn is_repairable(&self, number: u32) -> bool {
        let group = self.groups[number as usize];
        let needed = self.layout.group_data(number);
        let data = group.data;
        // The length of a group that may be the last is unknown before the chunk's.
        let known = self.announced || self.layout.repair() == 0;
        known && !group.repaired && data < needed && data + u32::from(group.repair) >= needed
    }

    /// Marks the missing packets of a group as present, and returns them as bits.
    pub(super) fn repair(&mut self, number: u32) -> [u64; 4] {
        let mut missing = [0; 4];
        let Some(group) = self.groups.get_mut(number as usize) else { return missing };
        group.repaired = true;
        let first = self.layout.first_index(number);
        for within in 0..self.layout.group_data(number) {
            if !self.has(first + within) {
                self.set(first + within);
                missing[within as usize / 64] |= 1 << (within % 64);
            }
        }
        missing
    }
}
