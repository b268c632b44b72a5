#!/bin/bash
# A size that is repeated for a time (--for): windows, outliers explained by planted stops, by a busy neighbour and by a CPU quota,
# constant memory, a SIGTERM that leaves the verdict and a readable CSV, NVML's errors, and usage errors. Run from the repository's root.
. verify/tests/support/tap.sh

csv=$scratch/a.csv windows=$scratch/a-windows.csv job='' helper=''
if [ ! -x ./bench_allreduce ]; then
    skip "hours" "bench_allreduce is not built"
    tap_done
fi
prints() { grep -qE -e "$1" "$out"; }
hours=(./bench_allreduce -g 2 --backend host -b 4K -e 4K -n 30 --quiet --csv "$csv")

# column NAME: the sum of that column over the windows.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR > 1 { sum += $at } END { print at ? sum : "missing" }' \
        "$windows"
}
more_than() { awk -v value="$(column "$1")" -v least="$2" 'BEGIN { exit !(value > least) }'; }
lines_are_whole() { awk -F, 'NR == 1 { fields = NF } NF != fields { bad = 1 } END { exit bad || NR < 2 }' "$windows"; }

# begin ARGUMENT...: starts a run in the background and waits for its first window.
begin() {
    rm -f "$windows"
    "${hours[@]}" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
    for ((i = 0; i < 300; i++)); do
        grep -q '^#      1 ' "$out" && return 0
        sleep 0.1
    done
    return 1
}
rank() { awk -v rank="$1" '$2 == "Rank" && $3 == rank { for (i = 4; i < NF; i++) if ($i == "Pid") print $(i + 1) }' "$out"; }
ends() {
    wait "$job"
    local code=$?
    [ $code -eq "$1" ] || echo "# ended with $code, expected $1"
    [ $code -eq "$1" ]
}
memory_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$(rank 0)/status"; }

begin --for 6s --window 1s
before_kib=$(memory_kib)
for ((i = 0; i < 4; i++)); do
    kill -STOP "$(rank 1)"
    sleep 0.3
    kill -CONT "$(rank 1)"
    sleep 0.3
done
after_kib=$(memory_kib)
check "a run of 6 s whose rank 1 is stopped four times ends with 0" ends 0
check "outliers are explained by the stops of rank 1, not of rank 0" eval \
    'prints "^# [0-9]+ outliers above 3 times the median; .*while rank 1 was stopped \(SIGSTOP\)" && ! prints "rank 0 was stopped"'
check "four stops are counted" [ "$(column stopped)" = 4 ]
check "windows have a second each, and the file their rows" eval 'lines_are_whole && [ "$(grep -c "" "$windows")" -ge 5 ]'
check "the longest time is that of a stop" awk -F, 'NR > 1 && $8 > most { most = $8 } END { exit !(most > 250000 && most < 5000000) }' "$windows"
check "numbers of the lines, the file and the sums" numbers_hold hours "$windows"
check "the drift has an interval" prints '^# drift of the median: [-+][0-9.]+% an hour \[[-+][0-9.]+, [-+][0-9.]+\], '
check "the row of the size follows" prints '^ +4096 +1024 +float +sum'
check "its data are right, after the windows too" eval '[ "$(grep -c ",pass,0," "$csv")" -eq 2 ]'
check "every column of its rows" numbers_hold collective "$csv" nranks=2 iters=30
check "memory stays constant ($before_kib and $after_kib KiB)" [ "$after_kib" -le $((before_kib + 128)) ]

# The core of rank 0 belongs to a neighbour as well.
begin --for 3s --window 1s
core=$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$(rank 0)/status")
taskset -c "$core" sh -c 'while :; do :; done' &
helper=$!
ends 0
code=$?
kill $helper
check "a run with a busy neighbour ends with 0" [ $code -eq 0 ]
check "outliers are explained by another task on the core of rank 0" prints "while rank 0's core ran another task"

# A group may use a tenth of the time of two cores.
group=/sys/fs/cgroup/cpu/weir_test_$$
if mkdir "$group" 2>/dev/null && echo 100000 >"$group/cpu.cfs_period_us" && echo 20000 >"$group/cpu.cfs_quota_us"; then
    check "a run under a CPU quota ends with 0" ends_with 0 \
        sh -c 'echo $$ >"$0/tasks"; exec "$@"' "$group" "${hours[@]}" --for 3s --window 1s
    check "outliers are explained by the quota" prints "while rank [01]'s cgroup was out of its CPU quota"
    check "the time is counted" more_than quota_us 100000
else
    skip "a CPU quota" "groups of processes cannot be created here"
fi
rmdir "$group" 2>/dev/null

begin --for 1h --window 0.5s
sleep 1
kill -TERM "$job"
check "SIGTERM ends a run of an hour with 0" ends 0
check "the verdict says so" prints '^# [0-9]+ operations in [0-9]+ s, then stopped by SIGTERM: median [0-9.]+, p99 '
check "the file has whole rows" lines_are_whole
check "the row of the size is there" eval '[ "$(grep -c ",pass,0," "$csv")" -eq 2 ]'

for bad in '--for 0' '--for x' '--for 3d' '--for inf' '--for 500ms' '--for -1s' '--for 1s --window 0' '--for 1s -e 8K' '--for 1s -N 2' '--for 1s -d all' '--window 1s'; do
    # shellcheck disable=SC2086 # words
    check "$bad is a usage error" ends_with 2 "${hours[@]}" $bad
done
mkdir "$scratch/folder-windows.csv"
check "windows that cannot be written are one line" eval \
    'ends_with 2 ./bench_allreduce -g 1 --backend host -b 8 -e 8 -n 20 --quiet --for 1s --csv "$scratch/folder.csv" && one_line_says folder-windows.csv "Is a directory; give"'
tap_done
