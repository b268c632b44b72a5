#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps mpich==5.0.2
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps impi-rt==2021.19.0 >install.log 2>&1 || exit 2
echo "software: impi-rt 2021.19.0"
says "of ranks that end with different codes, MPICH's launcher returns the bitwise OR, so that 1 and 2 give 3, and Intel MPI's the code of the lowest rank"
# The ranks call no MPI, and end at the same time.
printf '#!/bin/sh\nsleep 0.5\neval "exit \\$CODE"\n' >rank && chmod +x rank
both() { timeout 60 "$1" -n 1 env CODE="$2" ./rank : -n 1 env CODE="$3" ./rank >/dev/null 2>&1; echo $?; }
expect "MPICH: 1 and 2" 3 "$(both venv/bin/mpiexec 1 2)"
expect "MPICH: 4 and 8" 12 "$(both venv/bin/mpiexec 4 8)"
export I_MPI_ROOT=$work/other
expect "Intel MPI: 1 and 2" 1 "$(both other/bin/mpiexec.hydra 1 2)"
expect "Intel MPI: 2 and 1" 2 "$(both other/bin/mpiexec.hydra 2 1)"
finish
