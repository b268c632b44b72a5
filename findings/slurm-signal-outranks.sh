#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2034 # slurm.inc reads it
SLURM_OF=13
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
both() { timeout 30 srun -N2 -n2 sh -c "if [ \$SLURM_PROCID = $1 ]; then exit 200; else $2; fi" 2>/dev/null; echo $?; }
echo $(both 0 "exit 150") $(both 0 "kill -TERM \$\$") $(both 1 "kill -TERM \$\$") $(both 1 "kill -HUP \$\$")') || { code=$?; echo "$seen"; exit $code; }
cat software
says "srun returns the largest exit code of its tasks, but if a signal ended one of them 128 plus the signal's number, even if another task's code is larger"
expect "codes 200 and 150; 200 and SIGTERM; SIGTERM and 200; SIGHUP and 200" "200 143 143 129" "$seen"
finish
