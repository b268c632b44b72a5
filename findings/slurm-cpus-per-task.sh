#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2016 # expanded by the inner shells
cores='timeout 60 salloc -Q -N1 -n1 -c3 srun --exact -n1 sh -c "scontrol show step \$SLURM_JOB_ID.\$SLURM_STEP_ID" | sed -n "s/.*CPUs=\([0-9]*\).*/\1/p" | head -n 1'
older=$(slurm_two_nodes "$cores" cons_tres) || { code=$?; echo "$older"; exit $code; }
cat software
rm -r root state spool.*
SLURM_OF=13
newer=$(slurm_two_nodes "$cores" cons_tres) || { code=$?; echo "$newer"; exit $code; }
cat software
says "an exact step of Slurm 22.05 does not get the 3 cores per task for which its job asked with -c 3, and one of 24.11 does"
expect "cores of the step's task with 22.05 and 24.11" "1 3" "$older $newer"
finish
