#!/usr/bin/env bash
# Installs the C library: header, shared and static library without debugging symbols, and a file for pkg-config.
#
#     ./install.sh [PREFIX]      default: /usr/local
#
# These variables change it:
#
#     DESTDIR       folder that all paths are put below, for packages
#     LIBDIR        default: PREFIX/lib
#     INCLUDEDIR    default: PREFIX/include
#     LIBRARIES     folder with liblinecard.a and liblinecard.so; without it, they are built with cargo
#     STRIP         default: strip
#
# Exit code: 0 done, 1 something failed, 2 bad usage.
set -euo pipefail

usage() {
    echo "usage: install.sh [PREFIX], an absolute path; see the top of the file for variables" >&2
    exit 2
}

[ "$#" -le 1 ] || usage
prefix=${1:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
for path in "$prefix" "$libdir" "$includedir"; do
    [[ $path = /* ]] || usage
done
destdir=${DESTDIR:-}
crate=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ -z "${LIBRARIES:-}" ]; then
    command -v cargo >/dev/null || {
        echo "install.sh: there is no cargo to build the libraries: set LIBRARIES, or install Rust 1.89 or newer" >&2
        exit 1
    }
    cd "$crate"
    cargo build --release --package linecard-c
    LIBRARIES=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
for library in liblinecard.a liblinecard.so; do
    [ -f "$LIBRARIES/$library" ] || {
        echo "install.sh: there is no $library in $LIBRARIES" >&2
        exit 1
    }
done

header=$crate/include/linecard.h
abi=$(sed -n 's/^#define LINECARD_ABI_VERSION //p' "$header")
# In the repository, the version is that of the workspace.
manifest=$crate/Cargo.toml
grep -q '^version = ' "$manifest" || manifest=$crate/../../Cargo.toml
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$manifest" | sed 1q)

install -d "$destdir$libdir/pkgconfig" "$destdir$includedir"
install -m 644 "$header" "$destdir$includedir/linecard.h"
install -m 644 "$LIBRARIES/liblinecard.a" "$destdir$libdir/liblinecard.a"
install -m 755 "$LIBRARIES/liblinecard.so" "$destdir$libdir/liblinecard.so.$abi"
ln -sf "liblinecard.so.$abi" "$destdir$libdir/liblinecard.so"
"${STRIP:-strip}" --strip-debug "$destdir$libdir/liblinecard.a"
"${STRIP:-strip}" --strip-unneeded "$destdir$libdir/liblinecard.so.$abi"

# What Rust's standard library uses. gcc_eh is what gcc_s holds that `cc -static` finds, too.
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@INCLUDEDIR@|$includedir|" \
    -e "s|@VERSION@|$version|" -e "s|@SYSTEM@|-lgcc_eh -lutil -lrt -lpthread -lm -ldl -lc|" \
    "$crate/linecard.pc.in" >"$destdir$libdir/pkgconfig/linecard.pc"
chmod 644 "$destdir$libdir/pkgconfig/linecard.pc"

# How programs find the shared library.
case $libdir in
/lib | /lib64 | /usr/lib | /usr/lib64 | /usr/local/lib | /usr/lib/*-linux-gnu* | /usr/local/lib/*-linux-gnu*)
    echo "installed below $destdir$prefix: run \`ldconfig\` as root, so that programs find liblinecard.so.$abi"
    ;;
*)
    echo "installed below $destdir$prefix: run programs with LD_LIBRARY_PATH=$libdir, or link them with -Wl,-rpath,$libdir"
    ;;
esac
