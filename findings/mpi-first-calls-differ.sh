#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
says "in MPICH 5, the first four calls of MPI_Allreduce on a communicator add in another order than the fifth and later ones, so that equal calls differ in bits"
cat >same.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    /* Sums of these depend on the order. */
    static const float terms[4] = {1e8f, 1.5f, -1e8f, 3.25f};
    float sums[8];
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int call = 0; call < 8; call++)
        MPI_Allreduce(&terms[rank], &sums[call], 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < 8 && rank == 0; call++)
        printf("%s%s", call ? " " : "", memcmp(&sums[call], &sums[7], sizeof *sums) ? "other" : "last");
    if (rank == 0)
        puts("");
    return MPI_Finalize();
}
C
mpicc -o same same.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "calls that equal the last one" "other other other other last last last last" "$(timeout 60 mpiexec -n 4 ./same 2>/dev/null)"
finish
