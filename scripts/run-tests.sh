#!/usr/bin/env bash
# Builds all test programs, runs several at a time, and ends with one line:
# `N passed, N failed, N skipped`. Prints the output of failed test programs only; all of it is kept
# in target/run-tests. The exit code is 1 when a test failed.
#
# usage: run-tests.sh daily|rest|full [PROGRAM...]
#
#   daily    what is not marked `#[ignore = "full: ..."]`
#   rest     what is marked so
#   full     all tests
#   PROGRAM  only these test programs, by the name that the progress lines show
#
# FLASHFIT_REQUIRE=root,loop,... makes a skip for lack of these a failure (crates/test-support).
#
# A test that fails next to others is run a second time, alone: those that wait for virtual machines
# depend on how busy the computer is. One that passes then is counted as passed and named as flaky.
#
# libtest gives no durations on stable Rust. They are computed from the times at which the result
# lines arrive: tests start in the order of `--list`, as many at a time as there are threads.

set -euo pipefail
# Jobs in the background would ignore SIGINT otherwise, and so would what the tests start.
set -m

PER_PROGRAM_SECONDS=2400
SLOWEST=10
# With more failures than this, nothing is run a second time.
MOST_SECOND_TRIES=5
# Most tests wait for devices and programs, so there are more at a time than processors.
processors=$(nproc)
JOBS=$((processors + 2))
THREADS=$((processors * 2))
# What compares times or the wear that follows from them, and what watches loop devices by number,
# runs when nothing else does.
ALONE=" flashfit/alignment card-server/served "
# Start first in a clean clone, where no run says how long each takes.
LONG=" flashfit/whole_program crash/oracles lab/lab flashfit/power_loss bench/real_fio search/contract "

usage() {
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
}

mode=${1:-}
case $mode in
daily) selection=() ;;
rest) selection=(--ignored) ;;
full) selection=(--include-ignored) ;;
*) usage ;;
esac
shift

cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
work=${CARGO_TARGET_DIR:-target}/run-tests
rm -rf "$work/out"
mkdir -p "$work/out"
work=$(cd "$work" && pwd)
out=$work/out
durations=$work/durations.$mode

say() { printf '%s\n' "$*"; }

# PIDs of all descendants of this process.
descendants() {
    ps -eo pid=,ppid= | awk -v root=$$ '
        { parent[$1] = $2 }
        END {
            for (pid in parent) {
                at = parent[pid]
                while (at != root && at in parent && at > 1) at = parent[at]
                if (at == root) print pid
            }
        }'
}

# Terminates them, and kills those that remain after five seconds.
stop() {
    trap '' INT TERM HUP
    local pids
    pids=$(descendants)
    # shellcheck disable=SC2086 # a list of numbers
    kill -INT $pids 2>/dev/null || true
    for _ in $(seq 50); do
        # shellcheck disable=SC2086
        kill -0 $pids 2>/dev/null || break
        sleep 0.1
    done
    # shellcheck disable=SC2046,SC2086
    kill -KILL $pids $(descendants) 2>/dev/null || true
    say "interrupted"
    exit 130
}
trap stop INT TERM HUP

build() {
    $cargo test --workspace --locked --no-run --message-format=json-render-diagnostics \
        >"$work/messages" &
    wait $! || exit 1
    # NAME<TAB>EXECUTABLE<TAB>FOLDER of each test program. A crate's own tests have its name.
    grep '"test":true},"features".*"executable":"' "$work/messages" | sed -E '
        s|.*"manifest_path":"([^"]*/crates/([^/"]*))/Cargo.toml".*"kind":\["([^"]*)".*|\3 \2 \1 &|
        s|^([^ ]* [^ ]* [^ ]*) .*"name":"([^"]*)","src_path".*"executable":"([^"]*)".*|\1 \2 \3|' |
        awk -v OFS='\t' '{
            name = $2
            if ($1 == "test") name = name "/" $4
            if ($1 == "bin") name = name "/bin-" $4
            print name, $5, $3
        }' >"$work/programs.new"
    [ -s "$work/programs.new" ] || { say "error: cargo built no test program" >&2; exit 1; }
}

# Longest first: as the last run took, and those that have not been run before the others.
order() {
    touch "$durations"
    awk -F '\t' -v long="$LONG" '
        function unknown(name, at) { at = index(long, " " name " "); return at ? 200000 - at : 100000 }
        FILENAME == ARGV[1] { took[$1] = $2; next }
        { print ($1 in took ? took[$1] : unknown($1)) "\t" $0 }' "$durations" "$work/programs.new" |
        sort -rn | cut -f 2- >"$work/programs"
}

# Where the files of a test program are, in its first or second try.
base_of() { say "$out/${1//\//.}$try"; }
try=

