//! A small seeded random number generator with equal results on every machine.

/// xoshiro256\*\* (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
/// seeded by `SplitMix64`. Good statistics, 1 ns per number. **Not for cryptographic keys**: those
/// have to come from the caller.
///
/// ```
/// let mut rng = linecard::rng::Rng::new(7);
/// assert_eq!(rng.next_u64(), linecard::rng::Rng::new(7).next_u64());
/// assert!(rng.below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        let state = core::array::from_fn(|_| {
            z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(z)
        });
        Self { state }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `0..bound`, 0 when `bound` is 0. The bias is below 2⁻³² for bounds below 2³².
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// True with probability `p` (clamped to 0 … 1).
    pub fn chance(&mut self, p: f64) -> bool {
        // An f64 has 53 bits of precision.
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < p
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the reference C program for a state from `SplitMix64(0)` of xoshiro256**.
    #[test]
    fn equals_the_reference_program() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0x99EC_5F36_CB75_F2B4);
        assert_eq!(rng.next_u64(), 0xBF6E_1F78_4956_452A);
    }

    #[test]
    fn chance_keeps_its_probability() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance(0.01)).count();
        assert!((800..1200).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
