//! Frames built field by field, random traffic, and slow twins of the offloads: written from the specification, without
//! code of the crate that they test.
#![expect(
    missing_docs,
    reason = "fields have the names of the headers' fields, functions those of the offloads"
)]
#![expect(missing_debug_implementations, reason = "only tests have values of these types")]

pub mod burst;
pub mod coalescer;
pub mod connection;
pub mod fragments;
pub mod frame;
pub mod headers;
pub mod ip;
pub mod overlay;
pub mod plain;
pub mod reassembler;
pub mod resequencer;
pub mod runner;
pub mod sequencing;
pub mod splitter;
pub mod traffic;
pub mod tunnel;
pub mod vxlan;

use linecard::rng::Rng;

/// Random packets in a run that is not told otherwise, about.
const DEFAULT_PACKETS: u64 = 3_000_000;

/// The seeds of a run: those kept from former failures and `count` more. `LINECARD_SEED` replays
/// one alone; `LINECARD_LONG=1` multiplies the number by 20, and `LINECARD_LONG=10M` makes it as
/// many as it takes for ten million random packets. `LINECARD_PART` divides it. `LINECARD_START=n` leaves out the first
/// n of them, so that a long run can be done in parts.
pub fn seeds(kept: &[u64], start: u64, count: u64) -> Vec<u64> {
    if let Some(seed) = std::env::var("LINECARD_SEED").ok().and_then(|text| text.parse().ok()) {
        return vec![seed];
    }
    let count = match std::env::var("LINECARD_LONG").as_deref().map(millions) {
        Err(_) => count,
        Ok(None) => count * 20,
        Ok(Some(millions)) => (count * millions * 1_000_000).div_ceil(DEFAULT_PACKETS),
    };
    let skipped =
        std::env::var("LINECARD_START").map(|text| text.parse::<u64>().expect("a number of seeds"));
    let start = start + skipped.unwrap_or(0);
    kept.iter().copied().chain(start..start + count.div_ceil(crate::part() as u64)).collect()
}

/// Whether no variable made the run shorter: only then does the number of cases of a kind say something about the
/// random traffic.
pub fn is_whole() -> bool {
    std::env::var_os("LINECARD_SEED").is_none() && crate::part() == 1
}

/// The number of "10M".
fn millions(text: &str) -> Option<u64> {
    text.strip_suffix('M').map(|number| number.parse().expect("LINECARD_LONG=1 or, say, 10M"))
}

/// Runs `check` once for every seed, and names the seed when it panics.
pub fn for_seeds(kept: &[u64], start: u64, count: u64, mut check: impl FnMut(u64)) {
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
pub fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// One of `choices`.
pub fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}
