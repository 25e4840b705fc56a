#!/usr/bin/env bash
# Builds and times Linecard beside tun-rs and DPDK on the same packets: peers/run.sh --help
#
# CORE=n chooses the core (default: the last); PROFILE=lto builds with LTO. Real traffic is captured
# once, where root and the tools are there, and kept beside what is built (see capture.sh); without
# it, similar traffic is derived. Buffers are asked for in large pages, as data paths have them.
#
# OTHER_DPDK=PREFIX:... names where other versions of DPDK have been installed (README.md says how):
# all is timed with the system's first, then beside each of these, with tables for each.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
core=${CORE:-$(($(nproc) - 1))}
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-$here/target}
traces=$target/traces

# build FOLDER: builds into it with the DPDK that pkg-config finds; without one, the harness says so.
build() {
    DPDK_VERSION=$(pkg-config --modversion libdpdk 2>/dev/null || true) CARGO_TARGET_DIR=$1 \
        cargo build --quiet --profile "$profile" --locked --manifest-path "$here/Cargo.toml" --bin linecard-peers
}

targets=("$target")
build "$target"
IFS=: read -r -a others <<<"${OTHER_DPDK:-}"
for prefix in "${others[@]}"; do
    version=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion libdpdk)
    targets+=("$target/dpdk-$version")
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig build "$target/dpdk-$version"
done

# Captures take two minutes: not for a smoke test or a list.
if [[ " $* " != *" --quick "* && " $* " != *" --list "* && " $* " != *" --help "* ]]; then
    "$here/capture.sh" --missing "$traces" ||
        echo "without real traffic: what could not be captured is derived" >&2
fi
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
status=0
for folder in "${targets[@]}"; do
    taskset -c "$core" "$folder/$profile/linecard-peers" --traces "$traces" "$@" || status=$?
done
exit "$status"
