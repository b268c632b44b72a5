#!/bin/sh
# The benchmarks across machines, which are emulated on one: ranks with different values
# of WEIR_HOSTID, joined by tcp. Every program over even and ragged machines, the columns
# that say so, faults that must be found, and a rank that is stopped. TAP on standard
# output; run from the top folder.
. verify/tests/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "across machines" "bench_allreduce is not built; run make"
programs="allreduce allgather alltoallv alltoall reduce_scatter broadcast reduce sendrecv"
csv=$scratch/a.csv
export WEIR_BACKEND=host
export OMPI_MCA_odls_base_sigkill_timeout=0

# bench A B PROGRAM ARGUMENTS: A ranks on one machine, B on another.
bench() {
    a=$1 b=$2 binary=./bench_$3
    shift 3
    run ci/mpirun -np "$a" env WEIR_HOSTID=a "$binary" "$@" : \
        -np "$b" env WEIR_HOSTID=b "$binary" "$@"
}

# passes NAME: exit code 0, and every row passed, of 2 machines over tcp.
passes() {
    status=1
    [ "$code" -eq 0 ] && awk -F, '
        NR > 1 && ($27 != "pass" || $28 != 0 || $9 != 2 || $7 != "tcp") { bad = 1 }
        END { exit bad || NR < 2 }' "$csv" && status=0
    check "$1" $status
}

for program in $programs; do
    bench 2 1 "$program" -b 4 -e 400K -f 317 -n 3 -w 1 --visits 1 --algo all --determinism \
        --transport tcp --csv "$csv"
    passes "$program: 2 + 1 ranks, every algorithm"
done
bench 2 2 allreduce -d half -o all -b 1K -e 32K -f 32 -n 2 -w 1 --visits 1 --algo all --csv "$csv"
passes "allreduce: 2 + 2 ranks, every operation of half"

for fault in drop-rank swap-chunks lose-nan; do
    bench 2 1 allreduce -b 4K -e 4K -n 1 -w 0 --inject "$fault"
    ends "$fault is found" 1
done
bench 2 1 allreduce -b 4K -e 4K -n 1 -w 0 -T 2 --inject skip-signal
status=1
[ "$code" -eq 4 ] && [ "$(grep -c 'where 3 ranks stand' "$scratch/err")" -eq 1 ] &&
    grep -q 'rank 2 (pid [0-9]*, machine 1)' "$scratch/err" && status=0
check "a rank that stays away: exit code 4, one report for both machines" $status

run ci/mpirun -np 2 ./bench_allreduce --transport tcp -b 8 -e 8
status=1
[ "$code" -eq 2 ] && grep -q 'joins machines, and all ranks sit on one' "$scratch/err" && status=0
check "tcp inside one machine is refused" $status
finish
