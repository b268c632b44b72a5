# Which kind of launcher starts the ranks. Sourced by tests of launched jobs.

# Hydra, the launcher of MPICH and Intel MPI. It kills the other ranks with SIGKILL when one dies, so
# that they cannot report, and ends with the signal of a rank that it killed; and it lets rank 0 wait in
# MPI_Init when other ranks have ended with an error. Ranks of MPICH poll while they wait, so that more
# of them than cores take many times as long.
launcher_is_hydra() {
    ! ${MPIRUN:-mpirun} --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE\|prterun'
}
