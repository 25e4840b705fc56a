#!/usr/bin/env bash
# Makes the small captures in testdata/captures from real kernel traffic.
#
# Two network namespaces joined by a veth pair; iperf3 and a few lines of Python
# talk, tcpdump listens. Every run is bounded in packets and in time, and all that
# was created is removed on exit. Addresses are the documentation ranges and fixed
# MACs, payload is repetitive, so a new run differs only where the kernel differs.
#
#     sudo scripts/make-captures.sh [OUT_DIR]      (default: testdata/captures)
#
# Needs root, and: ip, ethtool, iperf3, tcpdump, editcap and mergecap, python3, /dev/net/tun.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:-$here/testdata/captures}

[ "$(id -u)" = 0 ] || { echo "make-captures: needs root, to create network namespaces" >&2; exit 1; }
for tool in ip ethtool iperf3 tcpdump editcap mergecap python3; do
    command -v "$tool" >/dev/null || { echo "make-captures: $tool is missing, install it" >&2; exit 1; }
done

mkdir -p "$out"
work=$(mktemp -d)
ns_a=linecard-$$-a # the sender
ns_b=linecard-$$-b # the receiver
background=()      # helpers to stop, newest last

tear_down() {
    local pid
    for pid in "${background[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${background[@]}"; do wait "$pid" 2>/dev/null || true; done
    background=()
    ip netns del "$ns_a" 2>/dev/null || true
    ip netns del "$ns_b" 2>/dev/null || true
}
trap 'tear_down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

in_a() { ip netns exec "$ns_a" "$@"; }
in_b() { ip netns exec "$ns_b" "$@"; }

# set_up ON|OFF [DEVICE]: the pair of namespaces; addresses go to DEVICE (default: the veth, "wire").
set_up() {
    local offload=$1 device=${2:-wire} ns n
    ip netns add "$ns_a"
    ip netns add "$ns_b"
    ip link add wire netns "$ns_a" address 02:00:00:00:00:01 type veth \
        peer name wire netns "$ns_b" address 02:00:00:00:00:02
    n=1
    for ns in "$ns_a" "$ns_b"; do
        # No neighbour or router discovery: only the traffic that is wanted.
        ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
            net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0
        if [ "$device" != wire ]; then
            ip netns exec "$ns" sysctl -qw net.ipv6.conf.wire.disable_ipv6=1
            ip netns exec "$ns" ip tuntap add "$device" mode tap
            ip netns exec "$ns" ip link set "$device" address 02:00:00:00:00:1$n
        fi
        if [ "$offload" = off ]; then
            ip netns exec "$ns" ethtool -K wire tx off rx off sg off tso off gso off gro off >/dev/null
        fi
        ip netns exec "$ns" ip link set lo up
        ip netns exec "$ns" ip link set wire up
        # Room for two VLAN tags around a full-size frame.
        [ "$device" = wire ] || ip netns exec "$ns" ip link set wire mtu 1508
        ip netns exec "$ns" ip link set "$device" up
        ip netns exec "$ns" ip addr add 192.0.2.$n/24 dev "$device"
        ip netns exec "$ns" ip addr add 2001:db8::$n/64 dev "$device" nodad
        n=$((n + 1))
    done
}

# listen NS FILE COUNT INTERFACE [TCPDUMP OPTIONS]: starts tcpdump and waits until it listens.
listen() {
    local ns=$1 file=$2 count=$3 interface=$4 filter='ip or (ip6 and not icmp6)' _
    shift 4
    case "$file" in *vlan* | *qinq*) filter=vlan ;; esac
    ip netns exec "$ns" timeout 20 tcpdump -Z root --immediate-mode -U -n -s 65535 -B 16384 -i "$interface" \
        -c "$count" -w "$file" "$@" "$filter" 2>"$work/tcpdump.log" &
    tcpdump_pid=$!
    background+=("$tcpdump_pid")
    for _ in $(seq 100); do
        grep -q 'listening on' "$work/tcpdump.log" && return
        sleep 0.05
    done
    echo "make-captures: tcpdump did not start:" >&2
    cat "$work/tcpdump.log" >&2
    exit 1
}

