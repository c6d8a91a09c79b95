#!/bin/bash
# Installs the arm64 package in a Debian 13 arm64 system, emulated by QEMU with kernels and programs from
# Debian's packages, and uses it there: once with pages of 4 KiB and once of 16 KiB, as a Raspberry Pi 5
# has. What is run is in arm64-inside.sh. The system is made once and kept in the cache directory.
# Everything is emulated instruction by instruction: a boot takes a minute, all of it about half an hour.
#
# usage: arm64.sh DIST [4k|16k]    DIST is where `make deb` and `make static-all` left their results

set -euo pipefail

# Change the number when the list of packages changes: the kept system is then made again.
EDITION=1
PACKAGES="systemd-sysv,udev,kmod,linux-image-arm64,linux-image-arm64-16k,initramfs-tools,mount,procps,\
fio,e2fsprogs,fdisk,f2fs-tools,btrfs-progs,xfsprogs,dosfstools,exfatprogs,man-db,bash-completion"
MOST_SECONDS=3600
# To pack all modules of a kernel into its initramfs takes minutes under emulation.
FEW_MODULES='
    mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
    printf "%s\n" MODULES=list COMPRESS=gzip >"$1/etc/initramfs-tools/conf.d/flashfit"
    printf "%s\n" virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/flashfit"
'

say() { printf '%s\n' "$*" >&2; }

dist=$(realpath "${1:?usage: arm64.sh DIST [4k|16k]}")
pages=${2:-4k 16k}
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    say "error: no arm64 system without root: its packages are installed with mmdebstrap"
    say "hint: sudo make test-arm64"
    exit 4
fi
package=$(find "$dist" -name 'flashfit_*_arm64.deb' | sort | tail -n 1)
static=$(find "$dist" -name 'flashfit-*-linux-arm64' | sort | tail -n 1)
if [ -z "$package" ] || [ -z "$static" ]; then
    say "error: no package or no static binary for arm64 in $dist"
    say "hint: make deb static-all ARCHITECTURES=arm64"
    exit 4
fi

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/flashfit
system=$cache/debian-13-arm64-$EDITION
work=$(mktemp -d "${TMPDIR:-/tmp}/flashfit-arm64.XXXXXX")
trap 'rm -rf "$work"' EXIT

install_programs() {
    missing=
    command -v qemu-system-aarch64 >/dev/null || missing="$missing qemu-system-arm"
    command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
    command -v arch-test >/dev/null || missing="$missing arch-test"
    command -v debugfs >/dev/null || missing="$missing e2fsprogs"
    [ -n "$missing" ] || return 0
    say "installing:$missing"
    # shellcheck disable=SC2086 # a list of names
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends $missing >/dev/null
}

