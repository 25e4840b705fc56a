#!/usr/bin/env bash
# Counts the instructions per packet of both offloads on processors that QEMU emulates: the functions of
# scripts/count-instructions.sh, with AVX2, with SSE2 only, and with NEON. What an instruction takes differs between
# processors: a row that is out of proportion shows what one of them lacks, and its time has to be measured.
#
#     scripts/count-emulated.sh
#
# Exit code: 0, 1 something could not be built or counted, 2 bad usage, 3 something is missing, and what.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ "$#" = 0 ] || {
    echo "usage: scripts/count-emulated.sh" >&2
    exit 2
}

# cannot REASON: something is missing.
cannot() {
    echo "count-emulated: CANNOT COUNT: $1" >&2
    exit 3
}

# Each column's name, the processor of its program, and what emulates it.
columns=(
    "AVX2 x86_64 qemu-x86_64 -cpu max"
    "SSE2 x86_64 qemu-x86_64 -cpu Nehalem"
    "NEON aarch64 qemu-aarch64 -L /usr/aarch64-linux-gnu"
)
[ "$(uname -m)" = x86_64 ] || cannot "the first columns are of x86-64, this is $(uname -m)"
for program in cc qemu-x86_64 qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v "$program" >/dev/null || cannot "$program is missing: run .ci/setup"
done
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cc -O2 -Wall -shared -fPIC scripts/count-plugin.c -o "$work/count.so" || exit 1

for column in "${columns[@]}"; do
    read -r name processor emulator <<<"$column"
    options=(--package linecard --bench offload --locked --no-run --message-format=json)
    [ "$processor" = x86_64 ] || options+=(--target "$processor-unknown-linux-gnu")
    program=$(cargo bench "${options[@]}" | sed -n 's/.*"name":"offload".*"executable":"\([^"]*\)".*/\1/p')
    [ -x "$program" ] || exit 1
    # Its words are options, too.
    $emulator -plugin "$work/count.so" "$program" --count >"$work/rows" 2>"$work/counted" || {
        cat "$work/counted" >&2
        exit 1
    }
    sed -n 's/^counted\t//p' "$work/counted" | paste "$work/rows" - |
        awk -F'\t' -v name="$name" 'BEGIN { print name } { printf "%.1f\n", $3 / $2 }' >"$work/$name"
done
{ echo "instructions per packet" && cut -f1 "$work/rows"; } | paste - "$work"/{AVX2,SSE2,NEON}
