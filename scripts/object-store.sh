#!/usr/bin/env bash
# Prepares the object store that tests use: moto, in a virtual environment target/moto.
#
# Exit code: 0 it is there, 3 there is no Python with venv, or no package index.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

venv=target/moto
made=$venv/requirements.txt
needed=scripts/object-store.txt
python3 -c 'import venv, ensurepip' 2>/dev/null || {
    echo "object-store: needs Python 3 with venv: run .ci/setup"
    exit 3
}
# The environment is kept until the requirements change.
cmp --silent "$needed" "$made" && exit 0
rm -rf "$venv"
python3 -m venv "$venv" || exit 3
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/pip" install --quiet --requirement "$needed" || {
    echo "object-store: no package index can be reached"
    exit 3
}
cp "$needed" "$made"
