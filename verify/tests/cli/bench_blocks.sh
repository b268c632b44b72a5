#!/bin/bash
# bench_blocks: rows of weir and its peers, layouts, directions and numbers of ranks, the faults that its check finds and
# names, and what it refuses. Run from the repository's root.
# Parts: MPI.
set -u
. verify/tests/support/tap.sh
[ -x ./bench_blocks ] || { echo "1..0 # SKIP bench_blocks is not built; run make"; exit 0; }

csv=$scratch/a.csv
small=(--layers 2 -n 3 -w 1)
errs() { grep -qE -e "$1" "$err"; }
row() { awk -F, -v name="$1" -v column="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i } $10 "-" $11 == name { print $at }' "$csv"; }
refuses() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    ends_with 2 ./bench_blocks "$@" && errs "$pattern"
}
finds() { # FAULT PATTERN: in put and in get
    ends_with 1 ./bench_blocks -g 2 "${small[@]}" --pages 8 --inject "$1" --csv "$csv" && errs "rank 1: 8 pages: weir put: $2" &&
        errs "rank 1: 8 pages: weir get: $2" && [ "$(row weir-put verify),$(row weir-get verify),$(row weir-put median_us)" = fail,fail, ]
}

check "two ranks, with peers: ends with 0" ends_with 0 ./bench_blocks -g 2 "${small[@]}" --pages 3 --peer memcpy --peer readv --csv "$csv"
check "all rows pass" eval '[ "$(row weir-put verify),$(row weir-get verify),$(row memcpy-memcpy verify),$(row readv-readv verify)" = pass,pass,pass,pass ]'
check "a row has the bytes of a request: 3 pages of 2 layers, keys and values" [ "$(row weir-put bytes)" = $((3 * 2 * 2 * 16 * 8 * 128 * 2)) ]
check "numbers of the table, the CSV and the comparisons" numbers_hold blocks "$csv" nranks=2 iters=3 nnodes=1 dtype=uint8 buffers=registered
check "weir-compare reads it" ends_with 0 ./weir-compare "$csv" "$csv"
for engine in vllm-flashinfer vllm-mla sglang sglang-mla; do
    check "$engine" ends_with 0 ./bench_blocks -g 2 "${small[@]}" --pages 1,5 --engine $engine
done
check "unregistered memory" ends_with 0 ./bench_blocks -g 2 "${small[@]}" --pages 5,2 --buffers unregistered --engine sglang --csv "$csv"
check "its numbers, of keys and values together" numbers_hold blocks "$csv" buffers=unregistered layout=sglang
check "2 prefill ranks to 1, both ways, sorted" ends_with 0 ./bench_blocks -g 3 "${small[@]}" --pages 5 --prefill 2 --direction both --order sorted --peer readv
check "1 prefill rank to 2" ends_with 0 ./bench_blocks -g 3 "${small[@]}" --pages 5
check "lost-block: named with its origin" finds lost-block "page [0-9]+, layer 0, keys, which is page [0-9]+ of rank 0, has not arrived$"
check "swapped-pair: named with what is there" finds swapped-pair "page [0-9]+, layer 0, keys, which is page [0-9]+ of rank 0, holds page [0-9]+ of rank 0$"
check "extra-page: named" finds extra-page "page [0-9]+, layer 0, keys is in no list, but holds page 0 of rank 0$"
check "early-tag: named" eval \
    'ends_with 1 ./bench_blocks -g 2 "${small[@]}" --pages 8 --inject early-tag && errs "weir put: page .* has not arrived yet: it came after its tag" && ! errs "weir get"'
