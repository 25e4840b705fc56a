//! Payload in order, from a packet's first buffer and the pieces after it.

use crate::packet::checksum::Sum;

/// A position in a packet's payload.
#[derive(Debug)]
pub(super) struct Cursor<'p, P> {
    current: &'p [u8],
    rest: &'p [P],
}

/// The slices of one segment's payload.
#[derive(Debug)]
pub struct Slices<'p, P> {
    cursor: Cursor<'p, P>,
    len: usize,
}

impl<'p, P: AsRef<[u8]>> Cursor<'p, P> {
    /// These bytes, then the pieces.
    pub(super) fn new(current: &'p [u8], rest: &'p [P]) -> Self {
        Self { current, rest }
    }

    /// The next `len` bytes, which have to exist.
    #[inline(always)]
    pub(super) fn take(&mut self, len: usize) -> Slices<'p, P> {
        let slices = Slices { cursor: Self { current: self.current, rest: self.rest }, len };
        match self.current.get(len..) {
            Some(behind) => self.current = behind,
            None => self.skip(len),
        }
        slices
    }

    #[cold]
    #[inline(never)]
    fn skip(&mut self, mut left: usize) {
        while left > 0 && self.next_slice(&mut left).is_some() {}
    }

    /// A slice of at most `left` bytes; its length is subtracted from `left`.
    fn next_slice(&mut self, left: &mut usize) -> Option<&'p [u8]> {
        while self.current.is_empty() {
            let (next, rest) = self.rest.split_first()?;
            (self.current, self.rest) = (next.as_ref(), rest);
        }
        let (slice, current) = self.current.split_at((*left).min(self.current.len()));
        self.current = current;
        *left -= slice.len();
        Some(slice)
    }
}

impl<P> Clone for Slices<'_, P> {
    fn clone(&self) -> Self {
        let cursor = Cursor { current: self.cursor.current, rest: self.cursor.rest };
        Self { cursor, len: self.len }
    }
}

impl<'p, P: AsRef<[u8]>> Iterator for Slices<'p, P> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        if self.len == 0 { None } else { self.cursor.next_slice(&mut self.len) }
    }
}

impl<P: AsRef<[u8]>> Slices<'_, P> {
    /// The sum of the bytes as one contiguous run.
    #[inline(always)]
    pub(super) fn sum_bytes(self) -> Sum {
        self.fold_sum(Sum::of)
    }

    /// Copies the bytes to `out`, which has the same length; returns their sum.
    #[inline(always)]
    pub(super) fn copy_to(self, out: &mut [u8]) -> Sum {
        let mut at = 0;
        self.fold_sum(|slice| {
            at += slice.len();
            Sum::of_copy(slice, &mut out[at - slice.len()..])
        })
    }

    #[inline(always)]
    fn fold_sum(self, mut sum_of: impl FnMut(&[u8]) -> Sum) -> Sum {
        // Most segments are contiguous.
        match self.cursor.current.get(..self.len) {
            Some(slice) => Sum::ZERO.plus(sum_of(slice)),
            None => self.fold_sums(sum_of),
        }
    }

    /// The sum of a slice that starts at an odd offset is swapped.
    #[cold]
    #[inline(never)]
    fn fold_sums(self, mut sum_of: impl FnMut(&[u8]) -> Sum) -> Sum {
        let (mut total, mut odd) = (Sum::ZERO, false);
        for slice in self {
            let sum = sum_of(slice);
            total = total.plus(if odd { sum.swapped() } else { sum });
            odd ^= slice.len() % 2 == 1;
        }
        total
    }
}
