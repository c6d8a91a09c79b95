#!/bin/sh
# Builds and checks the Debian packages. Runs in the Debian 13 system of scripts/debian13.sh.
#
# usage: debs.sh ARCHITECTURE...    the packages are left in target/dist

set -eu
cd "$(dirname "$0")/.."
export FLASHFIT_TARGET_DIR="$PWD/target/build"
export FLASHFIT_CRATES="${FLASHFIT_CRATES:-/vendor}"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
dist=$PWD/target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
mkdir -p "$dist"
# Here, where `make static-all` and `make dist` build too. The native one with the same commands makes the
# man pages.
if [ -z "${FLASHFIT_BUILT:-}" ]; then
    arch=amd64
    . packaging/architecture.sh
    builds=
    for arch in "$@"; do
        case $(packaged_build "$arch") in
        *-survey) builds="$builds amd64-survey $arch-survey" ;;
        *) builds="$builds amd64 $arch" ;;
        esac
    done
    # shellcheck disable=SC2086 # a list
    sh packaging/build-all.sh $builds
    export FLASHFIT_BUILT="$FLASHFIT_TARGET_DIR"
fi

# dpkg-buildpackage leaves its results next to the source.
source=$PWD/target/package/source
rm -rf target/package
mkdir -p "$source"
git archive HEAD | tar -x -C "$source"
cp -rT "$source/packaging/debian" "$source/debian"
cd "$source"

for arch in "$@"; do
    log=../build-$arch.log
    # The architecture's standard library may come from elsewhere than its package.
    dpkg-buildpackage --host-arch "$arch" --build=binary --unsigned-changes --no-check-builddeps \
        >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        exit 1
    }
    package=flashfit_${version}_$arch.deb
    lintian --fail-on error,warning --display-info --tag-display-limit 0 --allow-root "../$package"
    cp "../$package" "$dist/"
    echo "made: target/dist/$package, lintian has no complaints"
done
