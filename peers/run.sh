#!/usr/bin/env bash
# Times Linecard beside tun-rs, pinned to one core: peers/run.sh [--rounds N] [CAPTURE.pcap ...]
#
# CORE=n chooses the core (default: the last). Buffers are asked for in large pages, as data paths
# have them. What the figures mean, and those of a run: docs/benchmarks.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
core=${CORE:-$(($(nproc) - 1))}
cargo build --release --locked --manifest-path "$here/Cargo.toml"
target=${CARGO_TARGET_DIR:-$here/target}
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
exec taskset -c "$core" "$target/release/linecard-peers" "$@"
