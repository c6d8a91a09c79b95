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
NORMAL_975 = 1.959964


def student_975(freedom):
    """The 97.5 % quantile of Student's distribution, 4 % too small for 3 degrees of freedom (Cornish and Fisher)."""
    z = NORMAL_975
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


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
            freedom = found["degrees_of_freedom_thousandths"] / 1000
            yield change, (high - low) / 2 / student_975(freedom)


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
