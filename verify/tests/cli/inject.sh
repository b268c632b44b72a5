#!/bin/sh
# Fault injection: every fault of --inject in every collective to which it applies. Each run must
# end with exit code 1 (skip-signal: 4) and print the diagnosis of that fault. The matrix of
# results is printed as TAP comments. Run from the repository's root.
#
#   verify/tests/cli/inject.sh                  the matrix on the host with 3 ranks, and more checks
#   BACKEND=cuda verify/tests/cli/inject.sh     the matrix on GPUs
#   BACKEND=standin verify/tests/cli/inject.sh  the matrix on a simulated GPU
#
# NP: number of ranks; GPUS: number of GPUs to use (default: all); PROGRAMS, FAULTS: rows and
# columns of the matrix. With enough GPUs for several jobs, the collectives run in parallel lanes.
# Needs MPI.
. verify/tests/support/bench_tap.inc
backend=${BACKEND:-host}
[ -x ./bench_allreduce ] || skip_all "injection ($backend)" "bench_allreduce is not built; run make"
# Open MPI waits a second before it kills what is left of a job that failed.
export OMPI_MCA_odls_base_sigkill_timeout=0
programs=${PROGRAMS:-allreduce reduce_scatter reduce broadcast allgather alltoall alltoallv gather scatter sendrecv}
listed=$(./bench_allreduce --inject list)
faults=${FAULTS:-$listed}
np=${NP:-3} lanes=1 suffix='' deadline_s=2 limit_s=30

case $backend in
host)
    lanes=2 # starting and ending a job takes much of its time
    export WEIR_BACKEND=host
    ;;
standin)
    export WEIR_BACKEND=host
    suffix=_standin
    [ -x "${O:-build}/tests/bench_allreduce$suffix" ] ||
        skip_all "injection (stand-in)" "not built; run make tests"
    ;;
cuda)
    gpus=${GPUS:-$(verify/tests/support/gpus)}
    [ "$gpus" -ge 2 ] || skip_all "injection (cuda)" "needs 2 GPUs, here are $gpus"
    np=${NP:-2} deadline_s=8 limit_s=60
    export WEIR_BACKEND=cuda
    lanes=$((gpus / np))
    [ "$lanes" -ge 1 ] || skip_all "injection (cuda)" "$np ranks need as many GPUs, here are $gpus"
    ;;
*)
    echo "inject.sh: BACKEND=$backend: host, cuda or standin" >&2
    exit 2
    ;;
esac

devices=${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((lanes * np - 1)))}

# program NAME: prints the command of a collective.
program() {
    if [ -n "$suffix" ]; then echo "${O:-build}/tests/bench_$1$suffix"; else echo "./bench_$1"; fi
}

# diagnosis FAULT PROGRAM: prints the pattern that standard error must match.
diagnosis() {
    lost="never written"
    moved="equals rank [0-9]*'s chunk"
    case $2 in *reduce*)
        lost="sum lacks rank [0-9]"
        moved="equals chunk [0-9]* of the result"
    ;; esac
    case $1 in
    flip-bit) echo "1 wrong: .*: one bit differs (bit [0-9]*)" ;;
    drop-chunk|drop-rank) echo "elements [0-9]*\.\.[0-9]*.*: $lost" ;;
    swap-chunks) echo "$moved" ;;
    replay) echo "equals the previous iteration" ;;
    skip-signal) echo "waits in .* for rank [0-9]: expected [0-9]*, seen" ;;
    overrun) echo "written outside the output: .* 1 past its end" ;;
    modify-input) echo "input elements .*, 1 changed" ;;
    bad-round) echo "rounded wrongly (1 ulp)" ;;
    swap-bytes) echo "elements [0-9]*\.\.[0-9]*.*: byte-swapped" ;;
    lose-nan) echo "special value (NaN), .*: got 0, expected nan: rank [0-9] holds" ;;
    unstable-bit) echo "not the same bits: weir .*: got .*, in the first repeat " ;;
    rank-bit) echo "not the same bits: weir .*: rank [0-9], .*: got .*, on rank 0 " ;;
    size-bit) echo "not the same bits: weir .*: got .*, at another size or place " ;;
    lose-subnormal) echo "special value (subnormal), .*: got 0, expected [0-9.]*e-[0-9]*: rank" ;;
    esac
}

