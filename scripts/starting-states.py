#!/usr/bin/env python3
"""Compares gains that `flashfit tune` claims with a user's own measurements.

For each card and workload, flashfit compares two default file systems on a served simulated card.
Then this script measures both by hand on the same card, with mkfs, mount and fio and without any
code of flashfit: on a new file system, after a sync, after a remount, and after a day's worth of
writes. It counts how often the ratio measured by hand lies in the claimed interval, how often the
interval of their mean overlaps the claimed one, and whether the means agree with what is recommended.
Run as root.

usage: starting-states.py [--fresh] [--cards A,B] [--workloads A,B] [--fs A,B] [--seeds N] [--jobs N]
                          [--budget TIME] [--recorded DIR]

Writes Markdown to the standard output, and progress to the standard error. FLASHFIT names the
program, WORK a directory for runs. With --fresh all trials start right after mkfs. Slow cards make
every sync(2) of the machine wait, so nothing else should run on it.
"""
import argparse
import concurrent.futures
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLASHFIT = os.environ.get("FLASHFIT", f"{ROOT}/target/release/flashfit")
CARDS = "sd-sandisk-c4,sd-c10-log,sd-c4-block,usd-a1-pagemap,emmc-4.5,usb-cheap"
WORKLOADS = "sync-files"
# The volume and the longest time of a stage that `tune` uses by default.
DATA_BYTES, RUNTIME_MS = 16 << 20, 2000
SMALL_FILE_BYTES = 160 << 10
POINTS = {"random-write": ["4k", "64k", "1m"]}
STATES = ["new", "synced", "remounted", "used for a day"]
# A day of a small system's logs and settings.
DAY_BYTES = 64 << 20
REPEATS = 2
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
    "f2fs": ["mkfs.f2fs", "-q", "-f"],
}
started = []
lock = threading.Lock()


def run(*command, **more):
    ended = subprocess.run(command, capture_output=True, text=True, **more)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr or ended.stdout}")
    return ended.stdout


