#!/bin/bash
# Runs in the emulated system of arm64.sh: installs the package and uses it as its users do. Every step
# is a line `ok` or `FAILED` in the results; figures are lines `figure`.
#
# usage: arm64-inside.sh DIRECTORY    with the package, the static binary; results go to its results/

set -u
export HOME=/root LC_ALL=C.UTF-8 TERM=dumb
cd "${1:?usage: arm64-inside.sh DIRECTORY}" || exit 1
results=$PWD/results
summary=$results/summary
mkdir -p "$results" /tmp/use
: >"$summary"

say() { echo "$*" | tee -a "$summary" >/dev/console; }

# step NAME COMMAND...: runs it, keeps its output, expects success.
step() {
    name=$1
    shift
    began=$SECONDS
    "$@" >"$results/$name.out" 2>"$results/$name.err" </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        say "ok      $name ($((SECONDS - began)) s)"
    else
        say "FAILED  $name: exit $status: $(tail -n 3 "$results/$name.err" | tr '\n' ' ')"
    fi
    return $status
}

# has NAME TEXT: the output of that step contains the text.
has() {
    grep -qi -- "$2" "$results/$1.out" "$results/$1.err" || say "FAILED  $1: no \`$2\` in what it printed"
}

# peak NAME MOST-KIB COMMAND...: its own largest resident set, without its children, by polling VmHWM.
peak() {
    name=$1 most=$2
    shift 2
    began=$SECONDS
    "$@" >"$results/$name.out" 2>"$results/$name.err" </dev/null &
    pid=$! high=0
    while found=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null) &&
        [ -n "$found" ]; do
        # Before exec, the process is still a copy of this shell.
        case $(cat "/proc/$pid/comm" 2>/dev/null) in
        flashfit*) high=$found ;;
        esac
        sleep 0.02
    done
    wait $pid
    status=$?
    say "figure  $name: peak $high KiB of resident memory, at most $most; $((SECONDS - began)) s"
    if [ $status -eq 0 ] && [ "$high" -gt 0 ] && [ "$high" -le "$most" ]; then
        say "ok      $name"
    else
        say "FAILED  $name: exit $status: $(tail -n 3 "$results/$name.err" | tr '\n' ' ')"
    fi
}

say "system  $(uname -srm), pages of $(getconf PAGESIZE) bytes, Debian $(cat /etc/debian_version)"

# The disk for tests, which is used as a card would be.
disk=$(basename "$(readlink -f /dev/disk/by-id/virtio-test)")

step install dpkg --install flashfit_*_arm64.deb
step version flashfit --version
has version flashfit
step man man -w flashfit-tune
step completion test -s /usr/share/bash-completion/completions/flashfit
step static-version ./flashfit-static --version
step list flashfit list
has list "$disk"
step inspect flashfit inspect "/dev/$disk"
step doctor-json flashfit doctor --json

step check-device flashfit check "/dev/$disk"
step options flashfit options --fs ext4
cd /tmp/use || exit 1
truncate -s 512M card.img
step check-image flashfit check card.img
peak probe-image 16384 flashfit probe card.img
peak probe-device 16384 flashfit probe "/dev/$disk"
peak probe-static 16384 "$OLDPWD/flashfit-static" probe "/dev/$disk"
step plan flashfit plan card.img --fs ext4 --output plan.json
step dry-run flashfit apply plan.json card.img --dry-run
step apply flashfit apply plan.json card.img --backup backup --confirm card.img
step check-applied flashfit check card.img
# The kernel mounts F2FS only with blocks as large as its pages, and flashfit makes blocks of 4 KiB.
file_systems="ext4 btrfs f2fs"
[ "$(getconf PAGESIZE)" -eq 4096 ] || file_systems="ext4 btrfs"
for fs in $file_systems; do
    step "plan-$fs" flashfit plan "/dev/$disk" --fs "$fs" --output "plan-$fs.json"
    step "apply-$fs" flashfit apply "plan-$fs.json" "/dev/$disk" --backup "backup-$fs" \
        --confirm "$disk" --mount-point /mnt
    step "mounted-$fs" findmnt -n -o FSTYPE,OPTIONS /mnt
    has "mounted-$fs" "$fs"
    step "write-$fs" sh -c 'dd if=/dev/urandom of=/mnt/file bs=1M count=8 conv=fsync status=none'
    umount /mnt
    step "after-$fs" flashfit check "/dev/$disk"
done
# flashfit does not make F2FS with other blocks yet; whether the kernel mounts it is noted for then.
if [ "$(getconf PAGESIZE)" -ne 4096 ]; then
    if mkfs.f2fs -q -f -b "$(getconf PAGESIZE)" "/dev/$disk" >"$results/f2fs-blocks.out" 2>&1 &&
        mount -t f2fs "/dev/$disk" /mnt && cp /bin/true /mnt/ && sync -f /mnt && umount /mnt; then
        say "figure  f2fs with blocks as large as the pages: mounted and written"
    else
        say "figure  f2fs with blocks as large as the pages: $(tail -n 1 "$results/f2fs-blocks.out")"
        umount /mnt 2>/dev/null
    fi
fi
truncate -s 512M tune.img
peak tune-image 65536 flashfit tune tune.img --on here --fs ext4 --workload random-write \
    --scheduler none --trials 4 --budget 5min --confirm tune.img --dir run --progress always
step report flashfit report run --output report.html
step leftovers sh -c '! losetup -l -n | grep . && ! findmnt -n /mnt'
cp -r run "$results/" 2>/dev/null
say "end     $(grep -c '^ok' "$summary") ok, $(grep -c '^FAILED' "$summary") failed, ${SECONDS} s"
sync