# fault_applies PROGRAM FAULT: special values need a reduction; ranks are compared where all have
# the same result.
fault_applies() {
    case $2 in
    lose-*|unstable-bit|size-bit) case $1 in *reduce*) return 0 ;; *) return 1 ;; esac ;;
    rank-bit) case $1 in allreduce|broadcast|allgather) return 0 ;; *) return 1 ;; esac ;;
    esac
}

# inject PROGRAM LANE: prints a line "FAULT CODE STATUS" for each fault; keeps the output of a
# fault that was missed.
inject() {
    command=$(program "$1")
    # Open MPI 4 fails if two mpirun create their common session folder at the same time.
    # shellcheck disable=SC2154  # set by bench_tap.inc
    export OMPI_MCA_orte_tmpdir_base="$scratch/lane$2"
    mkdir -p "$OMPI_MCA_orte_tmpdir_base"
    if [ "$backend" = cuda ] && [ "$lanes" -gt 1 ]; then
        CUDA_VISIBLE_DEVICES=$(echo "$devices" | cut -d, -f$(($2 * np + 1))-$(($2 * np + np)))
        export CUDA_VISIBLE_DEVICES
    fi
    for fault in $faults; do
        fault_applies "$1" "$fault" || continue
        expected=1
        [ "$fault" = skip-signal ] && expected=4
        case $fault in unstable-bit|rank-bit|size-bit) option=--determinism ;; *) option= ;; esac
        # alltoallv's uneven distribution gives two ranks a single block: nothing could be swapped.
        [ "$1$np" = alltoallv2 ] && option="$option --dist uniform"
        said=$scratch/$1.$fault
        # shellcheck disable=SC2086  # one option or none
        start_ranks "$np" "$command" -b 4K -e 4K -n 1 -w 0 -T "$deadline_s" \
            --inject "$fault" $option >"$said" 2>&1
        code=$?
        status=1
        [ "$code" -eq $expected ] && grep -q -e "$(diagnosis "$fault" "$1")" "$said" && status=0
        echo "$fault $code $status"
        [ $status -eq 0 ] && rm -f "$said"
    done
}

# Runs every program. Lanes run in parallel, each on its own GPUs; programs are dealt out to the
# lanes round-robin.
run_matrix() {
    lane=0
    while [ "$lane" -lt "$lanes" ]; do
        index=0
        for name in $programs; do
            [ $((index % lanes)) -eq "$lane" ] && inject "$name" "$lane" >"$scratch/$name.done"
            index=$((index + 1))
        done &
        lane=$((lane + 1))
    done
    wait
}

