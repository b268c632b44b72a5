/*
 * Measures the links of this machine (lib/base/links.h): of cores, and of GPUs.
 */
#ifndef TOPO_MEASURE_H
#define TOPO_MEASURE_H

#include "base/links.h"
#include "topo/topo.h"

/* Measures the links between the places of nranks ranks: one thread at each place reads what
 * another has written, through the caches and the memory of this machine. Keeps all places busy for
 * about 20 ms per pair and one second more. Local, blocking. WEIR_ERR_INVALID: fewer than two or
 * too many ranks; WEIR_ERR_NO_MEMORY, WEIR_ERR_SYSTEM. */
weir_status weiri_topo_measure_cores(const weiri_topo *topo, int nranks, weiri_links **links);

/* Measures the links between all GPUs. They read from one another by their copy engines, all at
 * once by kernels too, and the faster of the two counts; latencies are those of kernels that store
 * into each other's memory. Local, blocking. WEIR_ERR_UNSUPPORTED: fewer than two GPUs, two of them
 * cannot reach each other, or a build without CUDA. */
weir_status weiri_topo_measure_gpus(const weiri_topo *topo, weiri_links **links);

/* Prints links as text: a matrix of bandwidths, one of latencies, and what all links reach
 * together. Write errors stay in out's error flag. */
void weiri_topo_print_links(const weiri_links *links, FILE *out);

#endif
