#!/usr/bin/env bash
# Tries whether each fuzz target finds the fault in fuzz/faults/TARGET.patch: a target that finds none tests nothing.
#
#     scripts/try-fuzz-faults.sh [--seconds N] [TARGET...]    all targets, or these; 60 seconds each at most
#     scripts/try-fuzz-faults.sh --check                      only that every target has a patch that applies
#
# Targets joined by + are built once, with the faults of all of them, which saves most of the time: for targets that do
# not run the code of each other's faults.
#
# Each patch is applied to a temporary work tree with what is committed and what is changed in files that git knows, the
# target is built, and runs from its seeds alone until it crashes. Prints a table: the target, the first line of the
# patch, which names the fault, and the seconds of the run until the crash. Builds stay in target/fuzz-faults, for the
# next time.
#
# Exit code: 0 all found, 1 a fault was not found or a patch does not apply, 2 bad usage, 3 a tool is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

check=no seconds=60
case "${1:-}" in
    --check) check=yes && shift ;;
    --seconds) seconds=${2:-} && shift 2 ;;
esac
[[ $seconds =~ ^[1-9][0-9]*$ && "${1:-}" != -* ]] || {
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# All targets, by their files.
mapfile -t all < <(for file in fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done)
[ $# != 0 ] || set -- "${all[@]}"
groups=("$@")
IFS=+ read -ra targets < <(IFS=+ && echo "$*")

# longest TARGET: its longest input in bytes.
longest() { awk -v target="$1" '$1 == target { print $2 }' fuzz/max_len.txt; }

# Whether all is there that a target needs; what is not, is named.
complete=yes
missing() { echo "try-fuzz-faults: $1" >&2 && complete=no; }
for target in "${targets[@]}"; do
    patch=fuzz/faults/$target.patch
    [ -f "fuzz/fuzz_targets/$target.rs" ] || { missing "there is no target $target" && continue; }
    [ -n "$(longest "$target")" ] || missing "$target has no line in fuzz/max_len.txt"
    compgen -G "fuzz/seeds/$target/*" >/dev/null || missing "$target has no seeds in fuzz/seeds/$target"
    if [ ! -f "$patch" ]; then
        missing "$patch does not exist: write a fault that $target has to find (see CONTRIBUTING.md)"
    elif ! git apply --check "$patch"; then
        missing "$patch does not apply any more: write it for the code of today"
    fi
done
for patch in fuzz/faults/*.patch; do
    [ -f "fuzz/fuzz_targets/$(basename "$patch" .patch).rs" ] || missing "$patch is of no target"
done
[ "$complete" = yes ] || exit 1
[ "$check" = no ] || exit 0

cargo fuzz --version >/dev/null 2>&1 && cargo +nightly --version >/dev/null 2>&1 || {
    echo "try-fuzz-faults: cargo-fuzz or a nightly toolchain is missing: run .ci/setup" >&2
    exit 3
}
host=$(rustc -vV | sed -n 's/^host: //p')
work=$PWD/target/fuzz-faults
tree=$work/tree

remove() {
    git worktree remove --force "$tree" 2>/dev/null
    rm -rf "$tree" "$work/corpus" "$work/crash-"*
    git worktree prune
}
trap 'exit 1' INT TERM HUP
trap remove EXIT

mkdir -p "$work"
remove
# A commit of what is changed, which nothing refers to; none if nothing is.
state=$(git stash create)
git worktree add --quiet --detach "$tree" "${state:-HEAD}" || exit 1
# Targets are built one after the other with few changes: what has not changed is known by its content, and compiled
# code is kept by function and optimised less.
sed -i 's/opt-level = 3/opt-level = 1/' "$tree/fuzz/Cargo.toml"
export CARGO_UNSTABLE_CHECKSUM_FRESHNESS=true CARGO_INCREMENTAL=1

# build TARGET...: with the faults of all of them.
build() {
    local target
    for target in "$@"; do
        git -C "$tree" apply "$PWD/fuzz/faults/$target.patch" || return
    done
    for target in "$@"; do
        (cd "$tree/fuzz" && cargo +nightly fuzz build "$target" --target-dir "$work/build") || return
    done
}

# run TARGET: seconds until it crashes; fails if it does not. The output is in a file.
run() {
    local target=$1 program=$work/build/$host/release/$1 begun
    rm -rf "$work/corpus" "$work/crash-"*
    mkdir -p "$work/corpus"
    begun=${EPOCHREALTIME/[.,]/}
    ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64 \
        "$program" "$work/corpus" "$tree/fuzz/seeds/$target" -seed="${LINECARD_FUZZ_SEED:-1}" -artifact_prefix="$work/" \
        -max_total_time="$seconds" -max_len="$(longest "$target")" -entropic=0 >"$work/$target.log" 2>&1
    awk -v us=$((${EPOCHREALTIME/[.,]/} - begun)) 'BEGIN { printf "%.1f", us / 1e6 }'
    compgen -G "$work/crash-*" >/dev/null
}

code=0
printf '| target | fault | found after s |\n|---|---|---|\n'
for group in "${groups[@]}"; do
    IFS=+ read -ra members <<<"$group"
    if ! build "${members[@]}" >"$work/build.log" 2>&1; then
        echo "try-fuzz-faults: $group cannot be built; see $work/build.log" >&2
        exit 1
    fi
    for target in "${members[@]}"; do
        fault=$(head -n 1 "fuzz/faults/$target.patch")
        if ! found=$(run "$target"); then
            echo "try-fuzz-faults: $target did not find its fault; its output is in $work/$target.log" >&2
            found="not found" code=1
        fi
        printf '| `%s` | %s | %s |\n' "$target" "${fault%.}" "$found"
    done
    git -C "$tree" checkout --quiet -- crates
done
exit "$code"
