#!/usr/bin/env python3
"""Measures what a twin of the device is worth to a search, on recorded grids.

usage: twin-grids.py FLASHFIT [SEEDS [TRIALS]]

Prints the second table of docs/tuning.md about twins (make twin-benchmark). Unpacks examples/grids into a temporary
directory and replays the grids with `flashfit tune --replay --trials N`: without a twin, with the
run on a card like the recorded one as its twin (`--twin-run`), and with that on another card, a twin
that is wrong.
"""

import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GRIDS = Path(__file__).resolve().parent.parent / "examples" / "grids"
# A grid, and the runs on cards like it and on another card.
CASES = [
    ("emmc-5.1", "usd-a2-cq-unsafe"),
    ("usd-a2-cq-unsafe", "emmc-5.1"),
]
BUDGET = 40
NEAR = 2.0


def regret(flashfit, runs, twin, trials, seed):
    command = [flashfit, "tune", "--replay", *runs, "--allow", "may-corrupt", "--json"]
    command += ["--trials", str(trials), "--seed", str(seed)]
    command += ["--twin-run", twin] if twin else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"]["choice"]["regret_percent_hundredths"] / 100


def main():
    flashfit = sys.argv[1]
    seeds = range(1, 1 + int(sys.argv[2] if len(sys.argv) > 2 else 20))
    budget = int(sys.argv[3] if len(sys.argv) > 3 else BUDGET)
    print(f"| grid | twin | within 2 % with {budget} trials | regret %, median / 90 % |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        for archive in ["similar", *{grid for grid, _ in CASES}]:
            with tarfile.open(GRIDS / f"{archive}.tar.gz") as packed:
                packed.extractall(work, filter="data")
        for grid, other in CASES:
            runs = sorted(map(str, work.glob(f"{grid}-[123]")))
            twins = {
                "none": [None],
                "of a similar card": sorted(map(str, work.glob(f"similar-{grid}-*"))),
                "wrong": sorted(map(str, work.glob(f"similar-{other}-*"))),
            }
            for name, known in twins.items():
                def of(seed):
                    return regret(flashfit, runs, known[seed % len(known)], budget, seed)
                with ThreadPoolExecutor(2) as pool:
                    found = sorted(pool.map(of, seeds))
                near = sum(one <= NEAR for one in found)
                middle = statistics.median(found)
                high = found[round((len(found) - 1) * 0.9)]
                print(f"| {grid} | {name} | {near} of {len(found)} | {middle:.1f} / {high:.1f} |",
                      flush=True)


if __name__ == "__main__":
    main()
