#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian_packages libmpich12=4.0.2-3+b1 libmpich-dev=4.0.2-3+b1 libhwloc15=2.9.0-1 libucx0=1.13.1-1 libslurm38=22.05.8-4+deb12u3 \
    libgfortran5=12.2.0-14+deb12u1 libnuma1=2.0.16-1
says "in Debian 12's MPICH 4.0.2, MPI_MAX and MPI_MIN of unsigned integers compare as signed ones: of 1 and 2^31 the larger one is 1"
cat >max.c <<'C'
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const uint32_t one = 1;
    uint32_t most = UINT32_C(1) << 31, least = UINT32_C(1) << 31;
    MPI_Init(&argc, &argv);
    MPI_Reduce_local(&one, &most, 1, MPI_UINT32_T, MPI_MAX);
    MPI_Reduce_local(&one, &least, 1, MPI_UINT32_T, MPI_MIN);
    printf("%u %u\n", most, least);
    return MPI_Finalize();
}
C
arch=$(gcc -print-multiarch)
lib=$work/root/usr/lib/$arch
include=$(dirname "$(find root -name mpi.h | head -n 1)")
gcc -o max max.c -I"$include" -L"$lib" -Wl,-rpath-link,"$lib" -lmpich 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "max and min of 1 and 2147483648" "1 2147483648" "$(LD_LIBRARY_PATH=$lib:$lib/ucx timeout 60 ./max 2>/dev/null)"
finish
