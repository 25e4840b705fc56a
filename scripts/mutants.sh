#!/usr/bin/env bash
# Tries whether tests notice small changes of the code (mutants), where a fault loses data.
#
#     scripts/mutants.sh [AREA...]    all areas of the table below, or these
#     scripts/mutants.sh --list       how many mutants each area has
#     scripts/mutants.sh --since COMMIT [AREA...]    only those in lines that have changed since
#
# cargo-mutants changes one place after the other, in a work tree of its own with what is committed and what is changed
# in files that git knows, and runs tests of the area after each. Prints a table. A mutant that no test notices is
# missed: write the test, remove code that is not needed, or, where the changed code does the same, explain it with a
# line in scripts/mutants-explained.txt. Builds and logs stay in target/mutants, for the next time.
#
# One mutant at a time; cargo's own CARGO_BUILD_JOBS bounds what each compiles at once (2 if it is not set).
#
# Exit code: 0 all that were missed are explained, 1 others were missed or an area could not be tried, 2 bad usage,
# 3 cargo-mutants is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Area; package; files, as globs below crates; features, profile and test programs; filters of their tests. The crate
# linecard is compiled without optimising, which takes longer than its tests then do.
areas='
seal ; linecard-transfer-net ; linecard-transfer-net/src/seal/*.rs ; --lib --test=security ; seal:: lanes::
file ; linecard-transfer-net ; linecard-transfer-net/src/file/{chunk,digest,flusher,have,holes,journal,partial,sink,stamp}.rs ; --lib --test=files ; file:: names:: resume:: sinks::
coalesce ; linecard ; linecard/src/offload/coalesce/**/*.rs ; --config=profile.dev.opt-level=0 --features=std --lib --test=allocation --test=bounds --test=burst --test=faults --test=faults_in_tunnels --test=prediction --test=refusals --test=twin ; --skip layouts_ --skip segments_ --skip fragments_
virtio ; linecard ; linecard/src/offload/virtio/*.rs ; --config=profile.dev.opt-level=0 --features=std --test=segment --test=virtio ;
segment ; linecard ; linecard/src/offload/segment/*.rs ; --config=profile.dev.opt-level=0 --features=std --test=gather --test=lengths --test=segment --test=twin ; --skip layouts_ --skip merges_as_the_naive --skip merges_in_tunnels
reassemble ; linecard ; linecard/src/offload/reassemble/*.rs ; --config=profile.dev.opt-level=0 --features=std --lib --test=reassembly --test=reassembly_tunnels --test=reassembly_twin ;
fec ; linecard-transfer ; linecard-transfer/src/fec/{*,*/mod,kernel/vectors,kernel/x86}.rs ; --features=std --lib ; fec::
receive ; linecard-transfer ; linecard-transfer/src/receive/*.rs ; --features=std --lib ; receive:: every_byte_arrives
send ; linecard-transfer ; linecard-transfer/src/send/*.rs ; --features=std --lib ; send:: every_byte_arrives nothing_is_repaired
'
# Tests of many cases try one in this many.
export LINECARD_PART=${LINECARD_PART:-37}
# The same for transfers in virtual time, besides the seeds that are kept.
export LINECARD_SEEDS=${LINECARD_SEEDS:-0..100}
# A build, and a run of the tests, of which none takes a quarter of this.
build_seconds=300 test_seconds=60

explained=scripts/mutants-explained.txt
work=$PWD/target/mutants
tree=$work/tree

# line AREA: its line in the table, in columns of `;`.
line() { awk -F ' *; *' -v area="$1" '$1 == area' <<<"$areas"; }

list=no since=
[ "${1:-}" != --list ] || { list=yes && shift; }
[ "${1:-}" != --since ] || { since=$(git rev-parse --verify --quiet "${2:-}^{commit}") && shift 2; } || {
    echo "mutants: no such commit: ${2:-}" >&2
    exit 2
}
mapfile -t all < <(awk -F ' *; *' 'NF { print $1 }' <<<"$areas")
[ $# != 0 ] || set -- "${all[@]}"
for area in "$@"; do
    [ -n "$(line "$area")" ] || {
        sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        echo "areas: ${all[*]}" >&2
        exit 2
    }
done
cargo mutants --version >/dev/null 2>&1 || {
    echo "mutants: missing: cargo install cargo-mutants --locked" >&2
    exit 3
}

mkdir -p "$work" || exit 1
exec 9>"$work/lock"
flock --nonblock 9 || { echo "mutants: another run uses $work" >&2 && exit 1; }
# The tree stays, so that files that are the same are not compiled again.
state=$(git stash create)
git worktree prune
if [ -e "$tree/.git" ]; then
    git -C "$tree" checkout --quiet --force --detach "${state:-HEAD}" && git -C "$tree" clean -dfq
else
    git worktree add --quiet --detach "$tree" "${state:-HEAD}"
fi || exit 1

changed=()
if [ -n "$since" ]; then
    git -C "$tree" diff "$since" HEAD -- crates >"$work/changed.diff"
    changed=(--in-diff "$work/changed.diff")
fi

export CARGO_TARGET_DIR=$work/build CARGO_INCREMENTAL=1 CARGO_BUILD_JOBS=${CARGO_BUILD_JOBS:-2}
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

# mutants AREA ARGUMENTS...: cargo-mutants on the files of an area.
mutants() {
    local package files
    IFS=';' read -r _ package files _ <<<"$(line "$1" | sed 's/ *; */;/g')"
    shift
    (cd "$tree" && cargo mutants --package "$package" --file "crates/$files" "${changed[@]}" "$@" </dev/null)
}

