#!/usr/bin/env bash
# One path of 100 Mbit/s and a round trip of 50 ms, shared by TCP of the kernel with CUBIC (iperf3) and one other:
# `linecard send` over UDP without options, or a second iperf3 with CUBIC or BBR. What each gets:
#
#     peers/fair.sh [ROUNDS]          by default 3: a quarter of an hour
#
# Needs root, iperf3, jq, a C compiler. The queue of the path (paths.sh) holds 25, 50 or 100 ms. The other begins 5 s after
# the first one; from 10 to 30 s, each receiver's packets are counted by their ports. A line for each run, Mbit/s of IP, and
# medians of the other's share.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=${1:-3}
. "$here/paths.sh"

# counted PROTOCOL PORTS...: bytes that have come to the receiver, by nft.
counted() {
    ip netns exec "$two" nft -j list counter ip fair "$1" | jq '.nftables[] | .counter? // empty | .bytes'
}

count_ports() {
    ip netns exec "$two" nft -f - <<'END'
table ip fair {
    counter first { }
    counter other { }
    chain in {
        type filter hook input priority 0;
        tcp dport 5301 counter name first
        tcp dport 5302 counter name other
        udp dport 1-65535 counter name other
    }
}
END
}

# beside NAME COMMAND...: the share of the other.
beside() {
    local name=$1 before after
    shift
    # shellcheck disable=SC2086 # Words.
    lay 25 0 100
    count_ports
    ip netns exec "$two" iperf3 -s -1 -p 5301 >/dev/null 2>&1 &
    ip netns exec "$two" iperf3 -s -1 -p 5302 >/dev/null 2>&1 &
    ip netns exec "$two" "$linecard" recv "$work/in" --psk "$work/key" >/dev/null 2>&1 &
    sleep 0.5
    ip netns exec "$one" iperf3 -c 10.91.0.2 -p 5301 -t 40 -C cubic >/dev/null 2>&1 &
    sleep 5
    ip netns exec "$one" "$@" >/dev/null 2>&1 &
    sleep 5
    before=($(counted first) $(counted other))
    sleep 20
    after=($(counted first) $(counted other))
    cleanup
    echo "$((after[0] - before[0])) $((after[1] - before[1]))" |
        awk '{ printf "%.2f %.1f %.1f\n", $2 / ($1 + $2), $2 * 8 / 20e6, $1 * 8 / 20e6 }' |
        tee -a "$work/shares.$queue.$name" | sed "s/^/queue of $queue ms, $name: its share, Mbit\/s of it and of CUBIC: /"
}

for queue in 25 50 100; do
    for ((round = 0; round < rounds; round++)); do
        beside linecard "$linecard" send test:4G 10.91.0.2 --psk "$work/key" --lane 10.91.0.1
        beside cubic iperf3 -c 10.91.0.2 -p 5302 -t 35 -C cubic
        beside bbr iperf3 -c 10.91.0.2 -p 5302 -t 35 -C bbr
    done
done
for queue in 25 50 100; do
    for name in linecard cubic bbr; do
        sort -g "$work/shares.$queue.$name" | awk -v name="queue of $queue ms, $name" \
            '{ row[NR] = $1 } END { print name ": median share", row[int((NR + 1) / 2)] }'
    done
done
