#!/bin/sh
# Runs a command on a copy of the committed files in a Debian 13 system, whose Rust (1.85) is the
# oldest that flashfit supports. The system is made once with mmdebstrap and kept in the cache folder;
# what is built is kept in target/debian-13. It takes root, because tests attach loop devices.
#
# usage: debian13.sh COMMAND...     for example: debian13.sh make test

set -eu

# Change the number when the list of packages changes: the kept system is then made again.
EDITION=3
PACKAGES="cargo,rustc,gcc,g++,libc6-dev,make,git,ca-certificates,fio,e2fsprogs,btrfs-progs,xfsprogs,\
f2fs-tools,dosfstools,exfatprogs,nilfs-tools,squashfs-tools,fdisk,mount,util-linux,procps,kmod,\
libnbd-bin,qemu-utils,qemu-system-x86,busybox-static,openssh-client,openssh-server,python3,python3-venv,sqlite3,strace,iproute2"

say() { printf '%s\n' "$*" >&2; }

if [ $# -eq 0 ]; then
    say "usage: debian13.sh COMMAND..."
    exit 2
fi
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    say "error: no Debian 13 system without root: it mounts /dev and /sys for the tests"
    say "hint: sudo make test-debian13"
    exit 4
fi

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/flashfit
system=$cache/debian-13-$EDITION
work=$PWD/target/debian-13
vendor=$work/vendor

make_system() {
    if ! command -v mmdebstrap >/dev/null 2>&1; then
        say "installing: mmdebstrap"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends mmdebstrap >/dev/null
    fi
    say "making a Debian 13 system in $system"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/debian-13-new.XXXXXX")
    trap 'rm -rf --one-file-system "$new"' EXIT
    mmdebstrap --variant=apt --include="$PACKAGES" --aptopt='Apt::Install-Recommends "false"' \
        trixie "$new" >&2
    chmod 755 "$new"
    mv -T "$new" "$system"
    trap - EXIT
}

[ -d "$system" ] || make_system

# Debian's cargo gets the crates from here: the system needs no network.
mkdir -p "$work/home/.cargo" "$work/build"
cargo vendor --quiet --locked --versioned-dirs "$vendor" >/dev/null
cat >"$work/home/.cargo/config.toml" <<CONFIG
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "/vendor"
CONFIG

rm -rf "$work/source"
git clone --quiet --no-hardlinks . "$work/source"

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
