#!/usr/bin/env bash
# Builds the manual into target/manual and checks links and headings, with the mkdocs of docs/site/requirements.txt
# in a virtual environment under target/.
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
# The environment is kept until the requirements change.
if ! cmp --silent docs/site/requirements.txt "$made"; then
    rm -rf "$venv"
    python3 -m venv "$venv" || exit 3
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/pip" install --quiet --requirement docs/site/requirements.txt || {
        echo "manual: no package index can be reached"
        exit 3
    }
    cp docs/site/requirements.txt "$made"
fi
# Not --quiet: it would hide the warnings that --strict turns into errors.
"$venv/bin/mkdocs" build --strict && echo "manual: target/manual/index.html"
