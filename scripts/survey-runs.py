#!/usr/bin/env python3
"""Copies a recorded run many times, each as one of another SD card with other figures, to measure
`flashfit survey`. The copies are not measurements.

usage: survey-runs.py COUNT RUN DIRECTORY
"""

import copy
import json
import random
import sys
from pathlib import Path

FIGURES = ("bytes_per_second", "operations_per_second_thousandths", "p99_ns", "max_ns")


def scale(value, factor):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in FIGURES:
                value[key] = int(inner * factor)
            else:
                scale(inner, factor)
    elif isinstance(value, list):
        for inner in value:
            scale(inner, factor)


def main():
    count, run, target = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    header = json.loads((run / "run.json").read_text())
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    for number in range(count):
        draw = random.Random(number)
        folder = target / f"run-{number:05}"
        folder.mkdir(parents=True)
        own = copy.deepcopy(header)
        own["created_unix_s"] += number
        own["spec"]["seed"] = number
        own["facts"]["card"] = None
        device = own["facts"]["medium"]
        device["kind"], device["path"] = "sd-card", "/dev/mmcblk0"
        serial = 0x10000000 + number * 7919
        device["identity"]["cid"] = f"035344534c33324780{serial:08x}012b00"
        (folder / "run.json").write_text(json.dumps(own))
        with open(folder / "trials.jsonl", "w") as file:
            for trial in copy.deepcopy(trials):
                scale(trial["outcome"], 1 + draw.uniform(-0.05, 0.05))
                trial["started_unix_s"] += number
                file.write(json.dumps(trial, separators=(",", ":")) + "\n")


main()
