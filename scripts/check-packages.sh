#!/usr/bin/env bash
# Checks what would be published: makes the packages of all crates without `publish = false`, in the order of their
# dependencies, and builds each from its package alone, as `cargo publish` would. Nothing is uploaded.
#
# A package must have its README and both licences, and its README must not link to files that are not in it. With
# a tag of an earlier version, cargo-semver-checks compares the interfaces with that.
#
# Exit code: 0 all was checked, 1 something is wrong, 3 all but the interfaces was checked, and why.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Cargo unpacks the packages that others need below its home, and does not do so again for the same version: an earlier
# run would be tested. So sources and objects go to folders of this run; what was downloaded is shared.
home=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$work/home/registry" "$home/registry/index" "$home/registry/cache"
for entry in "$home"/*; do
    [ "${entry##*/}" = registry ] || ln -s "$entry" "$work/home/"
done
ln -s "$home/registry/index" "$home/registry/cache" "$work/home/registry/"
export CARGO_HOME=$work/home CARGO_TARGET_DIR=$work/target

# Uncommitted files are packaged too: the check is of this tree.
begun=$SECONDS
cargo publish --workspace --dry-run --allow-dirty --locked 2>&1 | sed '/^warning: ignoring /d; /^warning: aborting upload/d' ||
    exit 1
echo "packages: made and built in $((SECONDS - begun)) s"

code=0
wrong() {
    echo "packages: $1" >&2
    code=1
}

# One crate a line.
published=$(cargo metadata --format-version 1 --no-deps --locked |
    grep -o '"name":"linecard[^"]*","version":"[^"]*"' | sort -u | sed 's/"name":"\(.*\)","version":"\(.*\)"/\1 \2/')
names=()
while read -r name version; do
    grep -q '^publish = false' "crates/$name/Cargo.toml" && continue
    names+=("$name")
    package=$CARGO_TARGET_DIR/package/$name-$version
    [ -d "$package" ] || { wrong "$name: there is no $package"; continue; }
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        [ -s "$package/$file" ] || wrong "$name: $file is missing in the package"
    done
    # Links in a README are followed on the page of the registry, too.
    while read -r link; do
        [ -e "$package/$link" ] || wrong "$name: README.md links to $link, which is not in the package"
    done < <(grep -o '](\([^)#]*\)' "$package/README.md" | sed 's/^](//' | grep -v '^https:')
done <<<"$published"
[ "$code" = 0 ] || exit 1
echo "packages: ${names[*]}"

tag=$(git describe --tags --abbrev=0 2>/dev/null)
if [ -z "$tag" ]; then
    echo "packages: INTERFACES WERE NOT COMPARED: there is no tag of an earlier version" >&2
elif ! cargo semver-checks --version >/dev/null 2>&1; then
    echo "packages: INTERFACES WERE NOT COMPARED: cargo install cargo-semver-checks --locked" >&2
else
    for name in "${names[@]}"; do
        # It compares libraries of Rust.
        [ "$name" = linecard-c ] || cargo semver-checks --package "$name" --baseline-rev "$tag" || exit 1
    done
    exit 0
fi
exit 3
