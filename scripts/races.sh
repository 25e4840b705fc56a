#!/usr/bin/env bash
# Checks the code by which threads of the engine meet.
#
#     scripts/races.sh
#
# - loom runs the flag of a sleeping thread (crates/linecard-io/src/engine/park.rs) in every order in which the steps of
#   up to three threads can take effect, with up to three preemptions. The rings of the crate rtrb have no model here, as
#   loom sees only atomics of its own types, which rtrb does not use.
# - ThreadSanitizer watches the tests of the engine, its rings and its buffers, and of the statistics that its threads
#   publish, the standard library included. It does not know what fences alone order; nothing in the engine relies on that
#   but the flag above.
#
# Exit code: 0 nothing found, 1 something was, 3 a nightly toolchain with rust-src is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

sysroot=$(rustc +nightly --print sysroot 2>/dev/null)
if [ ! -d "$sysroot/lib/rustlib/src/rust/library" ]; then
    echo "races: missing: rustup component add --toolchain nightly rust-src" >&2
    exit 3
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# tested ARGUMENTS...: `cargo test` with these, of which at least one test must run.
tested() {
    cargo "$@" 2>&1 | tee "$said" || return
    grep -q 'test result: ok\. [1-9]' "$said" || { echo "races: no test ran: $*" >&2 && return 1; }
}

RUSTFLAGS="--cfg linecard_loom" tested test --locked --target-dir target/races/loom -p linecard-io --lib \
    --config profile.dev.debug=false --config 'profile.dev.opt-level=2' -- loom_tests || exit 1
# Neither is optimised: building takes longer than testing.
export RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=1"
threads=(+nightly test --locked --target-dir target/races/threads --target "$host" -Zbuild-std -p linecard-io
    --config profile.dev.debug=false --config profile.dev.opt-level=0)
tested "${threads[@]}" --lib -- engine attach::stats || exit 1
tested "${threads[@]}" --test engine || exit 1
