#!/usr/bin/env bash
# Builds what is given to others, into target/package/:
#
#     linecard              the command, as `cargo build --release` makes it
#     man/ completions/     its manual pages and completions, written by itself
#     linecard.cdx.json     what it is made of (CycloneDX), and
#     THIRD-PARTY.md        with which licences (scripts/list-dependencies.py)
#     *.deb *.whl           packages, where cargo-deb and maturin are installed
#     SHA256SUMS            of all of these
#
# Missing tools are listed at the end with how to install them, and their products are left out. Exit code: 0 done,
# 1 something failed. docs/howto/packaging.md has the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=target/package
built=${CARGO_TARGET_DIR:-target}/release
missing=()

rm -rf "$out"
mkdir -p "$out/completions"

cargo build --release --locked --package linecard-cli
install -m 755 "$built/linecard" "$out/linecard"
"$out/linecard" man "$out/man"
"$out/linecard" completions bash >"$out/completions/linecard"
"$out/linecard" completions zsh >"$out/completions/_linecard"
"$out/linecard" completions fish >"$out/completions/linecard.fish"
"$out/linecard" completions elvish >"$out/completions/linecard.elv"
"$out/linecard" completions powershell >"$out/completions/linecard.ps1"

if python3 -c 'import tomllib' 2>/dev/null; then
    scripts/list-dependencies.py "$out"
else
    missing+=("linecard.cdx.json, THIRD-PARTY.md, and so the .deb: Python 3.11 or newer")
fi

# Times in packages are that of the commit: equal sources give equal packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

if [ ! -f "$out/THIRD-PARTY.md" ]; then
    :
elif cargo deb --version >/dev/null 2>&1; then
    # Its contents are listed in crates/linecard-cli/Cargo.toml. It warns that it will not build what lies in
    # target/package: that is there already.
    cargo deb --package linecard-cli --no-build --strip --locked --output "$out/"
else
    missing+=("the .deb: cargo install cargo-deb --locked")
fi

if command -v maturin >/dev/null; then
    maturin build --release --locked --out "$out"
else
    missing+=("the wheel: pip install maturin")
fi

(
    cd "$out"
    find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS
)

echo
echo "In $out:"
(cd "$out" && find . -maxdepth 1 -type f -printf '%10s  %P\n' | LC_ALL=C sort -k2)
for what in "${missing[@]}"; do
    echo "NOT MADE: $what"
done
