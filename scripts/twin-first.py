#!/usr/bin/env python3
"""Measures what few trials on a device find when they begin with what its twin said.

usage: twin-first.py FLASHFIT CARD...     (make twin-first, after make twin-ranks)

For each card, replays the run that `scripts/twin-ranks.py` left in WORK (all setups, recorded on the
simulated card in virtual machines with counted instructions) with `flashfit tune --replay --trials
N`: with the run on the card's twin (`--twin-run`), without a twin, and with the run on another card's
twin, which is wrong. Recorded trials repeat almost exactly, those on a device do not: NOISE (standard
deviation of a logarithm) is added to each of REPEATS copies of each trial.

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
NEAR = 2.0


def trials_of(run):
    """Without setups that depend on the geometry a device declares: a twin declares another one."""
    made = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    return [trial for trial in made if "geometry" not in trial["key"]["setup"]["options"]]


def noisy(run, to, seed):
    """A copy of a run whose trials were repeated with noise."""
    shutil.copytree(run, to)
    draw = random.Random(seed)
    made = trials_of(run)
    lines = []
    for repeat in range(REPEATS):
        for trial in copy.deepcopy(made):
            trial["key"]["repeat"] = repeat
            trial["number"] = len(lines) + 1
            trial["batch"] = {"number": repeat, "size": len(made)}
            factor = math.exp(draw.gauss(0, NOISE))
            points = trial["outcome"].get("completed", {}).get("points", [])
            for stage in (stage for point in points for stage in point["stages"]):
                for part in filter(None, (stage.get("read"), stage.get("write"))):
                    for rate in ("bytes_per_second", "operations_per_second_thousandths"):
                        part[rate] = int(part[rate] * factor)
                    part["runtime_ns"] = int(part["runtime_ns"] / factor)
            lines.append(json.dumps(trial))
    (to / "trials.jsonl").write_text("\n".join(lines) + "\n")
    return to


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
    """A copy of the run on the twin of a card."""
    run, to = WORK / f"{card}-on-twin", Path(work) / f"{card}-on-twin"
    if not to.exists():
        shutil.copytree(run, to)
        lines = []
        for trial in trials_of(run):
            trial["number"] = len(lines) + 1
            lines.append(json.dumps(trial))
        (to / "trials.jsonl").write_text("\n".join(lines) + "\n")
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
            run = noisy(WORK / card, Path(work) / card, number)
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
