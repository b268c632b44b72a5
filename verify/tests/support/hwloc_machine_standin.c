/*
 * A stand-in of hwloc_topology_load, preloaded: the recorded machine that STANDIN_MACHINE names
 * takes the place of this one. Programs of weir do not obey hwloc's own variables for that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hwloc.h>
#include <stdlib.h>

int hwloc_topology_load(hwloc_topology_t topology)
{
    int (*load)(hwloc_topology_t);
    *(void **)&load = dlsym(RTLD_NEXT, "hwloc_topology_load");
    const unsigned long flags = hwloc_topology_get_flags(topology);
    if (hwloc_topology_set_flags(topology, flags | HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM) != 0 ||
        hwloc_topology_set_xml(topology, getenv("STANDIN_MACHINE")) != 0)
        return -1;
    return load(topology);
}
