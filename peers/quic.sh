#!/usr/bin/env bash
# Bulk data over loopback: `linecard send test:SIZE` beside quinn, in turns, and what each takes of the
# processor: peers/quic.sh [SIZE [ROUNDS]], by default 2G and 3. Needs jq.
#
# A line for each run, then the median Gbit per CPU second (both ends, user and system) of each kind.
# CORES=s,r are those of sender and receiver (default 0,1).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
size=${1:-2G}
rounds=${2:-3}
cores=${CORES:-0,1}
target=${CARGO_TARGET_DIR:-$here/target}
port=${PORT:-4789}
found=$(mktemp -d)
receiver=
# Whatever ends this, nobody listens on.
trap '[[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true; rm -rf "$found"' EXIT

cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" --bin quic
cargo build --quiet --release --locked --manifest-path "$here/../Cargo.toml" --package linecard-cli \
    --target-dir "${LINECARD_TARGET_DIR:-$here/../target}"
linecard=${LINECARD_TARGET_DIR:-$here/../target}/release/linecard

# NAME and the options of one run.
quinn() {
    local name=$1
    shift
    "$target/release/quic" --bytes "$size" --cores "$cores" --json "$@" |
        jq -r '"\(.gbit_per_cpu_second) \(.gbit_per_second) \(.cpu_seconds)"' | tee -a "$found/$name" |
        sed "s/^/$name: Gbit per CPU s, Gbit\/s, CPU s: /"
}

# The same from the statistics of both, whose processor time is `cpu_ns`.
ours() {
    local name=$1
    shift
    "$linecard" keys psk "$found/key" >"$found/said" 2>&1 || [[ -f $found/key ]]
    "$linecard" recv "$found/in" --listen "127.0.0.1:$port" --cores "${cores#*,},${cores#*,}" \
        --psk "$found/key" --json >"$found/got.json" 2>"$found/got.log" &
    receiver=$!
    sleep 0.5
    "$linecard" send --cores "${cores%,*},${cores%,*}" "test:$size" "127.0.0.1:$port" \
        --psk "$found/key" --json "$@" >"$found/sent.json" 2>"$found/sent.log" || {
        kill "$receiver" 2>/dev/null || true
        wait "$receiver" || true
        sed 's/^/linecard: /' "$found/sent.log" >&2
        return 1
    }
    wait "$receiver"
    receiver=
    jq -rs --arg bytes "$(numfmt --from=iec "$size")" '
        ([.. | objects | .cpu_ns? // empty] | add / 1e9) as $cpu
        | ([.[0] | .. | objects | .seconds? // empty] | first) as $seconds
        | ($bytes | tonumber * 8 / 1e9) as $gbit
        | "\($gbit / $cpu) \(if $seconds then $gbit / $seconds else "-" end) \($cpu)"' \
        "$found/sent.json" "$found/got.json" | tee -a "$found/$name" |
        sed "s/^/$name: Gbit per CPU s, Gbit\/s, CPU s: /"
}

for ((round = 0; round < rounds; round++)); do
    quinn quinn-default
    quinn quinn-8948 --mtu 8948
    ours linecard-1408 --payload 1408
    ours linecard-8896 --payload 8896
done
for name in "$found"/{quinn,linecard}-*; do
    [[ -f $name ]] || continue
    sort -g "$name" | awk -v name="${name##*/}" -v OFS=' ' \
        '{ row[NR] = $1 } END { print name ": median", row[int((NR + 1) / 2)], "Gbit per CPU s" }'
done
