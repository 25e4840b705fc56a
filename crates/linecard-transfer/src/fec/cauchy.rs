//! The factors of the code: those that make repair packets, and those that undo losses.
//!
//! Every packet of a group is a point of GF(2⁸): data packet `j` is `y = j`, repair packet `r` is
//! `x = !r`, and no two are equal while a group has at most 256 packets. The factors
//! `v(y) / (x + y)` are a Cauchy matrix with scaled columns, so every square part of it can be
//! inverted, in a closed form: no system of equations is solved.
//!
//! With `E` the points of lost data and `R` those of as many repair packets, let
//!
//! ```text
//! w(p) = v(p) · Π (p + l) over l in E, l ≠ p  /  Π (p + q) over q in R, q ≠ p
//! ```
//!
//! where `v` is 1 for repair packets. Then lost packet `i` is the sum of the packets `p` that are
//! there, data and `R`, times `w(p) / (w(i) · (p + i))`. (From the inverse of a Cauchy matrix: D.
//! E. Knuth, *The Art of Computer Programming*, volume 1, section 1.2.3, exercise 41; its product
//! with the rest of the matrix is of the same form, as Lagrange's interpolation shows.)

use super::MAX_GROUP;
use super::field::{LOGARITHMS, ORDER, POWERS, divide};

/// The factor of data packet `index` in repair packet `row`; 1 in row 0.
pub(super) fn factor(row: u8, index: u8) -> u8 {
    divide(!index, !index ^ row)
}

/// The point of a repair packet; that of a data packet is its index.
pub(super) fn repair_point(row: u8) -> u8 {
    !row
}

/// Lost packets of a group and the repair packets for them, by points.
#[derive(Debug)]
pub(super) struct Losses<'a> {
    /// Of lost data packets.
    pub(super) lost: &'a [u8],
    /// Of as many repair packets.
    pub(super) repair: &'a [u8],
}

/// Logarithms of `w` for each point, at its place.
#[derive(Debug)]
pub(super) struct Weights([u8; MAX_GROUP]);

impl Weights {
    /// Of all points that take part: `data` is how many data packets the group has.
    pub(super) fn new(losses: &Losses<'_>, data: usize) -> Self {
        let mut weights = [0; MAX_GROUP];
        for (point, weight) in weights[..data].iter_mut().enumerate() {
            let point = point as u8;
            *weight = losses.weight(point, LOGARITHMS[usize::from(!point)]);
        }
        for point in losses.repair {
            weights[usize::from(*point)] = losses.weight(*point, 0);
        }
        Self(weights)
    }

    /// The factor of the packet at `point` in the lost one at `lost`.
    #[inline]
    pub(super) fn factor(&self, point: u8, lost: u8) -> u8 {
        let logarithm = usize::from(self.0[usize::from(point)]) + 2 * ORDER
            - usize::from(self.0[usize::from(lost)])
            - usize::from(LOGARITHMS[usize::from(point ^ lost)]);
        POWERS[logarithm]
    }
}

impl Losses<'_> {
    /// The logarithm of `w(point)`, given that of `v(point)`. The logarithm of 0 counts as 0, so
    /// that the point itself needs no exception.
    #[inline]
    fn weight(&self, point: u8, scale: u8) -> u8 {
        let distance = |other: &u8| usize::from(LOGARITHMS[usize::from(point ^ other)]);
        let above: usize = self.lost.iter().map(distance).sum();
        let below: usize = self.repair.iter().map(distance).sum();
        let sum = usize::from(scale) + above + ORDER * self.repair.len() - below;
        (sum % ORDER) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::field::multiply;
    use alloc::vec::Vec;
    use linecard::rng::Rng;

    #[test]
    fn the_first_repair_packet_is_the_sum_and_no_factor_is_zero() {
        for index in 0..=254 {
            assert_eq!(factor(0, index), 1);
            for row in 0..=254 - index {
                assert_ne!(factor(row, index), 0, "{row}, {index}");
            }
        }
    }

    /// Both ways of one byte: what the definition makes, the closed form undoes.
    #[test]
    fn the_closed_form_inverts_the_code() {
        let mut rng = Rng::new(5);
        for _ in 0..2_000 {
            let data_count = 1 + rng.below(255) as usize;
            let rows = 1 + rng.below(256 - data_count as u64) as usize;
            let data: Vec<u8> = (0..data_count).map(|_| rng.next_u64() as u8).collect();
            let losses = 1 + rng.below(rows.min(data_count) as u64) as usize;
            let lost = draw(&mut rng, data_count, losses);
            let used = draw(&mut rng, rows, losses);
            let points: Vec<u8> = used.iter().map(|row| repair_point(*row)).collect();
            let weights = Weights::new(&Losses { lost: &lost, repair: &points }, data_count);
            for hole in &lost {
                let mut byte = 0;
                for (index, value) in
                    (0..=u8::MAX).zip(&data).filter(|(index, _)| !lost.contains(index))
                {
                    byte ^= multiply(weights.factor(index, *hole), *value);
                }
                for (row, point) in used.iter().zip(&points) {
                    let terms =
                        (0..).zip(&data).map(|(j, value)| multiply(factor(*row, j), *value));
                    let repair = terms.fold(0, |sum, term| sum ^ term);
                    byte ^= multiply(weights.factor(*point, *hole), repair);
                }
                assert_eq!(byte, data[usize::from(*hole)], "{data_count} + {rows}, {lost:?}");
            }
        }
    }

    /// `count` different numbers below `below`.
    fn draw(rng: &mut Rng, below: usize, count: usize) -> Vec<u8> {
        let mut all: Vec<u8> = (0..below).map(|number| number as u8).collect();
        for place in 0..count {
            let other = place + rng.below((below - place) as u64) as usize;
            all.swap(place, other);
        }
        all.truncate(count);
        all
    }
}
