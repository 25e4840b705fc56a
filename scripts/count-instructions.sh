#!/usr/bin/env bash
# Counts the instructions per packet of both offloads with valgrind's callgrind, and compares them
# with crates/linecard/benches/instructions.txt. A count is the same in every run of one program,
# whoever else uses the machine; what a packet costs in time is beside it in docs/results/offload.md.
#
#     scripts/count-instructions.sh            compare: fails when a row grew by more than 5 %
#     scripts/count-instructions.sh --accept   write the table anew
#
# Exit code: 0 nothing grew, 1 something did, 2 bad usage, 3 cannot be compared here (other
# compiler, no AVX2, no valgrind), and why.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

table=crates/linecard/benches/instructions.txt
limit=5

accept=no
case "$*" in
    "") ;;
    --accept) accept=yes ;;
    *)
        echo "usage: scripts/count-instructions.sh [--accept]" >&2
        exit 2
        ;;
esac

# cannot REASON: there is nothing to compare with here.
cannot() {
    echo "count-instructions: CANNOT COMPARE: $1" >&2
    exit 3
}

command -v valgrind >/dev/null || cannot "valgrind is missing: run .ci/setup"
# Checksums choose their instructions at run time; valgrind shows programs AVX2 and never AVX-512.
[ "$(uname -m)" = x86_64 ] || cannot "the table is for x86-64, this is $(uname -m)"
grep -qw avx2 /proc/cpuinfo || cannot "the table is for processors with AVX2"
compiler=$(rustc --version)
noted=$(sed -n 's/^# compiler: //p' "$table" 2>/dev/null)
[ "$accept" = yes ] || [ "$compiler" = "$noted" ] ||
    cannot "the table is of '$noted', this is '$compiler'; see --accept"

# What would make another program of the same source, or other pages under it.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS GLIBC_TUNABLES

program=$(cargo bench --package linecard --bench offload --locked --no-run --message-format=json |
    sed -n 's/.*"name":"offload".*"executable":"\([^"]*\)".*/\1/p')
[ -x "$program" ] || {
    echo "count-instructions: the benchmark could not be built" >&2
    exit 1
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# One run for all rows: callgrind writes a file when a workload ends, and begins at 0 again.
if ! valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
    --toggle-collect='offload::support::count::collected_*' \
    --dump-after='offload::support::count::counted' \
    "$program" --count >"$work/rows" 2>"$work/valgrind"; then
    tail -20 "$work/valgrind" >&2
    exit 1
fi

# NAME <tab> instructions per packet
part=0
while IFS=$'\t' read -r name packets; do
    part=$((part + 1))
    total=$(sed -n 's/^totals: *//p' "$work/out.$part")
    awk -v name="$name" -v total="${total:-0}" -v packets="$packets" \
        'BEGIN { printf "%s\t%.1f\n", name, total / packets }'
done <"$work/rows" >"$work/new"

if [ "$part" = 0 ] || grep -q $'\t0\.0$' "$work/new"; then
    cat "$work/new" >&2
    echo "count-instructions: nothing was counted: have the functions of count.rs new names?" >&2
    exit 1
fi

if [ "$accept" = yes ]; then
    {
        echo "# Instructions per packet or segment; by scripts/count-instructions.sh --accept"
        echo "# compiler: $compiler"
        cat "$work/new"
    } >"$table"
    cat "$table"
    exit 0
fi

grep -v '^#' "$table" >"$work/old"
awk -F'\t' -v limit="$limit" '
    NR == FNR { old[$1] = $2; next }
    !($1 in old) { printf "%-40s %9.1f  NEW ROW\n", $1, $2; bad++; next }
    {
        change = ($2 / old[$1] - 1) * 100
        note = change > limit ? "GREW" : change < -limit ? "shrank" : ""
        if (change > limit) bad++
        if (change < -limit) shrank++
        printf "%-40s %9.1f, was %9.1f: %+6.1f %%  %s\n", $1, $2, old[$1], change, note
        delete old[$1]
    }
    END {
        for (name in old) { printf "%-40s NO LONGER COUNTED\n", name; bad++ }
        if (shrank) printf "%d rows shrank by more than %d %%: keep it with scripts/count-instructions.sh --accept\n", shrank, limit
        if (bad) {
            printf "FAILED: %d rows grew by more than %d %% or do not match the table; if that is meant, run scripts/count-instructions.sh --accept and say why in the commit\n", bad, limit
            exit 1
        }
    }' "$work/old" "$work/new"
