#!/usr/bin/env python3
"""Measures what a survey of similar cards is worth to a search, on recorded grids.

usage: prior-grids.py FLASHFIT [SEEDS]

Prints the second part of docs/similar-devices.md (make prior-benchmark). Unpacks examples/grids into
a temporary directory, puts the runs on similar cards into one survey for each card, and replays the
grids with `flashfit tune --replay --trials N`, with and without the survey.
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
    ("emmc-5.1", "emmc-5.1", "usd-a2-cq-unsafe"),
    ("usd-a2-cq-unsafe", "usd-a2-cq-unsafe", "emmc-5.1"),
]
BUDGETS = [15, 20, 30, 40, 60, 80, 120, 160, 240, 320]
NEAR = 2.0
HEAD = """
## Recorded grids

All {setups} setups of a small space, among them unsafe ones, were recorded under 11 workloads on a
simulated card with the real kernel (`examples/grids`). *Similar* are runs of up to {trials} trials on {cards}
cards whose times and rates differ from that model's by a random factor with a standard deviation of
15 % (`examples/grids/similar.tar.gz`); *misleading* are those on cards like another model. Each search has a
budget; *trials* is the least budget from which on the choice of a seed is within 2 % of the recorded
best, among {budgets}; more count as 480. *Ratio* is the geometric mean by seed, with a 95 % interval."""


def regret(flashfit, runs, survey, trials, seed):
    command = [flashfit, "tune", "--replay", *runs, "--allow", "may-corrupt", "--json"]
    command += ["--trials", str(trials), "--seed", str(seed)]
    command += ["--survey", survey] if survey else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"]["choice"]["regret_percent_hundredths"] / 100


def needed(regrets):
    """The least budget from which on all are near the best."""
    least = 480
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
    values = sorted(values)
    found = values[round((len(values) - 1) * share)]
    return "-" if found == 480 else str(found)


def main():
    flashfit = sys.argv[1]
    seeds = range(1, 1 + int(sys.argv[2] if len(sys.argv) > 2 else 20))
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        for archive in ["similar", *{grid for grid, _, _ in CASES}]:
            with tarfile.open(GRIDS / f"{archive}.tar.gz") as packed:
                packed.extractall(work, filter="data")
        surveys = {}
        sources = {}
        for card in {similar for _, similar, _ in CASES}:
            sources[card] = sorted(work.glob(f"similar-{card}-*"))
            surveys[card] = str(work / f"{card}.db")
            command = [flashfit, "survey", "add", *sources[card], "--db", surveys[card]]
            subprocess.run(command, check=True, capture_output=True)
        counts = [sum(1 for _ in open(run / "trials.jsonl")) for run in sources["emmc-5.1"]]
        print(HEAD.format(setups=104, trials=max(counts), cards=len(counts),
                          budgets=", ".join(map(str, BUDGETS))))
        print("\n| grid | survey | trials, median / 90 % | ratio | within 2 % with 40 trials |")
        print("|---|---|---|---|---|")
        for grid, similar, other in CASES:
            runs = sorted(map(str, work.glob(f"{grid}-[123]")))
            # The survey of the other card has to pass for one of this product.
            misleading = str(work / f"misleading-{grid}.db")
            renamed(flashfit, sources[other], runs[0], misleading, work)
            rows = {}
            for name, survey in [("none", None), ("similar", surveys[similar]),
                                 ("misleading", misleading)]:
                def of(seed):
                    return [regret(flashfit, runs, survey, budget, seed) for budget in BUDGETS]
                with ThreadPoolExecutor(2) as pool:
                    rows[name] = list(pool.map(of, seeds))
            usual = [needed(found) for found in rows["none"]]
            for name, found in rows.items():
                trials = [needed(one) for one in found]
                near = sum(one[BUDGETS.index(40)] <= NEAR for one in found)
                print(f"| {grid} | {name} | {quantile(trials, 0.5)} / {quantile(trials, 0.9)} | "
                      f"{ratio(usual, trials)} | {near} of {len(found)} |")


def renamed(flashfit, sources, of, survey, work):
    """A survey of runs that claim to be on the card of another run."""
    facts = json.loads((Path(of) / "run.json").read_text())["facts"]
    copies = []
    for number, source in enumerate(sources):
        copy = work / f"renamed-{Path(of).name}-{number}"
        copy.mkdir()
        header = json.loads((source / "run.json").read_text())
        header["facts"]["card"]["name"] = facts["card"]["name"]
        header["facts"]["medium"]["capacity"] = facts["medium"]["capacity"]
        (copy / "run.json").write_text(json.dumps(header))
        (copy / "trials.jsonl").write_bytes((source / "trials.jsonl").read_bytes())
        copies.append(str(copy))
    command = [flashfit, "survey", "add", *copies, "--db", survey]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
