#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
# shellcheck source=findings/slurm.inc
. "$here/slurm.inc"
# shellcheck disable=SC2016 # expanded by the inner shells
seen=$(slurm_two_nodes '
printf "%01500d\n" 1 >long
timeout 60 srun -n1 cat long | wc -l
timeout 60 srun -l -n1 cat long | awk "{ print length(\$0) }"') || { code=$?; echo "$seen"; exit $code; }
cat software
says "srun --label cuts a line after 1024 bytes and makes two lines of it, each with a label, so that a long line (JSON, a row of CSV) is no longer one; without the label it stays whole"
expect "lines of one of 1500 bytes without a label; lengths of the lines with one" "1 1027 479" "$(xargs <<<"$seen")"
finish
