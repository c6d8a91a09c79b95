#!/bin/sh
# Runs a command on a copy of the committed files in a Debian 13 system, whose Rust (1.85) is the
# oldest that flashfit supports. The system is made once with mmdebstrap and kept in the cache folder;
# what is built is kept in target/debian-13. It takes root, because tests attach loop devices.
# There is one system for tests and one that builds packages, with cross compilers.
#
# usage: debian13.sh [--for packages] COMMAND...     for example: debian13.sh make test

set -eu

# Change a number when its list of packages changes: the kept system is then made again.
EDITION=3
PACKAGES="cargo,rustc,gcc,g++,libc6-dev,make,git,ca-certificates,fio,e2fsprogs,btrfs-progs,xfsprogs,\
f2fs-tools,dosfstools,exfatprogs,nilfs-tools,squashfs-tools,fdisk,mount,util-linux,procps,kmod,\
libnbd-bin,qemu-utils,qemu-system-x86,busybox-static,openssh-client,openssh-server,python3,python3-venv,sqlite3,strace,iproute2"
PACKAGES_EDITION=1
PACKAGES_FOR_PACKAGES="cargo,rustc,rust-src,gcc,libc6-dev,make,git,ca-certificates,debhelper,dpkg-dev,\
lintian,groff,man-db,mount,xz-utils,gcc-aarch64-linux-gnu,gcc-arm-linux-gnueabihf,libc6-dev-arm64-cross,\
libc6-dev-armhf-cross,libstd-rust-dev:arm64,qemu-user,bash-completion,zsh,fish"

say() { printf '%s\n' "$*" >&2; }

name=debian-13
edition=$EDITION
architectures=
if [ "${1:-}" = --for ] && [ "${2:-}" = packages ]; then
    name=debian-13-packages
    edition=$PACKAGES_EDITION
    PACKAGES=$PACKAGES_FOR_PACKAGES
    architectures=amd64,arm64
    shift 2
fi
if [ $# -eq 0 ]; then
    say "usage: debian13.sh [--for packages] COMMAND..."
    exit 2
fi
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    say "error: no Debian 13 system without root: it mounts /dev and /sys for the tests"
    say "hint: sudo make test-debian13"
    exit 4
fi

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/flashfit
system=$cache/$name-$edition
work=${CARGO_TARGET_DIR:-$PWD/target}/$name
vendor=$work/vendor

make_system() {
    if ! command -v mmdebstrap >/dev/null 2>&1; then
        say "installing: mmdebstrap"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends mmdebstrap >/dev/null
    fi
    say "making a Debian 13 system in $system"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/$name-new.XXXXXX")
    trap 'rm -rf --one-file-system "$new"' EXIT
    mmdebstrap --variant=apt --include="$PACKAGES" --aptopt='Apt::Install-Recommends "false"' \
        ${architectures:+--architectures="$architectures"} trixie "$new" >&2
    chmod 755 "$new"
    mv -T "$new" "$system"
    trap - EXIT
}

[ -d "$system" ] || make_system

# Debian's cargo gets the crates from here: the system needs no network.
mkdir -p "$work/home/.cargo" "$work/build"
# With those of Rust's standard library, whose manifests use unstable features, where it has its source.
standard_library=$(echo "$system"/usr/src/rustc-*/library/Cargo.toml)
if [ -e "$standard_library" ]; then
    RUSTC_BOOTSTRAP=1 cargo vendor --quiet --locked --versioned-dirs --sync "$standard_library" \
        "$vendor" >/dev/null
else
    cargo vendor --quiet --locked --versioned-dirs "$vendor" >/dev/null
fi
cat >"$work/home/.cargo/config.toml" <<CONFIG
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "/vendor"
CONFIG

# Files that a later commit leaves alone keep their times, so that cargo does not build all again.
if [ -d "$work/source/.git" ]; then
    git -C "$work/source" fetch --quiet "$PWD" HEAD
    git -C "$work/source" checkout --quiet --force --detach FETCH_HEAD
    git -C "$work/source" clean --quiet -ffdx
else
    git clone --quiet --no-hardlinks . "$work/source"
fi

# A mount and PID namespace: whatever happens, nothing stays mounted and no process is left.
export system work vendor
export FLASHFIT_REQUIRE="${FLASHFIT_REQUIRE:-}"
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare --mount --pid --fork --kill-child --propagation private sh -euc '
    mount --bind "$system" "$system"
    mount --rbind /dev "$system/dev"
    mount --rbind /sys "$system/sys"
    mount -t proc proc "$system/proc"
    mount -t tmpfs -o mode=1777 tmp "$system/tmp"
    mount -t tmpfs run "$system/run"
    for folder in src vendor; do mkdir -p "$system/$folder"; done
    mount --bind "$work/source" "$system/src"
    mkdir -p "$work/source/target" "$system/root"
    mount --bind "$work/build" "$work/source/target" && mount --rbind "$work/source" "$system/src"
    mount --bind "$vendor" "$system/vendor"
    mount --bind "$work/home" "$system/root"
    # Not chroot(8): the kernel then shows open files by names that do not exist inside, which the
    # tests that record system calls read.
    mkdir -p "$system/old-root"
    cd "$system"
    pivot_root . old-root
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        FLASHFIT_REQUIRE="$FLASHFIT_REQUIRE" CARGO_NET_OFFLINE=true \
        sh -euc "umount -l /old-root; cd /src && rustc --version && exec \"\$@\"" sh "$@"
' sh "$@"
