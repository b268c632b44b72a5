#!/bin/sh
# A vendor's collective library as a peer (--peer PATH): it is found, opened in a child process
# first, named with its version, measured in each of its modes and verified. GPU and library are
# simulated (support/gpu_standin.c, vendor_standin.c). Run from the repository's root.
# Needs MPI.
. verify/tests/support/bench_tap.inc
export WEIR_BACKEND=host # the simulated GPU needs the host backend, also where there are GPUs
bin=${O:-build}/tests
[ -x "$bin/bench_allreduce_standin" ] || skip_all "vendor libraries" "not built; run make tests"
command -v "${MPICC:-mpicc}" >/dev/null || skip_all "vendor libraries" "no mpicc"

# library NAME FLAGS: builds a simulated vendor library.
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
# The programs take the MPI that the stand-in is linked with, where an installation has two.
WEIR_MPI_SO=$(ldd "$scratch/libnccl.so.2" | awk '$1 ~ /libmpi/ { print $3; exit }')
export WEIR_MPI_SO

# says NAME PATTERN: standard error of the last run matches.
says() {
    check "$1" "$(grep -q -e "$2" "$scratch/err"; echo $?)"
}

# in_csv NAME CANDIDATE COUNT: the CSV has COUNT rows of it, all correct and with times.
in_csv() {
    check "$1" "$(awk -F, -v word="$2" -v count="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["contender"] == word { n++; bad += $at["verify"] != "pass" || $at["median_us"] == "" }
        END { exit n != count || bad > 0 }' "$scratch/a.csv"; echo $?)"
}

programs="allreduce broadcast alltoallv"
! long_part "the other programs" || programs="$programs reduce_scatter reduce allgather alltoall gather scatter sendrecv"
for program in $programs; do
    run ci/mpirun -np 2 "$bin/bench_${program}_standin" -b 1K -e 16K -f 16 -n 5 -G 4 -T 10 \
        --peer "$scratch/libnccl.so.2" --csv "$scratch/a.csv"
    ends "bench_$program runs with a vendor library as peer" 0
    rows=4
    case $program in alltoall* | sendrecv) rows=2 ;; esac
    in_csv "bench_$program: the peer's default mode is correct" nccl:2.28.3 $rows
    in_csv "bench_$program: the peer's symmetric windows are correct" nccl:2.28.3:symmetric $rows
    in_csv "bench_$program: the peer's copy engines are correct" nccl:2.28.3:zero-cta $rows
done
check "the peer's fastest mode is reported" \
    "$(grep -q 'best of nccl:2.28.3 is [a-z-]*: \(it\|weir\|no\) ' "$scratch/out"; echo $?)"
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 1K -e 1K -n 5 --peer "$scratch/libold.so" \
    --csv "$scratch/a.csv"
ends "an old vendor library runs" 0
in_csv "an old vendor library is measured in its default mode" nccl:2.18.5 2
check "an old vendor library is measured in no other mode" \
    "$(grep -c nccl:2.18.5: "$scratch/a.csv")"
run env WEIR_NCCL_SO="$scratch/libnccl.so.2" ci/mpirun -np 2 "$bin/bench_allreduce_standin" \
    -b 1K -e 1K -n 5 --peer nccl:symmetric --csv "$scratch/a.csv"
ends "--peer nccl:MODE takes the library from WEIR_NCCL_SO" 0
in_csv "--peer nccl:MODE measures that mode" nccl:2.28.3:symmetric 2
in_csv "--peer nccl:MODE measures no other mode" nccl:2.28.3 0
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/libcrash.so"
ends "a vendor library that crashes when it is opened ends the run with 3" 3
says "a vendor library that crashes is reported" 'libcrash.so crashes when it is opened'
cat >"$scratch/reaper.c" <<'END'
#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
pid_t waitpid(pid_t child, int *state, int flags)
{
    if (syscall(SYS_wait4, child, state, flags, 0) == 0)
        return 0;
    *state = 0;
    errno = ECHILD;
    return -1;
}
END
"${MPICC:-mpicc}" -shared -fPIC -o "$scratch/reaper.so" "$scratch/reaper.c" || exit 3
run env LD_PRELOAD="$scratch/reaper.so" "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/libcrash.so"
ends "a vendor library whose trial another part of the process has reaped ends the run with 3" 3
says "what could not be learnt is reported" 'libcrash.so hangs, crashes or ends .* is unknown'
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/liblacks.so"
ends "a vendor library that lacks a function ends the run with 3" 3
says "a vendor library that lacks a function is reported with that function" \
    'liblacks.so has no ncclAllReduce'
