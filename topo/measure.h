/*
 * Measures the links of this machine (lib/base/links.h): of cores, and of GPUs.
 */
#ifndef TOPO_MEASURE_H
#define TOPO_MEASURE_H

#include "base/links.h"
#include "topo/topo.h"

/* Endpoints are the places of nranks ranks, a thread each, which read from one another
 * through the caches and the memory of this machine. Keeps all of them busy, for about 20 ms
 * a pair and a second beyond. Local, blocking. WEIR_ERR_INVALID: fewer than two or too many
 * ranks; WEIR_ERR_NO_MEMORY, WEIR_ERR_SYSTEM. */
weir_status weiri_topo_measure_cores(const weiri_topo *topo, int nranks, weiri_links **links);

/* Endpoints are the GPUs, which read from one another by their copy engines, all at once by
 * kernels too, whichever is faster; latencies are those of kernels that store into each other's
 * memory. Local, blocking. WEIR_ERR_UNSUPPORTED:
 * fewer than two GPUs, no way between two of them, or a build without CUDA. */
weir_status weiri_topo_measure_gpus(const weiri_topo *topo, weiri_links **links);

/* Links for people: a matrix of bandwidths, one of latencies, and what all do together. Write
 * errors stay in out. */
void weiri_topo_print_links(const weiri_links *links, FILE *out);

#endif
