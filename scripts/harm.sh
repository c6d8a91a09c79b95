#!/usr/bin/env bash
# Tries to make flashfit do harm: targets in use and swapped, edited and foreign run directories,
# hostile clients and files, processes killed at every step, and power cuts. These are the tests that
# docs/safety.md names. Ends with one line: `N passed, N failed, N skipped`.
#
# usage: harm.sh

set -uo pipefail
cd "$(dirname "$0")/.." || exit
CARGO=${CARGO:-cargo}
log=$(mktemp)
export FLASHFIT_SKIP_LOG
FLASHFIT_SKIP_LOG=$(mktemp)
trap 'rm -f "$log" "$FLASHFIT_SKIP_LOG"' EXIT
failed_programs=0

# attempt TITLE ARGUMENTS-OF-CARGO-TEST...
attempt() {
    echo "== $1"
    shift
    "$CARGO" test --locked --quiet "$@" 2>&1 | tee -a "$log" | grep -E '^(test result|error|thread)|FAILED'
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed_programs=$((failed_programs + 1))
}

attempt "devices in use, replaced, resized" -p flashfit-device --test guard
attempt "run directories with links, damage, unknown keys" -p flashfit-tune --test tune -- run_dir corpus
attempt "workloads that reach outside" -p flashfit-bench --lib -- jobfile
attempt "hostile clients of an agent" -p flashfit-testbed --lib -- agent
attempt "hostile clients of a card" -p flashfit-card-server --lib
attempt "apply killed at every step" -p flashfit-apply --test real -- --include-ignored
attempt "power cuts" -p flashfit --test power_loss -- --include-ignored
attempt "the whole program" -p flashfit --test whole_program -- --include-ignored \
    agent:: apply:: environment:: foreign_runs:: full_disk:: guard:: lost_medium:: named_files:: \
    one_at_a_time:: sudden_end:: swapped:: test_beds::kills

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
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
