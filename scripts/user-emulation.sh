#!/bin/sh
# Runs a static binary for ARM under user emulation, and compares what it prints with the amd64 binary:
# what needs no support by the kernel, simulated results included. Runs in the Debian 13 system of
# debian13.sh, which has the emulators.
#
# usage: user-emulation.sh armhf|arm64    after statics.sh for it and amd64

set -u
case ${1:?usage: user-emulation.sh armhf|arm64} in
armhf) emulator=qemu-arm ;;
arm64) emulator=qemu-aarch64 ;;
*) echo "error: no emulator for \`$1\`" >&2; exit 2 ;;
esac
# A command that does not end is a failure; the longest takes minutes.
most_seconds=${FLASHFIT_MOST_SECONDS:-1800}
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Help shows the name of the file.
native=$work/native/flashfit
foreign=$work/foreign/flashfit
mkdir "$work/native" "$work/foreign"
cp "target/dist/flashfit-$version-linux-amd64" "$native"
cp "target/dist/flashfit-$version-linux-$1" "$foreign"
examples=$PWD/examples
catalog=$PWD/catalog
cd "$work" || exit 1
failed=0 passed=0

# Both in directories of the same name, and without times and speeds of this machine.
run() {
    side=$1
    shift
    mkdir -p "$work/$side/use"
    cd "$work/$side/use" || exit 1
    case $side in
    native) "$native" "$@" ;;
    foreign) timeout "$most_seconds" "$emulator" "$foreign" "$@" ;;
    esac
}

# same ARGUMENT...: both succeed or fail in the same way and print the same.
same() {
    run native "$@" >"$work/native.out" 2>"$work/native.err" </dev/null
    native_status=$?
    began=$(date +%s)
    run foreign "$@" >"$work/foreign.out" 2>"$work/foreign.err" </dev/null
    foreign_status=$?
    if [ $native_status -eq $foreign_status ] && [ $native_status -le 1 ] &&
        cmp -s "$work/native.out" "$work/foreign.out"; then
        echo "ok      flashfit $* ($(($(date +%s) - began)) s)"
        passed=$((passed + 1))
    else
        echo "FAILED  flashfit $*: exit $foreign_status, amd64 $native_status"
        tail -n 2 "$work/foreign.err"
        diff "$work/native.out" "$work/foreign.out" | head -n 6
        failed=$((failed + 1))
    fi
}

for side in native foreign; do
    mkdir -p "$work/$side/use"
    truncate -s 64M "$work/$side/use/card.img"
    mkdir "$work/$side/use/grid"
    tar -xzf "$examples/grids/usd-a2-cq.tar.gz" -C "$work/$side/use/grid"
done

same --version
for command in $("$native" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$'); do
    same "$command" --help
done
same inspect sim:sd-c4-block --json
same plan card.img --no-probe
same plan sim:emmc-5.1 --all
same catalog
same catalog new-workload mine
same schema
same man
for shell in bash zsh fish; do same completions "$shell"; done
same card list --json
same card show sd-c4-block
same card bench sd-c4-block --json
same card bench usd-a1-pagemap --blocks 3 --json
same probe sim:sd-c4-block --json
same probe sim:sd-c4-block --write --confirm sd-c4-block --json
same wear estimate sim:sd-c4-block --fs ext4,f2fs --usage raspberry-pi --compare --json
same --catalog "$catalog" analyze grid/usd-a2-cq-1
same --catalog "$catalog" analyze grid/usd-a2-cq-1 --json
same --catalog "$catalog" tune --replay grid/usd-a2-cq-1 --json
same --catalog "$catalog" compare grid/usd-a2-cq-1 grid/usd-a2-cq-2
same --catalog "$catalog" report grid/usd-a2-cq-1 --output report.html
cmp -s "$work/native/use/report.html" "$work/foreign/use/report.html" || {
    echo "FAILED  the reports differ"
    failed=$((failed + 1))
}
# What is attached, and an image, can be seen; devices come and go, so that this is not compared.
for command in list "inspect card.img" "probe card.img" "check card.img"; do
    # shellcheck disable=SC2086 # a command and its target
    if run foreign $command >"$work/out" 2>&1; then
        echo "ok      flashfit $command"
        passed=$((passed + 1))
    else
        echo "FAILED  flashfit $command: $(tail -n 2 "$work/out")"
        failed=$((failed + 1))
    fi
done
echo "end     $passed ok, $failed failed"
[ $failed -eq 0 ]