# The packages' scripts run under user emulation. It is registered in a user namespace, so that it does
# not exist for the rest of this machine and ends with the namespace.
make_system() {
    say "making a Debian 13 arm64 system in $system (minutes)"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/debian-13-arm64-new.XXXXXX")
    trap 'rm -rf --one-file-system "$work" "$new"' EXIT
    emulator=$cache/qemu-aarch64
    ls -d "$cache"/debian-13-packages-* >/dev/null 2>&1 || sh scripts/debian13.sh --for packages true
    cp "$(ls -d "$cache"/debian-13-packages-* | tail -n 1)/usr/bin/qemu-aarch64" "$emulator"
    unshare --user --mount sh -euc '
        until grep -q . /proc/self/uid_map && grep -q . /proc/self/gid_map; do sleep 0.1; done
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
        magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
        printf "%s" ":qemu-aarch64:M::$magic:$mask:$1:OCF" >/proc/sys/fs/binfmt_misc/register
        # Threads that unpack packages can block each other for ever under user emulation.
        export DPKG_DEB_THREADS_MAX=1
        exec mmdebstrap --mode=root --variant=apt --architectures=arm64 --include="$2" \
            --aptopt="Apt::Install-Recommends \"false\"" --essential-hook="$4" trixie "$3" >&2
    ' sh "$emulator" "$PACKAGES" "$new/root" "$FEW_MODULES" &
    child=$!
    until [ "$(readlink /proc/$child/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do
        sleep 0.1
    done
    echo "0 0 65536" >/proc/$child/uid_map
    echo "0 0 65536" >/proc/$child/gid_map
    wait $child
    make_image "$new"
    mv -T "$new" "$system"
}

# A disk with the system, and next to it the kernels.
make_image() {
    cat >"$1/root/usr/local/sbin/run-payload" <<'RUN'
#!/bin/sh
mkdir -p /payload
mount LABEL=payload /payload
bash /payload/arm64-inside.sh /payload
umount /payload
RUN
    chmod 755 "$1/root/usr/local/sbin/run-payload"
    echo flashfit-arm64 >"$1/root/etc/hostname"
    for file in "$1"/root/boot/vmlinuz-* "$1"/root/boot/initrd.img-*; do
        # vmlinuz-4k, vmlinuz-16k, initrd.img-4k, initrd.img-16k
        kind=$(basename "$file")
        case $file in
        *-16k) cp "$file" "$1/${kind%%-*}-16k" ;;
        *) cp "$file" "$1/${kind%%-*}-4k" ;;
        esac
    done
    truncate -s 3G "$1/system.img"
    mkfs.ext4 -q -L system -d "$1/root" "$1/system.img"
    rm -rf --one-file-system "$1/root"
}

# boot PAGES: runs the tests in the machine; their results are then in $work/PAGES.
boot() {
    mkdir -p "$work/payload"
    cp scripts/arm64-inside.sh "$package" "$work/payload/"
    cp "$static" "$work/payload/flashfit-static"
    truncate -s 256M "$work/payload.img"
    mkfs.ext4 -qF -L payload -d "$work/payload" "$work/payload.img"
    truncate -s 0 "$work/test.img"
    truncate -s 1G "$work/test.img"
    say "booting with pages of $1"
    timeout "$MOST_SECONDS" qemu-system-aarch64 -machine virt -cpu cortex-a76 -accel tcg,thread=multi \
        -smp 2 -m 1024 -nic none -display none -monitor none -no-reboot \
        -serial "file:$work/console-$1" -kernel "$system/vmlinuz-$1" -initrd "$system/initrd.img-$1" \
        -append "root=LABEL=system rw console=ttyAMA0 quiet systemd.run=/usr/local/sbin/run-payload \
systemd.run_success_action=poweroff systemd.run_failure_action=poweroff" \
        -drive "id=system,if=none,format=raw,snapshot=on,file=$system/system.img" \
        -drive "id=test,if=none,format=raw,file=$work/test.img" \
        -drive "id=payload,if=none,format=raw,file=$work/payload.img" \
        -device virtio-blk-pci,drive=system -device virtio-blk-pci,drive=test,serial=test \
        -device virtio-blk-pci,drive=payload -device virtio-rng-pci || say "the machine did not end"
    mkdir -p "$work/$1"
    debugfs -R "rdump /results $work/$1" "$work/payload.img" 2>/dev/null
    cat "$work/$1/results/summary"
    if [ -n "${FLASHFIT_RESULTS:-}" ]; then
        mkdir -p "$FLASHFIT_RESULTS"
        cp -r "$work/$1" "$work/console-$1" "$FLASHFIT_RESULTS/"
    fi
    grep -q ' ok, 0 failed' "$work/$1/results/summary"
}

install_programs
[ -d "$system" ] || make_system
failed=
for size in $pages; do
    boot "$size" || failed="$failed $size"
done
if [ -n "$failed" ]; then
    say "error: failed with pages of$failed"
    say "hint: FLASHFIT_RESULTS=DIR keeps the output of all steps and the console"
    exit 1
fi
