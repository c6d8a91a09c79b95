#!/bin/sh
# Builds the static binaries. Runs in the Debian 13 system of scripts/debian13.sh.
#
# usage: statics.sh ARCHITECTURE...    the files are left in target/dist
# $FLASHFIT_BUILT is a directory with binaries that packaging/build.sh has built already.

set -eu
cd "$(dirname "$0")/.."
export FLASHFIT_TARGET_DIR="$PWD/target/build"
export FLASHFIT_CRATES="${FLASHFIT_CRATES:-/vendor}"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
mkdir -p target/dist
[ -n "${FLASHFIT_BUILT:-}" ] || sh packaging/build-all.sh "$@"
for arch in "$@"; do
    cp "${FLASHFIT_BUILT:-$FLASHFIT_TARGET_DIR}/$arch/flashfit" "target/dist/flashfit-$version-linux-$arch"
done
cd target/dist
sha256sum flashfit-"$version"-linux-* >SHA256SUMS
