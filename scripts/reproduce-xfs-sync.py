#!/usr/bin/env python3
"""Shows without flashfit that syncfs(2) of xfs can return without a flush of the device.

Overwrites a block of a file on a loop device and calls syncfs, again and again. The counters of the
device (Documentation/block/stat.rst) tell how many writes and flushes it completed meanwhile. Where
data was written and nothing was flushed, a power cut can lose that data from the device's volatile
cache. Run as root.

usage: reproduce-xfs-sync.py [xfs|ext4|btrfs] [TRIES]
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile

SIZE_BYTES = 320 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def counters(disk):
    """Completed writes and flushes."""
    with open(f"/sys/block/{disk}/stat", encoding="ascii") as stat:
        fields = [int(field) for field in stat.read().split()]
    return fields[4], fields[15]


def unflushed(path, disk, tries):
    """How often syncfs returned with data written and nothing flushed."""
    with open(path, "w+b", buffering=0) as file:
        return unflushed_of(file.fileno(), disk, tries)


def unflushed_of(file, disk, tries):
    found = 0
    os.pwrite(file, b"0" * 8192, 0)
    os.fsync(file)
    for number in range(tries):
        os.pwrite(file, b"%d" % (number % 10) * 4096, 0)
        os.fsync(file)
        os.pwrite(file, b"%d" % (number % 7) * 4096, 0)
        before = counters(disk)
        if LIBC.syncfs(file) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
        after = counters(disk)
        found += after[0] > before[0] and after[1] == before[1]
    return found


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "xfs"
    tries = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    if "IN_NAMESPACE" not in os.environ:
        os.environ["IN_NAMESPACE"] = "1"
        again = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", *again])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        image, mounted = f"{folder}/image", f"{folder}/mounted"
        os.mkdir(mounted)
        with open(image, "wb") as file:
            file.truncate(SIZE_BYTES)
        subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
        subprocess.run(["mount", "-t", kind, "-o", "loop", image, mounted], check=True)
        try:
            found = subprocess.check_output(["findmnt", "-no", "SOURCE", mounted], text=True)
            disk = os.path.basename(found.strip())
            count = unflushed(f"{mounted}/f", disk, tries)
            print(f"{kind}: {count} of {tries} times, syncfs wrote data and flushed nothing")
        finally:
            subprocess.run(["umount", mounted], check=True)


main()
