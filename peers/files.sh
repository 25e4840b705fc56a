#!/usr/bin/env bash
# Files and trees over the same paths: `linecard send` beside scp, rsync and rclone over ssh, and iperf3, in turns:
# peers/files.sh [ROUNDS [CASE...]], by default 3 and all. Needs root, iperf3, jq, a C compiler, time, rclone, rsync, and
# OpenSSH with its server.
#
# The paths are those of paths.sh. On more than one, ssh and iperf3 have sockets of Multipath TCP; rclone is written in Go,
# whose programs do not use the C library's sockets, and has one path. A line for each run, then medians: seconds of the
# whole process of the sender, Mbit/s by that, and processor seconds of both ends (kernel included, its interrupts not)
# per GB. What arrived is compared with what was sent, and a run that fails has no figures; iperf3 sends no file, and has no
# tree.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=${1:-3}
shift || true
. "$here/paths.sh"

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
known="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

# inputs: a file of this many bytes, or 5,000 small files, 80 MB in all.
inputs() {
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

# run NAME SERVER COMMAND...: the server as long as the command runs, or until it ends by itself; time of both.
run() {
    local name=$1 server=$2 begun ended problem=
    shift 2
    [[ $again == yes ]] || rm -rf "$work/to"
    mkdir -p "$work/to"
    # shellcheck disable=SC2086 # Words of a command.
    ip netns exec "$two" /usr/bin/time -q -f '%U %S' -o "$work/served" $server >"$work/server" 2>&1 &
    local serving=$!
    sleep 0.7
    if [[ $cut == yes ]]; then
        { sleep 2 && kill "${paths[0]}"; } &
    fi
    begun=$EPOCHREALTIME
    ip netns exec "$one" timeout 120 /usr/bin/time -q -f '%U %S' -o "$work/sent" "$@" >"$work/said" 2>&1 ||
        problem="failed, or was not done in 120 s: $(tail -n 1 "$work/said")"
    ended=$EPOCHREALTIME
    # Of `time`, the child.
    pkill -TERM -P "$serving" 2>/dev/null || true
    wait "$serving" || true
    if [[ -z $problem && $name != iperf3* ]]; then
        diff -rq "$work/from" "$work/to" >"$work/said" || problem="other data have arrived: $(head -n 1 "$work/said")"
    fi
    [[ -z $problem ]] || echo "$case $name: $problem"
    # No figure of a run that failed.
    [[ -n $problem ]] || awk -v from="${begun/,/.}" -v to="${ended/,/.}" -v bytes="$bytes" '{ cpu += $1 + $2 }
        END { s = to - from; printf "%.2f %.0f %.2f\n", s, bytes * 8 / s / 1e6, cpu / bytes * 1e9 }' \
        "$work/sent" "$work/served" | tee -a "$work/figures.$case.$name" | sed "s/^/$case $name: s, Mbit\/s, CPU s\/GB: /"
    if [[ $cut == yes ]]; then
        lay "$delay" "$loss" $rates
    fi
}

# all: each peer once, in turns.
all() {
    local shim='' lanes=() number sources=("$work"/from/*) key="-i $work/user $known"
    ((count == 1)) || shim=$work/mptcp.so
    for ((number = 0; number < count; number++)); do lanes+=(--lane "10.91.$number.1"); done
    run linecard "$linecard recv $work/to --psk $work/key" "$linecard" send "${sources[@]}" 10.91.0.2 --psk "$work/key" "${lanes[@]}"
    local sshd="env LD_PRELOAD=$shim /usr/sbin/sshd -D -f $work/sshd"
    # shellcheck disable=SC2086 # Words of options.
    run scp "$sshd" env LD_PRELOAD="$shim" scp -rpq -P 2222 $key "${sources[@]}" "root@10.91.0.2:$work/to/"
    run rsync "$sshd" env LD_PRELOAD="$shim" rsync -a -e "ssh -p 2222 $key" "${sources[@]}" "root@10.91.0.2:$work/to/"
    run rclone "$sshd" rclone copy --config /dev/null "$work/from" \
        ":sftp,host=10.91.0.2,port=2222,user=root,key_file=$work/user:$work/to"
    if [[ $tree == no ]]; then
        for number in 1 4; do
            run "iperf3-$number" "env LD_PRELOAD=$shim iperf3 -s -1 -p 5301" \
                env LD_PRELOAD="$shim" iperf3 -c 10.91.0.2 -p 5301 -n "$bytes" -P "$number"
        done
    fi
}

declare -A cases=(
    [1x200]="file 0.1 0 200" [4x200]="file 0.1 0 200 200 200 200" [200-200-200-50]="file 0.1 0 200 200 200 50"
    [4x200-cut]="cut 0.1 0 200 200 200 200" [4x100-50ms]="file 25 0 100 100 100 100"
    [4x100-50ms-1%]="file 25 0.01 100 100 100 100" [4x50-50ms-5%]="file 25 0.05 50 50 50 50"
    [tree]="tree 0.1 0 200 200 200 200" [tree-again]="again 0.1 0 200 200 200 200" [tree-50ms]="tree 25 0 100 100 100 100"
)
chosen=("$@")
((${#chosen[@]})) || chosen=(1x200 4x200 200-200-200-50 4x200-cut 4x100-50ms 4x100-50ms-1% 4x50-50ms-5% tree tree-again tree-50ms)
for case in "${chosen[@]}"; do
    [[ -n ${cases[$case]:-} ]] || { echo "no case $case: choose of ${!cases[*]}" >&2; exit 2; }
    read -r kind delay loss rates <<<"${cases[$case]}"
    cut=no tree=no again=no
    case $kind in cut) cut=yes ;; tree) tree=yes ;; again) tree=yes again=yes ;; esac
    sum=0
    for rate in $rates; do sum=$((sum + rate)); done
    # About five seconds.
    bytes=$((sum * 5 * 125000))
    # With losses, TCP would take minutes.
    [[ $loss == 0 ]] || bytes=$((bytes / 4))
    [[ $tree == no ]] || bytes=tree
    inputs
    # shellcheck disable=SC2086 # Rates are words.
    lay "$delay" "$loss" $rates
    if [[ $again == yes ]]; then
        rm -rf "$work/to"
        cp -a "$work/from" "$work/to"
    fi
    for ((round = 0; round < rounds; round++)); do all; done
    for name in linecard scp rsync rclone iperf3-1 iperf3-4; do
        [[ -f $work/figures.$case.$name ]] || continue
        sort -g "$work/figures.$case.$name" | awk -v name="$case $name" \
            '{ row[NR] = $0 } END { print name ": median s, Mbit/s, CPU s/GB:", row[int((NR + 1) / 2)] }'
    done
done
