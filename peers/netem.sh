#!/usr/bin/env bash
# A file over several paths that the kernel's netem makes, in a guest of QEMU: `linecard send` without options beside
# iperf3 over Multipath TCP, with CUBIC and with BBR, in turns:
#
#     peers/netem.sh [CASE...]                    by default all cases, 3 rounds
#     ROUNDS=1 peers/netem.sh 4x10-50ms-1%        one round of one of them
#
# For machines whose own kernel has no netem. Needs QEMU for x86-64, a kernel in /boot that can be read, with its modules
# in /lib/modules, busybox, iproute2, ethtool, iperf3, jq, cpio and a C compiler, but not root. ACCEL=kvm uses the
# processor where that works; by default it is emulated. LIMIT is the most seconds that the guest may take (7,200).
# LINECARD is a release command to use instead of building one. The guest has no network, and its disk is memory: at the
# end, nothing is left.
#
# In the guest there are three namespaces: sender, network, receiver. Each path is a veth pair on either side of the
# network, which passes all frames of one pair to the other. There netem has a rate, a delay, losses, and a queue of 50 ms
# beside what the delay holds, in both directions. So neither end sees what netem drops, as it would if netem were on its
# own device, and packets are segmented before netem, which would drop or delay up to 64 KiB as one. netem drops a packet
# before it takes time of the path: losses do not reduce what a path can carry.
#
# Each run prints a line: case, program, kbit/s of data, busy in %, packets sent again (of `send` also the goodput that it
# reports, and its lanes). At the end stands a table of medians in Mbit/s, with the share of the rates of all paths. Those
# of `ours` are the size of the file over the seconds of the whole process `linecard send`; those of iperf3 (`cubic`, `bbr`)
# are what its receiver got from memory over the seconds that it ran, with as many streams as paths. What `recv` has got is
# compared with the file. Busy is the share of the guest's processor time that was not idle during the run: near 100 %, the
# processor was the limit. The case `free` has no netem: it shows how much the guest can carry.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=${ROUNDS:-3}
# Seconds of data of each run, if the paths are full.
seconds=${SECONDS_OF_DATA:-10}

# Each case: delay one way in ms, loss and reordering in %, rates of the paths in Mbit/s (0: no netem).
declare -A cases=(
    [free]="0 0 0 0 0 0 0" [4x10-10ms]="5 0 0 10 10 10 10" [4x10-50ms]="25 0 0 10 10 10 10"
    [4x10-200ms]="100 0 0 10 10 10 10" [20-20-20-5-50ms]="25 0 0 20 20 20 5"
    [4x10-10ms-0.1%]="5 0.1 0 10 10 10 10" [4x10-10ms-1%]="5 1 0 10 10 10 10" [4x10-10ms-5%]="5 5 0 10 10 10 10"
    [4x10-50ms-0.1%]="25 0.1 0 10 10 10 10" [4x10-50ms-1%]="25 1 0 10 10 10 10" [4x10-50ms-5%]="25 5 0 10 10 10 10"
    [4x10-200ms-1%]="100 1 0 10 10 10 10" [4x10-50ms-reordered]="25 0 1 10 10 10 10"
)
order=(free 4x10-10ms 4x10-50ms 4x10-200ms 20-20-20-5-50ms 4x10-10ms-0.1% 4x10-10ms-1% 4x10-10ms-5% 4x10-50ms-0.1%
    4x10-50ms-1% 4x10-50ms-5% 4x10-200ms-1% 4x10-50ms-reordered)
