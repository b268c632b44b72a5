#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
timeout 60 salloc -Q -N2 -n4 srun -N1 -n1 -w nb sh -c "echo \$SLURM_NTASKS \$SLURM_NNODES \$SLURM_NODEID \$SLURM_TASKS_PER_NODE; echo \$SLURM_NODELIST \$SLURM_STEP_NODELIST"') || { code=$?; echo "$seen"; exit $code; }
cat software
says "in a step on the second of two nodes, the variables without STEP in their names describe the step (tasks, nodes, node 0), except SLURM_NODELIST, which is the job's, so that its first node has no rank"
expect "SLURM_NTASKS, NNODES, NODEID, TASKS_PER_NODE" "1 1 0 1" "$(head -n 1 <<<"$seen")"
expect "SLURM_NODELIST, STEP_NODELIST" "na,nb nb" "$(tail -n 1 <<<"$seen")"
finish
