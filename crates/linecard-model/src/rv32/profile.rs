//! A program's cycles by instruction, and by source line.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::AddAssign;

/// Cycles of an instruction or a line, without sleep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions executed.
    pub busy: u64,
    /// Cycles waited for bus accesses.
    pub stalled: u64,
    /// Cycles lost by branches taken and jumps.
    pub bubbles: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.stalled += other.stalled;
        self.bubbles += other.bubbles;
    }
}

/// Counts for each instruction of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    by_instruction: Vec<Counts>,
}

impl Profile {
    pub(super) fn new(instructions: usize) -> Self {
        Self { by_instruction: vec![Counts::default(); instructions] }
    }

    pub(super) fn add(&mut self, at: usize, counts: Counts) {
        if let Some(sum) = self.by_instruction.get_mut(at) {
            *sum += counts;
        }
    }

    /// Address and counts of each instruction that took any cycle, by address.
    pub fn instructions(&self) -> impl Iterator<Item = (u32, Counts)> {
        let all = (0..).step_by(4).zip(self.by_instruction.iter().copied());
        all.filter(|(_, counts)| *counts != Counts::default())
    }
}

/// Adds up a profile by the lines that `line_of` returns, in the order of those lines. Instructions
/// without a line are under `None`, so that the sums are those of the program.
///
/// ```
/// use linecard_model::rv32::{Profile, annotate};
/// # fn show(profile: &Profile) {
/// // By blocks of 16 instructions, where no source is known:
/// for (block, counts) in annotate(profile, |pc| Some(pc / 64)) {
///     assert!(block.is_some() && counts.busy + counts.stalled > 0);
/// }
/// # }
/// ```
pub fn annotate<L: Ord>(
    profile: &Profile,
    line_of: impl Fn(u32) -> Option<L>,
) -> BTreeMap<Option<L>, Counts> {
    let mut lines = BTreeMap::new();
    for (pc, counts) in profile.instructions() {
        *lines.entry(line_of(pc)).or_insert_with(Counts::default) += counts;
    }
    lines
}
