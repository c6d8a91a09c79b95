#!/usr/bin/env python3
"""Measures how twins rank setups of file systems, in virtual machines with counted instructions.

usage: twin-ranks.py FLASHFIT CARD...     (make twin-ranks)

For each card, a twin is fitted by `flashfit probe --write --twin`. The same setups are then measured
under three workloads, RUNS times (2) on the card and TWIN_RUNS times (2) on its twin, by `flashfit
tune --on vm --vm-speed-mips`. The runs differ in the state that trials begin in. Prints one line of
docs/accuracy.md for each card and workload as soon as it is known: Spearman's rank correlation over
the setups, and how far the setup that is best on the twin is below the best one on the card, both
with the means of the runs; and the same of the card's first two runs with each other, which shows
what chance allows. Intervals are 95 % bootstrap intervals over setups. With LARGE=1, there are about
three times as many setups.

Runs are kept in WORK (a directory), so an interrupted measurement continues. Those of a card in
RECORDED (a directory of archives) are not made again. With KEEP=1, an archive is written there as
soon as a card has been measured.

A stage takes at most RUNTIME_MS, and the workloads write DATA_SIZE. With much less (400 and 4MiB, as
some tables of docs/accuracy.md), most stages end before a card that collects a log has to, and
whether one does is chance.
"""

import json
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

WORK = Path(os.environ.get("WORK", "target/twin-ranks"))
MIPS = 1000
WORKLOADS = ["create-read-delete", "random-write", "sync-files"]
# What does not depend on the geometry that a device declares, because a twin declares another one.
CONFIG = """
catalog_dir = "CATALOG"
filesystems = ["ext4", "btrfs", "f2fs", "xfs", "nilfs2"]
schedulers = ["none"]
workloads = ["create-read-delete", "random-write", "sync-files"]
data_size = "DATA_SIZE"
memory = "32MiB"
runtime_ms = RUNTIME_MS
fresh = true
strategy = "exhaustive"
repeats = 1
confirm_rounds = 0
allow = "may-corrupt"
seed = SEED

[options.ext4]
exclude = ["noatime", "discard", "nobarrier", "fast_commit", "geometry"]
include = ["journal-data", "nodelalloc", "bigalloc"]

[options.btrfs]
exclude = ["noatime", "discard", "nodiscard", "nobarrier", "geometry", "ssd", "ssd_spread"]
include = ["metadata-single"]

[options.f2fs]
exclude = ["noatime", "discard", "nodiscard", "geometry"]
include = ["logs-2"]

[options.xfs]
exclude = ["noatime", "discard", "geometry"]
include = ["agcount-2"]

[options.nilfs2]
exclude = ["noatime", "discard", "geometry"]
"""
# Further options. `swalloc` brings `geometry` with it, and such setups are left out of the results.
MORE = {
    '"bigalloc"': '"bigalloc", "dioread_lock"',
    '"metadata-single"': '"metadata-single", "notreelog", "compress-lzo", "nodatacow"',
    '"logs-2"': '"logs-2", "strict"',
    '"agcount-2"': '"agcount-2", "logbsize-256k", "allocsize-1m", "swalloc"',
}
LARGE = "LARGE" in os.environ
DRAWS = 2000
ROOT = Path(__file__).resolve().parent.parent
# One point instead of three, to measure more setups.
POINT = "16KiB"
# Of the card's time, as `tune --twin-first` takes.
PROBE_TIME = os.environ.get("PROBE_TIME", "10min")
GUESTS = os.environ.get("GUESTS", "2")
RUNS = int(os.environ.get("RUNS", "2"))
TWIN_RUNS = int(os.environ.get("TWIN_RUNS", "2"))
RECORDED = Path(os.environ["RECORDED"]) if os.environ.get("RECORDED") else None
KEEP = "KEEP" in os.environ
DATA_SIZE = os.environ.get("DATA_SIZE", "16MiB")
RUNTIME_MS = os.environ.get("RUNTIME_MS", "4000")


