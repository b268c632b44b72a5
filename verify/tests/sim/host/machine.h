/*
 * The machine of a simulation: a recorded topology (topo/machines), the places that
 * weiri_topo_place gives to the ranks, and the values from which times are computed.
 */
#ifndef WEIR_TESTS_SIM_HOST_MACHINE_H
#define WEIR_TESTS_SIM_HOST_MACHINE_H

#include <stddef.h>

enum { SIM_RANKS_MAX = 64, SIM_NODES_MAX = 8, SIM_CACHES_MAX = 64 };

/* How far a line is from a core: in its own caches; in those of a core with the same last-level
 * cache; elsewhere on its NUMA node; on another NUMA node. */
typedef enum sim_distance { SIM_OWN, SIM_CACHE, SIM_NODE, SIM_FAR, SIM_DISTANCES } sim_distance;

/* Assumed values; machine.c has them with their sources. Bandwidths: GB/s in each direction. */
typedef struct sim_values {
    const char *name;
    int is_amd;                    /* the library's choices for AMD's processors apply */
    double load_ns[SIM_DISTANCES]; /* per line of a copy or reduction */
    double store_ns[SIM_DISTANCES];
    double line_ns[SIM_DISTANCES]; /* latency of a line that another core has written */
    double serve_ns;               /* between two readers of the same line */
    double own_cache_bytes;        /* first and second level */
    double memory_gbs;             /* of a NUMA node's controllers */
    double link_gbs;               /* between two NUMA nodes */
    double port_gbs;               /* between a last-level cache and the rest; 0: no limit */
    double call_ns, page_ns;       /* of a copy by the kernel, and for each page of it */
} sim_values;

typedef struct sim_machine {
    int nranks, nnodes, ncaches;
    int node_of[SIM_RANKS_MAX];  /* 0 to nnodes - 1 */
    int cache_of[SIM_RANKS_MAX]; /* the last-level cache: 0 to ncaches - 1 */
    int node_of_cache[SIM_CACHES_MAX];
    double cache_bytes; /* of a last-level cache; 0: caches keep nothing */
    sim_values values;
} sim_machine;

/* Exits with a message if the file cannot be read, or there are more ranks than cores. values:
 * "xeon" or "epyc". */
void sim_machine_load(sim_machine *machine, const char *xml_path, int nranks, const char *values);

sim_distance sim_machine_distance(const sim_machine *machine, int from, int to);

#endif
