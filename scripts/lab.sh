#!/usr/bin/env bash
# Two hosts on this machine to try `linecard attach` with: a peer, and a host with a cable to it.
# Nothing leaves the machine. Needs root, iproute2, ethtool; iperf3 for traffic.
#
#   scripts/lab.sh up                  make both
#   scripts/lab.sh attach [OPTIONS]    attach in the host: xdp:wire tap:lc0; Ctrl-C ends it
#   scripts/lab.sh address             once it is attached: give lc0 the host's addresses
#   scripts/lab.sh host|peer COMMAND   run something there
#   scripts/lab.sh soak MINUTES        traffic both ways through an attachment, memory and sums watched
#   scripts/lab.sh down                remove both
#
# The peer is 10.77.0.1 and fd77::1, the host 10.77.0.2 and fd77::2.
set -euo pipefail

peer=lab-peer host=lab-host
linecard=${LINECARD:-$(dirname "$0")/../target/release/linecard}

up() {
    ip netns add "$peer"
    ip netns add "$host"
    ip link add wire netns "$peer" type veth peer name wire netns "$host"
    for end in "$peer" "$host"; do
        # As on a wire: no large packets, and all checksums computed.
        ip netns exec "$end" ethtool -K wire tso off gso off gro off tx off >/dev/null
        ip -n "$end" link set lo up
        ip -n "$end" link set wire up
    done
    ip -n "$peer" address add 10.77.0.1/24 dev wire
    ip -n "$peer" -6 address add fd77::1/64 dev wire nodad
}

down() {
    ip netns del "$peer" 2>/dev/null || true
    ip netns del "$host" 2>/dev/null || true
}

address() {
    ip -n "$host" address add 10.77.0.2/24 dev lc0
    ip -n "$host" -6 address add fd77::2/64 dev lc0 nodad
}

attach() {
    exec ip netns exec "$host" "$linecard" attach xdp:wire tap:lc0 "$@"
}

# Traffic both ways for this many minutes; each minute the memory of linecard, at the end its statistics.
soak() {
    local seconds=$(($1 * 60)) account
    account=$(mktemp)
    trap down EXIT
    down
    up
    (attach --json --interval 3600s) >"$account" 2>/dev/null &
    local process=$!
    sleep 2
    address
    ip netns exec "$host" iperf3 -s -D -1 -p 5201
    ip netns exec "$host" iperf3 -s -D -1 -p 5202
    sleep 1
    # The peer's clients end by themselves.
    ip netns exec "$peer" iperf3 -c 10.77.0.2 -p 5201 -P 8 -t "$seconds" >/dev/null &
    local in=$!
    ip netns exec "$peer" iperf3 -c fd77::2 -p 5202 -P 2 -R -t "$seconds" >/dev/null &
    local out=$!
    for ((minute = 0; minute <= $1; minute++)); do
        grep -E 'VmHWM|VmRSS' "/proc/$process/status" | tr -s '\t\n ' ' '
        echo "after $minute minutes, $(find "/proc/$process/fd" -mindepth 1 | wc -l) descriptors"
        [ "$minute" = "$1" ] || sleep 60
    done
    wait "$in" "$out" || echo "iperf3 failed" >&2
    kill -INT "$process"
    wait "$process" || echo "linecard ended with $?" >&2
    cat "$account"
    rm -f "$account"
}

case ${1:-} in
up | down | address) "$1" ;;
attach | soak) "$@" ;;
host) shift && exec ip netns exec "$host" "$@" ;;
peer) shift && exec ip netns exec "$peer" "$@" ;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
