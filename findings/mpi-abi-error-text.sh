#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
says "in MPI 5's standard ABI MPI_Error_string describes the wrong error: MPI_ERR_ROOT reads as invalid group, MPI_ERR_TRUNCATE as other error; the text belongs to MPICH's own numbers"
cat >text.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const int codes[] = {MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_OP, MPI_ERR_TRUNCATE};
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 4; i++) {
        MPI_Error_string(codes[i], text, &length);
        printf("%s%s", i ? ", " : "", text);
    }
    puts("");
    return MPI_Finalize();
}
C
venv/bin/mpicc_abi -o abi text.c 2>compile.log && venv/bin/mpicc -o own text.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
export LD_LIBRARY_PATH=$work/venv/lib
expect "MPICH's own ABI: rank, root, op, truncate" "Invalid rank, Invalid root, Invalid MPI_Op, Message truncated" \
    "$(timeout 60 venv/bin/mpiexec -n 1 ./own)"
expect "the standard ABI" "Invalid rank, Invalid group, Invalid topology, Other MPI error" \
    "$(timeout 60 venv/bin/mpiexec -n 1 ./abi)"
finish
