#!/bin/sh
# A short run of the alltoallv soak test (soak.c): results are correct, memory does not grow, and an
# injected leak is found. Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
bin=${O:-build}/tests
[ -x "$bin/soak" ] || skip_all "soak" "not built; run make tests"

# says NAME PATTERN: a line of the last run's output matches.
says() {
    check "$1" "$(grep -q "$2" "$scratch/out"; echo $?)"
}

run ci/mpirun -np 3 "$bin/soak" --backend host --calls 600 --room 256K
ends "600 calls with changing splits end with 0" 0
says "600 calls report no wrong element and no growth of host memory" \
    '^# 0 wrong elements.* memory of the host flat'
run ci/mpirun -np 3 "$bin/soak" --backend host --calls 600 --room 64K --leak 8K
ends "a leak of 8 KiB per call ends with 1" 1
says "a leak of 8 KiB per call is reported as growth of host memory" 'memory of the host GREW'
run ci/mpirun -np 2 "$bin/soak_standin" --calls 200 --room 64K
ends "200 calls in a simulated GPU's memory end with 0" 0
run ci/mpirun -np 2 "$bin/soak" --calls 3
ends "too few calls are a usage error" 2
finish
