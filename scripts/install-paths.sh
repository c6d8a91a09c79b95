#!/bin/bash
# Follows docs/install.md in clean systems: the package on Debian 13 and 12, the static binary on Debian 12
# and in a directory with nothing else, with `source` the build from source on Debian 13. The network is
# needed. The systems are removed at the end.
#
# usage: install-paths.sh DIST [source]    DIST is where `make deb` and `make static-all` left their results

set -euo pipefail
dist=$(realpath "${1:?usage: install-paths.sh DIST [source]}")
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    echo "error: no clean systems without root: they are made with mmdebstrap" >&2
    echo "hint: sudo scripts/install-paths.sh $dist" >&2
    exit 4
fi
package=$(find "$dist" -name 'flashfit_*_amd64.deb' | sort | tail -n 1)
static=$(find "$dist" -name 'flashfit-*-linux-amd64' | sort | tail -n 1)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
work=$(mktemp -d "${TMPDIR:-/tmp}/flashfit-install.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

# What works without root's rights over the kernel, and shows that the programs are found.
USE='
    flashfit --version | grep -F "$1"
    flashfit list
    truncate -s 256M /tmp/card.img
    flashfit check /tmp/card.img
    flashfit plan /tmp/card.img --fs ext4 --output /tmp/plan.json
    flashfit apply /tmp/plan.json /tmp/card.img --dry-run
'

# inside SYSTEM COMMANDS: with /proc, in a mount namespace of its own.
inside() {
    unshare --mount --pid --fork --kill-child sh -euc '
        mount -t proc proc "$1/proc"
        for folder in sys dev; do mount --rbind "/$folder" "$1/$folder"; done
        exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            /bin/sh -euxc "$2" sh "$3"
    ' sh "$1" "$2" "$version" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        return 1
    }
}

system() {
    mmdebstrap --quiet --variant=apt "$1" "$work/$1"
    cp "$package" "$work/$1/tmp/package.deb"
    cp "$static" "$work/$1/tmp/flashfit-static"
}

for suite in trixie bookworm; do
    system $suite
    inside "$work/$suite" "
        install /tmp/flashfit-static /usr/local/bin/flashfit
        apt-get update
        DEBIAN_FRONTEND=noninteractive apt-get install -y fio e2fsprogs fdisk mount
        $USE
        mkdir -p /usr/local/share/man/man1
        flashfit man --dir /usr/local/share/man/man1
        rm /usr/local/bin/flashfit /tmp/card.img /tmp/plan.json"
    echo "ok      static binary, Debian $suite"
    inside "$work/$suite" "
        DEBIAN_FRONTEND=noninteractive apt-get install -y /tmp/package.deb
        test -x /usr/bin/mkfs.btrfs -o -x /sbin/mkfs.btrfs
        test -s /usr/share/doc/flashfit/copyright
        $USE
        apt-get remove -y flashfit
        test ! -e /usr/bin/flashfit"
    echo "ok      package, Debian $suite"
    [ "$suite" = trixie ] || rm -rf --one-file-system "${work:?}/$suite"
done

mkdir -p "$work/empty/proc" "$work/empty/sys" "$work/empty/bin"
cp "$static" "$work/empty/flashfit"
chroot "$work/empty" /flashfit --version
chroot "$work/empty" /flashfit plan sim:sd-c4-block >/dev/null
echo "ok      static binary, nothing else"

if [ "${2:-}" = source ]; then
    git clone --quiet --no-hardlinks . "$work/trixie/root/flashfit"
    # Some networks have a certificate authority of their own.
    [ -z "${SSL_CERT_FILE:-}" ] || cp "$SSL_CERT_FILE" "$work/trixie/root/authorities.crt"
    inside "$work/trixie" "
        DEBIAN_FRONTEND=noninteractive apt-get install -y cargo gcc libc6-dev make git
        cd /root/flashfit
        [ ! -e /root/authorities.crt ] || export CARGO_HTTP_CAINFO=/root/authorities.crt
        make build
        install target/release/flashfit /usr/local/bin/
        rm -f /tmp/card.img /tmp/plan.json
        $USE"
    echo "ok      from source, Debian trixie"
fi
