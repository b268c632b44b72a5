#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian_packages libhwloc15=2.9.0-1 libhwloc-dev=2.9.0-1
says "on a topology read from an XML file, hwloc_set_cpubind returns 0 and binds nothing, even to a processor that this machine lacks and with HWLOC_CPUBIND_STRICT; hwloc_get_cpubind answers with all processors of the file"
cat >bind.c <<'C'
#define _GNU_SOURCE
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>

int main(void)
{
    hwloc_topology_t made, read;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    cpu_set_t before, after;
    char text[64];
    hwloc_topology_init(&made);
    hwloc_topology_set_synthetic(made, "numa:2 core:512 pu:1");
    hwloc_topology_load(made);
    hwloc_topology_export_xml(made, "topology.xml", 0);
    hwloc_topology_init(&read);
    hwloc_topology_set_xml(read, "topology.xml");
    hwloc_topology_load(read);
    sched_getaffinity(0, sizeof before, &before);
    hwloc_bitmap_only(set, 1023);
    const int status = hwloc_set_cpubind(read, set, HWLOC_CPUBIND_STRICT);
    sched_getaffinity(0, sizeof after, &after);
    printf("%d %s", status, CPU_EQUAL(&before, &after) ? "unchanged" : "changed");
    printf(" %d", hwloc_get_cpubind(read, set, 0));
    hwloc_bitmap_list_snprintf(text, sizeof text, set);
    printf(" %s %d\n", text, hwloc_topology_is_thissystem(read));
    return 0;
}
C
lib=root/usr/lib/$(gcc -print-multiarch)
gcc -o bind bind.c -Iroot/usr/include -L"$lib" -lhwloc 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "binding to processor 1023: status, the process's processors; then the status and answer of a query, whether it is this system" \
    "0 unchanged 0 0-1023 0" "$(LD_LIBRARY_PATH=$work/$lib ./bind)"
finish
