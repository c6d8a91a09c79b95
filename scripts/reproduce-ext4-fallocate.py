#!/usr/bin/env python3
"""Shows without flashfit that ext4 does not write a replacement back at the rename
(auto_da_alloc) if fallocate was called on it: after a power cut, the replaced file has neither the
old nor the new length.

Works on a file system on a loop device. After the last fsync, it copies the file below the loop
device, which is what a power cut at that moment leaves of a device that loses nothing, and mounts
the copy. Expected of f: 2048 bytes (old) or 6144 bytes (new). The program fallocate(1) syncs the
file, so it does not show this. Run as root.

usage: reproduce-ext4-fallocate.py [fallocate|without]
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile


def write(path, data, allocated_bytes=0):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        if allocated_bytes:
            os.posix_fallocate(file.fileno(), 0, allocated_bytes)


@contextlib.contextmanager
def ext4(image, point):
    subprocess.run(["mount", "-t", "ext4", "-o", "loop", image, point], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", point], check=True)


def main():
    how = sys.argv[1] if len(sys.argv) > 1 else "fallocate"
    if "IN_NAMESPACE" not in os.environ:
        os.environ["IN_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, os.path.abspath(__file__), how])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        before, after, mounted = (f"{folder}/{name}" for name in ("before", "after", "mounted"))
        os.mkdir(mounted)
        with open(before, "wb") as image:
            image.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", before], check=True)
        with ext4(before, mounted):
            write(f"{mounted}/f", b"o" * 2048)
            os.sync()
            write(f"{mounted}/t", b"n" * 6144, 5632 if how == "fallocate" else 0)
            os.rename(f"{mounted}/t", f"{mounted}/f")
            with open(f"{mounted}/g", "wb") as other:
                os.fsync(other.fileno())
            shutil.copyfile(before, after)
        with ext4(after, mounted), open(f"{mounted}/f", "rb") as found:
            data = found.read()
        print(f"{how}: f has {len(data)} bytes, of which {len(data) - data.count(0)} are not zero")


main()
