#!/bin/sh
# Files that runs write: a second run that would write the same CSV, JSON report, manifest or tuning
# table ends with an error that names the first one's process, and leaves the file alone; others
# cannot write the files of a run, whatever its umask; a manifest says whether its run came to the end; files
# are replaced at once. Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "output files" "bench_allreduce is not built; run make"
csv=$scratch/a.csv

# bench ARGUMENTS: a short run of 2 ranks.
bench() {
    run ci/mpirun -np 2 ./bench_allreduce -b 64 -e 64 -n 2 -w 0 "$@"
}

# says WORD...: 0 if the last run's error has every word.
says() {
    for word; do grep -qF -- "$word" "$scratch/err" || return 1; done
}

# await COMMAND: waits until it succeeds, 20 seconds at most.
await() {
    tries=0
    until "$@" || [ "$tries" -ge 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

has_rows() { [ -s "$1" ] && [ "$(wc -l <"$1")" -gt 1 ]; }

# Two runs: the first one measures until it is terminated.
ci/mpirun -np 2 ./bench_allreduce -b 64 -e 1K -n 2 -w 0 -N 0 --csv "$csv" >"$scratch/first" 2>&1 &
first=$!
await has_rows "$csv"
bench --csv "$csv"
status=1
[ "$code" -eq 2 ] && says "$csv: process " "(bench_allreduce) is writing it" && status=0
check "a CSV that another run writes is refused, with the name of its process" $status
kill "$first"
wait "$first" 2>/dev/null
awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' "$csv"
check "the first run's CSV is not damaged" $?
bench --csv "$csv"
ends "a file that no run writes any more is overwritten" 0
[ "$(wc -l <"$csv")" -eq 3 ]
check "its former content is gone" $?

# A limit of file sizes is reported as a full disk is; the signal SIGXFSZ would kill the ranks.
(ulimit -f 100 && exec ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0) 2>&1 >/dev/null | cat >"$scratch/err"
says "of shared memory exceed the limit of file sizes; raise 'ulimit -f'"
check "a limit of file sizes that is below the shared memory is reported" $?

# hold FILE: another process holds the file's lock, until it is killed. Sets $holder.
hold() {
    echo kept >"$1"
    rm -f "$scratch/held"
    python3 -c 'import fcntl, sys, time
held = open(sys.argv[1], "r+")
fcntl.lockf(held, fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
time.sleep(100)' "$1" "$scratch/held" &
    holder=$!
    await test -e "$scratch/held"
}

# refuses NAME FILE ARGUMENTS: a run that would write the held file fails and leaves it alone.
refuses() {
    name=$1 file=$2
    shift 2
    hold "$file"
    bench "$@"
    status=1
    [ "$code" -eq 2 ] && says "$file" "process $holder (python3" "is writing it" &&
        [ "$(cat "$file")" = kept ] && status=0
    check "$name that another process writes is refused" $status
    kill "$holder"
    wait "$holder" 2>/dev/null
    rm -f "$file"
}
refuses "a JSON report" "$scratch/j.json" -J "$scratch/j.json"
refuses "a manifest" "$scratch/a.json" --csv "$csv"
refuses "a tuning table" "$scratch/t.new" --tune "$scratch/t"

files="m.csv m.json m.j m.tune"
(umask 0 && ci/mpirun -np 2 ./bench_allreduce -b 64 -e 64 -n 2 -w 0 --csv "$scratch/m.csv" \
    -J "$scratch/m.j" --tune "$scratch/m.tune" >"$scratch/out" 2>"$scratch/err")
check "with a umask of 0, all files are written" $?
if [ -x ./weir-compare ]; then
    files="$files m.copy"
    (umask 0 && ./weir-compare --csv "$scratch/m.copy" "$scratch/m.csv" >"$scratch/out" 2>"$scratch/err")
fi
if [ -x ./weir-topo ]; then
    files="$files m.topo"
    (umask 0 && ./weir-topo --save "$scratch/m.topo" >"$scratch/out" 2>"$scratch/err")
fi
for file in $files; do
    [ -s "$scratch/$file" ]
    check "with a umask of 0, $file is there" $?
done
[ -z "$(find "$scratch" -mindepth 1 -name 'm.*' -perm /002)" ]
check "with a umask of 0, others cannot write them" $?

# ---------------------------------------------------------- complete, or interrupted
# is_complete VALUE: what the manifest of $scratch/m.csv says about the run's end.
is_complete() { grep -qs "\"complete\": $1}" "$scratch/m.json"; }
run ./bench_allreduce -g 2 -b 8 -e 64 -n 2 -w 0 --csv "$scratch/m.csv"
[ "$code" -eq 0 ] && is_complete true
check "the manifest of a run that came to its end says so" $?
run ./bench_allreduce -g 2 -b 4K -e 4K -n 2 -w 0 --inject flip-bit --csv "$scratch/m.csv"
[ "$code" -eq 1 ] && is_complete true
check "so does one with wrong data" $?
run ./bench_moe -g 2 --tokens 4 -n 2 --csv "$scratch/m.csv"
[ "$code" -eq 0 ] && is_complete true
check "and one of bench_moe" $?
rm -f "$scratch/m.json"
./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 -N 0 --csv "$scratch/m.csv" >"$scratch/out" 2>&1 &
endless=$!
await has_rows "$scratch/m.csv"
await is_complete false
check "the manifest of a run that measures says that it is not complete" $?
kill -9 "$endless"
wait "$endless" 2>/dev/null
is_complete false
check "and still says so after the run was killed" $?
# The first write of the manifest succeeds, and the disk is full before the run ends.
run ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 -N 3 --csv "$scratch/m.csv" -J /dev/full
[ "$code" -eq 3 ] && is_complete false
check "a run whose rows could not all be written is not complete" $?

# Files are replaced at once: after a failure the old one is there.
if [ -x ./weir-topo ]; then
    ./weir-topo --save "$scratch/t.xml" >/dev/null && cp "$scratch/t.xml" "$scratch/before.xml"
    (ulimit -f 1 && exec ./weir-topo --save "$scratch/t.xml") >/dev/null 2>"$scratch/err"
    [ $? -eq 3 ] && cmp -s "$scratch/t.xml" "$scratch/before.xml"
    check "weir-topo --save leaves the old file if the new one cannot be written" $?
fi
echo kept >"$scratch/old.json"
# Shared memory is a file, too; the times of so many iterations are longer.
(ulimit -f 12000 && exec ./bench_allreduce -g 2 -b 8 -e 8 -n 150000 -w 0 -c 0 -I 1 -J "$scratch/old.json") >"$scratch/out" 2>"$scratch/err"
[ $? -eq 3 ] && [ "$(cat "$scratch/old.json")" = kept ] && grep -q 'old.json: not all could be written; is the disk full' "$scratch/err"
check "so does -J, which says so" $?
run ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 --until 1 -J "$scratch/old.json" --peer no-such-peer
[ "$code" -ne 0 ] && [ "$(cat "$scratch/old.json")" = kept ]
check "-J of a run that measures nothing leaves the old file" $?
ls -A "$scratch" >"$scratch.before"
./bench_allreduce -g 2 -b 1G -e 1G -n 100000 -w 0 -c 0 -J "$scratch/old.json" >/dev/null 2>&1 &
killed=$!
sleep 0.5
kill -9 "$killed"
wait "$killed" 2>/dev/null
[ "$(cat "$scratch/old.json")" = kept ] && ls -A "$scratch" | cmp -s - "$scratch.before"
check "a run that is killed before its first row leaves the old file, and no other one" $?
rm -f "$scratch.before"
run ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 -J "$scratch/old.json"
[ "$code" -eq 0 ] && grep -q '"end_time"' "$scratch/old.json"
check "-J of a run that ends replaces it" $?
ln -s old.json "$scratch/link.json"
run ./bench_allreduce -g 2 -b 64 -e 64 -n 2 -w 0 -J "$scratch/link.json"
[ "$code" -eq 0 ] && [ -L "$scratch/link.json" ] && grep -q link.json "$scratch/old.json"
check "-J through a link writes the file that it leads to" $?
if ./weir-plan make allreduce_ring -n 4 -o "$scratch/plan.json" >/dev/null 2>&1; then
    cp "$scratch/plan.json" "$scratch/before.json"
    (ulimit -f 1 && exec ./weir-plan make allreduce_ring -n 16 -o "$scratch/plan.json") >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 3 ] && cmp -s "$scratch/plan.json" "$scratch/before.json" && grep -q 'cannot write the plan .*: File too large' "$scratch/err"
    check "weir-plan make leaves the old plan if the new one cannot be written" $?
    ./weir-plan make allreduce_ring -n 4 -o /dev/full >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 3 ] && grep -q 'cannot write the plan /dev/full: No space left' "$scratch/err"
    check "a plan that does not fit a device is reported" $?
fi
[ -z "$(find "$scratch" -mindepth 1 -name '*.[0-9][0-9]*' -size +0)" ] && [ -z "$(find "$scratch" -mindepth 1 -name '*.????????????????')" ]
check "no temporary file is left" $?
finish
