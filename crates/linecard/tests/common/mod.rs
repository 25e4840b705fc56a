//! What the proofs share: frames built field by field, random traffic, and the slow twins, all
//! written from the specification and sharing no code with the crate.

pub(crate) mod coalescer;
pub(crate) mod connection;
pub(crate) mod fragments;
pub(crate) mod frame;
pub(crate) mod plain;
pub(crate) mod reassembler;
pub(crate) mod resequencer;
pub(crate) mod runner;
pub(crate) mod splitter;
pub(crate) mod traffic;

use linecard::rng::Rng;

/// The seeds of a run: those kept from former failures and `count` more; `LINECARD_SEED` replays
/// one alone, `LINECARD_LONG` multiplies the number by 20.
pub(crate) fn seeds(kept: &[u64], start: u64, count: u64) -> Vec<u64> {
    if let Some(seed) = std::env::var("LINECARD_SEED").ok().and_then(|text| text.parse().ok()) {
        return vec![seed];
    }
    let factor = if std::env::var_os("LINECARD_LONG").is_some() { 20 } else { 1 };
    kept.iter().copied().chain(start..start + count * factor).collect()
}

/// Runs `check` once for every seed, and names the seed when it panics.
pub(crate) fn for_seeds(kept: &[u64], start: u64, count: u64, mut check: impl FnMut(u64)) {
    for seed in seeds(kept, start, count) {
        let named = NameSeed(seed);
        check(seed);
        core::mem::forget(named);
    }
}

/// Prints the seed when dropped by a panic.
struct NameSeed(u64);

impl Drop for NameSeed {
    fn drop(&mut self) {
        eprintln!("seed {}: replay with LINECARD_SEED={}", self.0, self.0);
    }
}

/// A number in `low..=high`.
pub(crate) fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// One of `choices`.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}