# The results and their time of arrival, then the exit code. The shell's own word on a program that
# was killed says no more than that. Further arguments select tests.
run() {
    local name=$1 program=$2 folder=$3 base status=0
    shift 3
    base=$(base_of "$name")
    "$program" --list "${selection[@]}" "$@" 2>/dev/null | sed -n 's/: test$//p' >"$base.list"
    "$program" --list --ignored 2>/dev/null | sed -n 's/: test$//p' >"$base.ignored"
    : >"$base.skips"
    say "$EPOCHREALTIME" >"$base.begun"
    {
        cd "$folder"
        CARGO_MANIFEST_DIR=$folder FLASHFIT_SKIP_LOG=$base.skips RUST_TEST_THREADS=$THREADS \
            timeout --kill-after=10 "$PER_PROGRAM_SECONDS" "$program" "${selection[@]}" "$@" \
            </dev/null 2>&1 || status=$?
        printf '\nexit %s\n' "$status"
    } 2>/dev/null | while IFS= read -r line; do printf '%s\t%s\n' "$EPOCHREALTIME" "$line"; done >"$base.out"
}

# PASSED FAILED IGNORED SECONDS of a test program, and a line in `times` for each test.
summarize() {
    local base
    base=$(base_of "$1")
    awk -F '\t' -v name="$1" -v begun="$(cat "$base.begun")" -v times="$base.times" \
        -v threads="$THREADS" '
        FILENAME ~ /\.list$/ { queue[++length_of_queue] = $0; next }
        FILENAME ~ /\.ignored$/ { full[$0] = 1; next }
        function start(when) {
            while (next_one < length_of_queue && queue[next_one + 1] in done) next_one++
            if (next_one < length_of_queue) started[queue[++next_one]] = when
        }
        { text = substr($0, length($1) + 2); last = $1 }
        text ~ /^at most [0-9]+ at a time$/ { split(text, words, " "); threads = words[3] }
        text ~ /^running [0-9]+ tests?$/ { for (i = 0; i < threads; i++) start($1) }
        text ~ /^test .* \.\.\. (ok|FAILED|ignored)/ {
            test = text
            sub(/^test /, "", test)
            match(test, / \.\.\. (ok|FAILED|ignored)/)
            verdict = substr(test, RSTART + 5)
            test = substr(test, 1, RSTART - 1)
            sub(/ +$/, "", test)
            sub(/ - should panic$/, "", test)
            judge()
        }
        # A harness that does not capture what a test prints: the verdict has its own line.
        text ~ /^test .* \.\.\. / && text !~ / \.\.\. (ok|FAILED|ignored)/ {
            pending = text
            sub(/^test /, "", pending)
            sub(/ *\.\.\. .*/, "", pending)
        }
        text ~ /^(ok|FAILED)$/ && pending != "" {
            test = pending
            verdict = text
            pending = ""
            judge()
        }
        function judge() {
            # A test in its own namespaces shows the line of the program in them, too.
            if (test in done) return
            done[test] = 1
            if (verdict ~ /^ok/) passed++
            else if (verdict ~ /^FAILED/) { failed++; print name "\t" test >>(times ".failed") }
            else ignored++
            if (verdict !~ /^ignored/ && test in started) {
                printf "%.2f\t%s\t%s\n", $1 - started[test], name, test >>times
                start($1)
            }
        }
        text ~ /^exit [0-9]+$/ { status = substr(text, 6) }
        END {
            # A program that died or was ended for its time took its unfinished tests along.
            if (status != 0 && failed == 0) {
                failed = length_of_queue - passed - ignored
                if (failed < 1) failed = 1
                print name "\t(the program ended with " status ")" >>(times ".failed")
            }
            printf "%d %d %d %.1f\n", passed, failed, ignored, last - begun
        }' "$base.list" "$base.ignored" "$base.out"
}

