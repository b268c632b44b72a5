#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian13_packages hwloc-nox=2.12.0-4
says "lstopo --restrict to processors of which the machine has none writes the whole topology and ends with code 0; only a line on standard error tells"
cores() { in_debian13 lstopo-no-graphics -i 'core:4 pu:1' --restrict "$1" --only core 2>error; echo $?; }
expect "restricted to one of 4 cores, and the code" "1 0" "$(cores 0x2 | sed '/^Core/d' | sed "s/^/$(cores 0x2 | grep -c '^Core') /")"
expect "restricted to a core that is not there" "4 0" "$(cores 0x100 | sed '/^Core/d' | sed "s/^/$(cores 0x100 | grep -c '^Core') /")"
cores 0x100 >/dev/null
expect "standard error" "Restricting the topology: Invalid argument" "$(grep Restricting error)"
finish
