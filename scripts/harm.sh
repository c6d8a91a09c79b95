#!/usr/bin/env bash
# Tries to make flashfit do harm: targets in use and swapped, edited and foreign run directories,
# hostile clients and files, processes killed at every step, and power cuts. These are the tests that
# docs/safety.md names. Ends with the number of attempts of each kind and one line:
# `N passed, N failed, N skipped`.
#
# usage: harm.sh

set -uo pipefail
cd "$(dirname "$0")/.." || exit
CARGO=${CARGO:-cargo}
log=$(mktemp)
group=$(mktemp)
export FLASHFIT_SKIP_LOG FLASHFIT_ATTEMPTS_LOG
FLASHFIT_SKIP_LOG=$(mktemp)
FLASHFIT_ATTEMPTS_LOG=$(mktemp)
trap 'rm -f "$log" "$group" "$FLASHFIT_SKIP_LOG" "$FLASHFIT_ATTEMPTS_LOG"' EXIT
failed_programs=0

# attempt TITLE ARGUMENTS-OF-CARGO-TEST...
attempt() {
    echo "== $1"
    shift
    SECONDS=0
    "$CARGO" test --locked --quiet "$@" >"$group" 2>&1
    status=$?
    # Tests in their own namespaces print such lines as well; the last one is the program's.
    grep -E '^test result' "$group" | tail -n 1 | tee -a "$log"
    grep -E '^(error|thread|power-cut states)|FAILED|panicked' "$group"
    sed -n '/^power-cut states/,/^isolated/s/^ \+\([0-9]\)/    \1/p' "$group"
    # A filter that matches no test has been left behind by a renamed one.
    if ! grep '^test result' "$group" | tail -n 1 | grep -q ' [1-9][0-9]* passed'; then
        echo "no test passed: cargo test $*"
        status=1
    fi
    [ "$status" -eq 0 ] || { failed_programs=$((failed_programs + 1)); tail -n 40 "$group"; }
    echo "   ${SECONDS} s"
}

attempt "devices in use, replaced, resized" -p flashfit-device --test guard
attempt "swap areas on partitions" -p flashfit-device --test swap_partitions
attempt "run directories with links, damage, unknown keys" -p flashfit-tune --test tune -- run_dir corpus
attempt "links in backups, journals and records" -p flashfit-apply --lib -- link
attempt "workloads that reach outside" -p flashfit-bench --lib -- jobfile
attempt "hostile clients of an agent" -p flashfit-testbed --lib -- agent
attempt "hostile clients of a card's control socket" -p flashfit-card-server --lib -- socket
attempt "hostile clients of a card's NBD socket" -p flashfit-card-server --test nbd -- client
attempt "apply killed at every step" -p flashfit-apply --test real -- --include-ignored
attempt "power cuts" -p flashfit --test power_loss -- --include-ignored --nocapture
attempt "names that are not UTF-8, in the guard" -p flashfit-device --lib -- not_utf8
attempt "names that are not UTF-8, in mount tables" -p flashfit-host --lib -- not_utf8
for module in agent:: apply:: crash::a_campaign replay::a_run_with_another environment:: foreign_runs:: full_disk:: guard:: lost_device:: \
    named_files:: one_at_a_time:: sudden_end:: swapped:: test_beds::kills; do
    attempt "the whole program: $module" -p flashfit --test whole_program -- --include-ignored "$module"
done

# Sums a word of libtest's closing lines.
sum() { sed -n "s/^test result.* \([0-9]*\) $1;.*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'; }
passed=$(sum passed)
failed=$(sum failed)
skipped=$(cut -f 1 "$FLASHFIT_SKIP_LOG" | sort -u | wc -l)
if [ "$failed_programs" -gt 0 ] && [ "$failed" -eq 0 ]; then
    # A program that did not build or that died counts, too.
    failed=$failed_programs
fi
[ "$skipped" -eq 0 ] || cut -f 2 "$FLASHFIT_SKIP_LOG" | sort | uniq -c
echo "Attempts:"
awk -F '\t' '{ n[$1] += $2 } END { for (kind in n) printf "%7d %s\n", n[kind], kind }' \
    "$FLASHFIT_ATTEMPTS_LOG" | sort -k 2
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
