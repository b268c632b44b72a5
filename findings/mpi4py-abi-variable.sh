#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages mpi4py==4.1.2 mpich==5.0.2
says "mpi4py finds the MPI library of its own virtual environment, but not if MPI4PY_MPIABI names exactly that kind of library: the import then fails, or takes another library of the system"
seen() { env "$@" timeout 60 venv/bin/python -c "
from mpi4py import MPI
with open('/proc/self/maps') as maps:
    paths = {line.split()[-1] for line in maps if '/libmpi.' in line}
print(*('own' if path.startswith('$work/venv/') else 'another' for path in paths))" 2>/dev/null || echo fails; }
expect "as it is" own "$(seen)"
case $(seen MPI4PY_MPIABI=mpich) in own) word=own ;; *) word="not own" ;; esac
expect "MPI4PY_MPIABI=mpich" "not own" "$word"
expect "with MPI4PY_LIBMPI" own "$(seen MPI4PY_LIBMPI="$work/venv/lib/libmpi.so.12")"
finish
