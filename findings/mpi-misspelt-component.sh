#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian13_packages openmpi-bin=5.0.7-1 libopenmpi-dev=5.0.7-1
says "one component that does not exist, at the end of a list of good ones, ends the job in MPI_Init; after a caret it is ignored, and so is a parameter that does not exist"
cat >size.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("size%d\n", ranks);
    return MPI_Finalize();
}
C
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
in_debian13 mpicc.openmpi -o size size.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
two() { in_debian13 mpirun.openmpi -n 2 --mca "$1" "$2" ./size >out 2>said && xargs <out || echo fails; }
expect "btl self,sm" "size2 size2" "$(two btl self,sm)"
expect "btl self,sm,tpc" fails "$(two btl self,sm,tpc)"
expect "btl ^tpc" "size2 size2" "$(two btl ^tpc)"
expect "parameter btl_tpc_links" "size2 size2" "$(two btl_tpc_links 4)"
expect "what is said about it" "" "$(grep -v '^$' said)"
finish
