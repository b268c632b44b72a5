#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps impi-rt==2021.19.0 >install.log 2>&1 || exit 2
echo "software: impi-rt 2021.19.0"
says "while only an MPI session is open, MPI_Initialized answers true in Intel MPI and false in MPICH, so that it does not tell whether MPI_COMM_WORLD may be used"
cat >session.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    int before, during;
    MPI_Initialized(&before);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Initialized(&during);
    printf("%d %d\n", before, during);
    return MPI_Session_finalize(&session);
}
C
venv/bin/mpicc -o session session.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
export I_MPI_ROOT=$work/other
job() { LD_LIBRARY_PATH=$work/$1/lib timeout 60 "$1/bin/mpiexec.hydra" -n 1 ./session 2>/dev/null; }
expect "MPICH: before, while the session is open" "0 0" "$(job venv)"
expect "Intel MPI" "0 1" "$(job other)"
finish
