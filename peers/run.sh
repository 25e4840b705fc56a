#!/usr/bin/env bash
# Builds and times Linecard beside tun-rs and DPDK on the same packets: peers/run.sh --help
#
# CORE=n chooses the core (default: the last); PROFILE=lto builds with LTO. Real traffic is captured
# once, where root and the tools are there, and kept beside what is built (see capture.sh); without
# it, similar traffic is derived. Buffers are asked for in large pages, as data paths have them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
core=${CORE:-$(($(nproc) - 1))}
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-$here/target}
traces=$target/traces

# Where it is missing, the harness says so.
DPDK_VERSION=$(pkg-config --modversion libdpdk 2>/dev/null || true)
export DPDK_VERSION
cargo build --quiet --profile "$profile" --locked --manifest-path "$here/Cargo.toml"

# Captures take two minutes: not for a smoke test or a list.
if [[ " $* " != *" --quick "* && " $* " != *" --list "* && " $* " != *" --help "* ]]; then
    "$here/capture.sh" --missing "$traces" ||
        echo "without real traffic: what could not be captured is derived" >&2
fi
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
exec taskset -c "$core" "$target/$profile/linecard-peers" --traces "$traces" "$@"
