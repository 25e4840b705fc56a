#!/usr/bin/env bash
# Bulk data, files and trees over one or several paths: `linecard send` without options, with the rates of its lanes, over
# TCP lanes and as a pipe of tar, beside scp, rsync and rclone over ssh, a daemon of rsync, iperf3 and quinn, in turns, over
# the same paths:
#
#     peers/transfer.sh [ROUNDS [CASE...]]            by default 3 rounds of all cases: two hours
#     PEERS="linecard scp" peers/transfer.sh 5 4x200  some of them
#
# Needs root, iperf3, jq, a C compiler, time, rclone, rsync, and OpenSSH with its server.
#
# The paths are those of paths.sh. Where there are several, ssh and iperf3 have sockets of Multipath TCP; rclone is written
# in Go, whose programs do not use the C library's sockets, and quinn has one path by itself: both use the first. A line
# for each run, then a table of medians: seconds of the sender's whole process, and processor seconds of both ends (the
# kernel's work for them included, its interrupts not) per GB. What arrived is compared with what was sent. A peer that
# fails, or is not done in 90 s, has no figure in that case and is not tried again. iperf3 and quinn send from memory, and
# no trees; quinn's seconds are without its start. iperf3 ends when all is written to its socket: its seconds are those
# until the receiver would have had all, at the rate at which it had what it had. The daemon does not encrypt.
#
# `memory` is `linecard send test:SIZE`, beside what the simulation says of the same paths.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=${1:-3}
shift || true
limit=90

# Each case: what is sent, delay one way in ms, loss, rates of the paths in Mbit/s (0: a veth pair with its own).
declare -A cases=(
    [1x200]="file 0.1 0 200" [1xveth]="file 0 0 0" [4x200]="file 0.1 0 200 200 200 200"
    [200-200-200-50]="file 0.1 0 200 200 200 50" [4x200-cut]="cut 0.1 0 200 200 200 200"
    [4x200-changes]="changes 0.1 0 200 200 200 200"
    [4x100-50ms]="file 25 0 100 100 100 100" [4x100-50ms-1%]="file 25 0.01 100 100 100 100"
    [4x50-10ms-1%]="file 5 0.01 50 50 50 50" [4x50-50ms-1%]="file 25 0.01 50 50 50 50"
    [4x50-50ms-5%]="file 25 0.05 50 50 50 50" [4x50-10ms-5%]="file 5 0.05 50 50 50 50"
    [4x100-50ms-0.1%]="file 25 0.001 100 100 100 100" [4x50-200ms-1%]="file 100 0.01 50 50 50 50"
    [4x50-5%]="file 0.1 0.05 50 50 50 50" [2x20-600ms]="file 300 0 20 20"
    [1x100-50ms]="file 25 0 100" [1x100-50ms-1%]="file 25 0.01 100" [tree]="tree 0.1 0 200 200 200 200"
    [tree-again]="again 0.1 0 200 200 200 200" [tree-50ms]="tree 25 0 100 100 100 100"
)
order=(1x200 1x100-50ms 1x100-50ms-1% 1xveth 4x200 200-200-200-50 4x200-cut 4x200-changes 4x100-50ms 4x100-50ms-0.1%
    4x100-50ms-1% 4x50-5% 4x50-10ms-1% 4x50-10ms-5% 4x50-50ms-1% 4x50-50ms-5% 4x50-200ms-1% 2x20-600ms
    tree tree-again tree-50ms)
all_peers="linecard linecard-rate linecard-tcp linecard-tar scp rsync rsyncd rclone iperf3-1 iperf3-4 iperf3-bbr quinn"
read -ra peers <<<"${PEERS:-$all_peers}"
for peer in "${peers[@]}"; do
    [[ " $all_peers " == *" $peer "* ]] || { echo "no peer $peer: choose of $all_peers" >&2; exit 2; }
