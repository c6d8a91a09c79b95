#!/usr/bin/env python3
"""Which two workloads predict the ranking of setups under all workloads best.

usage: workload-pairs.py [GRID...]

Reads the recorded grids (examples/grids/*.tar.gz, or archives like them) and prints a table for
docs/tuning.md. The value of a setup is the mean over workloads of the mean logarithm of its rates,
as for the score of a run. A grid has several runs: setups are chosen and ranked by a pair in one of
them, and judged by all workloads in the others, so no trial judges its own choice. `below the best`
is how much lower the choice's mean rate over all workloads is than that of the setup that is best
in the judging runs. Time is the mean total of both trials. `--all` prints every pair. All figures
are of simulated cards.
"""

import itertools
import json
import math
import pathlib
import statistics
import sys
import tarfile

SHOWN = 10
EARLIER_DEFAULT = {"sync-files", "random-write"}
SCALE = {"throughput": 1024.0, "operations": 1000.0}
KEY = {"throughput": "bytes_per_second", "operations": "operations_per_second_thousandths"}


def value(points):
    """The mean logarithm of the rates of a trial (Merit::of in crates/tune)."""
    logs = []
    for point in points:
        for stage in point["stages"]:
            for figures in filter(None, (stage["read"], stage["write"])):
                rate = figures[KEY[stage["kind"]]] / SCALE[stage["kind"]]
                logs.append(math.log(max(rate, 1.0)))
    return statistics.fmean(logs)


def runs_of(archive):
    """For each run: {workload: {setup: value}} and {workload: mean seconds of a trial}."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.name.endswith("trials.jsonl"):
                continue
            values, seconds = {}, {}
            for line in tar.extractfile(member).read().decode().splitlines():
                record = json.loads(line)
                done = record["outcome"].get("completed")
                if not done or record["key"]["purpose"] != "search":
                    continue
                workload, setup = record["key"]["workload"], json.dumps(record["key"]["setup"])
                values.setdefault(workload, {})[setup] = value(done["points"])
                seconds.setdefault(workload, []).append(record["phases"]["total_ns"] / 1e9)
            means = {name: statistics.fmean(all_of) for name, all_of in seconds.items()}
            found[member.name] = (values, means)
    return [found[name] for name in sorted(found)]


def scores(values, workloads, setups):
    return {setup: statistics.fmean(values[name][setup] for name in workloads) for setup in setups}


def ranks(by):
    order = sorted(by, key=by.get)
    return {setup: rank for rank, setup in enumerate(order)}


def spearman(one, other):
    a, b = ranks(one), ranks(other)
    count = len(a)
    return 1 - 6 * sum((a[key] - b[key]) ** 2 for key in a) / (count * (count**2 - 1))


def judged(runs, chosen_by):
    """Rank correlation and distance from the best, for each run that chooses."""
    names = sorted(runs[0][0])
    setups = set.intersection(*(set(values[name]) for values, _ in runs for name in names))
    correlations, losses = [], []
    for index, (values, _) in enumerate(runs):
        others = [scores(other, names, setups) for at, (other, _) in enumerate(runs) if at != index]
        truth = {setup: statistics.fmean(other[setup] for other in others) for setup in setups}
        predicted = scores(values, chosen_by, setups)
        choice = max(sorted(setups), key=predicted.get)
        correlations.append(spearman(predicted, truth))
        losses.append(1 - math.exp(truth[choice] - max(truth.values())))
    return statistics.fmean(correlations), statistics.fmean(losses)


def main():
    folder = pathlib.Path(__file__).parent.parent / "examples/grids"
    given = [pathlib.Path(name) for name in sys.argv[1:] if name != "--all"]
    # similar.tar.gz has runs of several devices, and is not a grid.
    stored = (path for path in folder.glob("*.tar.gz") if path.name != "similar.tar.gz")
    archives = given or sorted(stored)
    grids = {archive.name.removesuffix(".tar.gz"): runs_of(archive) for archive in archives}
    names = sorted(next(iter(grids.values()))[0][0])
    rows = []
    for chosen_by in [*itertools.combinations(names, 2), tuple(names)]:
        of_grids = [judged(runs, chosen_by) for runs in grids.values()]
        seconds = statistics.fmean(
            sum(means[name] for name in chosen_by) for runs in grids.values() for _, means in runs
        )
        rows.append((chosen_by, of_grids, seconds))
    pairs = [row for row in rows if len(row[0]) == 2]

    def worst(row):
        return max(loss for _, loss in row[1])

    def mean(row):
        return statistics.fmean(loss for _, loss in row[1])

    pairs.sort(key=mean)

    def line(row, place):
        cells = [f"{correlation:.2f}" for correlation, _ in row[1]]
        name = ", ".join(row[0]) if len(row[0]) == 2 else f"all {len(row[0])}"
        cells += [f"{100 * mean(row):.1f} %", f"{100 * worst(row):.1f} %", f"{row[2]:.1f} s"]
        print(f"| {place} | {name} | {' | '.join(cells)} |")

    heads = " | ".join(grids)
    print(f"| | workloads | {heads} | below the best, mean | worst | time |")
    print("|---" * (len(grids) + 5) + "|")
    for place, row in enumerate(pairs, 1):
        if place <= SHOWN or "--all" in sys.argv or set(row[0]) == EARLIER_DEFAULT:
            line(row, place)
    medians = [f"{100 * statistics.median(map(of, pairs)):.1f} %" for of in (mean, worst)]
    print(f"| | median of {len(pairs)} pairs |{' |' * len(grids)} {' | '.join(medians)} | |")
    line(next(row for row in rows if len(row[0]) > 2), "")


main()
