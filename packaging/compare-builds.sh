#!/bin/sh
# Builds twice, in two directories, and compares the results: a release must not depend on where it is
# built. Runs in the Debian 13 system of scripts/debian13.sh; the program takes half an hour.
#
# usage: compare-builds.sh ARCHITECTURE [std]    with std, only Rust's standard library

set -eu
cd "$(dirname "$0")/.."
arch=${1:?usage: compare-builds.sh ARCHITECTURE [std]}
export FLASHFIT_CRATES="${FLASHFIT_CRATES:-/vendor}"
folder=$(mktemp -d "$PWD/target/compare.XXXXXX")
trap 'rm -rf "$folder"' EXIT
for one in first the/second; do
    if [ "${2:-}" = std ]; then
        sh packaging/std-from-source.sh "$arch" "$folder/$one/result"
    else
        mkdir -p "$folder/$one/source"
        git archive HEAD | tar -x -C "$folder/$one/source"
        FLASHFIT_TARGET_DIR=$folder/$one/target sh "$folder/$one/source/packaging/build.sh" "$arch"
        mkdir "$folder/$one/result"
        cp "$folder/$one/target/$arch/flashfit" "$folder/$one/result/"
        rm -rf "$folder/$one/target"
    fi
done
diff -r "$folder/first/result" "$folder/the/second/result"
echo "the same: $(find "$folder/first/result" -type f | wc -l) files"
