#!/usr/bin/env bash
# Builds complete tunnel programs and measures them beside each other, as root: peers/tunnel.sh --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" --package linecard-peers-tunnel
exec "$target/release/linecard-peers-tunnel" "$@"
