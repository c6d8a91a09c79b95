#!/bin/sh
# Creates target/duckdb, a Python environment with DuckDB, which reads what `survey export` wrote.
# Its test is skipped without it.
#
# usage: duckdb-for-tests.sh

set -u

DUCKDB=1.4.1
folder=${CARGO_TARGET_DIR:-target}/duckdb

say() { printf '%s\n' "$*" >&2; }

if [ "$(cat "$folder/version" 2>/dev/null)" = "$DUCKDB" ]; then
    exit 0
fi
say "creating $folder: a Python environment with DuckDB $DUCKDB from the package index"
rm -rf "$folder"
if ! { python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check "duckdb==$DUCKDB"; } >&2; then
    rm -rf "$folder"
    say "skipped: a test of survey: DuckDB could not be installed (it takes python3 with venv, and a" \
        "package index)"
    exit 0
fi
echo "$DUCKDB" >"$folder/version"
