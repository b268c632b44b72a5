#!/bin/sh
# Verification end to end: runs verify/tests/cli/mpi_check.c under mpirun with 1, 2, 3 and 5 ranks.
# It performs every collective correctly and with every fault that verification claims to find, and
# reports for each whether the verdict was correct. Run from the repository's root.
set -u
# shellcheck source=verify/tests/support/long.inc
. verify/tests/support/long.inc
. verify/tests/support/launcher.sh

build=${O:-build}
mpicc=${MPICC:-mpicc}
program=$build/tests/mpi_check
log=$(mktemp) || exit 3
trap 'rm -f "$log"' EXIT

if ! command -v "$mpicc" >/dev/null 2>&1; then
    echo "ok 1 - verify under mpirun # SKIP $mpicc is absent; ci/deps installs an MPI"
    echo "1..1"
    exit 0
fi

mkdir -p "$build/tests"
if ! "${CC:-cc}" -std=gnu11 -O2 -Ilib/include -Ilib -I. -o "$program" verify/tests/cli/mpi_check.c "$build"/obj/verify/*.o \
    "$build/libweir.a" -lm -pthread >"$log" 2>&1; then
    sed 's/^/# /' "$log"
    echo "not ok 1 - mpi_check compiles (make lib first)"
    echo "1..1"
    exit 1
fi

limit_s=120
! launcher_is_hydra || limit_s=800
several='1 2 3 5'
long_part "2 and 5 ranks" || several='1 3'
# signed_mpi: benchmarks over an MPI that compares unsigned integers as signed: weir is right, the
# header names the fault, and the peer is refused.
signed_mpi() {
    preload=$build/tests/mpi_signed.so
    "$mpicc" -shared -fPIC -O2 -o "$preload" verify/tests/support/mpi_signed.c || return 1
    for type in uint8 uint32 uint64; do
        for op in max min; do
            # shellcheck disable=SC2016
            timeout "$limit_s" ci/mpirun -np 2 sh -c 'LD_PRELOAD=$0 exec ./bench_allreduce "$@"' \
                "$preload" -d "$type" -o "$op" -b 1K -e 1K -n 2 -w 1 --verify mpi --peer mpi \
                >"$log" 2>&1
            code=$?
            if [ "$code" -eq 0 ] && grep -q 'compares unsigned integers as signed' "$log" &&
                grep -q "this MPI compares $type as signed in $op" "$log"; then
                echo "ok - an MPI that compares $type as signed in $op is named, and weir passes"
            else
                sed 's/^/# /' "$log"
                echo "not ok - an MPI that compares $type as signed in $op: exit code $code"
            fi
        done
    done
}

# The exit code is a separate check, so that a crash before the last line fails too.
{
signed_mpi
for ranks in $several; do
    timeout "$limit_s" ci/mpirun -np "$ranks" "$program" 2>"$log"
    code=$?
    if [ "$code" -eq 0 ]; then
        echo "ok - mpi_check with $ranks ranks ended with exit code 0"
    else
        sed 's/^/# /' "$log"
        echo "not ok - mpi_check with $ranks ranks ended with exit code $code"
    fi
done
} | awk '
    /^(not )?ok - / {
        n++
        if ($1 == "not") failed++
        sub(/ok - /, "ok " n " - ")
    }
    { print }
    END { print "1.." n; exit failed > 0 }'
