#!/bin/bash
# bench_barrier: its row, the faults that its two checks find, on one node and across nodes, MPI as a peer, and what it
# refuses. Run from the repository's root.
# Parts: MPI, emulated hosts.
set -u
. verify/tests/support/tap.sh
[ -x ./bench_barrier ] || { echo "1..0 # SKIP bench_barrier is not built; run make"; exit 0; }

csv=$scratch/a.csv
export WEIR_BACKEND=host
errs() { grep -qE -e "$1" "$err"; }
row() { awk -F, -v name="$1" -v column="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i } $10 ~ "^" name { print $at }' "$csv"; }
refuses() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    ends_with 2 ./bench_barrier "$@" && errs "$pattern"
}

check "four ranks: ends with 0" ends_with 0 ./bench_barrier -g 4 --csv "$csv"
check "the row is a barrier without data that passed" \
    eval '[ "$(row weir collective),$(row weir bytes),$(row weir dtype),$(row weir verify),$(row weir wrong)" = barrier,0,none,pass,0 ]'
shows_median() { # within the rounding of two decimals of three
    awk -v csv="$(row weir median_us)" '/^  barrier  *weir/ { found = $4 - csv <= 0.0051 && csv - $4 <= 0.0051 } END { exit !found }' "$out"
}
check "the table has the CSV's median" shows_median
check "numbers of the table and the CSV" numbers_hold control "$csv" nranks=4 nnodes=1
check "weir-compare reads it" ends_with 0 ./weir-compare "$csv" "$csv"
check "drop-rank: a rank that leaves at once is named, with the rank that it did not wait for" eval \
    'ends_with 1 ./bench_barrier -g 4 --inject drop-rank --csv "$csv" && errs "rank 0: weir: left a barrier [0-9]+ us after .* rank 1, which was 20000 us late"'
check "its row has failed once for each late rank at most, and has no times" eval '[ "$(row weir verify)$(row weir median_us)" = fail ] && [ "$(row weir wrong)" -ge 1 ] && [ "$(row weir wrong)" -le 3 ]'
check "drop-rank@timed: found in the second of the timed barriers" eval \
    'ends_with 1 ./bench_barrier -g 3 -n 40 --inject drop-rank@timed && errs "rank 0: weir: left timed barrier 2 [0-9.]+ us before"'
check "drop-rank@timed: found if each block has one barrier" eval \
    'ends_with 1 ./bench_barrier -g 3 -n 2 -T 5 --inject drop-rank@timed && ends_with 1 ./bench_barrier -g 2 -n 8 --visits 8 -T 5 --inject drop-rank@timed'
check "a fault that is not found is an error: no second timed barrier, no late signal" eval \
    'refuses "changed nothing: give -n 2 or more" -g 2 -n 1 --inject drop-rank@timed && refuses "give it without @timed" -g 2 --inject skip-signal@timed'
check "without checks, neither is found" eval \
    'ends_with 2 ./bench_barrier -g 3 -c 0 --inject drop-rank && ends_with 0 ./bench_barrier -g 3 -c 0 -n 10 --csv "$csv" && [ "$(row weir verify)" = off ]'
check "skip-signal: ends with 4, and the absent rank is named" eval \
    'ends_with 4 ./bench_barrier -g 3 -T 2 --inject skip-signal && errs "waits in barrier for rank 2"'
named=1 # three tries: other programs use the cores as well
for _ in 1 2 3; do
    ./bench_barrier -g 2 -n 400 --inject slow-rank:1:500% >"$out" 2>"$err"
    ! grep -q "rank 1 .* is last in [0-9]*% of iterations" "$out" || { named=0; break; }
done
check "slow-rank: the rank is named" [ $named -eq 0 ]
check "NCCL is refused with the reason" refuses "NCCL has no barrier" -g 2 --peer nccl
check "a fault of data is refused" refuses "does not have this fault" -g 2 --inject flip-bit
check "a fault needs two ranks" refuses "needs two ranks" -g 1 --inject drop-rank
check "a rank that does not exist is refused" refuses "there are 2 ranks; give a rank from 0 to 1" -g 2 --inject slow-rank:2:10
check "--inject list prints the faults" eval 'ends_with 0 ./bench_barrier --inject list && [ "$(tr "\n" " " <"$out")" = "drop-rank skip-signal " ]'

if command -v "${MPIRUN:-mpirun}" >/dev/null && ci/mpirun -np 2 true >/dev/null 2>&1; then
    check "MPI_Barrier next to weir's" ends_with 0 ci/mpirun -np 2 ./bench_barrier -n 50 --peer mpi --csv "$csv"
    check "both are checked" eval '[ "$(row weir verify),$(row mpi: verify)" = pass,pass ]'
    check "a fault of weir leaves MPI's row" eval \
        'ends_with 1 ci/mpirun -np 2 ./bench_barrier -n 50 --peer mpi --inject drop-rank --csv "$csv" && [ "$(row weir verify),$(row mpi: verify)" = fail,pass ]'
else
    skip "MPI_Barrier next to weir's" "no mpirun; apt-get install libopenmpi-dev openmpi-bin"
fi

across() { verify/tests/support/many_hosts.py 2 1 '{}' ./bench_barrier --transport tcp -n 20 "$@"; }
if ! ends_with 0 across && tail -n 1 "$err" | grep -q "no emulated hosts"; then
    skip "across nodes" "$(tail -n 1 "$err")"
else
    check "two nodes: ends with 0" ends_with 0 across
    check "two nodes: a rank that leaves at once is found without a common clock" ends_with 1 across --inject drop-rank
fi
tap_done
