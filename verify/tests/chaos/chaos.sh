#!/bin/bash
# Chaos: 20 jobs, 40 in a long run, always the same ones, whose ranks are killed, stopped, delayed and
# cut off, or lack memory or descriptors, end in time with a report that names the lost ranks, leave
# nothing, and pass no wrong data; before that, the driver's self-test. `make soak` runs other jobs.
# Run from the repository's root.
set -u
# shellcheck source=verify/tests/support/tap.sh
. verify/tests/support/tap.sh
driver=verify/tests/chaos/chaos
jobs="jobs under chaos end as they must"
case ${BUILD:-} in
asan | tsan)
    skip "$jobs" "deadlines are those of an optimized build"
    tap_done
    ;;
esac
if [ ! -x ./bench_allreduce ] || ! command -v python3 >/dev/null; then
    skip "$jobs" "bench_allreduce is not built, or no python3; apt-get install python3"
    tap_done
fi
"$driver" --self-test >"$scratch/checks" 2>"$err"
if [ $? -eq 77 ]; then
    skip "$jobs" "$(tail -n 1 "$err")"
    tap_done
fi
self_test_says() { grep -q "^$1 $2 - " "$scratch/checks"; }
while IFS= read -r line; do
    number=${line#*ok }
    number=${number%% *}
    check "self-test: ${line#* - }" self_test_says ok "$number"
done < <(grep -E '^(not )?ok ' "$scratch/checks")
check "self-test: it is complete" grep -qE '^1\.\.[0-9]+$' "$scratch/checks"

count=20
! long_part "20 of 40 jobs under chaos" || count=40
run_jobs() {
    "$driver" --seed 192 --jobs $count --parallel 4 >"$out" 2>"$err"
    local status=$?
    grep -A5 '^FAILED' "$out" | sed 's/^/# /'
    grep '^# ' "$out" | sed '/ not run /s/^# /# note: /'
    return $status
}
check "$jobs" run_jobs
tap_done
