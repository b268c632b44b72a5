#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2034 # slurm.inc reads it
SLURM_OF=13
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
nodes() { timeout 30 srun -N2 -n4 "$@" sh -c "echo \$SLURM_PROCID \$SLURMD_NODENAME" 2>/dev/null | sort | cut -d " " -f 2 | xargs; }
nodes
nodes -m cyclic
nodes --exclusive
nodes --ntasks-per-node=2' cons_tres) || { code=$?; echo "$seen"; exit $code; }
cat software
says "srun -N2 -n4 puts three tasks on the first of two nodes with four cores, and one on the second; -m cyclic only mixes their ranks, and --exclusive or --ntasks-per-node=2 make two and two"
expect "nodes of ranks 0 to 3" "na na na nb" "$(sed -n 1p <<<"$seen")"
expect "with -m cyclic" "na nb na na" "$(sed -n 2p <<<"$seen")"
expect "with --exclusive" "na na nb nb" "$(sed -n 3p <<<"$seen")"
expect "with --ntasks-per-node=2" "na na nb nb" "$(sed -n 4p <<<"$seen")"
finish
