#!/usr/bin/env python3
"""Measures what few trials on a device find when they begin with what its twin said.

usage: twin-first.py FLASHFIT CARD...     (make twin-first, after make twin-ranks)

For each card, replays the runs that `scripts/twin-ranks.py` left in WORK (all setups, recorded on the
simulated card in virtual machines with counted instructions) with `flashfit tune --replay --trials
N`: with the runs on the card's twin (`--twin-run`), without a twin, and with the runs on another card's
twin, which is wrong. The runs of a card take turns as the repeats of its trials, so what differs
between them by the state that trials begin in is noise. Within a run, recorded trials repeat almost
exactly, those on a device do not: NOISE (standard deviation of a logarithm) is added to each of
REPEATS copies. A search sees the repeats in another order with each seed. RUNS limits the runs that
are used of a card and of its twin.

Prints one line of docs/tuning.md for each card: searches whose recommended setup is within 2 % of the
best, and how far it is below the best. The baseline is recommended unless a gain was shown. With
LARGE=1, the runs are those of `twin-ranks.py` with LARGE=1.
"""

import copy
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORK = Path(os.environ.get("WORK", "target/twin-ranks"))
TRIALS = int(os.environ.get("TRIALS", "40"))
SEEDS = range(1, 1 + int(os.environ.get("SEEDS", "20")))
NOISE = float(os.environ.get("NOISE", "0.05"))
REPEATS = 24
RUNS = int(os.environ["RUNS"]) if "RUNS" in os.environ else None
NEAR = 2.0


def trials_of(run):
    """Without setups that depend on the geometry a device declares: a twin declares another one."""
    made = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    return [trial for trial in made if "geometry" not in trial["key"]["setup"]["options"]]


def runs_of(name):
    """The run of that name and its repetitions."""
    numbered = sorted(WORK.glob(f"{name}-[0-9]*[0-9]/trials.jsonl"))
    runs = [WORK / name, WORK / f"{name}-again", *(file.parent for file in numbered)]
    return [run for run in runs if (run / "trials.jsonl").exists()][:RUNS]


def renumbered(run, to, batches):
    """A copy of a run with these trials, a list for each repeat."""
    shutil.copytree(run, to)
    lines = []
    for repeat, batch in enumerate(batches):
        for trial in batch:
            trial["key"]["repeat"] = repeat
            trial["number"] = len(lines) + 1
            trial["batch"] = {"number": repeat, "size": len(batch)}
            lines.append(json.dumps(trial))
    (to / "trials.jsonl").write_text("\n".join(lines) + "\n")
    return to


def noisy(runs, to, seed):
    """A copy of runs whose trials were repeated with noise."""
    draw = random.Random(seed)
    made = [trials_of(run) for run in runs]
    batches = []
    for repeat in range(REPEATS):
        batch = copy.deepcopy(made[repeat % len(made)])
        for trial in batch:
            factor = math.exp(draw.gauss(0, NOISE))
            points = trial["outcome"].get("completed", {}).get("points", [])
            for stage in (stage for point in points for stage in point["stages"]):
                for part in filter(None, (stage.get("read"), stage.get("write"))):
                    for rate in ("bytes_per_second", "operations_per_second_thousandths"):
                        part[rate] = int(part[rate] * factor)
                    part["runtime_ns"] = int(part["runtime_ns"] / factor)
        batches.append(batch)
    return renumbered(runs[0], to, batches)


def searches(flashfit, run, twin):
    """The trials of each search, and by how many percent its answer is below the best."""

    def of(seed):
        command = [flashfit, "tune", "--replay", run, "--allow", "may-corrupt", "--json"]
        command += ["--trials", str(TRIALS), "--seed", str(seed)]
        command += ["--twin-run", twin] if twin else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)["data"]
        return found["trials"]["made"], found["recommended"]["regret_percent_hundredths"] / 100

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(of, SEEDS))


def on_twin(card, work):
    """A copy of the runs on the twin of a card."""
    to = Path(work) / f"{card}-on-twin"
    if not to.exists():
        runs = runs_of(f"{card}-on-twin")
        renumbered(runs[0], to, [trials_of(run) for run in runs])
    return to


def shown(found):
    regrets = sorted(regret for _, regret in found)
    near = sum(regret <= NEAR for regret in regrets)
    middle, high = statistics.median(regrets), regrets[round((len(regrets) - 1) * 0.9)]
    return f"{near} of {len(regrets)}, {middle:.1f} / {high:.1f} %"


def main():
    flashfit = sys.argv[1]
    suffix = "-large" if "LARGE" in os.environ else ""
    cards = [Path(card).stem + suffix for card in sys.argv[2:]]
    if len(cards) < 2:
        sys.exit("another card's twin is the wrong one: name two cards")
    print("| card | its twin: trials, median | its twin | none | a wrong one |")
    print("|---|---|---|---|---|")
    near = {"own": [], "none": [], "wrong": []}
    with tempfile.TemporaryDirectory() as work:
        for number, card in enumerate(cards):
            run = noisy(runs_of(card), Path(work) / card, number)
            twins = {"own": on_twin(card, work), "none": None, "wrong": on_twin(cards[number - 1], work)}
            found = {name: searches(flashfit, run, twin) for name, twin in twins.items()}
            for name, each in found.items():
                near[name] += [regret <= NEAR for _, regret in each]
            trials = statistics.median(made for made, _ in found["own"])
            columns = " | ".join(shown(found[name]) for name in near)
            print(f"| {card} | {trials:.0f} | {columns} |", flush=True)
    totals = " | ".join(f"{sum(each)} of {len(each)}" for each in near.values())
    print(f"| together | | {totals} |")


if __name__ == "__main__":
    main()