def run(arguments, log):
    with log.open("w") as out:
        done = subprocess.run(arguments, stdout=out, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: see {log}")


def catalog():
    """The catalog of the user: random writes of one size."""
    folder = WORK / "catalog"
    (folder / "workloads").mkdir(parents=True, exist_ok=True)
    text = (ROOT / "catalog/workloads/random-write.fio").read_text()
    text = re.sub(r'quick-points = .*', f'quick-points = ["{POINT}"]', text)
    (folder / "workloads/random-write.fio").write_text(text)
    return folder


def settings(config):
    return [line for line in config.splitlines() if not line.startswith("catalog_dir")]


def measured(flashfit, card, folder, seed=7):
    """The trials on a card; a run that was interrupted goes on."""
    config, log = folder.with_suffix(".toml"), folder.with_suffix(".log")
    text = CONFIG.replace("CATALOG", str(catalog())).replace("SEED", str(seed))
    text = text.replace("DATA_SIZE", DATA_SIZE).replace("RUNTIME_MS", RUNTIME_MS)
    for options, more in MORE.items() if LARGE else ():
        text = text.replace(options, more)
    is_begun = (folder / "run.json").exists()
    if is_begun and settings(config.read_text()) != settings(text):
        sys.exit(f"{folder} was measured with other settings; use another WORK")
    config.write_text(text)
    if not is_begun:
        run([flashfit, "tune", f"sim:{card}", "--config", config, "--on", "vm", "--vm-speed-mips",
             str(MIPS), "--vm-guests", GUESTS, "--dir", folder, "--progress", "never"], log)
    elif not log.with_suffix(".done").exists():
        run([flashfit, "tune", "--resume", folder, "--catalog", catalog(), "--progress", "never"], log)
    log.with_suffix(".done").touch()
    return merits(folder)


def merits(folder):
    """The score of docs/run-format.md by workload and setup."""
    found = {}
    for line in (folder / "trials.jsonl").read_text().splitlines():
        trial = json.loads(line)
        if "completed" not in trial["outcome"]:
            continue
        rates = []
        for point in trial["outcome"]["completed"]["points"]:
            for stage in point["stages"]:
                for figures in filter(None, (stage["read"], stage["write"])):
                    rates.append(
                        figures["bytes_per_second"] / 1024 if stage["kind"] == "throughput"
                        else figures["operations_per_second_thousandths"] / 1000)
        setup = trial["key"]["setup"]
        if "geometry" in setup["options"]:
            continue
        name = " ".join([setup["filesystem"], *setup["options"]])
        score = sum(math.log(max(rate, 1)) for rate in rates) / len(rates)
        found.setdefault(trial["key"]["workload"], {})[name] = score
    return found


def ranks(values):
    """Ranks, of equal values their mean."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for position in order[at:end]:
            found[position] = (at + end - 1) / 2
        at = end
    return found


def spearman(pairs):
    one, other = (ranks(values) for values in zip(*pairs))
    mean = (len(pairs) - 1) / 2
    product = lambda a, b: sum((x - mean) * (y - mean) for x, y in zip(a, b))
    return product(one, other) / math.sqrt(product(one, one) * product(other, other) or 1e-9)


def lost(pairs):
    """By how many percent the first rate is below its best where the second one is best."""
    best_of_second = max(pairs, key=lambda pair: pair[1])[0]
    return 100 * (1 - math.exp(best_of_second - max(first for first, _ in pairs)))


def interval(pairs, of):
    draw = random.Random(1)
    found = sorted(of(draw.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    return found[DRAWS // 40], found[-DRAWS // 40 - 1]


def wilson(count, of):
    share, z = count / of, 1.96
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return f"{count} of {of}: {100 * share:.0f} % ({100 * (middle - half):.0f} to {100 * (middle + half):.0f})"


def repeated(flashfit, card, name, count):
    """The merits in each run, and the names of their folders; the first is called like the card."""
    names = [name, f"{name}-again", *(f"{name}-{number}" for number in range(3, count + 1))][:count]
    runs = [measured(flashfit, card, WORK / of, seed=7 + number) for number, of in enumerate(names)]
    return runs, names


def unpack(card):
    archive = RECORDED / f"{card}.tar.gz" if RECORDED else None
    if archive and archive.exists() and not (WORK / f"{card}-twin.toml").exists():
        subprocess.run(["tar", "-xzf", archive, "-C", WORK], check=True)


def keep(card, names):
    """All that the figures need, and what says how it was made."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    files = [f"cards/{card}.toml", f"{card}-twin.toml"]
    for name in names:
        files += [f"{name}.toml", f"{name}.done"]
        files += [f"{name}/{file}" for file in ("run.json", "trials.jsonl")]
    archive = RECORDED / f"{card}.tar.gz"
    subprocess.run(["tar", "-czf", archive.with_suffix(".new"), "--owner=0", "--group=0", "-C", WORK, *files], check=True)
    archive.with_suffix(".new").rename(archive)


def mean(values):
    return sum(values) / len(values)


def main():
    flashfit, cards = Path(sys.argv[1]).resolve(), [Path(name) for name in sys.argv[2:]]
    WORK.mkdir(parents=True, exist_ok=True)
    print("| card | workload | setups | rank correlation | twin's best, below the card's best | ratio of the rates, median and largest | between two runs of the card: rank correlation | best of the other run, below the best |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    means, single, of_card = Count(), Count(), Count()
    for card in cards:
        unpack(card.stem)
        twin = WORK / f"{card.stem}-twin.toml"
        if not twin.exists():
            run([flashfit, "probe", f"sim:{card}", "--write", "--max-time", PROBE_TIME, "--twin", twin], WORK / f"{card.stem}-probe.log")
        name = f"{card.stem}-large" if LARGE else card.stem
        on_card, folders = repeated(flashfit, card, name, RUNS)
        on_twin, more = repeated(flashfit, twin, f"{name}-on-twin", TWIN_RUNS)
        if KEEP and RECORDED and not LARGE:
            keep(card.stem, folders + more)
        for workload in WORKLOADS:
            runs = [of.get(workload, {}) for of in on_card + on_twin]
            names = sorted(set.intersection(*map(set, runs)))
            true = [mean([of[name] for of in runs[:RUNS]]) for name in names]
            pairs = list(zip(true, [mean([of[name] for of in runs[RUNS:]]) for name in names]))
            rank, loss = spearman(pairs), lost(pairs)
            low, high = interval(pairs, spearman)
            ratios = sorted(math.exp(abs(a - b)) for a, b in pairs)
            means.add(rank, loss)
            alone = [(runs[0][name], runs[RUNS][name]) for name in names]
            single.add(spearman(alone), lost(alone))
            own = "- | -"
            if RUNS > 1:
                two = [(runs[0][name], runs[1][name]) for name in names]
                own_rank = spearman(two)
                own_loss = (lost(two) + lost([pair[::-1] for pair in two])) / 2
                of_card.add(own_rank, own_loss)
                own = f"{own_rank:.2f} | {own_loss:.0f} %"
            print(f"| {card.stem} | {workload} | {len(pairs)} | {rank:.2f} ({low:.2f} to {high:.2f}) | {loss:.0f} % | {ratios[len(ratios) // 2]:.2f}, {ratios[-1]:.1f} | {own} |", flush=True)
    print("\n| | rank correlation at least 0.8 | best within 5 % | both |\n|---|---|---|---|")
    print(f"| means of the twin's runs with means of the card's | {means.line()} |")
    print(f"| first run of the twin with the first of the card | {single.line()} |")
    if of_card.all:
        print(f"| two runs of the card with each other | {of_card.line()} |")


class Count:
    """Pairs of card and workload that reach the goals."""

    def __init__(self):
        self.all = self.ranked = self.near = self.both = 0

    def add(self, rank, loss):
        self.all += 1
        self.ranked += rank >= 0.8
        self.near += loss <= 5
        self.both += rank >= 0.8 and loss <= 5

    def line(self):
        return " | ".join(wilson(count, self.all) for count in (self.ranked, self.near, self.both))


if __name__ == "__main__":
    main()