# The planted slow rank is named; three tries, as other programs use the cores as well.
names_slow_rank() {
    for _ in 1 2 3; do
        ends_with 0 ./bench_blocks -g 2 --layers 2 --pages 8 -n 70 --inject slow-rank:1:500 --csv "$csv" || return 1
        ! grep -qE '^#   8 pages, weir put: rank 1 \(.*\) is last in [0-9]+% of iterations' "$out" || return 0
    done
    return 1
}
check "a slow rank is named" names_slow_rank
check "the CSV has it" [ "$(row weir-put last_rank)" = 1 ]
check "a slow rank that is not there" refuses "slow-rank:2: there are 2 ranks; give a rank from 0 to 1" -g 2 --inject slow-rank:2:10
check "a fault that changes nothing is an error" eval 'ends_with 2 ./bench_blocks -g 2 "${small[@]}" --pages 1 --inject swapped-pair && errs "changed nothing"'
check "--inject list prints the faults" eval \
    'ends_with 0 ./bench_blocks --inject list && [ "$(tr "\n" " " <"$out")" = "lost-block swapped-pair extra-page early-tag " ]'
too_large() { # ARGUMENT...: refused at once
    ends_with 3 ./bench_blocks -g 2 "$@" && one_line_says "does not fit node" "give fewer --pages"
}
check "a cache that does not fit is refused before its lists are made" too_large --pages 16777216
check "a size of more than 64 bits is refused" too_large --pages 1 --layers 65536 --heads 65536 --head-size 65536 --page-tokens 65536
check "one rank is refused" refuses "of 1 rank none is left for decode"
check "an unknown engine is refused with the known ones" refuses "vllm\|vllm-flashinfer" -g 2 --engine none
check "a list of pages that is none is refused" refuses "up to 32 numbers" -g 2 --pages 1,,2
check "an odd head is refused" refuses "use a multiple of 4" -g 2 --head-size 6

if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 2 true >/dev/null 2>&1; then
    check "MPI's derived types next to weir" ends_with 0 ci/mpirun -np 2 ./bench_blocks "${small[@]}" --pages 3 --peer mpi --csv "$csv"
    check "both are checked" eval '[ "$(row weir-put verify),$(row mpi-mpi verify)" = pass,pass ]'
    nodes() { # RANKS-OF-A RANKS-OF-B CODE ARGUMENT...: on two nodes, over tcp
        local a=$1 b=$2 code=$3
        shift 3
        ends_with "$code" ci/mpirun -np "$a" env WEIR_HOSTID=a WEIR_TRANSPORT=tcp ./bench_blocks "${small[@]}" --csv "$csv" "$@" : \
            -np "$b" env WEIR_HOSTID=b WEIR_TRANSPORT=tcp ./bench_blocks "${small[@]}" --csv "$csv" "$@"
    }
    check "two nodes, with MPI and the socket's floor" nodes 1 1 0 --pages 3,64 --peer mpi --peer socket
    check "weir's rows are checked, the floor's is not" [ "$(row weir-put verify | sort -u),$(row weir-get verify | sort -u),$(row socket-socket verify | sort -u)" = pass,pass,off ]
    check "2 prefill ranks to 2 of both nodes, both ways" nodes 3 1 0 --pages 5 --prefill 2 --direction both --buffers unregistered
    for fault in "lost-block:has not arrived$" "swapped-pair:holds page [0-9]+ of rank 0$" "extra-page:is in no list, but holds page 0 of rank 0$"; do
        check "${fault%%:*} between nodes: found in put and get" eval \
            'nodes 1 1 1 --pages 8 --inject "${fault%%:*}" && errs "rank 1: 8 pages: weir put: page .* ${fault#*:}" && errs "rank 1: 8 pages: weir get: page .* ${fault#*:}"'
    done
    check "early-tag between nodes: found" eval 'nodes 1 1 1 --pages 8 --inject early-tag && errs "weir put: page .* has not arrived yet: it came after its tag"'
    check "readv is refused between nodes" eval 'nodes 1 1 2 --pages 8 --peer readv && errs "reads no memory of other nodes"'
else
    skip "MPI's derived types next to weir" "no mpirun; apt-get install libopenmpi-dev openmpi-bin"
fi
tap_done
