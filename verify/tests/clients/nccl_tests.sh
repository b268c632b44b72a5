#!/bin/bash
# Runs nccl-tests' programs over libweir_nccl.so: verifies results and compares times.
#
#   NCCL_TESTS=folder/with/all_reduce_perf verify/tests/clients/nccl_tests.sh [check|speed|processes]
#
# check      every collective with RANKS (default "2 4") processes, one GPU each, and -c 1: all types
#            and operations, each kind of buffer registration (-R 0, 1, 2), CUDA graphs (-G)
# processes  the same collectives in one process: all GPUs in one thread (-g), and one thread per GPU
# speed      times compared with those of the library that the programs are linked with
#
# SIZES ("-b 8 -e 16M -f 32"), PROGRAMS ("all_reduce alltoall") and LIBRARY (build/libweir_nccl.so)
# select what is run. check and speed need programs that are built with MPI. With
# WEIR_ALLOW_SHARED_GPU=1, GPUS=4 runs 4 ranks on fewer GPUs, which they share: this verifies results
# but measures no speed. Prints a table. Exit code: 0 if all passed, or without programs or GPUs,
# which is reported; 1 if one failed; 2 on a usage error; 3 if the library is not built.
set -u
cd "$(dirname "$0")/../../.." || exit 3
mode=${1:-check}
library=$(realpath -m "${LIBRARY:-build/libweir_nccl.so}")
folder=${NCCL_TESTS:-}
programs=${PROGRAMS:-all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv sendrecv gather scatter}
present=$(verify/tests/support/gpus)
gpus=${GPUS:-$present}
limit_s=${LIMIT_S:-120}
failed=0
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT

skip() {
    echo "nccl-tests: skipped: $1"
    exit 0
}
case $mode in check | speed | processes) ;; *)
    echo "usage: NCCL_TESTS=folder $0 [check|speed|processes]" >&2
    exit 2
    ;;
esac
[ -f "$library" ] || { echo "no $library; run make" >&2; exit 3; }
[ -n "$folder" ] && [ -x "$folder/all_reduce_perf" ] ||
    skip "NCCL_TESTS names no folder with all_reduce_perf; build nccl-tests with MPI=1"
[ "$gpus" -ge "${LEAST_GPUS:-2}" ] || skip "$gpus GPU(s) here, 2 are needed"

# run_it PRELOAD RANKS PROGRAM ARGUMENTS: runs the program, with libweir_nccl.so if PRELOAD is 1;
# leaves its table in $scratch/out.
run_it() {
    local with_weir=$1 ranks=$2 program=$folder/$3_perf
    shift 3
    local preload=() shared=()
    # By default the program takes the GPU whose number is its local rank.
    [ "$present" -eq 0 ] || [ "$ranks" -le "$present" ] || shared=(sh -c
        "NCCL_TESTS_DEVICE=\$((OMPI_COMM_WORLD_LOCAL_RANK % $present)) exec \"\$@\"" sh)
    [ "$with_weir" = 0 ] || preload=(env "LD_PRELOAD=$library")
    timeout -k 5 "$limit_s" ci/mpirun -np "$ranks" "${shared[@]}" "${preload[@]}" "$program" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
}

# Prints the sums over a table: rows, wrong elements, and the bandwidth in the footer.
read_table() {
    awk '
        /^ *[0-9]+ +[0-9]+ +[a-z0-9]+ +[a-z0-9]+ +-?[0-9]+ / {
            rows++
            if ($9 != "N/A") wrong += $9
            if ($13 != "" && $13 != "N/A") wrong += $13
        }
        /Avg bus bandwidth/ { busbw = $NF }
        END { printf "%d %s %s", rows, wrong + 0, busbw == "" ? "-" : busbw }' "$scratch/out"
}

