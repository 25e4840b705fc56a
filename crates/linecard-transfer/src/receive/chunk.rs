//! A chunk that is coming in: what of it is there.

use super::Refusal;
use crate::layout::{Layout, Place};
use alloc::vec;
use alloc::vec::Vec;

/// A chunk that is coming in.
#[derive(Debug)]
pub(super) struct Incoming {
    /// As announced, or as if it were a full one.
    layout: Layout,
    announced: bool,
    /// One bit for each data packet.
    have: Vec<u64>,
    missing: u32,
    groups: Vec<Group>,
    /// A data packet that was shorter than the others, and its length: it must be the last.
    short: Option<(u32, u32)>,
    /// A group whose repair is shorter than that of others, and its length: it must be the last.
    short_group: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    data: u16,
    repair: u16,
    /// Rows that have come.
    rows: u64,
    repaired: bool,
}

/// What a packet of a chunk led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing more than that it is there.
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

    /// All data is there.
    pub(super) const fn is_whole(&self) -> bool {
        self.announced && self.missing == 0
    }

    pub(super) fn has(&self, index: u32) -> bool {
        self.have.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Its length is known now. Groups that can be repaired by that are listed.
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

    /// Whether what has come cannot be of a chunk that is cut like `layout`.
    fn contradicts(&self, layout: &Layout) -> bool {
        let full = self.layout.data_bytes(0);
        let (last, last_group) = (layout.packets() - 1, layout.groups() - 1);
        let beyond = (layout.packets()..self.layout.packets()).any(|index| self.has(index))
            || self.groups[layout.groups() as usize..].iter().any(|group| group.repair > 0);
        // Each end is as short as it is announced: what was short was the end, and the end was short.
        let differs = |short: Option<(u32, u32)>, end: (u32, u32), came: bool| match short {
            Some(short) => short != end,
            None => came && end.1 != full,
        };
        let repair = (last_group, layout.repair_bytes(last_group));
        beyond
            || differs(self.short, (last, layout.data_bytes(last)), self.has(last))
            || differs(self.short_group, repair, self.groups[last_group as usize].repair > 0)
    }

    /// Whether `place` fits and is new; its length is checked as far as it is known.
    pub(super) fn check(&self, place: Place, bytes: u32) -> Result<(), Refusal> {
        if !self.layout.contains(place) {
            return Err(Refusal::Place);
        }
        let full = self.layout.place_bytes(place);
        let may_be_short = !self.announced
            && (1..full).contains(&bytes)
            && match place {
                Place::Data { .. } => self.short.is_none(),
                Place::Repair { group, .. } => {
                    self.short_group.is_none_or(|short| short == (group, bytes))
                }
            };
        if bytes != full && !may_be_short {
            return Err(Refusal::Length);
        }
        let repeated = match place {
            Place::Data { index } => self.has(index),
            Place::Repair { group, row } => {
                let group = self.groups[group as usize];
                group.repaired || group.rows >> row & 1 == 1
            }
        };
        if repeated { Err(Refusal::Repeated) } else { Ok(()) }
    }

    /// Takes what was checked.
    pub(super) fn take(&mut self, place: Place, bytes: u32) -> Step {
        let number = match place {
            Place::Data { index } => {
                self.set(index);
                if !self.announced && bytes < self.layout.data_bytes(0) {
                    self.short = Some((index, bytes));
                }
                let number = self.layout.group_of_index(index);
                self.groups[number as usize].data += 1;
                number
            }
            Place::Repair { group, row } => {
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

    /// Something is missing, and what is there makes up for it.
    fn is_repairable(&self, number: u32) -> bool {
        let group = self.groups[number as usize];
        let needed = self.layout.group_data(number);
        let data = u32::from(group.data);
        // How long a group is that may be the last is not known before the chunk is.
        let known = self.announced || self.layout.repair() == 0;
        known && !group.repaired && data < needed && data + u32::from(group.repair) >= needed
    }

    /// A group is to be repaired: its missing packets, as bits, count as there from now on.
    pub(super) fn repair(&mut self, number: u32) -> [u64; 4] {
        let mut missing = [0; 4];
        let Some(group) = self.groups.get_mut(number as usize) else { return missing };
        group.repaired = true;
        let first = self.layout.first_index(number);
        for within in 0..self.layout.group_data(number) {
            if !self.has(first + within) {
                self.set(first + within);
                self.groups[number as usize].data += 1;
                missing[within as usize / 64] |= 1 << (within % 64);
            }
        }
        missing
    }
}
