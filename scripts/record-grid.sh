#!/bin/sh
# Records grids: every setup of a small space under every workload, three times, on simulated cards
# behind the real kernel. Search strategies are compared on them (make search-benchmark).
#
# usage: record-grid.sh CARD...      (as root; two hours a card)
#
# Leaves examples/grids/CARD.tar.gz with run.json and trials.jsonl. The workloads are those of the
# catalogue, each measured at one point and for three tenths of a second, so that a grid is done in
# hours instead of weeks. A grid that was interrupted goes on where it was.

set -eu

FLASHFIT=${FLASHFIT:-target/release/flashfit}
WORK=${WORK:-target/grids}
GRIDS=examples/grids

mkdir -p "$WORK/catalog/workloads"
for workload in catalog/workloads/*.fio; do
    point=16KiB
    case $workload in */linear-*) point=256KiB ;; esac
    # fio looks at its clocks for a while when it starts, unless it is told which one to use.
    sed -e "s/^#: quick-points = \[\".*/#: quick-points = [\"$point\"]/" \
        -e 's/^\[global\]/[global]\nclocksource=clock_gettime\ndisk_util=0/' \
        "$workload" > "$WORK/catalog/workloads/${workload##*/}"
done

for card in "$@"; do
    run=$WORK/$card
    if [ -e "$run/run.json" ]; then
        "$FLASHFIT" tune --resume "$run" --confirm "$card" >&2
    else
        sed -e "s/CARD/$card/" -e "s|CATALOG|$WORK/catalog|" "$GRIDS/grid.toml" > "$WORK/$card.toml"
        "$FLASHFIT" tune --config "$WORK/$card.toml" --dir "$run" --confirm "$card" >&2
    fi
    tar -C "$WORK" --owner=0 --group=0 -czf "$GRIDS/$card.tar.gz" \
        "$card/run.json" "$card/trials.jsonl"
done