done
chosen=("$@")
((${#chosen[@]})) || chosen=("${order[@]}")
for case in "${chosen[@]}"; do
    [[ -n ${cases[$case]:-} ]] || { echo "no case $case: choose of ${order[*]}" >&2; exit 2; }
done
. "$here/paths.sh"
cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" --bin quic

# A server of ssh for root, with keys of this run only.
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/user"
cp "$work/user.pub" "$work/allowed"
chmod 600 "$work/allowed"
mkdir -p /run/sshd
cat >"$work/sshd" <<END
Port 2222
HostKey $work/host
AuthorizedKeysFile $work/allowed
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
Subsystem sftp internal-sftp
END
# And of rsync, and both ends of a pipe.
cat >"$work/rsyncd" <<END
use chroot = no
uid = root
gid = root
[to]
path = $work/to
read only = no
END
echo "$linecard recv - --psk $work/key | tar xf - -C $work/to" >"$work/untar"
echo "tar cf - -C $work/from . | $linecard send - 10.91.0.2 --psk $work/key" >"$work/tar"
known="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

# inputs: a file of this many bytes, or 5,000 small files, 80 MB in all.
inputs() {
    # As below.
    [[ ! -d $work/from/0 ]] || mv "$work/from" "$work/old.$SRANDOM"
    rm -rf "$work/from" && mkdir "$work/from"
    if [[ $bytes == tree ]]; then
        openssl rand 33554432 >"$work/random"
        local number
        for ((number = 0; number < 5000; number++)); do
            ((number % 100)) || mkdir "$work/from/$((number / 100))"
            tail -c "+$((number * 3000 + 1))" "$work/random" | head -c $((1 + number * 7919 % 32000)) \
                >"$work/from/$((number / 100))/$number" || true
        done
        bytes=$(find "$work/from" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
    else
        openssl rand "$bytes" >"$work/from/file"
    fi
}

# figures NAME: what stands on standard input, seconds and processor seconds per GB, of a run that succeeded.
figures() { tee -a "$work/figures.$case.$1" | sed "s/^/$case $1: s, CPU s\/GB: /"; }

# failed NAME PROBLEM: no figure, and no further try.
failed() {
    echo "$case $1: $2"
    rm -f "$work/figures.$case.$1"
    touch "$work/failed.$case.$1"
}

# trouble: in 2 s, the first path of a case is cut, or falls to a quarter of its rate while the second doubles.
trouble() {
    case $kind in
        cut) { sleep 2 && kill "${paths[0]}"; } & ;;
        changes) { sleep 2 && change 0 50 && change 1 400; } & ;;
    esac
}

# restore: the paths as they were.
restore() {
    # shellcheck disable=SC2086 # Rates are words.
    [[ $kind != cut && $kind != changes ]] || lay "$delay" "$loss" $rates
}

# is_chosen NAME: whether it is among the peers, and has not failed.
is_chosen() { [[ " ${peers[*]} " == *" $1 "* && ! -e $work/failed.$case.$1 ]]; }

# run NAME SERVER COMMAND...: the server as long as the command runs, or until it ends by itself; time of both.
run() {
    local name=$1 server=$2 begun ended problem=
    shift 2
    is_chosen "$name" || return 0
    # ext4 does not take the numbers of files that were just removed, and looks for others for seconds.
    if [[ $kind == tree && -e $work/to ]]; then
        mv "$work/to" "$work/old.$SRANDOM"
    else
        rm -rf "$work/to"
    fi
    # Others leave other times than those that were sent.
    if [[ $again == yes ]]; then cp -a "$work/from" "$work/to"; else mkdir -p "$work/to"; fi
    sync
    # shellcheck disable=SC2086 # Words of a command.
    ip netns exec "$two" /usr/bin/time -q -f '%U %S' -o "$work/served" $server >"$work/server" 2>&1 &
    local serving=$!
    sleep 0.7
    trouble
    begun=$EPOCHREALTIME
    ip netns exec "$one" timeout "$limit" /usr/bin/time -q -f '%U %S' -o "$work/sent" "$@" >"$work/said" 2>&1 ||
        problem="failed, or was not done in $limit s: $(tail -n 1 "$work/said")"
    ended=$EPOCHREALTIME
    # Of `time`, the child.
    pkill -TERM -P "$serving" 2>/dev/null || true
    wait "$serving" || true
    if [[ -z $problem && $name != iperf3* ]]; then
        diff -rq "$work/from" "$work/to" >"$work/said" || problem="other data have arrived: $(head -n 1 "$work/said")"
    fi
    local came=$bytes
    if [[ -z $problem && $name == iperf3* ]]; then
        came=$(jq '.end.sum_received.bytes // 0' "$work/server")
        [[ ${came:-0} != 0 ]] || problem="the receiver does not say what it has"
    fi
    if [[ -n $problem ]]; then
        failed "$name" "$problem"
    else
        awk -v from="${begun/,/.}" -v to="${ended/,/.}" -v bytes="$bytes" -v came="$came" '{ cpu += $1 + $2 }
            END { printf "%.2f %.2f\n", (to - from) * bytes / came, cpu / came * 1e9 }' "$work/sent" "$work/served" |
            figures "$name"
    fi
    restore
}

# quinn: both ends are threads of one program.
quinn() {
    is_chosen quinn || return 0
    trouble
    if timeout "$limit" "$quic" --bytes "$bytes" --cores any --spaces "$one,$two" --addresses 10.91.0.1,10.91.0.2 \
        --json >"$work/said" 2>&1; then
        jq -r --arg bytes "$bytes" '"\(.seconds * 100 | round / 100) \(.cpu_seconds / ($bytes | tonumber) * 1e11 | round / 100)"' \
            "$work/said" | figures quinn
    else
        failed quinn "failed, or was not done in $limit s: $(tail -n 1 "$work/said")"
    fi
    restore
}

# memory: Mbit/s of data by `test:`, without the start.
memory() {
    ip netns exec "$two" timeout "$limit" "$linecard" recv "$work/in" --psk "$work/key" --json >"$work/got" 2>/dev/null &
    local receiver=$!
    sleep 0.5
    ip netns exec "$one" timeout "$limit" "$linecard" send "test:$bytes" 10.91.0.2 --psk "$work/key" --json \
        >"$work/said" 2>/dev/null || true
    wait "$receiver" || true
    jq -r '[.. | objects | .goodput_bits_per_second? // empty] | "\((first // 0) / 1e6)"' "$work/said" |
        tee -a "$work/memory.$case" | sed "s/^/$case memory: Mbit\/s: /"
}

# simulated RATE...: Mbit/s of the same transfer in virtual time; packets are those of a TUN device.
simulated() {
    local rates
    rates=$(printf '"%sM",' "$@")
    "$linecard" model run "$here/../scenarios/model-transfer.toml" --json --set "lanes.rates=[${rates%,}]" \
        --set "lanes.delay=${delay}ms" --set "lanes.loss=$loss" --set lanes.congestion=bbr --set lanes.queue=50ms \
        --set lanes.framing=28 --set packet.bytes=1408 --set "chunk.count=$((bytes / 16777216 + 1))" \
        | jq '.summary.goodput_bits_per_second / 1e6'
}

# all: each peer once, in turns.
all() {
    local shim='' lanes=() number sources=("$work"/from/*) key="-i $work/user $known"
    ((count == 1)) || shim=$work/mptcp.so
    local rated=() each
    read -ra each <<<"$rates"
    for ((number = 0; number < count; number++)); do
        lanes+=(--lane "tcp:10.91.$number.1") rated+=(--lane "10.91.$number.1,rate=${each[number]}M")
    done
    local recv="$linecard recv $work/to --psk $work/key"
    run linecard "$recv" "$linecard" send "${sources[@]}" 10.91.0.2 --psk "$work/key"
    [[ $sum == 0 ]] || run linecard-rate "$recv" "$linecard" send "${sources[@]}" 10.91.0.2 --psk "$work/key" "${rated[@]}"
    run linecard-tcp "$recv" "$linecard" send "${sources[@]}" 10.91.0.2 --psk "$work/key" "${lanes[@]}"
    local sshd="env LD_PRELOAD=$shim /usr/sbin/sshd -D -f $work/sshd"
    # shellcheck disable=SC2086 # Words of options.
    run scp "$sshd" env LD_PRELOAD="$shim" scp -rpq -P 2222 $key "${sources[@]}" "root@10.91.0.2:$work/to/"
    run rsync "$sshd" env LD_PRELOAD="$shim" rsync -a -e "ssh -p 2222 $key" "${sources[@]}" "root@10.91.0.2:$work/to/"
    run rclone "$sshd" rclone copy --config /dev/null "$work/from" \
        ":sftp,host=10.91.0.2,port=2222,user=root,key_file=$work/user:$work/to"
    run rsyncd "env LD_PRELOAD=$shim rsync --daemon --no-detach --port 8730 --config $work/rsyncd" \
        env LD_PRELOAD="$shim" rsync -a "${sources[@]}" rsync://10.91.0.2:8730/to/
    if [[ $tree == yes ]]; then
        [[ $again == yes ]] || run linecard-tar "bash $work/untar" bash "$work/tar"
    else
        local iperf="iperf3 -c 10.91.0.2 -p 5301 -n $bytes" server="env LD_PRELOAD=$shim iperf3 -s -1 -J -p 5301"
        run iperf3-1 "$server" env LD_PRELOAD="$shim" $iperf
        run iperf3-4 "$server" env LD_PRELOAD="$shim" $iperf -P 4
        run iperf3-bbr "$server" env LD_PRELOAD="$shim" $iperf -C bbr
        quinn
        [[ $kind != file ]] || ! is_chosen linecard || memory
    fi
}

# median FILE: the line of the median of its first column.
median() { sort -g "$1" | awk '{ row[NR] = $0 } END { print row[int((NR + 1) / 2)] }'; }

for case in "${chosen[@]}"; do
    read -r kind delay loss rates <<<"${cases[$case]}"
    tree=no again=no
    case $kind in tree) tree=yes ;; again) tree=yes again=yes ;; esac
    sum=0
    for rate in $rates; do sum=$((sum + rate)); done
    # About five seconds. With losses, TCP would take minutes.
    bytes=$((sum * 5 * 125000))
    [[ $loss == 0 ]] || bytes=$((bytes / 4))
    [[ $sum != 0 ]] || bytes=1000000000
    [[ $tree == no ]] || bytes=tree
    inputs
    # shellcheck disable=SC2086 # Rates are words.
    lay "$delay" "$loss" $rates
    for ((round = 0; round < rounds; round++)); do all; done
    if [[ -f $work/memory.$case && $sum != 0 ]]; then
        # shellcheck disable=SC2086 # Rates are words.
        awk -v name="$case" -v predicted="$(simulated $rates)" -v measured="$(median "$work/memory.$case")" 'BEGIN {
            printf "%s memory: median Mbit/s: %.0f, simulated: %.0f, measured is %.3f of it\n", name, measured, predicted,
                measured / predicted }'
    fi
done

printf '\n| s, CPU s/GB |%s\n|---|%s\n' "$(printf ' %s |' "${peers[@]}")" "$(printf -- '---|%.0s' "${peers[@]}")"
for case in "${chosen[@]}"; do
    printf '| %s |' "$case"
    for name in "${peers[@]}"; do
        cell=–
        [[ ! -e $work/failed.$case.$name ]] || cell='not done'
        [[ ! -f $work/figures.$case.$name ]] || cell=$(median "$work/figures.$case.$name" | sed 's/ /, /')
        printf ' %s |' "$cell"
    done
    echo
done
