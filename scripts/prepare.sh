#!/bin/sh
# Checks whether this machine has what flashfit needs. On Debian as root, it installs missing
# packages; otherwise it prints what to install and exits with 4.
#
# usage: prepare.sh [demo|test|fuzz]

set -u

PURPOSE=${1:-build}
RUST_NEEDED=1.85
environment=4

say() { printf '%s\n' "$*" >&2; }

is_for_tests() { [ "$PURPOSE" = test ] || [ "$PURPOSE" = test-full ]; }

# Reads pairs of program and Debian package; prints the packages of missing programs.
lacking() {
    while read -r program package; do
        [ -n "$program" ] || continue
        PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null 2>&1 || printf '%s ' "$package"
    done
}

missing_packages() {
    lacking <<LIST
fio fio
mkfs.ext4 e2fsprogs
mkfs.btrfs btrfs-progs
sfdisk fdisk
mount mount
blkdiscard util-linux
cc gcc
ps procps
$(only_for_tests)
$(only_for_fuzzing)
LIST
}

# NBD clients, and a file system that only tests use.
only_for_tests() {
    is_for_tests || return 0
    cat <<LIST
nbdinfo libnbd-bin
nbdcopy libnbd-bin
qemu-img qemu-utils
qemu-io qemu-utils
qemu-storage-daemon qemu-system-common
mkfs.xfs xfsprogs
nvme nvme-cli
smartctl smartmontools
LIST
}

# libFuzzer is C++.
only_for_fuzzing() {
    [ "$PURPOSE" != fuzz ] || echo c++ g++
}

# Programs for virtual machines; their kernel is downloaded when the first one starts.
for_virtual_machines() {
    case $(uname -m) in
    aarch64) lacking <<LIST
qemu-system-aarch64 qemu-system-arm
busybox busybox-static
LIST
        ;;
    *) lacking <<LIST
qemu-system-x86_64 qemu-system-x86
busybox busybox-static
LIST
        ;;
    esac
}

# What the tests of further file systems need; where it is lacking they are skipped and say so.
missing_test_packages() {
    lacking <<LIST
mkfs.f2fs f2fs-tools
mkfs.fat dosfstools
mkfs.exfat exfatprogs
mkfs.xfs xfsprogs
mkfs.nilfs2 nilfs-tools
mksquashfs squashfs-tools
strace strace
sqlite3 sqlite3
ssh openssh-client
$(ssh_server)
LIST
    [ "$PURPOSE" = test ] || python3 -c 'import ensurepip, venv' 2>/dev/null || printf 'python3-venv '
}

# Tests start one of their own on loopback. Its package starts one that is open to the network where
# there is systemd, which nobody asked for.
ssh_server() {
    [ -d /run/systemd/system ] || echo sshd openssh-server
}

is_debian() {
    grep -qE '^ID(_LIKE)?=.*debian' /etc/os-release 2>/dev/null && command -v apt-get >/dev/null 2>&1
}

check_rust() {
    if ! command -v "${CARGO:-cargo}" >/dev/null 2>&1; then
        say "error: there is no Rust toolchain (cargo)"
        say "hint: install Rust $RUST_NEEDED or later: https://rustup.rs, or apt-get install cargo on Debian 13"
        exit $environment
    fi
    found=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
    oldest=$(printf '%s\n%s\n' "$RUST_NEEDED" "${found:-0.0}" | sort -V | head -n 1)
    if [ "$oldest" != "$RUST_NEEDED" ]; then
        say "error: Rust ${found:-of unknown version} is too old"
        say "hint: install Rust $RUST_NEEDED or later: https://rustup.rs"
        exit $environment
    fi
}

install_packages() {
    wanted=$(missing_packages)
    if is_for_tests || { [ "$PURPOSE" = demo ] && [ "$(id -u)" -ne 0 ]; }; then
        wanted="$wanted $(for_virtual_machines)"
    fi
    if is_for_tests; then
        wanted="$wanted $(missing_test_packages)"
    fi
    packages=$(printf '%s' "$wanted" | tr ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' ')
    packages=${packages% }
    [ -n "$packages" ] || return 0
    if ! is_debian; then
        cannot_install "this is not Debian, so nothing is installed; missing are the packages: $packages" \
            "install what they bring (fio, e2fsprogs, btrfs-progs, fdisk, util-linux, libnbd, qemu-img, a C linker), then run make again"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        cannot_install "not running as root, so nothing is installed; missing are the packages: $packages" \
            "sudo apt-get install $packages"
        return 0
    fi
    say "installing with apt-get, as root: $packages"
    log=$(mktemp) || exit $environment
    trap 'rm -f "$log"' EXIT
    # shellcheck disable=SC2086 # a list of names
    if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends $packages; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        say "error: apt-get could not install $packages"
        say "hint: apt-get update && apt-get install $packages"
        exit $environment
    fi
}

# Tests are skipped, and counted, where a program is missing; only the linker must be there.
cannot_install() {
    if is_for_tests && command -v cc >/dev/null 2>&1; then
        say "note: $1"
        say "note: tests that need them are skipped; to run them: $2"
        return 0
    fi
    say "error: $1"
    say "hint: $2"
    exit $environment
}

# Tests that attach devices are skipped where that cannot be done.
announce_skips() {
    reason=
    [ "$(id -u)" -eq 0 ] || reason="not running as root"
    [ -e /dev/fuse ] || reason="no FUSE (/dev/fuse) here"
    [ -e /dev/loop-control ] || reason="no loop devices (/dev/loop-control) here"
    [ -z "$reason" ] || say "note: tests on attached devices are skipped: $reason"
}

# The demo attaches a card to this kernel, or, without root, to that of a virtual machine;
# tests that cannot do so say so and are skipped.
check_kernel() {
    [ "$(id -u)" -eq 0 ] || return 0
    for node in /dev/loop-control /dev/fuse; do
        if [ ! -e "$node" ]; then
            modprobe loop 2>/dev/null
            modprobe fuse 2>/dev/null
        fi
        if [ ! -e "$node" ]; then
            say "error: this kernel or container offers no $node"
            say "hint: run it on a machine, or in a virtual one, with loop devices and FUSE"
            exit $environment
        fi
    done
}

check_rust
install_packages
case $PURPOSE in
demo) check_kernel ;;
test) announce_skips ;;
test-full)
    announce_skips
    sh "$(dirname "$0")/lab-for-tests.sh"
    sh "$(dirname "$0")/duckdb-for-tests.sh"
    ;;
esac
