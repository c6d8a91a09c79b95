#!/bin/sh
# Checks licenses, sources and known vulnerabilities of all crates that flashfit is built from, by the
# rules in deny.toml. With cargo-deny it checks all of them; without, licenses and sources, which
# cargo itself knows. What could not be checked is said in the last lines.
#
# usage: check-dependencies.sh

set -eu
cd "$(dirname "$0")/.."

if command -v cargo-deny >/dev/null 2>&1; then
    cargo deny --locked check licenses bans sources
    # The advisory database is fetched from its repository, which not every machine reaches.
    if cargo deny --locked fetch db >/dev/null 2>&1; then
        cargo deny --locked check advisories
    else
        echo "advisories: not checked: the advisory database cannot be reached from here"
    fi
else
    cargo metadata --format-version 1 --locked | python3 scripts/check_licenses.py deny.toml
    echo "advisories: not checked: cargo-deny is not installed (cargo install --locked cargo-deny)"
fi
