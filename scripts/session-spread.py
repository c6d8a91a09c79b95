#!/usr/bin/env python3
"""Measures what sessions of one unchanged device differ by, for `flashfit compare --session-spread`.

usage: session-spread.py FLASHFIT [RUN RUN...]

Compares each two of the runs and prints the root mean square of the changes by workload, as it is and without
what noise explains (by the 95 % intervals). Without runs: those of each card in examples/grids, as in docs/tuning.md.
"""

import json
import math
import subprocess
import sys
import tarfile
import tempfile
from itertools import combinations
from pathlib import Path

GRIDS = Path(__file__).resolve().parent.parent / "examples" / "grids"
CARDS = ["emmc-5.1", "usd-a2-cq", "usd-a2-cq-unsafe"]
# Half of an interval in standard errors, for some 100 degrees of freedom.
HALF_95 = 1.98


def changes(flashfit, one, other):
    """The change under each workload and its standard error, as logarithms."""
    command = [flashfit, "compare", str(one), str(other), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for workload in json.loads(done.stdout)["data"]["comparisons"][0]["workloads"]:
        found = workload["difference"] or {}
        names = ["change", "low", "high"]
        values = [found.get(f"{name}_percent_hundredths") for name in names]
        if None not in values:
            change, low, high = [math.log1p(value / 1e4) for value in values]
            yield change, (high - low) / 2 / HALF_95


def report(flashfit, name, runs):
    found = [it for pair in combinations(runs, 2) for it in changes(flashfit, *pair)]
    if not found:
        sys.exit(f"{name}: no two runs can be compared with an interval")
    squares = sum(change**2 for change, _ in found)
    noise = sum(error**2 for _, error in found)
    spread = [100 * math.sqrt(max(it, 0) / len(found)) for it in (squares, squares - noise)]
    print(f"{name}: {spread[0]:.1f} %, beyond noise {spread[1]:.1f} % ({len(found)} changes)")


def main():
    flashfit, *runs = sys.argv[1:] or sys.exit(__doc__)
    if runs:
        return report(flashfit, "these runs", runs)
    with tempfile.TemporaryDirectory() as folder:
        for card in CARDS:
            with tarfile.open(GRIDS / f"{card}.tar.gz") as grid:
                grid.extractall(folder, filter="data")
            report(flashfit, card, [Path(folder) / f"{card}-{number}" for number in (1, 2, 3)])


if __name__ == "__main__":
    main()
