/* A machine's structure, as weir-topo --json tells it, as a picture (SVG in the page). */
#ifndef RESULTS_READ_TOPOLOGY_H
#define RESULTS_READ_TOPOLOGY_H

#include <jansson.h>
#include <stdio.h>

/* NUMA nodes side by side, in each its GPUs above its NICs, lines from GPUs to the NICs that
 * weir takes for them, a bar where NVLink joins them. Nothing of the file is trusted: texts are
 * escaped, numbers bounded; what does not fit is left out. */
void results_topology_put(const json_t *topology, FILE *page);

#endif
