#!/bin/sh
# A parser written for nccl-tests reads the benchmarks' standard output unchanged. The parser
# (support/nccl_table.awk) is first tested on valid and broken output of nccl-tests, then reads the
# output of the benchmarks, whose numbers must agree with the CSV of the same run. Run from the
# repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
[ -x ./bench_allreduce ] || skip_all "parser" "bench_allreduce is not built; run make"
parser=verify/tests/support/nccl_table.awk

cat >"$scratch/sample" <<'END'
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1234 on      node0 device  0 [0000:1b:00] A GPU
#  Rank  1 Group  0 Pid   1235 on      node0 device  1 [0000:43:00] A GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
    33554432       8388608     float     sum      -1    207.9  161.38  282.42       0    208.6  160.85  281.49    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 281.954
#
# Collective test concluded: all_reduce_perf
#
END

# parse FILE: leaves the parsed lines in $scratch/out.
parse() {
    run awk -f "$parser" "$1"
}

parse "$scratch/sample"
status=1
[ "$code" -eq 0 ] && grep -qx 'row 33554432 8388608 float sum -1 207.9 161.38 282.42 0 208.6 160.85 281.49 N/A' \
    "$scratch/out" && grep -qx 'devices 2' "$scratch/out" && status=0
check "the parser reads the output of nccl-tests" $status
sed 's/  207.9/  fast/' "$scratch/sample" >"$scratch/broken"
parse "$scratch/broken"
ends "the parser rejects a word in a number column" 1
sed 's/  161.38//' "$scratch/sample" >"$scratch/broken"
parse "$scratch/broken"
ends "the parser rejects a missing column" 1
grep -v Avg "$scratch/sample" >"$scratch/broken"
parse "$scratch/broken"
ends "the parser rejects a missing footer" 1
sed 's/^# Using/Using/' "$scratch/sample" >"$scratch/broken"
parse "$scratch/broken"
ends "the parser rejects a line that is neither comment nor row" 1

# agrees NAME: times and bandwidths of the parsed rows equal the CSV's, within rounding.
agrees() {
    awk -F, 'NR > 1 && $10 == "weir" { print $16, $15, $26, $19 }' "$scratch/a.csv" \
        >"$scratch/csv"
    awk 'function near(a, b) { return a - b <= 0.0051 + b / 50 && b - a <= 0.0051 + b / 50 }
        NR == FNR { busbw[$1 " " $2] = $3; time[$1 " " $2] = $4; next }
        $1 == "row" {
            rows++
            if (!near($7, time[$2 " out"]) || !near($9, busbw[$2 " out"])) bad = 1
            if (($2 " in") in time && !near($11, time[$2 " in"])) bad = 1
            sum += $9; n++
            if (($2 " in") in time) { sum += $13; n++ }
        }
        $1 == "average" && !near($2, sum / n) { bad = 1 }
        END { exit bad || !rows }' "$scratch/csv" "$scratch/out"
    check "$1" $?
}

for program in allreduce allgather alltoallv sendrecv; do
    run ci/mpirun -np 3 "./bench_$program" -b 1K -e 64K -f 4 -n 6 --peer mpi --csv "$scratch/a.csv"
    cp "$scratch/out" "$scratch/text"
    parse "$scratch/text"
    status=1
    [ "$code" -eq 0 ] && grep -qx 'devices 3' "$scratch/out" && grep -qx 'errors 0 OK' "$scratch/out" &&
        [ "$(grep -c '^row' "$scratch/out")" -eq 4 ] && status=0
    check "the parser reads the table of bench_$program with a peer" $status
    agrees "bench_$program: table and CSV agree"
done
run ci/mpirun -np 2 ./bench_allreduce -b 64 -e 256 -f 4 -n 6 -I 1 -S 1 -M 1 -C 1
cp "$scratch/out" "$scratch/text"
parse "$scratch/text"
ends "the parser reads per-iteration columns and time stamps" 0
run ci/mpirun -np 2 ./bench_reduce -d all -o all -b 8 -e 8 -n 2
cp "$scratch/out" "$scratch/text"
parse "$scratch/text"
status=1
[ "$code" -eq 0 ] && [ "$(grep -c '^row' "$scratch/out")" -eq 60 ] && status=0
check "the parser reads the rows of every type and operation" $status
status=0
grep -v '^#' "$scratch/text" | grep -qv '^ .*[0-9]$' && status=1
check "standard output has only comments and rows" $status
finish
