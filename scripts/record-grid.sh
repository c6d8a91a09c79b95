#!/bin/sh
# Records grids: every setup of a small space under every workload, three times, on simulated cards
# behind the real kernel. Search strategies are compared on them (make search-benchmark).
#
# usage: record-grid.sh GRID...      (as root; one and a half to two and a half hours a grid)
#
# Records what examples/grids/GRID.toml says, and leaves examples/grids/GRID.tar.gz with a run for
# each of the three repeats. They are recorded one after the other, because runs beside each other
# disturb each other: three at a time on two processors made repeats differ by 18 % where one alone
# differs by 7 %. Leave the machine alone meanwhile. The workloads are those of the catalogue, each
# measured at one point, with 16 MiB and for a second and a half, so that a grid is done in hours
# instead of weeks. A grid that was interrupted goes on where it was.

set -eu

FLASHFIT=${FLASHFIT:-target/release/flashfit}
WORK=${WORK:-target/grids}
GRIDS=examples/grids
REPEATS="1 2 3"

mkdir -p "$WORK/catalog/workloads"
for workload in catalog/workloads/*.fio; do
    point=16KiB
    case $workload in */linear-*) point=256KiB ;; esac
    # fio looks at its clocks for a while when it starts, unless it is told which one to use.
    sed -e "s/^#: quick-points = \[\".*/#: quick-points = [\"$point\"]/" \
        -e 's/^\[global\]/[global]\nclocksource=clock_gettime\ndisk_util=0/' \
        "$workload" > "$WORK/catalog/workloads/${workload##*/}"
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
