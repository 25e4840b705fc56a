#!/usr/bin/env bash
# Two namespaces joined by paths in user space, for scripts that include this file with `here` set to its folder.
#
# lay DELAY_MS LOSS RATE... makes the paths (src/bin/path.rs), each with a rate in Mbit/s, a delay one way, losses from 0
# to 1, and a queue of 50 ms (or `queue`); `count` is their number. `change NUMBER RATE` gives one another rate. With a rate of 0 a path is a veth pair, as fast as it is. The kernel of such a machine need not have netem. At the end,
# nothing is left. `linecard` is the command, `work` a folder with `key`, and `mptcp.so`, which makes TCP sockets those of
# Multipath TCP.

work=$(mktemp -d)
one=peer-send two=peer-recv
paths=()

cleanup() {
    ((${#paths[@]} == 0)) || kill "${paths[@]}" 2>/dev/null || true
    [[ -z $(jobs -p) ]] || kill $(jobs -p) 2>/dev/null || true
    wait 2>/dev/null || true
    paths=()
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
}
trap 'cleanup; rm -rf "$work"' EXIT

cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" --bin path
cargo build --quiet --release --locked --manifest-path "$here/../Cargo.toml" --package linecard-cli \
    --target-dir "${LINECARD_TARGET_DIR:-$here/../target}"
path=${CARGO_TARGET_DIR:-$here/target}/release/path
quic=${CARGO_TARGET_DIR:-$here/target}/release/quic
linecard=${LINECARD_TARGET_DIR:-$here/../target}/release/linecard
"$linecard" keys psk "$work/key" >/dev/null

# iperf3 opens TCP sockets: this makes them sockets of Multipath TCP.
cc -shared -fPIC -o "$work/mptcp.so" "$here/mptcp.c" -ldl

change() { echo "$2" >"$work/rates$1"; }

# lay DELAY_MS LOSS RATE...: the paths of a case.
lay() {
    local delay=$1 loss=$2 number=0 rate end
    shift 2
    cleanup
    rm -f "$work"/ready* "$work"/rates*
    ip netns add "$one" && ip netns add "$two"
    for rate in "$@"; do
        if [[ $rate == 0 ]]; then
            ip link add "pa$number" type veth peer name "pb$number"
        else
            mkfifo "$work/rates$number"
            "$path" "pa$number" "pb$number" "$rate" "$delay" "$loss" "${queue:-50}" \
                <>"$work/rates$number" >"$work/ready$number" &
            paths+=($!)
            until grep -q ready "$work/ready$number"; do sleep 0.05; done
        fi
        for end in a b; do
            local space=$one host=1 kind
            [[ $end == a ]] || { space=$two host=2; }
            ip link set "p$end$number" netns "$space"
            ip -n "$space" address add "10.91.$number.$host/24" dev "p$end$number"
            ip -n "$space" link set "p$end$number" up
            [[ $end == b ]] && kind=signal || kind=subflow
            ip -n "$space" mptcp endpoint add "10.91.$number.$host" dev "p$end$number" "$kind"
        done
        number=$((number + 1))
    done
    for space in "$one" "$two"; do
        ip -n "$space" link set lo up
        ip -n "$space" mptcp limits set subflows 8 add_addr_accepted 8
        # Windows that hold all paths.
        ip netns exec "$space" sysctl -qw net.ipv4.tcp_rmem="4096 131072 33554432" net.ipv4.tcp_wmem="4096 65536 33554432"
    done
    count=$number
}
