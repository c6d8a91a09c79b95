#!/bin/sh
# Measures how many trials an hour the counted machine makes, and where their time goes.
#
# usage: counted-rate.sh FLASHFIT [GUESTS]
#
# Short trials of eight setups under one light workload on a simulated slow card. Times of trials are
# those of the guest's clock; the rate is by the clock of this machine, from the first trial to the last.
# The processor time of this machine, with that of booting, depends less on what else runs.
set -eu
flashfit=$(realpath "$1")
guests=${2:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > rate.toml <<'EOF'
filesystems = ["ext4"]
schedulers = ["none"]
workloads = ["random-write"]
data_size = "4MiB"
memory = "32MiB"
runtime_ms = 100
fresh = true
strategy = "exhaustive"
repeats = 8
confirm_rounds = 0
allow = "may-corrupt"

[options.ext4]
exclude = ["noatime", "discard", "nobarrier", "fast_commit"]
EOF
python3 - "$guests" "$flashfit" <<'EOF'
import json, os, resource, subprocess, sys
command = [sys.argv[2], "tune", "sim:sd-c4-block", "--config", "rate.toml", "--on", "vm", "--vm-speed-mips", "1000"]
command += ["--vm-guests", sys.argv[1], "--dir", "run", "--progress", "never"]
done = subprocess.run(command, capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
trials = [json.loads(line) for line in open("run/trials.jsonl")]
begun = [trial["started_unix_s"] for trial in trials]
guests = int(sys.argv[1])
seconds = max(begun) - min(begun)
# The trials that begin last are not in that time.
rate = 3600 * (len(trials) - guests) / max(seconds, 1)
print(f"{len(trials)} trials, {guests} guests: {rate:.0f} trials an hour, load {os.getloadavg()[1]:.1f}")
print(f"{(used.ru_utime + used.ru_stime) / len(trials):.1f} s of this machine's processors a trial")
total = sum(trial["phases"]["total_ns"] for trial in trials)
print(f"{total / len(trials) / 1e9:.2f} s of guest time a trial:")
for phase in sorted({name for trial in trials for name in trial["phases"]} - {"total_ns"}):
    share = sum(trial["phases"].get(phase) or 0 for trial in trials) / total
    if share >= 0.01:
        print(f"  {phase.removesuffix('_ns'):10} {100 * share:3.0f} %")
EOF
