#!/usr/bin/env bash
# Bulk data over several paths: `linecard send` beside TCP and Multipath TCP of the kernel (iperf3), in turns, over the
# same paths: peers/transfer.sh [ROUNDS [CASE...]], by default 3 and all. Needs root, iperf3, jq, a C compiler.
#
# The paths are those of paths.sh. Each case sends for about 5 s. A line for each run, then medians:
# Mbit/s of data, and processor seconds of both ends per GB (those of TCP without the kernel's interrupts); and what the
# simulation says of `send` over such paths.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=${1:-3}
shift || true
. "$here/paths.sh"

# The bytes of a case, or a tenth where there are losses.
few() { [[ $loss == 0 ]] && echo "$bytes" || echo "$((bytes / 10))"; }

# ours NAME BYTES KIND: all paths as lanes, over udp or tcp.
ours() {
    local name=$1 bytes=$2 kind=$3 lanes=() number
    for ((number = 0; number < count; number++)); do lanes+=(--lane "$kind:10.91.$number.1"); done
    ip netns exec "$two" timeout 100 "$linecard" recv "$work/in" --psk "$work/key" --json >"$work/got" 2>/dev/null &
    local receiver=$!
    sleep 0.5
    ip netns exec "$one" timeout 90 "$linecard" send "test:$bytes" 10.91.0.2 --psk "$work/key" --json "${lanes[@]}" \
        >"$work/sent" 2>/dev/null || true
    wait "$receiver" || true
    cat "$work/sent" "$work/got" | jq -rs --arg bytes "$bytes" '
        [.[] | .. | objects | .cpu_ns? // empty] as $cpu
        | ([.[0] | .. | objects | .goodput_bits_per_second? // empty] | first // 0) as $rate
        | "\($rate / 1e6) \(($cpu | add // 0) / ($bytes | tonumber))"' | record "$name"
}

# theirs NAME BYTES CONTROL SHIM OPTION...: iperf3 with a congestion control.
theirs() {
    local name=$1 bytes=$2 control=$3 shim=$4
    shift 4
    LD_PRELOAD=$shim ip netns exec "$two" timeout 100 iperf3 -s -1 -p 5301 >/dev/null 2>&1 &
    local server=$!
    sleep 0.5
    LD_PRELOAD=$shim ip netns exec "$one" timeout 90 iperf3 -c 10.91.0.2 -p 5301 -n "$bytes" -C "$control" -J "$@" >"$work/iperf" || true
    wait "$server" || true
    jq -r --arg bytes "$bytes" '
        (.end.sum_received // {}) as $sum | (.end.cpu_utilization_percent // {}) as $cpu
        | ($sum.seconds // 1) as $s
        | "\(($sum.bits_per_second // 0) / 1e6) \((($cpu.host_total // 0) + ($cpu.remote_total // 0)) / 100 * $s
            / (($sum.bytes // 1) / 1e9))"' "$work/iperf" | record "$name"
}

# simulated DELAY_MS LOSS RATE...: Mbit/s of the same transfer in virtual time; packets are those of a TUN device.
simulated() {
    local delay=$1 loss=$2 rates
    shift 2
    rates=$(printf '"%sM",' "$@")
    "$linecard" model run "$here/../scenarios/model-transfer.toml" --json --set "lanes.rates=[${rates%,}]" \
        --set "lanes.delay=${delay}ms" --set "lanes.loss=$loss" --set lanes.congestion=bbr --set lanes.queue=50ms \
        --set lanes.framing=28 --set packet.bytes=1408 --set "chunk.count=$((bytes / 16777216 + 1))" \
        | jq '.summary.goodput_bits_per_second / 1e6'
}

record() { tee -a "$work/figures.$case.$1" | sed "s/^/$case $1: Mbit\/s, CPU s\/GB: /"; }

declare -A cases=(
    [4x200]="0.1 0 200 200 200 200" [200-200-200-50]="0.1 0 200 200 200 50"
    [4x100-50ms]="25 0 100 100 100 100" [4x100-50ms-1%]="25 0.01 100 100 100 100"
    [4x50-10ms-1%]="5 0.01 50 50 50 50" [4x50-50ms-1%]="25 0.01 50 50 50 50" [4x50-50ms-5%]="25 0.05 50 50 50 50"
)
chosen=("$@")
((${#chosen[@]})) || chosen=(4x200 200-200-200-50 4x100-50ms 4x100-50ms-1% 4x50-10ms-1% 4x50-50ms-1% 4x50-50ms-5%)
for case in "${chosen[@]}"; do
    [[ -n ${cases[$case]:-} ]] || { echo "no case $case: choose of ${!cases[*]}" >&2; exit 2; }
    read -r delay loss rates <<<"${cases[$case]}"
    sum=0
    for rate in $rates; do sum=$((sum + rate)); done
    bytes=$((sum * 5 * 125000))
    lay "$delay" "$loss" $rates
    for ((round = 0; round < rounds; round++)); do
        ours linecard "$bytes" udp
        ours linecard-tcp "$bytes" tcp
        # With losses, the rest would take minutes.
        theirs mptcp-cubic "$(few)" cubic "$work/mptcp.so"
        theirs mptcp-bbr "$bytes" bbr "$work/mptcp.so"
    done
    predicted=$(simulated "$delay" "$loss" $rates)
    sort -g "$work/figures.$case.linecard" | awk -v name="$case" -v predicted="$predicted" '{ row[NR] = $1 }
        END { print name, "simulated: Mbit/s", predicted, "; measured is", row[int((NR + 1) / 2)] / predicted, "of it" }'
    for name in linecard linecard-tcp mptcp-cubic mptcp-bbr; do
        sort -g "$work/figures.$case.$name" | awk -v name="$case $name" \
            '{ row[NR] = $0 } END { print name ": median Mbit/s, CPU s/GB:", row[int((NR + 1) / 2)] }'
    done
done
