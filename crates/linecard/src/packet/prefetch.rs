//! Placeholder until the kernels land.

/// Fetches the lines of a value.
#[inline]
pub(crate) fn value<T>(_value: &T) {}

/// Fetches the first lines of a slice.
#[inline]
pub(crate) fn start(_bytes: &[u8]) {}
