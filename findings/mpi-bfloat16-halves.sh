#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
python_packages --no-deps mpich==5.0.2
says "MPICH 5 rounds a bfloat16 sum that lies halfway between two numbers away from zero; IEEE's default rounds it to even"
cat >sum.c <<'C'
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    /* 256 and 1: the sum 257 lies between the neighbours 256 and 258, of which 256 is even. */
    const uint16_t one = 0x3f80;
    uint16_t sum = 0x4380;
    MPI_Init(&argc, &argv);
    MPI_Reduce_local(&one, &sum, 1, MPIX_BFLOAT16, MPI_SUM);
    printf("%#x\n", sum);
    return MPI_Finalize();
}
C
mpicc -o sum sum.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "256 + 1 (256 is 0x4380, 258 is 0x4381)" 0x4381 "$(./sum 2>/dev/null)"
finish