build
order
if [ $# -gt 0 ]; then
    printf '%s\n' "$@" | awk -F '\t' 'NR == FNR { wanted[$1] = 1; next } $1 in wanted' \
        - "$work/programs" >"$work/programs.wanted"
    mv "$work/programs.wanted" "$work/programs"
fi
if [ "$mode" = rest ]; then
    while IFS= read -r line; do
        program=$(cut -f 2 <<<"$line")
        listed=$("$program" --list --ignored 2>/dev/null) || true
        if grep -q ': test$' <<<"$listed"; then say "$line"; fi
    done <"$work/programs" >"$work/programs.wanted"
    mv "$work/programs.wanted" "$work/programs"
fi
total=$(wc -l <"$work/programs")
[ "$total" -gt 0 ] || { say "error: no such test program: $*" >&2; exit 2; }
say "running $total test programs ($mode), $JOBS at a time"

begun=$EPOCHREALTIME
declare -A running=() failures=()
passed=0 failed=0 ignored=0 finished=0 skipped=0
failed_programs=()

finish() {
    local name=$1 counts base skips
    base=$(base_of "$name")
    counts=$(summarize "$name")
    read -r p f i seconds <<<"$counts"
    skips=$(grep -v $'\tin part: ' "$base.skips" | cut -f 1 | sort -u | wc -l || true)
    finished=$((finished + 1))
    passed=$((passed + p - skips)) failed=$((failed + f)) ignored=$((ignored + i))
    skipped=$((skipped + skips))
    printf '%s\t%s\n' "$name" "$seconds" >>"$durations.new"
    local also=
    [ "$f" -eq 0 ] || also+=", $f FAILED"
    [ "$skips" -eq 0 ] || also+=", $skips skipped"
    say "[$finished/$total] $name: $((p - skips)) passed$also ($seconds s)"
    if [ "$f" -gt 0 ]; then
        failed_programs+=("$name")
        failures[$name]=$f
        say "---- output of $name"
        cut -f 2- "$base.out" | grep -vE '^test .* \.\.\. (ok|ignored)' || true
        say "---- end of $name"
    fi
}

await_one() {
    local ended=
    wait -n -p ended || true
    [ -n "$ended" ] || return 0
    finish "${running[$ended]}"
    unset "running[$ended]"
}

: >"$durations.new"
for part in together alone; do
    while IFS=$'\t' read -r name program folder <&3; do
        most=$JOBS
        if [[ $ALONE == *" $name "* ]]; then
            [ $part = alone ] || continue
            most=1
        elif [ $part = alone ]; then
            continue
        fi
        while [ ${#running[@]} -ge "$most" ]; do await_one; done
        run "$name" "$program" "$folder" 3<&- &
        running[$!]=$name
    done 3<"$work/programs"
    while [ ${#running[@]} -gt 0 ]; do await_one; done
done

# Runs what failed once more. A program that died runs whole.
second_try() {
    local name=$1 program folder base tests=() p f i seconds
    base=$(base_of "$name")
    IFS=$'\t' read -r _ program folder < <(awk -F '\t' -v name="$name" '$1 == name' "$work/programs")
    if ! grep -q $'\t(the program ended' "$base.times.failed"; then
        mapfile -t tests < <(cut -f 2 "$base.times.failed")
        tests=(--exact "${tests[@]}")
    fi
    say "second try of $name, alone"
    try=.second
    run "$name" "$program" "$folder" "${tests[@]}"
    read -r p f i seconds <<<"$(summarize "$name")"
    if [ "$f" -eq 0 ] && [ "$p" -gt 0 ]; then
        cat "$base.times.failed" >>"$work/flaky"
        rm "$base.times.failed"
        f=${failures[$name]}
        failed=$((failed - f)) passed=$((passed + f))
    else
        say "---- output of the second try of $name"
        cut -f 2- "$(base_of "$name").out" | grep -vE '^test .* \.\.\. (ok|ignored)' || true
        say "---- end of $name"
        rm -f "$(base_of "$name").times.failed"
    fi
    try=
}

: >"$work/flaky"
if [ "$failed" -le "$MOST_SECOND_TRIES" ]; then
    for name in "${failed_programs[@]}"; do second_try "$name"; done
fi

# What a run of some programs measured does not replace what is known about the others.
awk -F '\t' '!seen[$1]++' "$durations.new" "$durations" >"$durations.all"
mv "$durations.all" "$durations"
seconds=$(awk -v begun="$begun" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.0f", now - begun }')

cat "$out"/*.skips >"$work/skips"
if [ -s "$work/skips" ]; then
    say ""
    say "skipped, by reason:"
    cut -f 2- "$work/skips" | sort | uniq -c | sort -rn | sed 's/^/ /'
fi
say ""
say "slowest tests, in seconds:"
cat "$out"/*.times 2>/dev/null | sort -rn | sed -n "1,${SLOWEST}p" |
    awk -F '\t' '{ printf "%8.1f  %s %s\n", $1, $2, $3 }'
if [ -s "$work/flaky" ]; then
    say ""
    say "flaky, passed on a second try:"
    awk -F '\t' '{ print "  " $1 " " $2 }' "$work/flaky"
fi
if [ "$failed" -gt 0 ]; then
    say ""
    say "failed:"
    cat "$out"/*.failed | awk -F '\t' '{ print "  " $1 " " $2 }'
fi
say ""
say "the tests took $seconds s; output of each program: $out"
[ "$ignored" -eq 0 ] || say "$ignored more tests run only in make test-rest"
say "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