# row RANKS PROGRAM DESCRIPTION ARGUMENTS: runs the program and prints one line of the result.
row() {
    local ranks=$1 program=$2 how=$3 verdict=pass status rows wrong busbw
    shift 3
    if [ ! -x "$folder/${program}_perf" ]; then
        printf '%-15s %5s  %-22s %5s %6s %9s  %s\n' "$program" "$ranks" "$how" - - - "skipped: no program"
        return
    fi
    run_it 1 "$ranks" "$program" "$@"
    status=$?
    read -r rows wrong busbw <<<"$(read_table)"
    if [ $status -ne 0 ] || [ "$rows" -eq 0 ] || [ "$wrong" != 0 ]; then
        verdict="FAIL (status $status)"
        failed=1
    fi
    printf '%-15s %5s  %-22s %5s %6s %9s  %s\n' "$program" "$ranks" "$how" "$rows" "$wrong" "$busbw" "$verdict"
    [ "$verdict" = pass ] || tail -n 4 "$scratch/err" "$scratch/out" | sed 's/^/    /'
}

# The options are split into words.
read -r -a sizes <<<"${SIZES:--b 8 -e 16M -f 32}"
types=(-d all)
heading() {
    printf '%-15s %5s  %-22s %5s %6s %9s\n' program procs how rows wrong busbw
}
with_ops() {
    case $1 in all_reduce | reduce_scatter | reduce) echo "-o all" ;; esac
}

check_all() {
    local ranks program ops
    heading
    for ranks in ${RANKS:-2 4}; do
        [ "$ranks" -le "$gpus" ] || { echo "$ranks ranks: skipped: $gpus GPU(s) here"; continue; }
        for program in $programs; do
            read -r -a ops <<<"$(with_ops "$program")"
            row "$ranks" "$program" "all types and ops" -b 8 -e 64K -f 128 -n 2 -w 1 -c 1 "${types[@]}" "${ops[@]}"
            for registered in 0 1 2; do
                row "$ranks" "$program" "-R $registered" "${sizes[@]}" -n 5 -w 2 -c 1 -R $registered
            done
            row "$ranks" "$program" "-G 3, in graphs" "${sizes[@]}" -n 5 -w 2 -c 1 -G 3
        done
    done
}

check_processes() {
    local program
    heading
    for program in $programs; do
        row 1 "$program" "-g $present, one thread" "${sizes[@]}" -n 5 -w 2 -c 1 -g "$present"
        row 1 "$program" "-t $present, threads" "${sizes[@]}" -n 5 -w 2 -c 1 -t "$present" -g 1
        row 1 "$program" "-g $present -R 2" "${sizes[@]}" -n 5 -w 2 -c 1 -g "$present" -R 2
    done
}

# Prints the size and the out-of-place time of each row.
times() {
    awk '/^ *[0-9]+ +[0-9]+ +[a-z0-9]+ +[a-z0-9]+ +-?[0-9]+ / { print $1, $6 }' "$scratch/out"
}

compare() {
    local ranks=${RANKS:-$gpus} program
    printf '%-15s %5s %12s %10s %10s %7s\n' program ranks bytes "weir us" "linked us" ratio
    for program in $programs; do
        run_it 0 "$ranks" "$program" "${sizes[@]}" -c 0 -G 20 || { echo "$program: skipped: it fails by itself"; continue; }
        times >"$scratch/linked"
        if ! run_it 1 "$ranks" "$program" "${sizes[@]}" -c 0 -G 20; then
            failed=1
            echo "$program: FAIL"
            tail -n 4 "$scratch/err" | sed 's/^/    /'
            continue
        fi
        times | paste -d ' ' - "$scratch/linked" | awk -v program="$program" -v ranks="$ranks" '
            $1 == $3 { printf "%-15s %5d %12s %10.2f %10.2f %7.2f\n", program, ranks, $1, $2, $4, $2 / $4 }'
    done
}

case $mode in
check) check_all ;;
processes) check_processes ;;
speed) compare ;;
esac
[ $failed -eq 0 ] && echo "nccl-tests: all passed"
exit $failed
