#!/usr/bin/env python3
"""Measures what options and file systems cost or save in the life of simulated devices.

For each option, the workloads of the usage models are recorded under this kernel with and without
it (`flashfit wear record`), and `flashfit wear estimate --compare` replays both on card models of
four translation layers. The range of an entry covers the 90 % intervals of all cards, usage models
and seeds. Contents are random, so options that compress or deduplicate are not measured. Run as
root; takes about half a minute an option and seed.

usage: option-life.py [--fs ext4,btrfs] [--options A,B] [--recorded f2fs,xfs] [--seeds N]
                      [--on BED] [--work DIR] [--merge FILE]

--recorded compares file systems by the traces in catalog/traces, without options.

Writes catalog/life/options.toml to the standard output, and progress to the standard error. With
--work, recordings of earlier calls with the same directory are used again. With --merge, entries of
FILE that are not measured now are kept. FLASHFIT names the program.
"""
import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLASHFIT = os.environ.get("FLASHFIT", f"{ROOT}/target/release/flashfit")
CARDS = ["usd-a1-pagemap", "sd-c4-block", "sd-c10-log", "sd-sandisk-c4"]
USAGES = ["raspberry-pi", "kiosk"]
# What programs write in each recording, as in catalog/traces.
WORKLOADS = {"database": "192MiB", "logs": "32MiB", "small-files": "96MiB"}
FIRST = "ext4"
# Options that change nothing a recording can show: compression, and what needs an aged device.
SKIPPED = ("compress", "discard-unit", "geometry")


def flashfit(*args):
    return subprocess.run([FLASHFIT, *args], capture_output=True, text=True)


def recorded(catalog, setup, seed, bed):
    """Whether all workloads of the setup could be recorded into the catalog."""
    for workload, volume in WORKLOADS.items():
        file = f"{catalog}/traces/{setup.replace(':', '+')}-{workload}.toml"
        if os.path.exists(file):
            continue
        print(f"recording {setup} {workload}, seed {seed}", file=sys.stderr)
        ended = flashfit(
            "wear", "record", "sim:usd-a1-pagemap", "--fs", setup, "--workload", workload,
            "--volume", volume, "--output", file, "--seed", str(seed), "--on", bed,
        )
        if ended.returncode:
            print(f"  {ended.stderr.strip().splitlines()[0]}", file=sys.stderr)
            return False
    return True


def ratios(catalog, setup, against):
    """Intervals of how many times as long a setup lasts, and how many cards could not tell."""
    found, missing = [], 0
    for card in CARDS:
        for usage in USAGES:
            ended = flashfit(
                "--catalog", catalog, "wear", "estimate", f"sim:{card}", "--fs",
                f"{against},{setup}", "--usage", usage, "--compare", "--json",
            )
            if ended.returncode:
                missing += 1
                continue
            found.append(json.loads(ended.stdout)["data"]["setups"][1]["ratio_to_first"])
    return found, missing


def options_of(filesystem):
    with open(f"{ROOT}/catalog/filesystems/{filesystem}.toml", "rb") as file:
        options = [option["name"] for option in tomllib.load(file).get("option", [])]
    return [name for name in options if not name.startswith(SKIPPED)]


def add(entries, key, against, found, missing, kernel):
    filesystem, option = key
    middle = sum(math.log(ratio["median"]) for ratio in found) / len(found)
    entries[key] = {
        "filesystem": filesystem,
        **({"option": option} if option else {}),
        "against": against,
        "middle": round(math.exp(middle), 2),
        "low": round(min(ratio["low"] for ratio in found), 2),
        "high": round(max(ratio["high"] for ratio in found), 2),
        "comparisons": len(found),
        "too_slow": missing,
        "kernel": kernel,
    }
    print(f"{':'.join(filter(None, key))}: {entries[key]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fs", default="ext4,btrfs")
    parser.add_argument("--options")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--on", default="here")
    parser.add_argument("--recorded", default="f2fs,exfat,fat32,xfs")
    parser.add_argument("--work")
    parser.add_argument("--merge")
    args = parser.parse_args()
    work = args.work or tempfile.mkdtemp(prefix="option-life-")
    entries = {}
    if args.merge:
        with open(args.merge, "rb") as file:
            for entry in tomllib.load(file)["entry"]:
                entries[(entry["filesystem"], entry.get("option"))] = entry
    for filesystem in filter(None, args.recorded.split(",")):
        found, missing = ratios(tempfile.mkdtemp(dir=work), filesystem, FIRST)
        if found:
            add(entries, (filesystem, None), FIRST, found, missing, "as in catalog/traces")
    for filesystem in filter(None, args.fs.split(",")):
        options = args.options.split(",") if args.options else options_of(filesystem)
        for option in [None, *options]:
            setup = f"{filesystem}:{option}" if option else filesystem
            against = filesystem if option else FIRST
            if setup == against:
                continue
            found, missing = [], 0
            for seed in range(1, args.seeds + 1):
                catalog = f"{work}/{seed}"
                os.makedirs(f"{catalog}/traces", exist_ok=True)
                if recorded(catalog, against, seed, args.on) and recorded(
                    catalog, setup, seed, args.on
                ):
                    more, lacking = ratios(catalog, setup, against)
                    found += more
                    missing += lacking
            if found:
                kernel = ".".join(platform.release().split(".")[:2])
                where = kernel if args.on == "here" else args.on
                add(entries, (filesystem, option), against, found, missing, where)
    print("# How many times as long a device lasts with an option, or with a file system, as without.")
    print("#")
    print("# Written by `make option-life`. Simulated: requests recorded under a real kernel, replayed on")
    print("# each of the card models under each of the usage models. `low` and `high` cover the 90 %")
    print("# intervals of all comparisons, `middle` is the geometric mean of their medians; `too_slow`")
    print("# counts those where a card cannot write as much as the usage model asks.\n")
    print(f"cards = {json.dumps(CARDS)}")
    print(f"usages = {json.dumps(USAGES)}")
    for entry in entries.values():
        print("\n[[entry]]")
        for key, value in entry.items():
            print(f"{key} = {json.dumps(value)}")


main()
