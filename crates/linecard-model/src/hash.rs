//! A small hash of results, equal on every machine (FNV-1a).

/// The initial value.
pub(super) const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues with `bytes`, in words of eight.
pub(super) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    let (words, rest) = bytes.as_chunks();
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}
