#!/usr/bin/env bash
# Tests the Python package as a user would have it: installed into a new virtual environment by `pip install .`,
# with the versions of python/constraints.txt.
#
# Exit code: 0 all passed, 1 something failed, 3 there is no Python 3.11 with venv, or no package index.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

venv=target/python/venv
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "python: needs Python 3.11 or newer with venv: run .ci/setup"
    exit 3
}
rm -rf "$venv"
python3 -m venv "$venv" || exit 3
export PIP_CONSTRAINT=python/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/pip" install --quiet maturin || {
    echo "python: no package index can be reached"
    exit 3
}
# The crates that the tests of Rust have built already; an optimised module would be another build of all of them.
MATURIN_PEP517_ARGS="--profile dev" "$venv/bin/pip" install --quiet ".[test]" || exit 1

# Not from the checkout: what is tested is what was installed.
run() {
    echo "-- $*"
    "$@" || exit 1
}
run "$venv/bin/ruff" check
run "$venv/bin/ruff" format --check
run "$venv/bin/mypy"
run "$venv/bin/python" -m mypy.stubtest linecard._linecard
run "$venv/bin/python" -m pytest -rs
run "$venv/bin/python" -m pytest --doctest-modules --pyargs linecard
