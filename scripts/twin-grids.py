#!/usr/bin/env python3
"""Measures what a twin of the device is worth to a search, on recorded grids.

usage: twin-grids.py FLASHFIT [SEEDS]

Prints a table of docs/twin-first.md (make twin-benchmark). Unpacks examples/grids into a temporary
directory and replays the grids with `flashfit tune --replay --trials N`: without a twin, with the
run on a card like the recorded one as its twin (`--twin-run`), and with that on another card, a twin
that is wrong.
"""

import json
import math
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
BUDGETS = [20, 40, 80, 160, 320]
MANY = 480
NEAR = 2.0


def regret(flashfit, runs, twin, trials, seed):
    command = [flashfit, "tune", "--replay", *runs, "--allow", "may-corrupt", "--json"]
    command += ["--trials", str(trials), "--seed", str(seed)]
    command += ["--twin-run", twin] if twin else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"]["choice"]["regret_percent_hundredths"] / 100


def needed(regrets):
    """The least budget from which on all are near the best."""
    least = MANY
    for budget, found in zip(reversed(BUDGETS), reversed(regrets)):
        if found > NEAR:
            break
        least = budget
    return least


def ratio(before, after):
    logs = [math.log(a / b) for b, a in zip(before, after)]
    mean = statistics.mean(logs)
    half = 2 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
    low, middle, high = (math.exp(mean + off) for off in (-half, 0, half))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def quantile(values, share):
    found = sorted(values)[round((len(values) - 1) * share)]
    return "-" if found == MANY else str(found)


def main():
    flashfit = sys.argv[1]
    seeds = range(1, 1 + int(sys.argv[2] if len(sys.argv) > 2 else 20))
    print("| grid | twin | trials, median / 90 % | ratio | within 2 % with 40 trials | "
          "regret % with 40, 90 % |")
    print("|---|---|---|---|---|---|")
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
            rows = {}
            for name, known in twins.items():
                def of(seed):
                    twin = known[seed % len(known)]
                    return [regret(flashfit, runs, twin, budget, seed) for budget in BUDGETS]
                with ThreadPoolExecutor(2) as pool:
                    rows[name] = list(pool.map(of, seeds))
            usual = [needed(found) for found in rows["none"]]
            for name, found in rows.items():
                trials = [needed(one) for one in found]
                with_40 = [one[BUDGETS.index(40)] for one in found]
                near = sum(one <= NEAR for one in with_40)
                worst = sorted(with_40)[round((len(with_40) - 1) * 0.9)]
                print(f"| {grid} | {name} | {quantile(trials, 0.5)} / {quantile(trials, 0.9)} | "
                      f"{ratio(usual, trials)} | {near} of {len(found)} | {worst:.1f} |", flush=True)


if __name__ == "__main__":
    main()
