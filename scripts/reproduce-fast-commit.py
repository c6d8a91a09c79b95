#!/usr/bin/env python3
"""Looks for damage by ext4's fast_commit without flashfit. Run as root.

Works on ext4 on a loop device over a file in memory. After each fsync it copies the file, which is
what a power cut at that moment leaves of a device that loses nothing, mounts the copy, unmounts it
and checks it with e2fsck.

usage: reproduce-fast-commit.py fast_commit|plain SEED [STEPS]
"""
import os
import random
import signal
import subprocess
import sys
import tempfile

NAMES = [f"f{number}" for number in range(8)]


def fsync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def write(path, flags, data, offset=None):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags)
    if offset is None:
        os.write(descriptor, data)
    else:
        os.pwrite(descriptor, data, offset)
    os.fsync(descriptor)
    os.close(descriptor)


def step(draw, root, number):
    """One operation; returns whether it ended with an fsync of what it changed."""
    kind, path = draw.randrange(9), f"{root}/{draw.choice(NAMES)}"
    try:
        if kind < 4:
            size = draw.choice([512, 4096, 9000, 40000])
            write(path, 0, os.urandom(size), draw.choice([0, 0, 4096, 8192, 100000]))
        elif kind == 4:
            write(f"{root}/t", os.O_TRUNC, os.urandom(5000))
            os.rename(f"{root}/t", path)
            return False
        elif kind == 5:
            os.truncate(path, draw.choice([0, 4096, 20000]))
            fsync(path)
        elif kind == 6:
            os.unlink(path)
            return False
        elif kind == 7:
            os.mkdir(f"{root}/d{number}")
            fsync(f"{root}/d{number}")
            fsync(root)
        else:
            write(path, os.O_APPEND, os.urandom(3000))
    except FileNotFoundError:
        return False
    return True


def damage(copy, point):
    mounted = subprocess.run(["mount", "-o", "loop", copy, point], capture_output=True, text=True)
    if mounted.returncode:
        return "not mounted: " + mounted.stderr.splitlines()[0]
    subprocess.run(["umount", point], check=True)
    checked = subprocess.run(["e2fsck", "-fn", copy], capture_output=True, text=True)
    return f"e2fsck: exit code {checked.returncode}" if checked.returncode else None


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("fast_commit", "plain"):
        sys.exit(__doc__.rsplit("\n\n", 1)[1].strip())
    feature, seed = sys.argv[1], int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 250
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = ["-O", "fast_commit"] if feature == "fast_commit" else []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        image, copy, root, point = (f"{folder}/{name}" for name in ("image", "copy", "root", "point"))
        os.mkdir(root)
        os.mkdir(point)
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", *options, image], check=True)
        subprocess.run(["mount", "-o", "loop", image, root], check=True)
        try:
            draw, copies, damaged = random.Random(seed), 0, 0
            for number in range(steps):
                if not step(draw, root, number):
                    continue
                copies += 1
                subprocess.run(["cp", "--sparse=always", image, copy], check=True)
                found = damage(copy, point)
                if found:
                    damaged += 1
                    print(f"step {number}: {found}")
        finally:
            # The copy is mounted if this was interrupted.
            subprocess.run(["umount", "-q", point], check=False)
            subprocess.run(["umount", root], check=True)
    print(f"{feature}, seed {seed}: {damaged} of {copies} copies are damaged")


main()