# stop_listening: lets late packets arrive, then closes the file.
stop_listening() {
    sleep 0.4
    # `timeout` passes the signal on; tcpdump then flushes and ends.
    kill -TERM "$tcpdump_pid" 2>/dev/null || true
    wait "$tcpdump_pid" 2>/dev/null || true
}

# iperf ADDRESS OPTIONS...: one iperf3 test from a to b.
iperf() {
    local address=$1 _
    shift
    in_b iperf3 --server --one-off >/dev/null 2>&1 &
    background+=($!)
    for _ in $(seq 100); do
        in_b ss -Hltn 'sport = 5201' | grep -q . && break
        sleep 0.05
    done
    in_a timeout 15 iperf3 --client "$address" --repeating-payload "$@" >"$work/iperf.log" 2>&1 ||
        { cat "$work/iperf.log" >&2; exit 1; }
}

# bulk FILE ADDRESS COUNT OPTIONS...: a plain iperf3 run, offloads off, captured at the receiver.
bulk() {
    local file=$1 address=$2 count=$3
    shift 3
    set_up off
    listen "$ns_b" "$out/$file" "$count" wire
    iperf "$address" "$@"
    stop_listening
    tear_down
}

# shaped FILE COUNT WIRE-OPTIONS... : the stacks sit on TAP devices, and a helper at each end
# carries their frames over the veth, adding what the kernel here has no module for.
shaped() {
    local file=$1 count=$2 ns
    shift 2
    set_up off stack
    for ns in "$ns_a" "$ns_b"; do
        # Only the sender's helper disturbs; both tag.
        local options=("$@")
        [ "$ns" = "$ns_a" ] || options=("${options[@]/--drop-every=*/--drop-every=0}")
        [ "$ns" = "$ns_a" ] || options=("${options[@]/--swap-every=*/--swap-every=0}")
        ip netns exec "$ns" python3 "$work/wire.py" "${options[@]}" &
        background+=($!)
    done
    sleep 0.5
    listen "$ns_b" "$out/$file" "$count" wire
    iperf 192.0.2.2 -n 100K
    stop_listening
    tear_down
}

cat >"$work/wire.py" <<'PYTHON'
"""Carries frames between the TAP device `stack` and the veth `wire`: pushes VLAN tags on the
way out, removes them on the way in, and can lose or swap every n-th large frame going out."""
import argparse, fcntl, os, select, socket, struct

args = argparse.ArgumentParser()
args.add_argument("--tags", default="")          # outermost first, "88a8:200,8100:100"
args.add_argument("--drop-every", type=int, default=0)
args.add_argument("--swap-every", type=int, default=0)
args = args.parse_args()
tags = b"".join(
    struct.pack("!HH", int(kind, 16), int(vid))
    for kind, vid in (tag.split(":") for tag in args.tags.split(",") if tag)
)

IFF_TAP, IFF_NO_PI, TUNSETIFF, PACKET_OUTGOING = 0x2, 0x1000, 0x400454CA, 4
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"stack", IFF_TAP | IFF_NO_PI))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("wire", 0))

large, held = 0, None
while True:
    for ready in select.select([tap, wire], [], [])[0]:
        if ready is wire:
            frame, address = wire.recvfrom(70000)
            if address[2] == PACKET_OUTGOING:
                continue
            while frame[12:14] in (b"\x81\x00", b"\x88\xa8"):
                frame = frame[:12] + frame[16:]
            os.write(tap, frame)
            continue
        frame = os.read(tap, 70000)
        frame = frame[:12] + tags + frame[12:]
        if len(frame) > 1000:
            large += 1
            if args.drop_every and large % args.drop_every == 0:
                continue
            if args.swap_every and large % args.swap_every == 0 and held is None:
                held = frame
                continue
        wire.send(frame)
        if held is not None:
            wire.send(held)
            held = None
PYTHON

cat >"$work/talk.py" <<'PYTHON'
"""Both ends talk at once over one TCP connection, in chunks, and close in turn."""
import socket, sys, threading, time

PORT, ADDRESS, CHUNKS, SIZE = 40007, "192.0.2.2", 12, 2500

def send(connection, letter):
    for _ in range(CHUNKS):
        connection.sendall(letter * SIZE)
        time.sleep(0.002)
    connection.shutdown(socket.SHUT_WR)

def talk(connection, letter):
    sender = threading.Thread(target=send, args=(connection, letter))
    sender.start()
    while connection.recv(65536):
        pass
    sender.join()

