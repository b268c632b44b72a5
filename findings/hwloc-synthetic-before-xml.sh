#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian13_packages hwloc-nox=2.12.0-4
says "a description in HWLOC_SYNTHETIC replaces the topology of the file that HWLOC_XMLFILE names, without a word, even if that file does not exist"
in_debian13 lstopo-no-graphics --of xml -f -i 'core:3 pu:1' three.xml 2>/dev/null
cores() { in_debian13 env "$@" lstopo-no-graphics --only core 2>/dev/null | wc -l; }
expect "cores with the file of 3 cores, with a description of 5, with both" "3 5 5" \
    "$(cores HWLOC_XMLFILE=three.xml) $(cores HWLOC_SYNTHETIC='core:5 pu:1') $(cores HWLOC_XMLFILE=three.xml HWLOC_SYNTHETIC='core:5 pu:1')"
expect "what is said about a missing file" "" \
    "$(in_debian13 env HWLOC_XMLFILE=absent.xml HWLOC_SYNTHETIC='core:5 pu:1' lstopo-no-graphics --only core 2>&1 >/dev/null | grep -v 'NUMA level')"
finish
