#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps impi-rt==2021.19.0 >install.log 2>&1 || exit 2
echo "software: impi-rt 2021.19.0"
says "MPICH 5 and Intel MPI 2021.19 both have libmpi_abi.so.1, and one binary that is linked with either library runs under both launchers; MPICH's compiler for it is mpicc_abi"
cat >who.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, rank = 0, ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(text, &length);
    if (rank == 0)
        printf("%.5s %d\n", text, ranks);
    return MPI_Finalize();
}
C
mpicc_abi -o who who.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "the program needs" libmpi_abi.so.1 "$(readelf -d who | sed -n 's/.*NEEDED.*\[\(libmpi[^]]*\)\].*/\1/p')"
expect "MPICH's library and launcher" "MPICH 2" "$(LD_LIBRARY_PATH=$work/venv/lib timeout 60 venv/bin/mpiexec -n 2 ./who 2>&1)"
export I_MPI_ROOT=$work/other
expect "Intel MPI's library and launcher" "Intel 2" "$(LD_LIBRARY_PATH=$work/other/lib timeout 60 other/bin/mpiexec.hydra -n 2 ./who 2>&1)"
expect "Intel MPI's library under MPICH's launcher" "Intel 2" "$(LD_LIBRARY_PATH=$work/other/lib timeout 60 venv/bin/mpiexec -n 2 ./who 2>&1)"
expect "MPICH's library under Intel MPI's launcher" "MPICH 2" "$(LD_LIBRARY_PATH=$work/venv/lib timeout 60 other/bin/mpiexec.hydra -n 2 ./who 2>&1)"
finish
