#!/usr/bin/env bash
# Runs the tests of unsafe code under Miri, which finds undefined behaviour: accesses outside of memory, of values that
# were never written, through pointers that must not be used any more, and data races.
#
#     scripts/miri.sh
#
# Under it run: the rings, frames and memory of AF_XDP and AF_PACKET ports, on memory of their own; the C interface; the
# kernels of error correction with SSSE3, AVX2 and GFNI. Not under it: system calls, which Miri does not know; x86's CRC
# and checksum kernels are compared with plain ones by other tests. Exit code 3: Miri is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: missing: rustup component add --toolchain nightly miri rust-src" >&2
    exit 3
fi

# miri FLAGS ARGUMENTS...: the tests that ARGUMENTS name, with flags of Miri.
miri() {
    local flags=$1
    shift
    MIRIFLAGS="-Zmiri-disable-isolation $flags" cargo +nightly miri test --locked "$@"
}

miri "" -p linecard-io --lib -- port::xdp sys::ring sys::frames || exit 1
# What a panic carries is not dropped, as that could panic again.
miri -Zmiri-ignore-leaks -p linecard-c --lib || exit 1
RUSTFLAGS="-C target-feature=+ssse3,+avx2,+gfni" miri "" -p linecard-transfer --lib -- fec::kernel || exit 1
