#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian13_packages openmpi-bin=5.0.7-1 libopenmpi-dev=5.0.7-1 mpich=4.3.0+really4.2.1-1 libmpich-dev=4.3.0+really4.2.1-1
says "MPI_Abort with code 0 or 256 ends the job as if it had succeeded"
cat >abort.c <<'C'
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
C
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
in_debian13 sh -c 'mpicc.openmpi -o abort.openmpi abort.c && mpicc.mpich -o abort.mpich abort.c' 2>compile.log || { tail -n 3 compile.log; exit 2; }
codes() { for code in 0 256 300 7; do in_debian13 "mpirun.$1" -n 2 "./abort.$1" $code >/dev/null 2>&1; echo $?; done | xargs; }
expect "Open MPI 5.0.7 for 0, 256, 300 and 7" "0 0 44 7" "$(codes openmpi)"
expect "MPICH 4.2.1 for 0, 256, 300 and 7" "0 0 44 7" "$(codes mpich)"
finish
