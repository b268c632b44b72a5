/* The graphs that NCCL has made on a machine: see nccl_graph.c. Internal to this folder. */
#ifndef TOPO_NCCL_GRAPH_H
#define TOPO_NCCL_GRAPH_H

#include "topo/model.h"

/* A way through GPUs, which channels of a graph share. */
typedef struct nccl_way {
    int *gpus, ngpus;     /* of the machine, in order */
    long net_in, net_out; /* NCCL's numbers of the NICs at its ends; -1: none */
    int count;            /* channels that take it */
} nccl_way;

typedef struct nccl_graph {
    long id, pattern;
    double intra_gbs, inter_gbs; /* of a channel, within the node and between nodes */
    char intra[8], inter[8];     /* NCCL's words for the longest path: NVL, PIX, PHB, SYS */
    nccl_way *ways;
    int nways, nchannels;
} nccl_graph;

typedef struct nccl_graphs {
    nccl_graph *list;
    int count;
} nccl_graphs;

/* Reads a file of graphs (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE), which the caller frees.
 * WEIR_ERR_INVALID: it is not one, or not of this machine; the message has path and line. */
weir_status weiri_graphs_read(const char *path, const weiri_topo *topo, nccl_graphs *graphs);
void weiri_graphs_free(nccl_graphs *graphs);
/* "ring", "tree", ...; static. */
const char *weiri_graph_name(const nccl_graph *graph);
int weiri_graph_is_ring(const nccl_graph *graph);

#endif
