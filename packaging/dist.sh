#!/bin/sh
# Makes everything that a release consists of, and one archive of it. Runs in the Debian 13 system of
# scripts/debian13.sh. The same commit and the same packages of Debian give the same bytes.
#
# usage: dist.sh ARCHITECTURE...    the files are left in target/dist

set -eu
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."
dist=$PWD/target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
time=$(git log -1 --format=%ct)
rm -rf "$dist"
mkdir -p "$dist"

git archive --format=tar --prefix="flashfit-$version/" HEAD | xz -T1 -6 >"$dist/flashfit-$version.tar.xz"
sh packaging/debs.sh "$@"
sh packaging/statics.sh "$@"
builds=
for arch in "$@"; do
    . packaging/architecture.sh
    builds="$builds $arch $(packaged_build "$arch")"
done
# shellcheck disable=SC2086 # a list
FLASHFIT_CRATES=${FLASHFIT_CRATES:-/vendor} sh packaging/third-party-licenses.sh $builds \
    >"$dist/third-party-licenses.txt"

cd "$dist"
sha256sum flashfit* third-party-licenses.txt >SHA256SUMS
{
    echo "flashfit $version"
    echo "commit $(git -C "$OLDPWD" rev-parse HEAD)"
    echo "date $(date -d "@$time" +%Y-%m-%dT%H:%M:%SZ)"
    echo "built on Debian $(cat /etc/debian_version) with"
    dpkg-query -W -f '  ${Package} ${Version}\n' rustc cargo libc6-dev gcc-14 binutils dpkg-dev debhelper \
        gcc-14-aarch64-linux-gnu libc6-dev-arm64-cross gcc-14-arm-linux-gnueabihf libc6-dev-armhf-cross
    echo
    echo "bytes sha256 file"
    while read -r sum file; do
        echo "$(stat -c %s "$file") $sum $file"
    done <SHA256SUMS
} >MANIFEST
chmod 644 ./*
chmod 755 flashfit-"$version"-linux-*
archive=flashfit-$version-dist.tar
tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$time" \
    --transform "s,^\./,flashfit-$version-dist/," -cf "../$archive" ./*
mv "../$archive" "$archive"
sha256sum "$archive"
