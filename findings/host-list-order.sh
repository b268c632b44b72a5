#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages python-hostlist==2.3.0 ClusterShell==1.10.1
says "readers of Slurm's host lists disagree about the order of n[2,1]: python-hostlist's command and ClusterShell sort it, and the function of the same package keeps it, as scontrol does; so the first host, which jobs take as their address, depends on the reader"
expect "command hostlist -e" "n1 n2" "$(hostlist -e 'n[2,1]' | xargs)"
expect "function expand_hostlist of the same package" "n2 n1" "$(python3 -c 'import hostlist; print(*hostlist.expand_hostlist("n[2,1]"))')"
expect "nodeset -e" "n1 n2" "$(nodeset -e 'n[2,1]')"
finish
