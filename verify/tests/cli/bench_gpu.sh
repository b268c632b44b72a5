#!/bin/sh
# The GPU code path of the benchmarks on a simulated GPU (support/gpu_standin.c): data are copied
# to the candidate's memory and back, timed batches and graph replays are verified, and faults
# in them are found. Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host # the simulated GPU needs the host backend, also where there are GPUs
bin=${O:-build}/tests
[ -x "$bin/bench_allreduce_standin" ] || skip_all "GPU benchmarks" "not built; run make tests"

fork_ranks "programs with a simulated GPU"
for program in allreduce reduce_scatter reduce broadcast allgather alltoall alltoallv gather scatter sendrecv; do
    run_ranks 3 "$bin/bench_${program}_standin" -b 8 -e 64K -f 16 -n 5 -w 1 -T 5
    ends "bench_$program on a simulated GPU gives correct results" 0
done
run_ranks 2 "$bin/bench_allreduce_standin" -b 1K -e 1K -n 5 -G 3 --csv "$scratch/a.csv"
ends "-G 3 measures graph replays with correct results" 0
check "-G 3 gives 3 iterations in the CSV" \
    "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "iters") at = i }
        NR > 1 && $at != 3 { bad = 1 } END { exit bad || NR < 2 }' "$scratch/a.csv"; echo $?)"
# correct_with ARGUMENTS...: a run with each of them.
correct_with() {
    for arguments; do
        # shellcheck disable=SC2086
        run_ranks 2 "$bin/bench_allreduce_standin" -b 4K -e 32K -f 8 -w 1 $arguments
        ends "bench_allreduce on a simulated GPU gives correct results with $arguments" 0
    done
}
correct_with "-n 5 -G 1" "-n 5 --cold" "-n 5 -u 3" "-n 5 --buffers plain" "-n 5 --mode latency" "-n 5 --verify exact" \
    "--until 50%" "-n 5 --algo all"
! long_part "more options on a simulated GPU" ||
    correct_with "--cold -G 2" "-R 2" "-z 1" "-m 3" "-w 2" "-d bfloat16 -o max" "-c 0" "--determinism"
# The residual of --fuse tells how many operations a batch performs, untimed ones included.
for batch in "-n 5" "-G 4" "-n 5 --mode latency" "-n 4 -b 4M"; do
    # shellcheck disable=SC2086 # several arguments
    run_ranks 2 "$bin/bench_allreduce_standin" -b 8K -e 4M -f 512 --fuse norm --hidden 512 -d bfloat16 $batch
    ends "the data of --fuse are right in every batch with $batch" 0
done
for fault in flip-bit replay; do
    run_ranks 2 "$bin/bench_allreduce_standin" -b 4K -e 4K -n 4 --inject $fault@timed
    ends "fault $fault in a timed batch is found" 1
    run_ranks 2 "$bin/bench_allgather_standin" -b 4K -e 4K -G 4 -n 4 --inject $fault@timed
    ends "fault $fault in a graph replay is found" 1
done
run_ranks 2 "$bin/bench_allreduce_standin" -b 4K -e 4K -n 4 -G 2 --inject slow:50
ends "a slow-down of graphs is a usage error" 2
check "the message says why" "$(grep -q 'graphs are captured before' "$scratch/err"; echo $?)"
# names_slow_rank: whether batches show the slow rank; three tries, as other programs use the cores as well. Only short batches
# give enough iterations to name a rank.
names_slow_rank() {
    for _ in 1 2 3; do
        run_ranks 2 "$bin/bench_allreduce_standin" -b 256K -e 256K -n 20 --inject slow-rank:1:300
        ! grep -q 'rank 1 .*is last in [0-9]*% of iterations' "$scratch/out" || return 0
    done
    return 1
}
names_slow_rank
check "a slow rank is named by the ends of its batches" "$?"
ends "a slow-down of batches does not fail the run" 0
run_ranks 2 "$bin/bench_p2p_standin" -b 64K -e 64K -n 4 --peer copies
ends "copies on a simulated GPU" 0
run_ranks 2 "$bin/bench_allreduce_standin" -b 16K -e 16K -n 20 --with 'alltoall 64K' --with 'allgather 4K'
ends "competing calls on a simulated GPU are right" 0
check "both have a line" "$(grep -c ' alone .* together ' "$scratch/out" | awk '{ exit !($1 >= 2) }'; echo $?)"
run_ranks 2 "$bin/bench_allreduce_standin" -b 16K -e 16K -n 20 --with 'alltoall 64K' --inject flip-bit@timed
ends "a wrong bit of a competing call on a simulated GPU is found" 1
check "and named" "$(grep -q 'wrong data in --with alltoall 64K' "$scratch/err"; echo $?)"
run_ranks 2 "$bin/bench_allreduce_standin" -b 4K -e 4K -n 4 --inject slow:50 --mode latency
ends "a slow-down works where the host times operations" 0

# A peer in Python, whose process opens the rank's memory through a simulated driver.
if command -v python3 >/dev/null && command -v "${CC:-cc}" >/dev/null; then
    mkdir "$scratch/driver"
    "${CC:-cc}" -shared -fPIC -fvisibility=hidden verify/tests/support/gpu_driver_standin.c -o "$scratch/driver/libcuda.so.1" || exit 3
    # python_peer MODE ROWS ARGUMENT...: measures it; so many rows are right.
    python_peer() {
        mode=$1 expected=$2
        shift 2
        run env TMPDIR="$scratch" LD_LIBRARY_PATH="$scratch/driver" "$bin/bench_allreduce_standin" -g 2 -b 1K -e 2K -f 2 -n 5 \
            -d int32 -T 20 "$@" --peer "py:verify/tests/support/peer_gpu.py$mode" --csv "$scratch/p.csv"
        check "peer_gpu.py$mode $*: $expected rows are right" "$([ "$(grep -c ',gpusum:1.*,pass,' "$scratch/p.csv")" = "$expected" ]; echo $?)"
    }
    python_peer "" 4
    ends "a peer in Python works on the memory of a GPU" 0
    python_peer "" 4 -G 3
    ends "it is timed in graphs" 0
    python_peer :wrong 0 -G 3
    ends "its wrong data are found" 1
    python_peer :crash 2
    ends "if it crashes, its calls that were right before go on" 0
    python_peer "" 0 --cold
    check "it refuses --cold" "$(grep -q 'have no --cold' "$scratch/out"; echo $?)"
fi
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 8 -e 8 --peer mpi
ends "--peer mpi that cannot use GPU memory does not fail the run" 0
check "the output says that --peer mpi takes no part, and why" \
    "$(grep -q 'takes no part.*memory of the process' "$scratch/out"; echo $?)"
finish