chosen=("$@")
((${#chosen[@]})) || chosen=("${order[@]}")
for case in "${chosen[@]}"; do
    [[ -n ${cases[$case]:-} ]] || { echo "no case $case: choose of ${order[*]}" >&2; exit 2; }
done
PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64 busybox ip tc ethtool iperf3 jq cpio cc modprobe; do
    command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 2; }
done
kernel=
for file in /boot/vmlinuz-*; do
    version=${file#/boot/vmlinuz-}
    if [[ -r $file ]] && modprobe -S "$version" --show-depends sch_netem >/dev/null 2>&1; then kernel=$file; fi
done
[[ -n $kernel ]] || { echo "no kernel in /boot has sch_netem in /lib/modules" >&2; exit 2; }
version=${kernel#/boot/vmlinuz-}

work=$(mktemp -d)
guest=
cleanup() {
    [[ -z $guest ]] || kill "$guest" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

linecard=${LINECARD:-}
if [[ -z $linecard ]]; then
    cargo build --quiet --release --locked --manifest-path "$here/../Cargo.toml" --package linecard-cli \
        --target-dir "${LINECARD_TARGET_DIR:-$here/../target}"
    linecard=${LINECARD_TARGET_DIR:-$here/../target}/release/linecard
fi

# What the guest boots into.
root=$work/root
mkdir -p "$root"/{bin,dev,etc,lib/modules,proc,run,sys,tmp,usr/bin,var}
ln -s ../run "$root/var/run"

# put FILE [NAME]: a program or library, and what it is linked with.
put() {
    local library
    install -D "$1" "$root/${2:-usr/bin/$(basename "$1")}"
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
        [[ -e $root$library ]] || install -D "$library" "$root$library"
    done
}
put "$(command -v busybox)" bin/busybox
put "$linecard"
strip "$root/usr/bin/linecard" 2>/dev/null || true
for tool in ip tc ethtool iperf3 jq; do put "$(command -v "$tool")"; done
for module in veth sch_netem sch_ingress cls_matchall act_mirred tcp_bbr; do
    while read -r _ file _; do
        install -m 644 "$file" "$root/lib/modules/"
        echo "${file##*/}" >>"$root/lib/modules/order"
    done < <(modprobe -S "$version" --show-depends "$module" | grep '^insmod')
done
"$linecard" keys psk "$root/key" >/dev/null

# iperf3 opens TCP sockets: this makes them sockets of Multipath TCP.
cc -shared -fPIC -o "$root/lib/mptcp.so" "$here/mptcp.c" -ldl

{
    echo "rounds=$rounds seconds=$seconds"
    for case in "${chosen[@]}"; do echo "measure $case ${cases[$case]}"; done
} >"$root/cases"

cat >"$root/init" <<'SH'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
while read -r module; do insmod "/lib/modules/$module"; done </lib/modules/order
# The shell of busybox prefers its own commands of these names.
ip() { /usr/bin/ip "$@"; }
tc() { /usr/bin/tc "$@"; }
say() { echo "netem: $*"; }
inside() { space=$1; shift; ip netns exec "$space" "$@"; }

# lay DELAY LOSS REORDERED RATE...: the paths of a case.
lay() {
    delay=$1 loss=$2 reordered=$3 count=0 sum=0
    shift 3
    for space in sender network receiver; do
        ip netns del $space 2>/dev/null
        ip netns add $space
        ip -n $space link set lo up
        [ $space != network ] || continue
        ip -n $space mptcp limits set subflows 8 add_addr_accepted 8
        # Windows that hold all paths.
        inside $space sysctl -qw net.ipv4.tcp_rmem="4096 131072 33554432" net.ipv4.tcp_wmem="4096 65536 33554432"
    done
    for rate; do
        path=$count count=$((count + 1)) sum=$((sum + rate))
        ip link add s$path netns sender type veth peer name ns$path netns network
        ip link add r$path netns receiver type veth peer name nr$path netns network
        for side in s r; do
            case $side in
                s) space=sender host=1 other=nr kind=subflow ;;
                r) space=receiver host=2 other=ns kind=signal ;;
            esac
            inside $space ethtool -K $side$path tso off gso off tx-udp-segmentation off
            ip -n network link set n$side$path up
            ip -n network link set $other$path up
            tc -n network qdisc add dev n$side$path ingress
            tc -n network filter add dev n$side$path parent ffff: matchall action mirred egress redirect dev $other$path
            if [ "$rate" != 0 ]; then
                [ "$loss" = 0 ] || lost="loss $loss%"
                [ "$reordered" = 0 ] || early="reorder $reordered%"
                # Packets of 1,500 bytes.
                tc -n network qdisc add dev $other$path root netem limit $(((delay + 50) * rate * 1000 / 12000)) \
                    delay ${delay}ms ${early:-} ${lost:-} rate ${rate}mbit
                lost='' early=''
            fi
            ip -n $space address add 10.91.$path.$host/24 dev $side$path
            ip -n $space link set $side$path up
            ip -n $space mptcp endpoint add 10.91.$path.$host dev $side$path $kind
        done
        for try in 1 2 3 4 5; do inside sender ping -c 1 -W 1 10.91.$path.2 >/dev/null && break; done
    done
}

# clock: ms since the start; the processors' time that was not idle, and all of it.
clock() {
    read -r up _ </proc/uptime
    read -r _ user nice system idle iowait irq softirq _ </proc/stat
    echo $((${up%.*} * 1000 + 1${up#*.} * 10 - 1000)) $((user + nice + system + irq + softirq)) \
        $((user + nice + system + irq + softirq + idle + iowait))
}
resent() { inside sender awk '/^Tcp:/ { value = $13 } END { print value }' /proc/net/snmp; }

# timed COMMAND...: sets `took` in ms and `busy` in %.
timed() {
    set -- $(clock) "$@"
    from=$1 used=$2 all=$3
    shift 3
    "$@"
    code=$?
    set -- $(clock)
    took=$(($1 - from)) busy=$((($2 - used) * 100 / ($3 - all)))
    return $code
}

ours() {
    rm -rf /tmp/to
    mkdir /tmp/to
    inside receiver timeout 150 linecard recv /tmp/to --psk /key --json >/tmp/got 2>/tmp/got.log &
    sleep 2
    if ! timed inside sender timeout 120 linecard send /tmp/file 10.91.0.2 --psk /key --json >/tmp/sent 2>/tmp/sent.log; then
        say "failed $case ours: $(tail -n 1 /tmp/sent.log)"
        kill $! 2>/dev/null
        wait
        return
    fi
    wait
    cmp /tmp/file /tmp/to/file || { say "failed $case ours: other bytes have arrived"; return; }
    set -- $(jq -r '[.. | objects | select(has("goodput_bits_per_second"))][0] as $all
        | "\($all.goodput_bits_per_second / 1e6) \($all.resent) \([.. | objects | .lanes? // empty][0] | length)"' /tmp/sent)
    say "run $case ours $((bytes * 8 / took)) $busy $2 data $1 lanes $3"
}

peer() {
    inside receiver env LD_PRELOAD=/lib/mptcp.so timeout 150 iperf3 -s -1 -J -p 5301 >/tmp/got &
    sleep 2
    before=$(resent)
    if ! timed inside sender env LD_PRELOAD=/lib/mptcp.so timeout 120 iperf3 -c 10.91.0.2 -p 5301 -J -P $count \
        -t $seconds -C $1 >/tmp/sent; then
        say "failed $case $1: $(jq -r .error /tmp/sent)"
        kill $! 2>/dev/null
        wait
        return
    fi
    wait
    say "run $case $1 $(jq '.end.sum_received | .bytes * 8 / .seconds / 1000 | floor' /tmp/got) $busy $(($(resent) - before))"
}

# measure NAME DELAY LOSS REORDERED RATE...
measure() {
    case=$1
    shift
    lay "$@"
    # Without netem, as much as for 100 Mbit/s.
    [ $sum != 0 ] && bytes=$((sum * seconds * 125000)) || bytes=$((100 * seconds * 125000))
    head -c $bytes /dev/urandom >/tmp/file
    round=0
    while [ $round -lt $rounds ]; do
        ours
        peer cubic
        peer bbr
        round=$((round + 1))
    done
}

say "booted: Linux $(uname -r), $(nproc) processors"
. /cases
say "done"
poweroff -f
SH
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initrd"

timeout -k 5 "${LIMIT:-7200}" qemu-system-x86_64 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 2G -nographic \
    -no-reboot -nodefaults -serial stdio -kernel "$kernel" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=-1 quiet" </dev/null >"$work/log" 2>&1 &
guest=$!
# Lines appear as they are written.
tail -f -n +1 --pid="$guest" "$work/log" | sed -u 's/\r//' | tee "$work/said" |
    grep --line-buffered -a "${SHOW:-^netem: }" || true
wait "$guest" || true
guest=
grep -qa '^netem: done' "$work/said" || {
    echo "the guest has not come to its end; it said at last:" >&2
    tail -n 20 "$work/said" >&2
    exit 1
}

# The medians, a line for each case: of each program Mbit/s, the share of what the paths carry (headers included), and busy.
declare -A sums
for case in "${chosen[@]}"; do
    read -r _ _ _ rates <<<"${cases[$case]}"
    sums[$case]=$((${rates// /+}))
done
median() { sort -n | awk '{ row[NR] = $1 } END { if (NR) print row[int((NR + 1) / 2)]; else print "-" }'; }
echo
echo "| case | rates, Mbit/s | \`send\` | of the rates | busy | MPTCP, CUBIC | busy | MPTCP, BBR | busy |"
echo "|---|---|---|---|---|---|---|---|---|"
for case in "${chosen[@]}"; do
    row="| $case | ${sums[$case]} |"
    for program in ours cubic bbr; do
        runs=$(awk -v path="$case" -v program="$program" '$2 == "run" && $3 == path && $4 == program' "$work/said")
        rate=$(awk 'NF { print $5 }' <<<"$runs" | median)
        busy=$(awk 'NF { print $6 }' <<<"$runs" | median)
        row+=$(awk -v rate="$rate" -v busy="$busy" -v sum="${sums[$case]}" -v program="$program" 'BEGIN {
            shown = rate == "-" ? "failed" : sprintf("%.1f", rate / 1000)
            share = rate == "-" || sum == 0 ? "-" : sprintf("%.0f %%", rate / sum / 10)
            printf program == "ours" ? " %s | %s | %s |" : " %s |%.0s %s |", shown, share, busy == "-" ? busy : busy " %"
        }')
    done
    echo "$row"
done
