#!/bin/busybox sh
# The guest's init process: mounts the usual file systems, loads drivers for the channel and the
# disks, reports to the host that it is ready, and runs the program. The machine powers off when the
# program ends.

PATH=$(/bin/busybox cat /etc/flashfit-vm/path)
export PATH
# flashfit uses this one when it runs as root.
FLASHFIT_PATH=$PATH
export FLASHFIT_PATH
HOME=/root
export HOME

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/console >/dev/console 2>&1

channel=
fail() {
    echo "flashfit-vm failed $*"
    [ -z "$channel" ] || echo "flashfit-vm failed $*" >&3
    sleep 1
    poweroff -f
}

mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts 2>/dev/null
# Files copied to these directories must stay visible.
[ -n "$(ls /tmp)" ] || mount -t tmpfs -o mode=1777 tmpfs /tmp
[ -n "$(ls /run)" ] || mount -t tmpfs tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
hostname flashfit-vm
ip link set lo up 2>/dev/null

# The kernel loads file system modules with this program.
echo /busybox/modprobe >/proc/sys/kernel/modprobe
while read -r name major minor; do
    [ -e "/dev/$name" ] || mkdir -p "$(dirname "/dev/$name")"
    [ -e "/dev/$name" ] || mknod -m 600 "/dev/$name" c "$major" "$minor"
done </etc/flashfit-vm/nodes

disks=
address=
for word in $(cat /proc/cmdline); do
    case $word in
    flashfit.disks=*) disks=$(echo "${word#flashfit.disks=}" | tr , ' ') ;;
    flashfit.address=*) address=${word#flashfit.address=} ;;
    flashfit.modules=*) modules=$(echo "${word#flashfit.modules=}" | tr , ' ') ;;
    esac
done
for module in $modules; do
    modprobe "$module" || echo "flashfit-vm: no module $module"
done

# The only port of the only virtio console. Its node appears shortly before it can be opened.
open_channel() {
    for port in /dev/vport*p1; do
        if [ -e "$port" ] && (exec 3<>"$port") 2>/dev/null; then
            exec 3<>"$port"
            channel=$port
            return 0
        fi
    done
    return 1
}

attempt=0
until open_channel; do
    attempt=$((attempt + 1))
    [ "$attempt" -lt 100 ] || fail "there is no channel to the host"
    sleep 0.1
done

# A disk's serial number contains its index; cards have a fixed serial number and appear in order.
serial_of() {
    cat "/sys/block/$1/serial" 2>/dev/null && return
    cat "/sys/block/$1/device/serial" 2>/dev/null && return
    at=$(readlink -f "/sys/block/$1/device")
    while [ -n "$at" ] && [ "$at" != /sys ]; do
        cat "$at/serial" 2>/dev/null && return
        at=${at%/*}
    done
    # An ATA disk has its serial number after the four bytes that begin this page.
    tail -c +5 "/sys/block/$1/device/vpd_pg80" 2>/dev/null
}

find_disk() {
    case $2 in
    virtio) names='vd*' ;;
    nvme) names='nvme*n*' ;;
    usb | ata) names='sd*' ;;
    mmc) names='mmcblk[0-9]' ;;
    esac
    for disk in /sys/block/$names; do
        [ -e "$disk" ] || continue
        name=${disk##*/}
        [ -b "/dev/$name" ] || continue
        if [ "$2" = mmc ]; then
            case " $taken " in *" $name "*) continue ;; esac
            taken="$taken $name"
            # QEMU's cards implement erase by writing 512 bytes at a time.
            echo 0 >"$disk/queue/discard_max_bytes"
        else
            [ "$(serial_of "$name" | tr -d ' ')" = "flashfit$1" ] || continue
        fi
        # All devices are flash, regardless of the virtual disk's attribute.
        echo 0 >"$disk/queue/rotational"
        ln -s "../$name" "/dev/flashfit/$1"
        return 0
    done
    return 1
}

mkdir -p /dev/flashfit
taken=
number=0
for kind in $disks; do
    attempt=0
    until find_disk "$number" "$kind"; do
        attempt=$((attempt + 1))
        [ "$attempt" -lt 100 ] || fail "disk $number ($kind) did not appear"
        sleep 0.1
    done
    number=$((number + 1))
done

if [ -n "$address" ]; then
    ip address add "$address" dev eth0 && ip link set eth0 up || fail "there is no network card"
fi

echo "flashfit-vm ready $(uname -r)" >&3
/etc/flashfit-vm/run <&3 >&3 3>&-
code=$?
echo "flashfit-vm: the program ended with $code"
sync
poweroff -f
