/* Draws a machine's structure, read from the output of weir-topo --json, as SVG in the page. */
#ifndef RESULTS_READ_TOPOLOGY_H
#define RESULTS_READ_TOPOLOGY_H

#include <jansson.h>
#include <stdio.h>

/* Draws NUMA nodes next to each other, each with its GPUs above its NICs, lines from GPUs to the
 * NICs that weir would choose, and a bar across GPUs joined by NVLink. The file is not trusted:
 * texts are escaped, numbers are bounded, and what does not fit is left out. */
void results_topology_put(const json_t *topology, FILE *page);

#endif
