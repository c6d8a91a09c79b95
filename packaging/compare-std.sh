#!/bin/sh
# Builds Rust's standard library twice, in two directories, and compares the results: what the binaries
# are made of must not depend on the directory. Runs in the Debian 13 system of scripts/debian13.sh.
#
# usage: compare-std.sh ARCHITECTURE

set -eu
cd "$(dirname "$0")/.."
arch=${1:?usage: compare-std.sh ARCHITECTURE}
export FLASHFIT_CRATES="${FLASHFIT_CRATES:-/vendor}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for one in first the/second; do
    sh packaging/std-from-source.sh "$arch" "$folder/$one"
done
diff -r "$folder/first" "$folder/the/second" && echo "the same: $(find "$folder/first" -type f | wc -l) files"
