#!/bin/sh
# Complete runs of bench_alltoallv with --dist and --counts: results are correct for every
# distribution, also when the splits change with each call, and MPI runs on the same splits;
# injected faults are found; all ranks reject bad input with a single line. Run from the
# repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
[ -x ./bench_alltoallv ] || skip_all "distributions" "bench_alltoallv is not built; run make"
standin=${O:-build}/tests/bench_alltoallv_standin
matrix=$scratch/matrix trace=$scratch/trace
printf '0 1 2\n0 0 0 # silent\n5 0 1\n' >"$matrix"
{ cat "$matrix"; printf '\n9 0 0\n0 9 0\n0 0 9\n\n0 1 0\n0 0 1\n1 0 0\n'; } >"$trace"

# Ranks are forked where MPI takes no part, which costs a quarter of a start by mpirun.
short='-b 64 -e 64K -f 32 -n 7 -w 1'
# bench ARGUMENTS: bench_alltoallv with 3 ranks and short settings.
bench() {
    # shellcheck disable=SC2086
    run ./bench_alltoallv -g 3 $short "$@"
}

for dist in "zipf:1.2" "matrix:$matrix" "trace:$trace"; do
    # shellcheck disable=SC2086
    run ci/mpirun -np 3 ./bench_alltoallv $short --dist "$dist" --peer mpi --csv "$scratch/a.csv"
    ends "--dist ${dist%%/*} gives correct results, with MPI in the same run" 0
done
check "the CSV has the distribution and where the counts are" \
    "$(grep -Eq ",trace:$trace,host,(,|\$)" "$scratch/a.csv"; echo $?)"
for arguments in "--counts device --algo all -d int8" "-m 4 -c 4 --determinism" \
    "--cold --mode latency -u 1 --buffers unregistered"; do
    # shellcheck disable=SC2086
    bench --dist "trace:$trace" $arguments
    ends "a trace gives correct results with $arguments" 0
done
bench --dist "trace:$trace" -b 4K -e 4K --inject flip-bit@timed
ends "a fault in a timed iteration of a trace is found" 1
if [ -x "$standin" ]; then
    for arguments in "-n 5" "--counts device -n 5 -G 4"; do
        # shellcheck disable=SC2086
        run "$standin" -g 3 -b 4K -e 64K -f 16 --dist "trace:$trace" $arguments
        ends "a trace in timed batches gives correct results, $arguments" 0
    done
    run "$standin" -g 3 -b 4K -e 4K -n 5 -G 4 --dist "trace:$trace" \
        --inject flip-bit@timed
    ends "a fault in a graph replay of a trace is found" 1
fi

# refuses PATTERN ARGUMENTS: the job ends with 2 and one line that matches PATTERN.
refuses() {
    pattern=$1
    shift
    run ./bench_alltoallv -g 3 "$@"
    status=1
    [ "$code" -eq 2 ] && [ "$(grep -c '^bench_alltoallv: ' "$scratch/err")" -eq 1 ] &&
        grep -q "^bench_alltoallv: .*$pattern" "$scratch/err" && status=0
    check "all ranks end with 2 and one line: $pattern" $status
}
refuses 'there are 3 ranks; give 1 to 3' --dist hot:4
refuses 'No such file' --dist "matrix:$scratch/none"
printf '1 1\n1 1\n' >"$matrix"
refuses ':1: 2 weights, but there are 3 ranks' --dist "matrix:$matrix"
finish
