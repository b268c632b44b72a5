#!/bin/sh
# A vendor's library as a peer: found, named, tried in a child first, measured in each of
# its modes and checked. The GPU and the library are stand-ins. TAP on standard output; run
# from the top folder.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host # under the stand-in, also where there are GPUs
bin=${O:-build}/tests
[ -x "$bin/bench_allreduce_standin" ] || skip_all "vendor libraries" "not built; run make tests"
command -v "${MPICC:-mpicc}" >/dev/null || skip_all "vendor libraries" "no mpicc"

# library NAME FLAGS: builds a stand-in.
library() {
    name=$1
    shift
    "${MPICC:-mpicc}" -shared -fPIC "$@" -o "$scratch/$name" verify/tests/support/vendor_standin.c || exit 3
}
library libnccl.so.2
library libold.so -DSTANDIN_VERSION=21805
library libcrash.so -DSTANDIN_CRASHES
library liblacks.so -DSTANDIN_LACKS
library libwrong.so -DSTANDIN_WRONG

# says NAME PATTERN: standard error of the last run has it.
says() {
    check "$1" "$(grep -q -e "$2" "$scratch/err"; echo $?)"
}

# in_csv NAME WORD COUNT: so many rows of that contender, all of them right.
in_csv() {
    check "$1" "$(awk -F, -v word="$2" -v count="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["contender"] == word { n++; bad += $at["verify"] != "pass" || $at["median_us"] == "" }
        END { exit n != count || bad > 0 }' "$scratch/a.csv"; echo $?)"
}

for program in allreduce reduce_scatter reduce broadcast allgather alltoall alltoallv sendrecv; do
    run ci/mpirun -np 2 "$bin/bench_${program}_standin" -b 1K -e 16K -f 16 -n 5 -G 4 -T 10 \
        --peer "$scratch/libnccl.so.2" --csv "$scratch/a.csv"
    ends "$program with the library" 0
    rows=4
    case $program in alltoall* | sendrecv) rows=2 ;; esac
    in_csv "$program: its default mode is right" nccl:2.28.3 $rows
    in_csv "$program: symmetric windows are right" nccl:2.28.3:symmetric $rows
    in_csv "$program: copy engines are right" nccl:2.28.3:zero-cta $rows
done
check "the best mode is named" "$(grep -q 'best of nccl:2.28.3 is ' "$scratch/out"; echo $?)"
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 1K -e 1K -n 5 --peer "$scratch/libold.so" \
    --csv "$scratch/a.csv"
ends "an old library" 0
in_csv "has its default mode" nccl:2.18.5 2
check "and no other" "$(grep -c nccl:2.18.5: "$scratch/a.csv")"
run env WEIR_NCCL_SO="$scratch/libnccl.so.2" ci/mpirun -np 2 "$bin/bench_allreduce_standin" \
    -b 1K -e 1K -n 5 --peer nccl:symmetric --csv "$scratch/a.csv"
ends "WEIR_NCCL_SO and one mode" 0
in_csv "which is measured" nccl:2.28.3:symmetric 2
in_csv "alone" nccl:2.28.3 0
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/libcrash.so"
ends "a library that crashes" 3
says "is told" 'libcrash.so crashes when it is opened'
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/liblacks.so"
ends "a library that lacks a function" 3
says "is told, with the function" 'liblacks.so has no ncclAllReduce'
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/none.so"
ends "a library that is not there" 3
says "is told" 'none.so: cannot open'
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 1K -e 1K -n 5 --peer "$scratch/libwrong.so"
ends "a library with wrong results" 1
says "is told by name" 'wrong data: nccl:2.28.3'
run "$bin/bench_allreduce_standin" --peer nccl:fast
ends "an unknown mode" 2
finish
