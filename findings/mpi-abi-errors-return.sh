#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps impi-rt==2021.19.0 >install.log 2>&1 || exit 2
echo "software: impi-rt 2021.19.0"
says "Intel MPI's libmpi_abi.so.1 aborts the job at an error although MPI_ERRORS_RETURN is set and reported as set; its own ABI, and MPICH's library with the same binary, return the error"
cat >fault.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int value = 0, class = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    printf("%s", handler == MPI_ERRORS_RETURN ? "set" : "not set");
    fflush(stdout);
    MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, 9, MPI_COMM_WORLD), &class); /* no such root */
    printf(", %s\n", class == MPI_ERR_ROOT ? "returned" : "other");
    return MPI_Finalize();
}
C
venv/bin/mpicc_abi -o abi fault.c 2>compile.log && venv/bin/mpicc -o own fault.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
export I_MPI_ROOT=$work/other
job() { LD_LIBRARY_PATH=$work/$1/lib timeout 60 "$1/bin/mpiexec.hydra" -n 1 "$2" 2>/dev/null; }
expect "MPICH, standard ABI" "set, returned" "$(job venv ./abi)"
expect "Intel MPI, its own ABI" "set, returned" "$(job other ./own)"
expect "Intel MPI, standard ABI" "set" "$(job other ./abi | head -n 1 | sed 's/Abort.*//')"
finish