if sys.argv[1] == "serve":
    listener = socket.create_server((ADDRESS, PORT))
    print("ready", flush=True)
    talk(listener.accept()[0], b"b")
else:
    talk(socket.create_connection((ADDRESS, PORT), timeout=10), b"a")
PYTHON

cat >"$work/datagrams.py" <<'PYTHON'
"""Sends datagrams larger than the MTU: the kernel fragments them."""
import socket, sys, time

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
udp = socket.socket(family, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER = IP_PMTUDISC_DONT: no DF
for number in range(int(sys.argv[2])):
    udp.sendto(bytes([number]) * 8000, (sys.argv[1], 40008))
    time.sleep(0.01)
PYTHON

# bidirectional NS FILE [TCPDUMP OPTIONS]: talk.py, captured in NS from the handshake to the last FIN.
bidirectional() {
    local ns=$1 file=$2 interface=${3:-wire} _
    shift $(($# < 3 ? $# : 3))
    : >"$work/ready"
    in_b timeout 15 python3 "$work/talk.py" serve >"$work/ready" &
    background+=($!)
    for _ in $(seq 100); do
        [ -s "$work/ready" ] && break
        sleep 0.05
    done
    listen "$ns" "$file" 200 "$interface" "$@"
    in_a timeout 15 python3 "$work/talk.py" connect
    stop_listening
}

fragments() {
    set_up off
    listen "$ns_b" "$out/$1" 60 wire
    in_a python3 "$work/datagrams.py" "$2" 8
    stop_listening
    tear_down
}

bulk tcp4-bulk.pcap 192.0.2.2 80 -n 90K
bulk tcp4-8flows.pcap 192.0.2.2 150 -P 8 -n 100K
bulk tcp6-bulk.pcap 2001:db8::2 80 -n 90K
bulk udp4.pcap 192.0.2.2 90 -u -l 1200 -b 50M -n 60K
bulk udp6.pcap 2001:db8::2 90 -u -l 1200 -b 50M -n 60K
shaped tcp4-vlan.pcap 100 --tags=8100:100
shaped tcp4-qinq.pcap 100 --tags=88a8:200,8100:100
shaped tcp4-loss.pcap 110 --drop-every=11
shaped tcp4-reorder.pcap 110 --swap-every=7
fragments udp4-fragments.pcap 192.0.2.2
fragments udp6-fragments.pcap 2001:db8::2

set_up off
bidirectional "$ns_b" "$out/tcp4-bidir.pcap"
tear_down
set_up off
bidirectional "$ns_b" "$out/tcp4-sll2.pcap" any -y LINUX_SLL2
tear_down
set_up off
bidirectional "$ns_b" "$out/tcp4-sll1.pcap" any -y LINUX_SLL
tear_down
set_up off
bidirectional "$ns_b" "$out/tcp4-ns.pcap" wire --time-stamp-precision=nano
tear_down

# A pcapng with two interfaces (both ends of one conversation) and a comment on packet 1.
set_up off
in_a timeout 20 tcpdump -Z root --immediate-mode -U -n -s 65535 -i wire -c 200 -w "$work/a.pcap" ip 2>"$work/a.log" &
background+=($!)
end_a=$!
for _ in $(seq 100); do grep -q 'listening on' "$work/a.log" && break; sleep 0.05; done
bidirectional "$ns_b" "$work/b.pcap"
kill -TERM "$end_a" 2>/dev/null || true
wait "$end_a" 2>/dev/null || true
tear_down
mergecap -F pcapng -I none -w "$work/both.pcapng" "$work/a.pcap" "$work/b.pcap"
editcap -F pcapng -a "1:The first packet, seen by the sender" -a "2:The same, seen by the receiver" \
    "$work/both.pcapng" "$out/tcp4-two-interfaces.pcapng"

# A capture at the sender when the interface does the work.
set_up on
listen "$ns_a" "$out/tcp4-offload.pcap" 60 wire
iperf 192.0.2.2 -n 120K
stop_listening
tear_down

# Bare IP packets, as a TUN device shows them: a capture from above without its Ethernet headers.
editcap -F pcap -L -C 14 -T rawip "$out/tcp4-bidir.pcap" "$out/tcp4-rawip.pcap"

ls -l "$out" >&2
