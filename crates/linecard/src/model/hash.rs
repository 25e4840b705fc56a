//! A hash of what came out: small, and equal on every machine (FNV-1a).

/// Where a hash begins.
pub(super) const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Goes on with `bytes`.
pub(super) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
