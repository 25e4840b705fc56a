//! Common code of all vector instructions: which bytes are loaded, multiplied and added, in which
//! order.
//!
//! Columns of a few cache lines are computed at a time, for four rows, whose sums stay in registers
//! while every packet's bytes are read once. It is bound by multiplication: `k · m` products for
//! each byte of a row.

use super::{Product, ROWS_AT_ONCE};

/// Instructions on vectors of `LEN` bytes. A value is evidence that the CPU has them.
///
/// Methods are inlined into a function that is compiled for the instructions; elsewhere each would
/// be a call.
pub(super) trait Vectors<const LEN: usize>: Copy {
    type Vector: Copy;
    /// A factor, ready to multiply by.
    type Factor: Copy;

    fn zero(self) -> Self::Vector;
    fn load(self, bytes: &[u8; LEN]) -> Self::Vector;
    fn store(self, vector: Self::Vector, bytes: &mut [u8; LEN]);
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn factor(self, factor: u8) -> Self::Factor;
    fn multiply(self, vector: Self::Vector, factor: Self::Factor) -> Self::Vector;
}

/// All rows, `COUNT` vectors wide at a time, then two and one.
#[inline(always)]
pub(super) fn by_vectors<V: Vectors<LEN>, const LEN: usize, const COUNT: usize>(
    vectors: V,
    product: &Product<'_>,
    rows: &mut [&mut [u8]],
) {
    let len = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let two_from = len - len % (LEN * COUNT);
    let one_from = len - len % (LEN * 2);
    for at in (0..two_from).step_by(LEN * COUNT) {
        columns::<V, LEN, COUNT>(vectors, product, rows, at);
    }
    for at in (two_from..one_from).step_by(LEN * 2) {
        columns::<V, LEN, 2>(vectors, product, rows, at);
    }
    for at in (one_from..len).step_by(LEN) {
        columns::<V, LEN, 1>(vectors, product, rows, at);
    }
}

/// `COUNT` vectors of every row. The sources' parts stay in the first-level cache from the first
/// four rows to the last.
#[inline(always)]
fn columns<V: Vectors<LEN>, const LEN: usize, const COUNT: usize>(
    vectors: V,
    product: &Product<'_>,
    rows: &mut [&mut [u8]],
    at: usize,
) {
    for (four, rows) in rows.chunks_mut(ROWS_AT_ONCE).enumerate() {
        let place = Position { row: four * ROWS_AT_ONCE, at };
        match rows.len() {
            1 => block::<V, LEN, COUNT, 1>(vectors, product, rows, place),
            2 => block::<V, LEN, COUNT, 2>(vectors, product, rows, place),
            3 => block::<V, LEN, COUNT, 3>(vectors, product, rows, place),
            _ => block::<V, LEN, COUNT, ROWS_AT_ONCE>(vectors, product, rows, place),
        }
    }
}

/// Where a block begins.
#[derive(Clone, Copy)]
struct Position {
    row: usize,
    at: usize,
}

/// `COUNT` vectors of `ROWS` rows. Loops, not iterators: these are unrolled before registers
/// are assigned.
#[inline(always)]
fn block<V: Vectors<LEN>, const LEN: usize, const COUNT: usize, const ROWS: usize>(
    vectors: V,
    product: &Product<'_>,
    rows: &mut [&mut [u8]],
    place: Position,
) {
    let mut sums = [[vectors.zero(); COUNT]; ROWS];
    if product.adds {
        for row in 0..ROWS {
            sums[row] = load(vectors, rows[row], place.at);
        }
    }
    for (source, factors) in product.terms() {
        let bytes = load::<V, LEN, COUNT>(vectors, source, place.at);
        let factors = &factors[place.row..][..ROWS];
        for row in 0..ROWS {
            let factor = vectors.factor(factors[row]);
            for i in 0..COUNT {
                let multiple = vectors.multiply(bytes[i], factor);
                sums[row][i] = vectors.add(sums[row][i], multiple);
            }
        }
    }
    for row in 0..ROWS {
        store(vectors, sums[row], rows[row], place.at);
    }
}

#[inline(always)]
fn load<V: Vectors<LEN>, const LEN: usize, const COUNT: usize>(
    vectors: V,
    bytes: &[u8],
    at: usize,
) -> [V::Vector; COUNT] {
    let rest = bytes.get(at..).unwrap_or_default();
    let padded;
    let whole = match rest.as_chunks().0.first_chunk::<COUNT>() {
        Some(whole) => whole,
        None => {
            padded = pad(rest);
            &padded
        }
    };
    let mut loaded = [vectors.zero(); COUNT];
    for i in 0..COUNT {
        loaded[i] = vectors.load(&whole[i]);
    }
    loaded
}

#[inline(always)]
fn store<V: Vectors<LEN>, const LEN: usize, const COUNT: usize>(
    vectors: V,
    sums: [V::Vector; COUNT],
    bytes: &mut [u8],
    at: usize,
) {
    let rest = bytes.get_mut(at..).unwrap_or_default();
    if let Some(whole) = rest.as_chunks_mut().0.first_chunk_mut::<COUNT>() {
        for i in 0..COUNT {
            vectors.store(sums[i], &mut whole[i]);
        }
        return;
    }
    let mut padded = [[0; LEN]; COUNT];
    for i in 0..COUNT {
        vectors.store(sums[i], &mut padded[i]);
    }
    cut(&padded, rest);
}

/// The end of a source, which is shorter than the vectors, with zeros behind it.
#[cold]
#[inline(never)]
fn pad<const LEN: usize, const COUNT: usize>(rest: &[u8]) -> [[u8; LEN]; COUNT] {
    let mut padded = [[0; LEN]; COUNT];
    padded.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
    padded
}

/// The end of a row, which is shorter than the vectors.
#[cold]
#[inline(never)]
fn cut<const LEN: usize, const COUNT: usize>(padded: &[[u8; LEN]; COUNT], rest: &mut [u8]) {
    rest.copy_from_slice(&padded.as_flattened()[..rest.len()]);
}
