#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
printf "nb\nna\n" >hosts.wanted
export SLURM_HOSTFILE=hosts.wanted
timeout 60 srun -n2 -m arbitrary sh -c "echo rank \$SLURM_PROCID on \$SLURMD_NODENAME of \$SLURM_STEP_NODELIST"') || { code=$?; echo "$seen"; exit $code; }
cat software
says "with srun --distribution=arbitrary, Slurm starts rank 0 on the first node of the file, nb, but the step's list of nodes is sorted, na,nb; no variable of the other ranks names rank 0's node"
expect "rank 0" "rank 0 on nb of na,nb" "$(grep 'rank 0' <<<"$seen")"
expect "rank 1" "rank 1 on na of na,nb" "$(grep 'rank 1' <<<"$seen")"
finish