# try AREA: all mutants of it. Fails if the tests do not pass without any.
try() {
    local programs filters code
    IFS=';' read -r _ _ _ programs filters <<<"$(line "$1" | sed 's/ *; */;/g')"
    local -a options=(--in-place --no-shuffle --output "$work/$1" --build-timeout "$build_seconds"
        --timeout "$test_seconds" --no-default-features --cargo-arg=--locked)
    # Also for building: nothing else is linked.
    for program in $programs; do options+=("--cargo-arg=$program"); done
    # shellcheck disable=SC2086 # Words.
    mutants "$1" "${options[@]}" -- -- $filters >"$work/$1.log" 2>&1
    code=$?
    # All were caught, some were missed, some took too long.
    [[ $code =~ ^[023]$ ]]
}

# names FILE: the mutants in it without their lines, which other changes move.
names() { sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' "$1" | sort; }

code=0
[ "$list" = yes ] || printf '| %s |\n|%s\n' \
    'area | mutants | caught | missed | of these explained | timed out | unviable | minutes' '---|---|---|---|---|---|---|---|'
for area in "$@"; do
    if [ "$list" = yes ]; then
        printf '%s %s\n' "$area" "$(mutants "$area" --list | wc -l)"
        continue
    fi
    SECONDS=0
    # Without a mutant, cargo-mutants writes none of these.
    found=$work/$area/mutants.out
    rm -rf "$found" && mkdir -p "$found" && touch "$found"/{caught,missed,timeout,unviable}.txt
    if ! try "$area"; then
        echo "mutants: $area could not be tried; see $work/$area.log" >&2
        code=1
        continue
    fi
    counts=()
    for outcome in caught missed timeout unviable; do counts+=("$(wc -l <"$found/$outcome.txt")"); done
    # As many of a name as there are lines of it.
    names "$found/missed.txt" >"$work/missed"
    sed -E '/^(#|$)/d; s/ # .*//' "$explained" | sort >"$work/explained"
    comm -23 "$work/missed" "$work/explained" >"$work/unexplained"
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$area" $((counts[0] + counts[1] + counts[2] + counts[3])) \
        "${counts[0]}" "${counts[1]}" $((counts[1] - $(wc -l <"$work/unexplained"))) "${counts[2]}" "${counts[3]}" \
        $(((SECONDS + 59) / 60))
    [ -s "$work/unexplained" ] || continue
    code=1
    echo "mutants: missed in $area, and not in $explained (places: $found/missed.txt):" >&2
    sed 's/^/    /' "$work/unexplained" >&2
done
exit "$code"
