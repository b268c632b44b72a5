#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian_packages hwloc-nox=2.9.0-1 libhwloc15=2.9.0-1
export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$work/$(dirname "$(find root -name 'libhwloc.so.15' | head -n 1)")
says "hwloc-calc ends with 0 for cores that the machine lacks: 9 of 8 gives the empty mask 0x0, a range gives what exists of it; hwloc-bind starts the program on those that exist"
calc() { root/usr/bin/hwloc-calc -i 'numa:2 core:4 pu:1' "$@" 2>/dev/null; echo "$?"; }
expect "core:7: mask, code" "0x00000080 0" "$(calc core:7 | xargs)"
expect "core:9" "0x0 0" "$(calc core:9 | xargs)"
expect "core:6-9" "0x000000c0 0" "$(calc core:6-9 | xargs)"
first=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
expect "hwloc-bind to a processor and one that is not there" "$first 0" \
    "$(root/usr/bin/hwloc-bind -p "pu:$first" pu:99999 -- sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status 2>/dev/null) $?"
finish
