#!/bin/sh
# Records grids: every setup of a small space under every workload, three times, on simulated cards
# behind the real kernel. Search strategies are compared on them (make search-benchmark).
#
# usage: record-grid.sh CARD...      (as root; less than an hour a card)
#
# Records what examples/grids/CARD.toml says, and leaves examples/grids/CARD.tar.gz with a run for
# each of the three repeats, which are recorded beside each other. The workloads are those of the
# catalogue, each measured at one point, with 16 MiB and for a second and a half, so that a grid is
# done in an hour instead of weeks. A grid that was interrupted goes on where it was.

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

# record CARD REPEAT: becomes the run of one repeat, new or gone on with.
record() {
    run=$WORK/$1-$2
    if [ -e "$run/run.json" ]; then
        exec "$FLASHFIT" tune --resume "$run" --confirm "$1"
    else
        sed -e "s/SEED/$2/" -e "s|CATALOG|$WORK/catalog|" "$GRIDS/$1.toml" > "$run.toml"
        exec "$FLASHFIT" tune --config "$run.toml" --dir "$run" --confirm "$1"
    fi > "$run.log" 2>&1
}

recording=
# Whoever ends this ends the runs, which take away what they have mounted.
trap 'kill -INT $recording; wait; exit 130' INT TERM

for card in "$@"; do
    recording=
    for repeat in $REPEATS; do
        record "$card" "$repeat" &
        recording="$recording $!"
    done
    failed=
    for one in $recording; do
        wait "$one" || failed=yes
    done
    if [ -n "$failed" ]; then
        echo "$card: a run failed; see $WORK/$card-*.log" >&2
        exit 1
    fi
    # shellcheck disable=SC2046 # the names of the runs have no spaces
    tar -C "$WORK" --owner=0 --group=0 -czf "$GRIDS/$card.tar.gz" \
        $(for repeat in $REPEATS; do
            echo "$card-$repeat/run.json $card-$repeat/trials.jsonl"
        done)
done
