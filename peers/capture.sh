#!/usr/bin/env bash
# Captures real kernel traffic for the benchmarks: about 20,000 packets each of one bulk flow, of
# 64 flows, of IPv6, of jumbo frames and of UDP, offloads off, seen by the receiver.
#
#     sudo peers/capture.sh [--missing] OUT_DIR [PACKETS]
#
# With --missing, only those that are not there yet. Bounded in packets and in time; all that is
# created is removed on exit. The files are not meant to be committed. Needs root, and: ip, ethtool,
# iperf3, tcpdump.
set -euo pipefail
missing=
[ "${1:-}" != --missing ] || { missing=yes; shift; }
[ $# -ge 1 ] || { echo "usage: peers/capture.sh [--missing] OUT_DIR [PACKETS]" >&2; exit 2; }
out=$1
packets=${2:-20000}
names=(bulk flows64 ipv6 udp jumbo)
if [ "$missing" ]; then
    absent=()
    for name in "${names[@]}"; do [ -e "$out/$name.pcap" ] || absent+=("$name"); done
    [ ${#absent[@]} -gt 0 ] || exit 0
fi
[ "$(id -u)" = 0 ] || { echo "capture: needs root, to create network namespaces" >&2; exit 1; }
for tool in ip ethtool iperf3 tcpdump; do
    command -v "$tool" >/dev/null || { echo "capture: $tool is missing, install it" >&2; exit 1; }
done
mkdir -p "$out"

a=linecard-$$-a # the sender
b=linecard-$$-b # the receiver
background=()
tear_down() {
    local pid
    for pid in "${background[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
}
trap tear_down EXIT
trap 'exit 130' INT TERM

ip netns add "$a"
ip netns add "$b"
ip link add wire netns "$a" type veth peer name wire netns "$b"
n=1
for ns in "$a" "$b"; do
    ip netns exec "$ns" ethtool -K wire tx off rx off sg off tso off gso off gro off >/dev/null
    ip -n "$ns" link set lo up
    ip -n "$ns" link set wire up
    ip -n "$ns" addr add 192.0.2.$n/24 dev wire
    ip -n "$ns" addr add 2001:db8::$n/64 dev wire nodad
    n=$((n + 1))
done
sleep 1
ip netns exec "$b" timeout 120 iperf3 --server >/dev/null 2>&1 &
background+=($!)
sleep 0.5

# capture NAME FILTER IPERF-OPTIONS...
capture() {
    local name=$1 filter=$2 dump client
    shift 2
    [ -z "$missing" ] || [ ! -e "$out/$name.pcap" ] || return 0
    ip netns exec "$b" timeout 20 tcpdump -Z root -n -Q in -i wire -s 65535 -B 65536 -c "$packets" \
        -w "$out/$name.partial" "$filter" 2>/dev/null &
    dump=$!
    background+=("$dump")
    sleep 1
    ip netns exec "$a" timeout 18 iperf3 --time 15 "$@" >/dev/null 2>&1 &
    client=$!
    background+=("$client")
    wait "$dump" || true
    kill "$client" 2>/dev/null || true
    wait "$client" 2>/dev/null || true
    sleep 0.5
    # Under its name only once it is whole: what is there is not captured again.
    mv "$out/$name.partial" "$out/$name.pcap"
    ls -l "$out/$name.pcap" >&2
}

mtu() {
    ip -n "$a" link set wire mtu "$1"
    ip -n "$b" link set wire mtu "$1"
    sleep 0.5
}

capture bulk 'tcp and greater 200' --client 192.0.2.2
capture flows64 'tcp and greater 200' --client 192.0.2.2 --parallel 64
capture ipv6 'ip6 and tcp and greater 200' --client 2001:db8::2 --parallel 8
capture udp 'udp' --client 192.0.2.2 --udp --bitrate 0 --length 1472 --parallel 4
mtu 9000
capture jumbo 'tcp and greater 200' --client 192.0.2.2 --parallel 4
