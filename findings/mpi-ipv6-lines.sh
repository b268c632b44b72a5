#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian13_packages openmpi-bin=5.0.7-1 libopenmpi-dev=5.0.7-1
says "if an interface has an IPv6 address besides that of its link, every rank of one host writes a line of an error to standard error, and the job succeeds"
cat >ranks.c <<'C'
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
in_debian13 mpicc.openmpi -o ranks ranks.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
cat >host <<'H'
ip link add test0 type veth peer name test1 && ip address add 10.78.0.1/24 dev test0 && ip link set test0 up && ip link set test1 up || exit 77
[ -z "$1" ] || ip address add "$1" dev test0 nodad || exit 77
mpirun.openmpi -n 2 ./ranks 2>&1 | grep -c 'Unable to find reachable pairing'
echo ${PIPESTATUS[0]}
H
expect "lines and code with IPv4" "0 0" "$(in_debian13 bash host '' | xargs)"
expect "with IPv6 as well" "2 0" "$(in_debian13 bash host fd00::2/64 | xargs)"
finish
