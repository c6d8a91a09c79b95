#!/bin/sh
# Records grids: every setup of a small space under every workload, three times, on simulated cards
# behind the real kernel. Search strategies are compared on them (make search-benchmark).
#
# usage: record-grid.sh GRID...      (as root; one and a half to two and a half hours a grid)
#
# Reads examples/grids/GRID.toml and writes examples/grids/GRID.tar.gz with one run for each of the
# three repeats. Runs are recorded one after the other, because concurrent runs disturb each other:
# with three runs on two processors, repeats differed by 18 %, with one run by 7 %. Do not use the
# machine for anything else. The workloads of the catalog are measured at one point each, with
# 16 MiB and for 1.5 seconds, so that a grid takes hours instead of weeks. An interrupted grid
# continues where it stopped.

set -eu

FLASHFIT=${FLASHFIT:-target/release/flashfit}
WORK=${WORK:-target/grids}
GRIDS=examples/grids
REPEATS="1 2 3"

mkdir -p "$WORK/catalog/workloads"
for workload in catalog/workloads/*.fio; do
    point=16KiB
    case $workload in */linear-*) point=256KiB ;; esac
    sed -e "s/^#: quick-points = \[\".*/#: quick-points = [\"$point\"]/" "$workload" \
        > "$WORK/catalog/workloads/${workload##*/}"
done

# record GRID REPEAT: becomes the run of one repeat, new or gone on with.
record() {
    run=$WORK/$1-$2
    card=$(sed -n 's/^device = "sim:\(.*\)"/\1/p' "$GRIDS/$1.toml")
    if [ -e "$run/run.json" ]; then
        exec "$FLASHFIT" tune --resume "$run" --confirm "$card"
    else
        sed -e "s/SEED/$2/" -e "s|CATALOG|$WORK/catalog|" "$GRIDS/$1.toml" > "$run.toml"
        exec "$FLASHFIT" tune --config "$run.toml" --dir "$run" --confirm "$card"
    fi > "$run.log" 2>&1
}

recording=
# Whoever ends this ends the run, which takes away what it has mounted.
trap '[ -z "$recording" ] || kill -INT "$recording"; wait; exit 130' INT TERM

for grid in "$@"; do
    for repeat in $REPEATS; do
        record "$grid" "$repeat" &
        recording=$!
        if ! wait "$recording"; then
            echo "$grid: a run failed; see $WORK/$grid-$repeat.log" >&2
            exit 1
        fi
        recording=
    done
    # shellcheck disable=SC2046 # the names of the runs have no spaces
    tar -C "$WORK" --owner=0 --group=0 -czf "$GRIDS/$grid.tar.gz" \
        $(for repeat in $REPEATS; do
            echo "$grid-$repeat/run.json $grid-$repeat/trials.jsonl"
        done)
done
