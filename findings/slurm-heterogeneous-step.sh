#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2034 # slurm.inc reads it
SLURM_OF=13
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
part="echo \$SLURM_PROCID \$SLURM_LOCALID \$SLURM_NODEID \$SLURM_NTASKS \$SLURM_STEP_NODELIST \$SLURM_JOB_ID.\$SLURM_STEP_ID"
timeout 60 srun -N1 -n1 sh -c "$part" : -N1 -n2 sh -c "$part" 2>/dev/null | sort' cons_tres) || { code=$?; echo "$seen"; exit $code; }
cat software
says "the tasks of a heterogeneous step, of which each part is a job of its own, have one numbering, the number of all tasks, the list of all nodes and the same numbers of job and step, as if the step were not heterogeneous"
expect "PROCID, LOCALID and NODEID of tasks 0 to 2" "0 0 0, 1 0 1, 2 1 1" "$(cut -d ' ' -f 1-3 <<<"$seen" | paste -sd , | sed 's/,/, /g')"
expect "NTASKS and STEP_NODELIST" "3 na,nb" "$(cut -d ' ' -f 4-5 <<<"$seen" | sort -u)"
expect "different pairs of job and step" 1 "$(cut -d ' ' -f 6 <<<"$seen" | sort -u | wc -l)"
finish
