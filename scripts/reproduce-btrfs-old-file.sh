#!/bin/sh
# Shows without flashfit that btrfs brings back a file that was replaced, synced and then unlinked.
# Run as root.
#
# Works on a file system on a loop device. After the last fsync, it copies the file below the loop
# device, which is what a power cut at that moment leaves of a device that loses nothing, and mounts
# the copy. Expected of f: new or absent, because its replacement had been synced.
#
# usage: reproduce-btrfs-old-file.sh [btrfs|ext4|xfs]
set -e
kind=${1:-btrfs}
[ -n "$IN_NAMESPACE" ] || exec env IN_NAMESPACE=1 unshare --mount "$0" "$kind"
folder=$(mktemp -d)
trap 'cd /; umount "$folder/mounted" 2>/dev/null || true; rm -rf "$folder"' EXIT
# Without these, dash skips the line above.
trap 'exit 1' HUP INT TERM
cd "$folder"
mkdir mounted
truncate -s 320M before
case $kind in
btrfs) mkfs.btrfs -q -f before ;;
xfs) mkfs.xfs -q -f before ;;
*) "mkfs.$kind" -q before ;;
esac
mount -t "$kind" -o loop before mounted
cd mounted
echo old >f && sync
echo new >t && mv t f && sync f
rm f && : >g && sync g
cd ..
cp before after
umount mounted
[ "$kind" != btrfs ] || btrfs device scan --forget
mount -t "$kind" -o loop after mounted
echo "$kind: f is $(cat mounted/f 2>/dev/null || echo absent)"
