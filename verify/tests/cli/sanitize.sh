#!/bin/bash
# Whether verify/tests/support/sanitize tells findings from none, and skips where it must. The sanitizer and
# the launcher are stubs.
set -u
. verify/tests/support/tap.sh

says() { grep -qE -- "$1" "$out"; }
cat >"$scratch/launch" <<'END'
#!/bin/sh
case $* in *--version*) echo stub; exit ;; esac
while [ "$1" != --tool ]; do shift; done
tool=$2
while [ "$1" != --log-file ]; do shift; done
folder=${2%/*}
for rank in 0 1; do
    case $KIND.$tool in
    silent.*) continue ;;
    memory.memcheck) echo "========= Invalid __global__ write of size 4 bytes"
        echo "========= ERROR SUMMARY: $rank errors" ;;
    race.racecheck) echo "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)" ;;
    *.racecheck) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
    *) echo "========= ERROR SUMMARY: 0 errors" ;;
    esac >"$folder/$rank"
done
[ "$KIND" != wrong ]
END
chmod +x "$scratch/launch"
# examine KIND ARGUMENTS...: with stubs of that kind.
examine() {
    local kind=$1
    shift
    KIND=$kind GPUS=2 COMPUTE_SANITIZER=stub MPIRUN="$scratch/launch" verify/tests/support/sanitize "$@"
}

check "nothing found" ends_with 0 examine none bench_allreduce bench_reduce
check "each tool and program has its line" \
    eval "says '^memcheck +bench_reduce .* clean$' && says '^racecheck +bench_allreduce .* clean$'"
check "one rank's invalid write" ends_with 1 examine memory bench_allreduce
check "is counted and shown" eval "says ' 1 found$' && says 'Invalid __global__ write'"
check "hazards" ends_with 1 examine race bench_allreduce
check "are counted" says '^racecheck .* 4 found$'
check "wrong data" ends_with 1 examine wrong bench_allreduce
check "no summary is no success" ends_with 3 examine silent bench_allreduce
check "too few GPUs: skipped" ends_with 0 env GPUS=1 COMPUTE_SANITIZER=stub verify/tests/support/sanitize
check "and that is said" says 'skipped: 2 ranks need as many GPUs, here are 1'
check "an option that is none" ends_with 2 verify/tests/support/sanitize -x
tap_done
