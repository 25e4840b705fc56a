#!/usr/bin/env bash
# Tests the crates without I/O as programs for other processors, which QEMU emulates: with NEON, with 32-bit
# addresses, with the other byte order, and with neither of the vector instructions that the crates know.
#
#     scripts/test-processors.sh                                all of them
#     scripts/test-processors.sh s390x-unknown-linux-gnu        one of them, or several
#     scripts/test-processors.sh --list                         their names
#     scripts/test-processors.sh --whole [TARGET...]            all crates without I/O are tested, and all others checked
#
# An emulated processor takes some twenty times as long, so that tests of many cases try one in LINECARD_PART=37 of
# them, and transfers in virtual time the first of their seeds. LINECARD_PART=1 tries all of them.
#
# Exit code: 0 all passed, 1 a test failed, 2 bad usage, 3 something is missing, and what.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LINECARD_PART=${LINECARD_PART:-37}
export LINECARD_SEEDS=${LINECARD_SEEDS:-0..$((10000 / LINECARD_PART))}

# Each target of rustc, the prefix of its C compiler and libraries, and the program that emulates it.
all=(
    "s390x-unknown-linux-gnu s390x-linux-gnu qemu-s390x"
    "armv7-unknown-linux-gnueabihf arm-linux-gnueabihf qemu-arm"
    "aarch64-unknown-linux-gnu aarch64-linux-gnu qemu-aarch64"
    "riscv64gc-unknown-linux-gnu riscv64-linux-gnu qemu-riscv64"
)
# Commands of cargo for a target, a line each. Code that depends on the order of bytes or the width of addresses fails
# on the first two, error correction has vector instructions of the third, and floating-point numbers of the model have
# to be those of this machine. Code for Linux is only compiled: what programs embed with 32-bit addresses, and all of the
# command for AArch64. (The crates io-uring and vm-memory have no 32-bit ARM.)
commands() {
    # Nine tenths of the time of all tests, for the same arithmetic as the random transfers.
    local short="-- --skip sim::tests::scenarios --skip sim::tests::repair --skip sim::tests::rate"
    local twins="--test twin --test burst --test prediction --test reassembly_twin --test resequence_twin --test virtio"
    case "$1" in
        s390x*)
            echo "test --package linecard --package linecard-transfer --lib --tests $short"
            echo "test --package linecard-model --test golden"
            ;;
        armv7*)
            echo "test --package linecard --package linecard-transfer --lib $twins $short"
            echo "check --package linecard-tun"
            ;;
        aarch64*)
            echo "test --package linecard --package linecard-transfer --lib $twins $short"
            echo "check --package linecard-cli"
            ;;
        riscv64*) echo "test --package linecard --lib $twins" ;;
    esac
}

# The same with --whole. The Python module needs an interpreter for the target.
whole_commands() {
    local pure="--package linecard --package linecard-transfer --package linecard-plan --package linecard-model"
    pure+=" --package linecard-config --package linecard-report"
    # Its tests need linecard-io, whose crate vm-memory has no 32-bit processors.
    [[ $1 == armv7* ]] || pure+=" --package linecard-jitter"
    echo "test $pure --lib --tests -- --skip sim::tests::scenarios"
    case "$1" in
        armv7*) echo "check --package linecard-tun --package linecard-c" ;;
        *) echo "check --workspace --exclude linecard-py" ;;
    esac
}

list=commands
if [ "${1:-}" = --whole ]; then
    list=whole_commands
    shift
fi
if [ "$*" = --list ]; then
    echo "${all[@]%% *}"
    exit 0
fi
wanted=()
for line in "${all[@]}"; do
    if [ "$#" = 0 ] || [[ " $* " == *" ${line%% *} "* ]]; then
        wanted+=("$line")
    fi
done
if [ "$#" != 0 ] && [ "${#wanted[@]}" != "$#" ]; then
    echo "usage: scripts/test-processors.sh [--whole] [TARGET...], of these targets: ${all[*]%% *}" >&2
    exit 2
fi

missing=no
lacks() {
    echo "test-processors: MISSING: $1" >&2
    missing=yes
}
installed=$(rustup target list --installed 2>/dev/null)
for line in "${wanted[@]}"; do
    read -r target prefix emulator <<<"$line"
    command -v "$emulator" >/dev/null || lacks "$emulator: apt-get install qemu-user, or .ci/setup"
    command -v "$prefix-gcc" >/dev/null || lacks "$prefix-gcc: apt-get install gcc-$prefix, or .ci/setup"
    grep -qx "$target" <<<"$installed" || lacks "the library of Rust: rustup target add $target, or .ci/setup"
done
[ "$missing" = no ] || exit 3

# in_c TARGET PREFIX EMULATOR: the programs in C that the tests of linecard-c compile for this machine.
in_c() {
    local target=$1 prefix=$2 emulator=$3 source program=$work/program
    cargo build --quiet --locked --package linecard-c --target "$target" || return
    for source in examples/roundtrip.c tests/programs/burst.c; do
        "$prefix-gcc" -std=c99 -Wall -Wextra -Werror -O1 -I crates/linecard-c/include -I crates/linecard-c/examples \
            "crates/linecard-c/$source" "$built/$target/debug/liblinecard.a" -lpthread -ldl -lm -o "$program" &&
            "$emulator" -L "/usr/$prefix" "$program" >"$work/output" || {
            cat "$work/output"
            echo "test-processors: FAILED: crates/linecard-c/$source on $target" >&2
            return 1
        }
    done
}

# Code that is used on other processors only gives warnings here and nowhere else. Debug information is not needed.
export RUSTFLAGS="-D warnings" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
built=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

SECONDS=0
for line in "${wanted[@]}"; do
    read -r target prefix emulator <<<"$line"
    begun=$SECONDS passed=0
    variable=${target//-/_}
    export "CARGO_TARGET_${variable^^}_LINKER=$prefix-gcc" "CARGO_TARGET_${variable^^}_RUNNER=$emulator -L /usr/$prefix"
    while read -ra command; do
        echo "-- cargo ${command[0]} --target $target ${command[*]:1}"
        flags=$RUSTFLAGS
        # The crate io-uring has no list of constants of its own for it; those of other 64-bit processors are the same.
        [[ $target != s390x* || ${command[0]} != check ]] || flags+=" --cfg=io_uring_skip_arch_check"
        if ! RUSTFLAGS=$flags cargo "${command[0]}" --locked --target "$target" "${command[@]:1}" >"$work/output" 2>&1 \
            </dev/null; then
            cat "$work/output"
            echo "test-processors: FAILED on $target: cargo ${command[*]}" >&2
            exit 1
        fi
        # A test that is skipped by a name that it no longer has is not skipped.
        if [[ " ${command[*]} " == *" --skip "* ]] && ! grep -q '[1-9][0-9]* filtered out' "$work/output"; then
            echo "test-processors: FAILED on $target: no test is skipped by ${command[*]}" >&2
            exit 1
        fi
        passed=$((passed + $(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$work/output")))
    done < <("$list" "$target")
    in_c "$target" "$prefix" "$emulator" || exit 1
    echo "-- $target: $passed tests and two programs in C passed in $((SECONDS - begun)) s"
done
