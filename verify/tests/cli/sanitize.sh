#!/bin/bash
# verify/tests/support/sanitize: it reports the sanitizer's findings by exit code and output, and
# skips where there are too few GPUs. Sanitizer and launcher are simulated. Run from the
# repository's root.
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
# examine KIND ARGUMENTS...: runs sanitize with a simulated run of that kind.
examine() {
    local kind=$1
    shift
    KIND=$kind GPUS=2 COMPUTE_SANITIZER=stub MPIRUN="$scratch/launch" verify/tests/support/sanitize "$@"
}

check "a run without findings ends with 0" ends_with 0 examine none bench_allreduce bench_reduce
check "each tool and program has a line" \
    eval "says '^memcheck +bench_reduce .* clean$' && says '^racecheck +bench_allreduce .* clean$'"
check "an invalid write on one rank ends with 1" ends_with 1 examine memory bench_allreduce
check "an invalid write is counted and shown" \
    eval "says ' 1 found$' && says 'Invalid __global__ write'"
check "race hazards end with 1" ends_with 1 examine race bench_allreduce
check "race hazards of all ranks are counted" says '^racecheck .* 4 found$'
check "a program that fails without findings ends with 1" ends_with 1 examine wrong bench_allreduce
check "a run without the sanitizer's summary ends with 3" ends_with 3 examine silent bench_allreduce
check "too few GPUs end with 0" \
    ends_with 0 env GPUS=1 COMPUTE_SANITIZER=stub verify/tests/support/sanitize
check "too few GPUs are reported as the reason to skip" \
    says 'skipped: 2 ranks need as many GPUs, here are 1'
check "an unknown option is a usage error" ends_with 2 verify/tests/support/sanitize -x
tap_done
