#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps impi-rt==2021.19.0
says "the column #bytes of the Intel MPI Benchmarks (2019.1 and later) is what each rank receives in Reduce_scatter, and so a part of the operation's data; OSU's benchmarks, and IMB's older C version, print the whole"
# Prints the bytes of both sides of the library's calls.
cat >spy.c <<'C'
#include <stdio.h>

int PMPI_Type_size(int type, int *bytes);
int PMPI_Comm_size(int comm, int *ranks);
int PMPI_Comm_rank(int comm, int *rank);
int PMPI_Reduce_scatter(const void *in, void *out, const int *counts, int type, int op, int comm);

int MPI_Reduce_scatter(const void *in, void *out, const int *counts, int type, int op, int comm)
{
    int bytes = 0, ranks = 0, rank = 0, all = 0;
    PMPI_Type_size(type, &bytes);
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &rank);
    for (int i = 0; i < ranks; i++)
        all += counts[i];
    if (rank == 0)
        fprintf(stderr, "spy %d %d\n", all * bytes, counts[0] * bytes);
    return PMPI_Reduce_scatter(in, out, counts, type, op, comm);
}
C
gcc -shared -fPIC -o spy.so spy.c || exit 2
export I_MPI_ROOT=$work/venv LD_LIBRARY_PATH=$work/venv/lib
timeout 100 mpiexec.hydra -n 2 -genv LD_PRELOAD "$work/spy.so" IMB-MPI1 -msglog 12:12 -iter 1 -npmin 2 Reduce_scatter >imb.txt 2>spy.txt
expect "the row of IMB" "4096" "$(awk '$1 == 4096 && NF > 3 { print $1 }' imb.txt | head -n 1)"
expect "bytes of the whole operation, and bytes that rank 0 receives" "8192 4096" "$(sed -n 's/^spy //p' spy.txt | grep -vx '0 0' | tail -n 1)"
finish
