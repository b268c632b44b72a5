#!/bin/sh
# The soak of alltoallv (soak.c), a short one: memory stays where it is, and a leak is
# seen, as is wrong usage. TAP on standard output; run from the top folder.
. verify/tests/support/bench_tap.inc
bin=${O:-build}/tests
[ -x "$bin/soak" ] || skip_all "soak" "not built; run make tests"

# says NAME PATTERN: the last run wrote a line with it.
says() {
    check "$1" "$(grep -q "$2" "$scratch/out"; echo $?)"
}

run ci/mpirun -np 3 "$bin/soak" --backend host --calls 600 --room 256K
ends "600 calls whose splits change" 0
says "all data is right, and memory flat" '^# 0 wrong elements.* memory of the host flat'
run ci/mpirun -np 3 "$bin/soak" --backend host --calls 600 --room 64K --leak 8K
ends "with a leak of 8 KiB a call" 1
says "it is seen" 'memory of the host GREW'
run ci/mpirun -np 2 "$bin/soak_standin" --calls 200 --room 64K
ends "by way of a GPU's memory" 0
run ci/mpirun -np 2 "$bin/soak" --calls 3
ends "too few calls are refused" 2
finish
