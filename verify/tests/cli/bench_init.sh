#!/bin/bash
# bench_init: a row for each phase, of the first communicator and of later ones, the checks of its calls, peers, and what
# it refuses. Run from the repository's root.
# Parts: MPI, a simulated GPU, emulated hosts.
set -u
. verify/tests/support/tap.sh
[ -x ./bench_init ] || { echo "1..0 # SKIP bench_init is not built; run make"; exit 0; }

csv=$scratch/a.csv
export WEIR_BACKEND=host
errs() { grep -qE -e "$1" "$err"; }
# phases CANDIDATE: the column algo of its rows.
phases() { awk -F, -v name="$1" '$10 ~ "^" name { printf "%s ", $11 }' "$csv"; }
# field CANDIDATE PHASE COLUMN
field() { awk -F, -v name="$1" -v phase="$2" -v column="$3" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i } $10 ~ "^" name && $11 == phase { print $at }' "$csv"; }
refuses() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    ends_with 2 ./bench_init "$@" && errs "$pattern"
}

check "three ranks: ends with 0" ends_with 0 ./bench_init -g 3 -n 6 --csv "$csv"
check "the phases have rows, and those of the first communicator that are known" eval '[ "$(phases weir)" = \
    "bootstrap first:create create first:call-8B call-8B first:call-1MiB call-1MiB first:split split destroy total " ]'
check "later rows have six times each, first ones one" \
    eval '[ "$(field weir create iters),$(field weir first:create iters)" = 6,1 ]'
check "calls have sizes, types and checks; other phases none" eval '[ "$(field weir call-8B bytes),$(field weir call-1MiB bytes),$(field weir call-8B verify)" = 8,1048576,pass ] &&
    [ "$(field weir create bytes),$(field weir create dtype),$(field weir create verify)" = 0,none,off ]'
check "the total is at least the creation and the destruction" awk -v total="$(field weir total median_us)" \
    -v least="$(field weir create min_us)" -v end="$(field weir destroy min_us)" 'BEGIN { exit !(total >= least + end && least > 0 && end > 0) }'
check "the table has a line for each phase" eval '[ "$(grep -cE "^  (bootstrap|create|call-8B|call-1MiB|split|destroy|total) +weir " "$out")" -eq 7 ]'
check "numbers of the table and the CSV" numbers_hold control "$csv" nranks=3 nnodes=1 collective=init
check "weir-compare reads it" ends_with 0 ./weir-compare "$csv" "$csv"
check "flip-bit: the wrong element is found, with phase and rank" eval \
    'ends_with 1 ./bench_init -g 3 -n 2 --inject flip-bit --csv "$csv" && errs "rank 2: weir: call-1MiB: element [0-9]+: got .*, expected 6" && ! errs "got 6,"'
check "only its row has failed, and it has no times" eval \
    '[ "$(field weir call-1MiB wrong),$(field weir call-1MiB median_us),$(field weir call-8B verify)" = 1,,pass ]'
check "skip-signal: ends with 4" eval 'ends_with 4 ./bench_init -g 2 -n 1 -T 2 --inject skip-signal && errs "rank"'
check "one rank: ends with 0" ends_with 0 ./bench_init -n 2
check "a library with NCCL's interface next to weir" ends_with 0 ./bench_init -g 2 -n 3 --peer "$PWD/build/libweir_nccl.so" --csv "$csv"
check "it has its first communicator's times as well" eval '[ "$(phases nccl | wc -w)" -eq 14 ] && [ "$(field nccl call-1MiB verify)" = pass ]'
check "NCCL needs GPUs" refuses "give --backend cuda, or --peer mpi|no CUDA" -g 2 --peer nccl
check "modes of NCCL are refused" refuses "a mode changes nothing here" -g 2 --peer nccl:symmetric
check "a library that does not exist is named" eval 'ends_with 3 ./bench_init -g 2 --peer /none/libnccl.so && one_line_says "/none/libnccl.so: cannot open" "name the library"'
check "a slow rank is refused" refuses "does not have this fault" -g 2 --inject slow-rank:0:10
check "--peer mpi without MPI is refused" refuses "start the ranks with mpirun" -g 2 --peer mpi

if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 2 true >/dev/null 2>&1; then
    check "MPI next to weir" ends_with 0 ci/mpirun -np 2 ./bench_init -n 3 --peer mpi --csv "$csv"
    check "MPI has no bootstrap of a communicator, and weir's first one is known" eval \
        '[ "$(phases mpi: | wc -w)" -eq 12 ] && [ -n "$(field weir first:bootstrap median_us)" ]'
    check "each phase has a comparison" eval '[ "$(grep -cE "^#   (create|call-8B|call-1MiB|split|destroy|total), weir and mpi:" "$out")" -eq 6 ]'
else
    skip "MPI next to weir" "no mpirun; apt-get install libopenmpi-dev openmpi-bin"
fi

standin=${O:-build}/tests/bench_init_standin
if [ -x "$standin" ]; then
    check "calls on a simulated GPU are right" ends_with 0 "$standin" -g 2 -n 2
    check "a flipped byte in its memory is found" ends_with 1 "$standin" -g 2 -n 1 --inject flip-bit
else
    skip "calls on a simulated GPU" "not built; run make tests"
fi

across() { verify/tests/support/many_hosts.py 2 1 '{}' ./bench_init --transport tcp -n 2 "$@"; }
if ! ends_with 0 across && tail -n 1 "$err" | grep -q "no emulated hosts"; then
    skip "across nodes" "$(tail -n 1 "$err")"
else
    check "two nodes: ends with 0" ends_with 0 across
fi
tap_done
