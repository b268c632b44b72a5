#!/bin/bash
# NCCL EP as a peer of bench_moe (--peer nccl-ep:PATH): rows in any order are right, what is wrong is
# found, unusable libraries and calls are refused. GPU and libraries are simulated (support/gpu_standin.c,
# vendor_standin.c, nccl_ep_standin.c). Run from the repository's root. Needs MPI.
. verify/tests/support/tap.sh
leave() {
    skip "peers of bench_moe on GPUs" "$1"
    tap_done
}
program=${O:-build}/tests/bench_moe_standin
[ -x "$program" ] || leave "not built; run make tests"
command -v "${MPICC:-mpicc}" >/dev/null || leave "no mpicc"
export WEIR_BACKEND=host # the simulated GPU needs the host backend, also where there are GPUs
export WEIR_NCCL_SO=$scratch/libnccl.so.2

# library FILE SOURCE FLAG...
library() {
    local file=$1 source=$2
    shift 2
    "${MPICC:-mpicc}" -std=gnu11 -I. -Ilib/include -shared -fPIC "$@" -o "$scratch/$file" "verify/tests/support/$source" || exit 3
}
library libnccl.so.2 vendor_standin.c
library good.so nccl_ep_standin.c
# The programs take the MPI that the stand-in is linked with, where an installation has two.
WEIR_MPI_SO=$(ldd "$scratch/libnccl.so.2" | awk '$1 ~ /libmpi/ { print $3; exit }')
export WEIR_MPI_SO

# measures CODE LIBRARY OPTION...
measures() {
    local code=$1 file=$2
    shift 2
    ends_with "$code" ci/mpirun -np 2 "$program" --tokens 5,33 --hidden 128 --topk 3 -n 4 -w 1 -T 20 --chain 4 \
        --peer "nccl-ep:$scratch/$file" --csv "$scratch/a.csv" "$@"
}
in_csv() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["contender"] == "nccl-ep" {
            n++; bad += $at["verify"] != "pass" || $at["median_us"] == "" || $at["algo"] != "low-latency"
        }
        END { exit n != 8 || bad > 0 }' "$scratch/a.csv"
}
check "rows and sums are right, in whatever order rows arrive" measures 0 good.so
check "the CSV has its rows of every phase" in_csv
check "and the shapes and volumes of weir's rows, with its own speeds" numbers_hold moe "$scratch/a.csv" nranks=2 topk=3 "binding=*"
check "the footer compares it" grep -q "NCCL EP takes .* times as long as weir in chain" "$out"
check "masked choices" measures 0 good.so --routing masked:0.4
check "one expert has most rows" measures 0 good.so --routing hot
in_groups() { # as many ranks of each group, each with its own communicator
    ends_with 0 ci/mpirun -np 4 "$program" --tokens 5 --hidden 128 -n 4 -w 1 -T 20 --split mod:2 --peer "nccl-ep:$scratch/good.so" --csv "$scratch/a.csv" &&
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            $at["contender"] == "nccl-ep" { n[$at["group"]]++; bad += $at["verify"] != "pass" || $at["median_us"] == "" || $at["nranks"] != 2 }
            END { exit n["all"] != 4 || n[0] != 4 || n[1] != 4 || bad > 0 }' "$scratch/a.csv"
}
check "two groups of two" in_groups
library second.so nccl_ep_standin.c -DSTANDIN_VERSION=200
check "EP 0.2 is measured" measures 0 second.so

finds() { # FLAG PATTERN
    library wrong.so nccl_ep_standin.c "$1"
    measures 1 wrong.so --chain 0 && grep -qE -- "$2" "$err" && [ "$(grep -c 'nccl-ep .*N/A' "$out")" -gt 0 ] &&
        ! grep -q ' weir .*N/A' "$out"
}
check "a missing row is found" finds -DSTANDIN_DROP 'nccl-ep: dispatch: count of expert 0 on rank 0 is .* its last row [0-9]+ is token [0-9]+ from'
check "a row of another token is found" \
    finds -DSTANDIN_ROW 'token [0-9]+ from rank [01] for expert [0-9]+ did not arrive on rank [01]: row [0-9]+ .* holds'
check "a choice that is not added is found" finds -DSTANDIN_SUM 'combine: token 0 from rank'

refuses() { # CODE FLAG PATTERN OPTION...
    local code=$1 flag=$2 pattern=$3
    shift 3
    library other.so nccl_ep_standin.c "$flag"
    measures "$code" other.so "$@" && grep -qF -- "$pattern" "$err"
}
check "another version is refused" refuses 3 -DSTANDIN_VERSION=300 "the library is EP 0.3; EP 0.1 and 0.2 work"
check "a library without combine is refused" refuses 3 -DSTANDIN_LACKS "the library has no ncclEpCombine"
check "a failed call is reported by name" refuses 3 -DSTANDIN_FAILS "create group failed"
check "a missing library is reported with the remedy" eval \
    'measures 3 none.so && grep -qF "give its path as nccl-ep:PATH" "$err"'
check "that is the only message, and no table begins" eval \
    '[ "$(grep -c "bench_moe.*rank" "$err")" -eq 1 ] && ! grep -q "no error" "$err" && ! grep -q "^# " "$out"'
check "another layout is refused" refuses 2 -DSAME "layout expert" --layout flat
check "fp8 is refused" refuses 2 -DSAME "does not convert to fp8" --dispatch-dtype fp8
check "other types are refused" refuses 2 -DSAME "bfloat16 in both directions" -d float
check "ranks with different numbers of tokens are refused" refuses 2 -DSAME "as many tokens" --routing ragged
check "on the host it is refused" eval \
    'ends_with 2 ./bench_moe -g 2 --backend host --tokens 4 --peer nccl-ep && grep -qF "use --backend cuda" "$err"'
check "an unknown peer is refused" eval 'ends_with 2 ./bench_moe --peer nccl && grep -qF "mpi or nccl-ep[:PATH]" "$err"'
tap_done
