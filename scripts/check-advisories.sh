#!/usr/bin/env bash
# Checks the crates of Cargo.lock against the RustSec advisories, and whether any was yanked (deny.toml, [advisories]).
#
# Where the RustSec database can be fetched, or was fetched within 90 days, an advisory is an error. Where it cannot,
# only yanked crates are checked, which the index of the registry lists, and the script says so.
#
# Exit code: 0 all was checked, 1 an advisory or a yanked crate, 3 advisories were not checked: no database.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

database=https://github.com/RustSec/advisory-db
export GIT_TERMINAL_PROMPT=0

if why=$(timeout 60 git ls-remote "$database" HEAD 2>&1); then
    cargo deny --locked check advisories || exit 1
    exit 0
fi
echo "advisories: $database cannot be fetched: ${why##*fatal: }"
if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/crates" >/dev/null; then
    echo "advisories: using the copy that was fetched before"
    cargo deny --offline --locked check advisories || exit 1
    exit 0
fi

# cargo-deny looks for yanked crates only beside a database: here one with an advisory for a crate that nobody has.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/database/crates/none"
cat >"$folder/database/crates/none/RUSTSEC-2020-0001.md" <<'END'
```toml
[advisory]
id = "RUSTSEC-2020-0001"
package = "none"
date = "2020-01-01"

[versions]
patched = []
```

# A database has to have an advisory
END
cat >"$folder/deny.toml" <<END
[advisories]
db-path = "$folder/fetched"
db-urls = ["https://none.invalid/database"]
yanked = "deny"
END
in_database=(git -c user.name=none -c user.email=none -C "$folder/database")
"${in_database[@]}" init -q -b main && "${in_database[@]}" add . && "${in_database[@]}" commit -qm none || exit 1
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$folder/database.insteadOf"
export GIT_CONFIG_VALUE_0=https://none.invalid/database
cargo deny --locked --config "$folder/deny.toml" "$@" check advisories || exit 1
echo "advisories: no crate of Cargo.lock was yanked; ADVISORIES WERE NOT CHECKED"
exit 3