# report PROGRAM: a check for each fault, and a line of the table.
report() {
    line="# $(printf '%-15s' "$1")"
    for fault in $faults; do
        found=$(grep "^$fault " "$scratch/$1.done")
        word=-
        if [ -n "$found" ]; then
            status=${found##* }
            code=${found#* }
            word="exit ${code% *}"
            [ "$status" -eq 0 ] || word=MISSED
            : >"$scratch/out"
            mv "$scratch/$1.$fault" "$scratch/err" 2>/dev/null
            check "bench_$1$suffix finds $fault" "$status"
        elif fault_applies "$1" "$fault"; then
            word=MISSED
            check "bench_$1$suffix finds $fault" 1
        fi
        line="$line $(printf "%-${#fault}s" "$word")"
    done
    table="$table
$line"
}

[ "$backend" = cuda ] || fork_ranks "faults"
timeout_s=$limit_s
run_matrix
timeout_s=
table="# $(printf '%-15s' "$backend, $np ranks")"
for fault in $faults; do table="$table $fault"; done
for name in $programs; do report "$name"; done
echo "$table"
[ "$backend" = host ] || finish

check "--inject list prints fifteen faults" "$([ "$(echo "$listed" | wc -l)" -eq 15 ]; echo $?)"
run_ranks 4 ./bench_allreduce -b 4K -e 4K -n 1
check "without a fault nothing is found" "$code"

# The diagnosis names the missing rank and the range of elements, in types of every width.
run_ranks 4 ./bench_allreduce -b 8K -e 8K -n 1 --inject drop-chunk
status=1
[ "$code" -eq 1 ] &&
    grep -q 'rank 3: elements 0\.\.511, 512 wrong: .*sum lacks rank 0' "$scratch/err" && status=0
check "drop-chunk: the diagnosis names the missing rank and the range of elements" $status
for type in f8e4m3 bfloat16 int8 double; do
    run_ranks 3 ./bench_allreduce -d $type -b 6000 -e 6000 -n 1 --inject drop-rank
    status=1
    [ "$code" -eq 1 ] && [ "$(grep -c 'sum lacks rank 0' "$scratch/err")" -ge 3 ] && status=0
    check "drop-rank in $type: the diagnosis names the missing rank" $status
done

# Special values: found in each type that has them, rejected for the others.
for type in f8e4m3 f8e5m2 half bfloat16; do
    run_ranks 3 ./bench_allreduce -d $type -o max -b 600 -e 600 -n 1 -w 0 --algo packet2 \
        --inject lose-nan
    status=1
    [ "$code" -eq 1 ] && grep -q 'special value (NaN).*got 0, expected nan' "$scratch/err" && status=0
    check "lose-nan in $type: a lost NaN is found" $status
done
run_ranks 2 ./bench_allreduce -d int32 -b 4K -e 4K -n 1 -w 0 --inject lose-nan
ends "lose-nan on a type without NaN is a usage error" 2
run ./bench_allreduce --verify mpi --inject lose-nan
ends "lose-nan with --verify mpi, which cannot find it, is a usage error" 2

# Determinism: a difference that no algorithm excludes is reported, but is not wrong data.
./weir-plan make allreduce_ring -n 3 -o "$scratch/ring.json"
run_ranks 3 ./bench_allreduce -b 4K -e 4K -n 1 -w 0 --plan "$scratch/ring.json" \
    --determinism --inject rank-bit
status=1
expected='plan:allreduce_ring: same bits in 10 repeats; other bits on the ranks in 2 of 2 results; other bits at other sizes or places in 2 of 2 results; first in float sum'
[ "$code" -eq 0 ] && grep -q "^# Determinism .*: $expected, 4096 bytes, .*: rank 2, element 0: got " \
    "$scratch/out" && status=0
check "results of a plan that differ in bits between ranks are reported, with exit code 0" $status
run ./bench_allreduce --inject rank-bit
ends "rank-bit without --determinism is a usage error" 2

# Timed iterations: a call that did not run, a missing chunk.
expected='timed iteration 2 of weir [a-z].*, float [a-z]*, [0-9]* bytes, out of place'
for program in $programs; do
    run_ranks 3 "./bench_$program" -b 4K -e 4K -n 4 -w 1 --inject replay@timed
    status=1
    [ "$code" -eq 1 ] &&
        grep -q "$expected: rank .*: equals the previous" "$scratch/err" && status=0
    check "bench_$program finds a stale result of a timed iteration" $status
done
run_ranks 3 ./bench_allreduce -b 64K -e 64K -n 4 --inject drop-chunk@timed
ends "a chunk that is missing in a timed iteration is found" 1
timeout_s=30
run_ranks 3 ./bench_allreduce -b 64 -e 64 -n 4 -T 1 --inject skip-signal@timed
timeout_s=
ends "a rank that skips a timed iteration ends the job with 4" 4
run ./bench_allreduce --inject modify-input@timed
ends "modify-input@timed, which fresh data would hide, is a usage error" 2

run ci/mpirun -np 3 ./bench_allreduce -b 64 -e 64 -n 1 -o max --inject drop-chunk --verify mpi
ends "--verify mpi alone finds drop-chunk" 1
run_ranks 3 ./bench_allreduce -b 64 -e 64 -n 1 --inject drop-chunk --verify exact
ends "--verify exact alone finds drop-chunk" 1
run_ranks 2 ./bench_allreduce -b 64 -e 64 -n 1 -d int8 --inject swap-bytes
ends "swap-bytes on a one-byte type is a usage error" 2
run_ranks 2 ./bench_allreduce -b 0 -e 0 -n 1 --inject flip-bit
ends "a fault on a message of 0 bytes is a usage error" 2
run ./bench_allreduce --inject nope
ends "an unknown fault is a usage error" 2
run ./bench_allreduce --inject replay -c 0
ends "a fault without verification is a usage error" 2

# A slow-down: right data, exit code 0, a warning in the manifest, and a regression of weir's rows, where runs
# without it have none. Runs alternate, and the margins are wide, for a busy machine; if its noise leaves the
# question open, all runs are measured again.
slow_runs=
measure_slow_runs() {
    rm -rf "$scratch/before" "$scratch/same" "$scratch/slower"
    mkdir "$scratch/before" "$scratch/same" "$scratch/slower"
    for round in 1 2 3 4; do
        for side in before same slower; do
            option=
            [ $side = slower ] && option='--inject slow:200'
            # shellcheck disable=SC2086  # one option or none
            run ./bench_allreduce -g 2 --backend host -b 64K -e 1M -f 16 -n 400 $option --csv "$scratch/$side/r$round-x.csv"
            [ $code -eq 0 ] || slow_runs=$code
        done
    done
}
if [ -x ./weir-compare ]; then
    slow_runs=0
    for _ in 1 2 3; do
        measure_slow_runs
        ./weir-compare --min-effect 50% "$scratch/before" "$scratch/slower" | grep -q inconclusive: || break
    done
    check "runs with --inject slow have right data" "$slow_runs"
    grep -q '"inject_slow_percent": 200' "$scratch/slower/r1-x.json" && grep -q 'warning: --inject slow:200' "$scratch/err" &&
        grep -q '"kind": "inject"' "$scratch/slower/r1-x.json"
    check "a slow-down is in the manifest and a warning" $?
    run ./weir-compare --min-effect 50% "$scratch/before" "$scratch/slower"
    ends "weir-compare reports a slow-down of 200% as a regression" 1
    grep -q '^# Verdict: regressed (4 regressed' "$scratch/out" && grep -q 'B: warning in 4 of 4 manifests, the first: --inject slow:200' "$scratch/out"
    check "all rows are regressed, and the slow-down is printed above the table" $?
    run ./weir-compare --min-effect 50% "$scratch/before" "$scratch/same"
    ends "runs without it have no regression" 0
fi

# One slow rank of several is named, with its host; without it nobody is. Three tries: the ranks share cores with
# other programs, which may hold up another rank for the most of a run.
names_last() { # NUMBER: how many of two placements name rank 2
    [ "$(grep -c "B, weir .*: rank 2 ($(hostname)) is last in [0-9]*% of iterations, [0-9.e+]* us after the median\$" "$scratch/out")" -eq "$1" ] &&
        [ "$(grep -c 'is last in' "$scratch/out")" -eq "$1" ]
}
named=1 silent=1
for _ in 1 2 3; do
    run ./bench_allreduce -g 4 --backend host -b 1M -e 1M -n 400 --inject slow-rank:2:50% --csv "$scratch/late.csv"
    names_last 2 && named=0 && break
done
check "--inject slow-rank:2:50%: a line for each placement names rank 2 and its host" $named
python3 - "$scratch/late.csv" <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8")))
sys.exit(not all(row["last_rank"] == "2" and float(row["last_share"]) >= 0.5 and float(row["skew_us"]) > 0 for row in rows))
END
check "the CSV has the last rank, its share and its lag" $?
for _ in 1 2 3; do
    run ./bench_allreduce -g 4 --backend host -b 1M -e 1M -n 400
    names_last 0 && silent=0 && break
done
check "without a slow rank, nobody is named" $silent
run ./bench_allreduce -g 4 --backend host -b 8 -e 8 -n 4 --inject slow-rank:4:10
ends "a slow rank that does not exist is a usage error" 2
grep -q 'slow-rank:4: there are 4 ranks; give a rank from 0 to 3' "$scratch/err"
check "the message says which ranks there are" $?
for wrong in slow slow: slow:0 slow:1001 slow:20x slow:20%% slow:20@timed slow-rank slow-rank:1 slow-rank::10 slow-rank:-1:10 slow-rank:x:10 slow-rank:1:0; do
    run ./bench_allreduce --inject $wrong
    ends "--inject $wrong is a usage error" 2
done

# What is wrong has the same number in the table, the CSV and the JSON, whatever its kind.
for fault in flip-bit drop-chunk overrun modify-input; do
    run ./bench_allreduce -g 2 -b 4K -e 4K -n 2 -w 0 --verify exact --inject $fault --csv "$scratch/w.csv" -J "$scratch/w.jsn"
    table=$(awk '/^ / { print $9 + $13 }' "$scratch/out")
    csv=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "wrong") at = i } NR > 1 { sum += $at } END { print sum + 0 }' "$scratch/w.csv")
    json=$(grep -o '"nwrong": *[0-9]*' "$scratch/w.jsn" | awk '{ sum += $2 } END { print sum + 0 }')
    [ "$code" -eq 1 ] && [ "$table" -gt 0 ] && [ "$csv" = "$table" ] && [ "$json" = "$table" ]
    check "$fault: table, CSV and JSON count $table" $?
done
finish
