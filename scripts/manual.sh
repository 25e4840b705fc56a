#!/usr/bin/env bash
# Builds the manual into target/manual, with links and headings checked, by the mkdocs of manual/requirements.txt in a
# virtual environment of its own.
#
# Exit code: 0 built, 1 a page or a link is wrong, 3 there is no Python with venv, or no package index.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

venv=target/mkdocs
made=$venv/requirements.txt
python3 -c 'import venv, ensurepip' 2>/dev/null || {
    echo "manual: needs Python 3 with venv: run .ci/setup"
    exit 3
}
# Kept as long as what it is made of stays the same.
if ! cmp --silent manual/requirements.txt "$made"; then
    rm -rf "$venv"
    python3 -m venv "$venv" || exit 3
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/pip" install --quiet --requirement manual/requirements.txt || {
        echo "manual: no package index can be reached"
        exit 3
    }
    cp manual/requirements.txt "$made"
fi
# Not --quiet: then there are no warnings, and nothing to be strict about.
"$venv/bin/mkdocs" build --strict && echo "manual: target/manual/index.html"