class Served:
    """A served card; `device` is its node."""

    def __init__(self, card):
        self.process = subprocess.Popen(
            [FLASHFIT, "card", "serve", card],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with lock:
            started.append(self.process)
        self.device = None
        for line in self.process.stdout:
            found = re.search(r"/dev/loop\d+", line)
            if found:
                self.device = found.group()
                break
        if self.device is None:
            raise RuntimeError(f"{card} is not served")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        # udev and the like may look at a new device.
        time.sleep(2)

    def stats(self):
        return json.loads(run(FLASHFIT, "card", "stats", self.device, "--json"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def options_of(filesystem):
    with open(f"{ROOT}/catalog/filesystems/{filesystem}.toml", "rb") as file:
        names = [option["name"] for option in tomllib.load(file).get("option", [])]
    for knobs in os.listdir(f"{ROOT}/catalog/knobs"):
        with open(f"{ROOT}/catalog/knobs/{knobs}", "rb") as file:
            names += [option["name"] for option in tomllib.load(file).get("option", [])]
    return sorted(set(names))


def tuned(device, pair, workload, seed, chosen, folder):
    """What `flashfit tune` says of the default setups of two file systems."""
    config = f"{folder}/tune.toml"
    with open(config, "w") as file:
        names = ", ".join(f'"{name}"' for name in pair)
        file.write(f"filesystems = [{names}]\nworkloads = [\"{workload}\"]\n")
        file.write(f"schedulers = [\"none\"]\nseed = {seed}\n")
        for filesystem in pair:
            excluded = ", ".join(f'"{name}"' for name in options_of(filesystem))
            file.write(f"[options.{filesystem}]\nexclude = [{excluded}]\n")
    name = os.path.basename(device)
    command = [FLASHFIT, "tune", device, "--config", config, "--dir", f"{folder}/run",
               "--confirm", name, "--json", "--progress", "never", "--budget", chosen.budget]
    began = time.monotonic()
    made = subprocess.Popen(command + (["--fresh"] if chosen.fresh else []),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with lock:
        started.append(made)
    output, said = made.communicate()
    if made.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said}")
    answer = json.loads(output)
    answer = answer.get("data", answer)
    with open(f"{folder}/run/trials.jsonl") as file:
        trials = [json.loads(line) for line in file]
    return answer, trials, time.monotonic() - began


def fio(workload, point, section="write", **more):
    """Runs a job file of the catalog; returns bytes per second, the last sync included."""
    values = {"SIZE": DATA_BYTES, "BLOCK_SIZE": point, "RUNTIME": f"{RUNTIME_MS}ms",
              "FILES": DATA_BYTES // SMALL_FILE_BYTES, **more}
    if workload == "sync-files":
        values["SIZE"] = values["FILES"] * SMALL_FILE_BYTES
    environment = {**os.environ, **{key: str(value) for key, value in values.items()}}
    # fio writes its document outside of the file system under test.
    output = f"{more['DIRECTORY']}/../../fio-{os.getpid()}-{threading.get_ident()}.json"
    run("fio", "--output-format=json", f"--output={output}", f"--section={section}",
        f"{ROOT}/catalog/workloads/{workload}.fio", env=environment)
    with open(output) as file:
        text = file.read()
    os.unlink(output)
    job = json.loads(text[text.index("{"):])["jobs"][0]
    began = time.monotonic()
    descriptor = os.open(more["DIRECTORY"], os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    seconds = job["write"]["runtime"] / 1000 + time.monotonic() - began
    return job["write"]["io_bytes"] / seconds


def use_for_a_day(root, draw):
    folder, written, names = f"{root}/day", 0, []
    os.mkdir(folder)
    while written < DAY_BYTES:
        size = 4096 << draw.randrange(9)
        name = f"{folder}/{len(names)}"
        with open(name, "wb") as file:
            file.write(os.urandom(size))
            file.flush()
            # Most programs do not sync.
            if draw.randrange(4) == 0:
                os.fsync(file.fileno())
        names.append(name)
        written += size
        if len(names) > 8 and draw.randrange(2):
            os.unlink(names.pop(draw.randrange(len(names))))
            names.append(f"{folder}/none")
            open(names[-1], "wb").close()
    run("sync", "-f", root)


def by_hand(*measured):
    """The mean logarithm of the rates. Its own process mounts, in its own namespace: otherwise the
    mount would stay in the namespace of a run that begins meanwhile."""
    return float(run("unshare", "--mount", sys.executable, os.path.abspath(__file__), "--hand",
                     *measured))


def measure_by_hand(device, filesystem, workload, state, seed, point_dir):
    draw = random.Random(f"{filesystem}/{state}/{seed}")
    run(*MKFS[filesystem], device)
    os.makedirs(point_dir, exist_ok=True)
    run("mount", device, point_dir)
    try:
        if state == "synced":
            run("sync", "-f", point_dir)
        elif state == "remounted":
            run("umount", point_dir)
            run("mount", device, point_dir)
        elif state == "used for a day":
            use_for_a_day(point_dir, draw)
        folder = f"{point_dir}/work"
        os.mkdir(folder)
        points = POINTS.get(workload, ["4k"])
        rates = [fio(workload, point, DIRECTORY=folder, SEED=draw.randrange(1 << 30))
                 for point in points]
    finally:
        run("umount", point_dir)
    return sum(map(math.log, rates)) / len(rates)


def case(card, workload, pair, seed, chosen, work):
    folder = tempfile.mkdtemp(prefix=f"{card}-{workload}-{seed}-", dir=work)
    with Served(card) as served:
        before = served.stats()
        answer, trials, seconds = tuned(served.device, pair, workload, seed, chosen, folder)
        after = served.stats()
        rates = {}
        for state in STATES:
            for filesystem in pair:
                logs = [by_hand(served.device, filesystem, workload, state, f"{seed}/{repeat}",
                                f"{folder}/mnt") for repeat in range(REPEATS)]
                rates[state, filesystem] = logs
    found = {"card": card, "workload": workload, "pair": pair, "seed": seed, "folder": folder,
             "answer": answer, "seconds": seconds, "trials": len(trials),
             "state_seconds": sorted(t["phases"].get("state_ns", 0) / 1e9 for t in trials),
             "erases": [before, after],
             "rates": [[state, fs, logs] for (state, fs), logs in rates.items()]}
    with open(f"{folder}/case.json", "w") as file:
        json.dump(found, file)
    return found


def judged(found):
    """The claim, and the gains by hand in each state."""
    answer = found["answer"]
    gain, subject = answer.get("gain"), answer.get("gain_of")
    baseline = found["pair"][0]
    if not gain or not subject or subject["filesystem"] == baseline:
        return None
    hand = by_state(found, subject["filesystem"], baseline)
    percent = {key.removesuffix("percent_hundredths"): value / 100
               for key, value in gain.items() if key.endswith("percent_hundredths")}
    return {"subject": subject["filesystem"], "middle": percent[""],
            "low": percent["low_"], "high": percent["high_"],
            "mean": (percent["mean_low_"], percent["mean_high_"]),
            "rounds": gain["repeats"], "hand": hand}


def by_state(found, subject, baseline):
    """Gains by hand in percent, each of two single measurements."""
    rates = {(state, fs): logs for state, fs, logs in found["rates"]}
    pairs = {state: zip(rates[state, subject], rates[state, baseline]) for state in STATES}
    return {state: [100 * (math.exp(a - b) - 1) for a, b in pair] for state, pair in pairs.items()}


def mean_by_hand(hand):
    """The mean over all states, and its 95 % interval, in percent."""
    logs = [math.log(1 + value / 100) for values in hand.values() for value in values]
    middle = statistics.fmean(logs)
    # Student's t of seven degrees of freedom, as there are two measurements in each of four states.
    half = 2.36 * statistics.stdev(logs) / math.sqrt(len(logs))
    return [100 * (math.exp(of) - 1) for of in (middle, middle - half, middle + half)]


def main():
    if sys.argv[1:2] == ["--hand"]:
        return print(measure_by_hand(*sys.argv[2:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--cards", default=CARDS)
    parser.add_argument("--workloads", default=WORKLOADS)
    parser.add_argument("--fs", default="ext4,btrfs")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", default="4min")
    parser.add_argument("--recorded", help="report the cases in this WORK directory again")
    chosen = parser.parse_args()
    if chosen.recorded:
        results = []
        for folder in sorted(os.listdir(chosen.recorded)):
            path = f"{chosen.recorded}/{folder}/case.json"
            if os.path.exists(path):
                with open(path) as file:
                    results.append(json.load(file))
        return report(results, chosen)
    work = os.environ.get("WORK") or tempfile.mkdtemp(prefix="starting-states-")
    os.makedirs(work, exist_ok=True)
    pairs = [chosen.fs.split(","), chosen.fs.split(",")[::-1]]
    cases = [(card, workload, pair, seed) for seed in range(1, chosen.seeds + 1)
             for card in chosen.cards.split(",") for workload in chosen.workloads.split(",")
             for pair in pairs]
    results = []
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        pending = {pool.submit(case, *one, chosen, work): one for one in cases}
        for done in concurrent.futures.as_completed(pending):
            try:
                results.append(done.result())
                claim = judged(results[-1])
                print(*pending[done], claim, file=sys.stderr, flush=True)
            except Exception as error:
                print(*pending[done], "failed:", error, file=sys.stderr, flush=True)
    report(results, chosen)


def wilson(hits, count):
    """The share with its 95 % Wilson interval."""
    share, z = hits / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    half /= 1 + z * z / count
    return f"{hits} of {count}: {100 * share:.0f} % ({100 * (middle - half):.0f} to " \
           f"{100 * (middle + half):.0f})"


HEAD = """# Gains from other starting states

Written by `make starting-states`. Simulated cards behind the real kernel: all figures are simulated.
For each card, `flashfit tune` compares the default setups of {pair}, once with each as the baseline
(up to {budget} of trials, {state}). Then both are measured by hand on the same card, with
mkfs, mount and fio alone, {repeats} times each: on a new file system, after a sync, after a remount, and
after {day} MiB of files were written and half of them removed. A gain by hand is the ratio of two single
measurements. It should lie in the claimed 95 % interval in at least 90 % of cases. The mean over all
measurements by hand is given with its own 95 % interval, which should overlap that of the claimed mean.
"""


def report(results, chosen):
    order = {card: at for at, card in enumerate(chosen.cards.split(","))}
    results.sort(key=lambda r: (order.get(r["card"], 99), r["card"], r["workload"], r["pair"]))
    print(HEAD.format(pair=chosen.fs.replace(",", " and "), budget=chosen.budget, repeats=REPEATS,
                      state="all right after mkfs" if chosen.fresh else "varied starts",
                      day=DAY_BYTES >> 20))
    claims = [(found, judged(found)) for found in results]
    shown = [(found, claim) for found, claim in claims if claim]
    intervals(shown)
    means(shown)
    answers(claims)
    costs(results)


def intervals(shown):
    print("| card | workload | gain | 95 % interval | rounds | by hand: " + " | ".join(STATES) + " |")
    print("|---|---|---|---|---|" + "---|" * len(STATES))
    held = {state: [0, 0] for state in STATES}
    for found, claim in shown:
        cells = []
        for state in STATES:
            values = claim["hand"][state]
            hits = sum(claim["low"] <= value <= claim["high"] for value in values)
            held[state][0] += hits
            held[state][1] += len(values)
            mark = "" if hits == len(values) else f" ({len(values) - hits} outside)"
            cells.append(", ".join(f"{value:+.0f} %" for value in values) + mark)
        print(f"| {found['card']} | {found['workload']} | {claim['subject']} over "
              f"{found['pair'][0]} {claim['middle']:+.0f} % | {claim['low']:+.0f} to "
              f"{claim['high']:+.0f} % | {claim['rounds']} | " + " | ".join(cells) + " |")
    print("\n| started by hand | gains in the claimed interval (95 % Wilson interval) |\n|---|---|")
    for state, (hits, count) in held.items():
        if count:
            print(f"| {state} | {wilson(hits, count)} |")
    total = [sum(column) for column in zip(*held.values())]
    if total[1]:
        print(f"| all | {wilson(*total)} |")


def means(shown):
    print("\n| card | workload | gain | claimed mean | mean by hand | overlap |")
    print("|---|---|---|---|---|---|")
    overlaps = 0
    for found, claim in shown:
        (low, high), (middle, least, most) = claim["mean"], mean_by_hand(claim["hand"])
        overlap = least <= high and low <= most
        overlaps += overlap
        print(f"| {found['card']} | {found['workload']} | {claim['subject']} over {found['pair'][0]} | "
              f"{low:+.0f} to {high:+.0f} % | {middle:+.0f} % ({least:+.0f} to {most:+.0f}) | "
              f"{'yes' if overlap else 'no'} |")
    if shown:
        print(f"\nIntervals that overlap: {wilson(overlaps, len(shown))}.")


def answers(claims):
    """What was recommended, and whether the mean by hand agrees."""
    print("\n| recommended | runs | by hand, the other is better on average | wrong beyond chance |")
    print("|---|---|---|---|")
    counts = {}
    for found, _ in claims:
        baseline, other = found["pair"]
        answer = found["answer"]
        middle, least, most = mean_by_hand(by_state(found, other, baseline))
        if answer["setup"] is None:
            name = "no setup"
        elif answer.get("likely"):
            name = "the other, likely better"
        elif baseline not in answer["setup"].split()[0]:
            name = "the other, better"
        else:
            name = "the baseline"
        runs = counts.setdefault(name, [])
        recommended = name.startswith("the other")
        runs.append((middle > 0, (most < 0) if recommended else (least > 0)))
    for name, runs in sorted(counts.items()):
        print(f"| {name} | {len(runs)} | {sum(one for one, _ in runs)} | "
              f"{sum(other for _, other in runs)} |")


def costs(results):
    print("\n## What starts cost\n")
    print("| card | trials | start, median | start, mean | erases a trial | written a trial |")
    print("|---|---|---|---|---|---|")
    for found in results:
        before, after = (stats.get("data", stats) for stats in found["erases"])
        seconds, trials = found["state_seconds"], found["trials"]
        written = (after["host_written_bytes"] - before["host_written_bytes"]) / trials / (1 << 20)
        print(f"| {found['card']} | {trials} | {seconds[len(seconds) // 2]:.1f} s | "
              f"{sum(seconds) / trials:.1f} s | {(after['erases'] - before['erases']) / trials:.1f}"
              f" | {written:.0f} MiB |")


def stop(*_):
    """Ends all that was started, the trials before the cards, and begins none of the waiting cases."""
    for process in reversed(started):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    os._exit(130)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, stop)
    main()
