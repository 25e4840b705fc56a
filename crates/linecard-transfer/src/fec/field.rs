//! Arithmetic in GF(2⁸), the field of bytes modulo `x⁸ + x⁴ + x³ + x² + 1`: its sum is the bytes'
//! exclusive or, and every product is found by logarithms to the base 2.
//!
//! All tables are made by the compiler.

/// The polynomial without its highest power; 2 generates the field's multiplicative group.
const POLYNOMIAL: u8 = 0x1D;

/// Elements but for 0: powers of 2 repeat after as many.
pub(super) const ORDER: usize = 255;

/// Powers of 2. Three periods, so that the sum of three logarithms needs no remainder.
pub(super) static POWERS: [u8; 3 * ORDER] = {
    let mut powers = [1; 3 * ORDER];
    let mut i = 1;
    while i < powers.len() {
        let last: u8 = powers[i - 1];
        powers[i] = (last << 1) ^ (POLYNOMIAL * (last >> 7));
        i += 1;
    }
    powers
};

/// Logarithms to the base 2. That of 0 does not exist; it is 0 here, so that in a sum of
/// logarithms, which is a product, a factor of 0 is one that is left out.
pub(super) static LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut i = 0;
    while i < ORDER {
        logarithms[POWERS[i] as usize] = i as u8;
        i += 1;
    }
    logarithms
};

/// The product.
pub(super) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// The quotient; `b` is not 0.
pub(super) const fn divide(a: u8, b: u8) -> u8 {
    debug_assert!(b != 0);
    if a == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + ORDER - LOGARITHMS[b as usize] as usize]
}

/// Products of one factor with each half of a byte, for instructions that look up 16 bytes at once.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Halves {
    /// With 0x00 … 0x0F.
    pub(super) low: [u8; 16],
    /// With 0x00, 0x10 … 0xF0.
    pub(super) high: [u8; 16],
}

/// For every factor: 8 KiB, of which a group uses as many lines as it has different factors.
pub(super) static HALVES: [Halves; 256] = {
    let mut all = [Halves { low: [0; 16], high: [0; 16] }; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut half = 0;
        while half < 16 {
            all[factor].low[half] = multiply(factor as u8, half as u8);
            all[factor].high[half] = multiply(factor as u8, (half << 4) as u8);
            half += 1;
        }
        factor += 1;
    }
    all
};

/// For every factor the matrix of bits that multiplies by it, as GFNI has it: byte `7 - i` holds
/// the bits of a multiplicand whose sum is bit `i` of the product. Any polynomial will do.
#[cfg(target_arch = "x86_64")]
pub(super) static MATRICES: [u64; 256] = {
    let mut all = [0; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut from = 0;
        while from < 8 {
            let column = multiply(factor as u8, 1 << from);
            let mut to = 0;
            while to < 8 {
                let bit = (column >> to & 1) as u64;
                all[factor] |= bit << (8 * (7 - to) + from);
                to += 1;
            }
            from += 1;
        }
        factor += 1;
    }
    all
};

/// The obvious product, one bit after the other: the slow twin.
#[cfg(test)]
pub(super) fn multiply_by_bits(mut a: u8, b: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        let carry = a & 0x80 != 0;
        a <<= 1;
        if carry {
            a ^= POLYNOMIAL;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_equals_that_by_bits() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply_by_bits(a, b), "{a} · {b}");
            }
        }
    }

    #[test]
    fn it_is_a_field() {
        for a in 0..=255_u8 {
            assert_eq!((multiply(a, 1), multiply(a, 0)), (a, 0));
            for b in 0..=255_u8 {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert!(b == 0 || multiply(divide(a, b), b) == a, "{a} / {b}");
                assert!(a == 0 || b == 0 || multiply(a, b) != 0);
                // Any third element, as all of them take too long for a test of each run.
                let c = a.wrapping_mul(31).wrapping_add(b);
                assert_eq!(multiply(a, b ^ c), multiply(a, b) ^ multiply(a, c));
                assert_eq!(multiply(a, multiply(b, c)), multiply(multiply(a, b), c));
            }
        }
    }

    #[test]
    fn the_powers_of_two_are_all_elements_but_zero() {
        let mut seen = [false; 256];
        for power in &POWERS[..ORDER] {
            assert!(!core::mem::replace(&mut seen[usize::from(*power)], true));
        }
        assert!(!seen[0]);
        assert_eq!(POWERS[ORDER], 1);
    }

    #[test]
    fn halves_and_matrices_multiply() {
        for factor in 0..=255_u8 {
            let halves = HALVES[usize::from(factor)];
            for a in 0..=255_u8 {
                let by_halves = halves.low[usize::from(a & 15)] ^ halves.high[usize::from(a >> 4)];
                assert_eq!(by_halves, multiply(factor, a));
                #[cfg(target_arch = "x86_64")]
                {
                    let matrix = MATRICES[usize::from(factor)].to_be_bytes();
                    let bit = |i: usize| ((matrix[i] & a).count_ones() as u8 & 1) << i;
                    assert_eq!((0..8).map(bit).sum::<u8>(), multiply(factor, a));
                }
            }
        }
    }
}
