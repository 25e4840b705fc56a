#!/usr/bin/env bash
# Runs the tests of unsafe code under Miri, which finds undefined behaviour: accesses outside of memory, of values that
# were never written, through pointers that must not be used any more, and data races.
#
#     scripts/miri.sh
#
# Under it run: the rings and the memory of AF_XDP ports, on memory of their own; the C interface; the kernels of
# checksums with AVX2 and AVX-512, of fewer lengths and places than otherwise; those of error correction with AVX2 and
# GFNI. Not under it: system calls and the kernel's rings of AF_PACKET, which Miri does not know; prefetch instructions,
# which read nothing; the other kernels are compared with plain ones by other tests. Exit code 3: Miri is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: missing: rustup component add --toolchain nightly miri rust-src" >&2
    exit 3
fi

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# miri FLAGS ARGUMENTS...: the tests that ARGUMENTS name, at least one, with flags of Miri.
miri() {
    local flags=$1
    shift
    MIRIFLAGS="-Zmiri-disable-isolation $flags" cargo +nightly miri test --locked "$@" | tee "$said" || return
    grep -q 'test result: ok\. [1-9]' "$said" || { echo "miri: no test ran: $*" >&2 && return 1; }
}

miri "" -p linecard-io --lib -- port::xdp || exit 1
# A panic's payload is not dropped, as that could panic again.
miri -Zmiri-ignore-leaks -p linecard-c --lib || exit 1
RUSTFLAGS="-C target-feature=+avx2,+avx512f,+avx512bw,+avx512vbmi2" miri "" -p linecard --lib -- packet::checksum || exit 1
RUSTFLAGS="-C target-feature=+avx2,+gfni" miri "" -p linecard-transfer --lib -- fec::kernel || exit 1