run "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/none.so"
ends "a missing vendor library ends the run with 3" 3
says "a missing vendor library is reported" 'none.so: cannot open'
printf 'int other_mpi;\n' | "${CC:-cc}" -shared -fPIC -x c -o "$scratch/libmpi_other.so.12" -Wl,-soname,libmpi_other.so.12 - || exit 3
library libtwo.so -Wl,--no-as-needed "$scratch/libmpi_other.so.12" -Wl,-rpath,"$scratch"
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 1K -e 1K --peer "$scratch/libtwo.so"
ends "a vendor library that needs another MPI ends the run with 3" 3
says "both MPIs are named" 'two MPI libraries in one process, .*libmpi.* and .*/libmpi_other.so.12: .*WEIR_MPI_SO'
run ci/mpirun -np 2 "$bin/bench_allreduce_standin" -b 1K -e 1K -n 5 --peer "$scratch/libwrong.so"
ends "wrong results of a vendor library end the run with 1" 1
says "wrong results of a vendor library are reported with its name and version" \
    'wrong data: nccl:2.28.3'
# The library's tuner. Its own choice takes 200 us, ring/ll128 20 us up to 4 KiB and 600 us beyond.
tuned() {
    run ci/mpirun -np 1 "$bin/bench_allreduce_standin" -w 1 -n 36 --visits 12 --quiet --peer "$@"
}
if [ -r "${O:-build}/libnccl-tuner-weir.so" ]; then
    tuned "$scratch/libnccl.so.2" -b 4K -e 16K -f 4 --tune-nccl "$scratch/t.csv"
    ends "--tune-nccl runs" 0
    check "--tune-nccl writes a row for the size at which a setting is faster, and no other" \
        "$([ "$(grep -c '^allreduce,4096,4096,ring,ll128,[-0-9]*,1,1,-1,-1$' "$scratch/t.csv")" -eq 1 ] &&
            [ "$(grep -c '^allreduce' "$scratch/t.csv")" -eq 1 ]; echo $?)"
    check "--tune-nccl writes ncclx's JSON next to it" \
        "$(grep -q '"bytesPerRank": "\[4096,4096\]"' "$scratch/t.json"; echo $?)"
    echo 'allreduce,16384,16384,ring,ll128,-1,1,1' >>"$scratch/t.csv" # a row that hurts
    echo 'allreduce,8192,8192,tree,ll,-1,1,1' >>"$scratch/t.csv" # impossible
    versions=5
    ! long_part "other versions of the tuner's interface" || versions='3 4 5'
    for version in $versions; do
        library "libtuner$version.so" "-DSTANDIN_TUNER=$version"
        tuned "$scratch/libtuner$version.so" -b 2K -e 16K -f 2 --verify-nccl "$scratch/t.csv"
        ends "--verify-nccl runs with version $version of the tuner's interface" 0
        check "--verify-nccl says where a table helps and hurts, version $version" \
            "$(grep -q "4096 B: NCCL's choice takes [0-9.]*x as long " "$scratch/out" &&
                grep -q "16384 B: the table takes [0-9.]*x as long " "$scratch/out" &&
                grep -q 'helps 2 results, hurts 2, no difference shown in 0, no row for 4' "$scratch/out"; echo $?)"
    done
    echo 'allreduce,1' >>"$scratch/t.csv"
    tuned "$scratch/libnccl.so.2" --verify-nccl "$scratch/t.csv"
    ends "a table with a line that is no row is a usage error" 2
    says "the line is named" 't.csv:[0-9]*: expected collective,min bytes'
    run env NCCL_TUNER_PLUGIN=other ci/mpirun -np 1 "$bin/bench_allreduce_standin" \
        --peer "$scratch/libnccl.so.2" --tune-nccl "$scratch/u.csv"
    ends "another plug-in in the way ends the run with 3" 3
    says "the plug-in is named" 'NCCL_TUNER_PLUGIN names another plug-in, other; unset'
fi
run "$bin/bench_allreduce_standin" --tune-nccl "$scratch/u.csv"
ends "--tune-nccl without a peer is a usage error" 2
run "$bin/bench_alltoall_standin" --peer "$scratch/libnccl.so.2" --tune-nccl "$scratch/u.csv"
ends "--tune-nccl of sends and receives is a usage error" 2
says "the reason is named" 'NCCL does not ask its tuner about alltoall'
run "$bin/bench_allreduce_standin" --peer nccl:fast
ends "an unknown mode of a peer is a usage error" 2
finish
