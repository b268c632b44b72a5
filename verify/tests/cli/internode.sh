#!/bin/sh
# The benchmarks across nodes, emulated on one host by different values of WEIR_HOSTID and
# connected by tcp: every program and algorithm on 2, 3 and 4 nodes with even, uneven and
# interleaved placements; injected faults are found; a rank that stays away is reported. Run from
# the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
. verify/tests/support/launcher.sh
[ -x ./bench_allreduce ] || skip_all "across nodes" "bench_allreduce is not built; run make"
programs="allreduce allgather alltoallv alltoall reduce_scatter broadcast reduce sendrecv"
csv=$scratch/a.csv
export WEIR_BACKEND=host
export OMPI_MCA_odls_base_sigkill_timeout=0
if launcher_is_hydra; then run_limit_s=400; fi

# bench LAYOUT PROGRAM ARGUMENTS: LAYOUT has one letter per rank, which names the rank's node.
bench() {
    layout=$1 binary=./bench_$2
    nodes=$(echo "$layout" | fold -w 1 | sort -u | wc -l)
    shift 2
    arguments=$*
    set --
    for node in $(echo "$layout" | fold -w 1); do
        # The arguments are words without blanks.
        # shellcheck disable=SC2086
        set -- "$@" ${1:+:} -np 1 env WEIR_HOSTID="$node" "$binary" $arguments
    done
    run ci/mpirun "$@"
}

# passes NAME: exit code 0; every row passed and shows the layout's number of nodes and tcp.
passes() {
    status=1
    [ "$code" -eq 0 ] && awk -F, -v nodes="$nodes" '
        NR > 1 && ($27 != "pass" || $28 != 0 || $9 != nodes || $7 != "tcp") { bad = 1 }
        END { exit bad || NR < 2 }' "$csv" && status=0
    check "$1" $status
}

whole='' measured="allreduce alltoallv reduce sendrecv"
if long_part "the other programs, 1 + 2 + 3 ranks of most programs, 8 ranks on 4 nodes, and all types"; then
    whole=1 measured=$programs
fi
for program in $measured; do
    roots=
    case $program in broadcast | reduce) roots='-r all' ;; esac
    layouts=aab
    case ${whole:-$program} in 1 | allreduce) layouts='aab abbccc' ;; esac
    case $whole$program in 1allreduce | 1alltoallv) layouts="$layouts abcdabca" ;; esac
    for layout in $layouts; do
        # shellcheck disable=SC2086
        bench $layout "$program" -b 4 -e 400K -f 317 -n 3 -w 1 --visits 1 --algo all \
            --determinism --transport tcp --csv "$csv" $roots
        passes "bench_$program: every algorithm is correct with ranks on nodes $layout"
    done
done
bench aabb allreduce -d half -o all -b 1K -e 32K -f 32 -n 2 -w 1 --visits 1 --algo all --csv "$csv"
passes "bench_allreduce: every operation on half is correct on 2 + 2 ranks"
for program in ${whole:+allreduce reduce_scatter reduce}; do
    bench abbccc $program -d all -o all -b 12K -e 12K -n 1 -w 0 --visits 1 --algo all --csv "$csv"
    passes "bench_$program: every type and operation is correct on 1 + 2 + 3 ranks"
done

for fault in drop-rank swap-chunks lose-nan; do
    bench aab allreduce -b 4K -e 4K -n 1 -w 0 --inject "$fault"
    ends "fault $fault across 2 nodes is found" 1
done
bench abbccc allreduce -b 64K -e 64K -n 1 -w 0 --inject drop-rank
ends "fault drop-rank across 3 nodes is found" 1
# With Hydra the code may be the signal of a killed rank.
ended_with_4() {
    [ "$code" -eq 4 ] || { [ "$code" -eq 9 ] && grep -qi 'signal:* 9' "$scratch/out"; }
}
# stays_away LAYOUT RANKS LAST: the last rank, on node LAST, skips a collective.
stays_away() {
    bench "$1" allreduce -b 4K -e 4K -n 1 -w 0 -T 4 --inject skip-signal
    status=1
    ended_with_4 && [ "$(grep -c "where $2 ranks stand" "$scratch/err")" -eq 1 ] &&
        grep -q "rank $(($2 - 1)) (pid [0-9]*, node $3)" "$scratch/err" && status=0
    check "a rank of $2 that stays away: exit code 4 and one report for $(($3 + 1)) nodes" $status
}
stays_away aab 3 1
stays_away abbccc 6 2

# Positive values, which the library accepts; a table that has some gets the new ones.
tuned_cost() {
    echo 'cost 1 1 1 1 1 # old' >"$scratch/tuning"
    bench abcd allreduce -b 8 -e 512K -f 16 -n 3 -w 1 --visits 1 --tune="$scratch/tuning"
    [ "$code" -eq 0 ] && [ "$(grep -c '^cost' "$scratch/tuning")" -eq 1 ] &&
        grep -Eq '^cost( [0-9.e+-]+){5} # allreduce, 4 ranks on 4 nodes, ' "$scratch/tuning" || return
    export WEIR_TUNING="$scratch/tuning"
    bench abcdef allgather -b 8 -e 8 -n 1 -w 1 --visits 1
    unset WEIR_TUNING
    [ "$code" -eq 0 ]
}
tuned_cost
check "--tune across nodes writes the values of the cost model" $?

run ci/mpirun -np 2 ./bench_allreduce --transport tcp -b 8 -e 8
status=1
[ "$code" -eq 2 ] && grep -q 'connects nodes, but all ranks are on one node' "$scratch/err" && status=0
check "--transport tcp with all ranks on one node is a usage error" $status
finish
