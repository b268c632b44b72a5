/*
 * The picture of a node as SVG: NUMA nodes next to each other, each with its GPUs above its NICs,
 * lines from GPUs to the NICs that weir would choose, and NVLinks above the GPUs. weir-topo draws
 * the machine that it finds, weir-report one that a file describes. It is drawn in shades of the
 * text's colour, so that colours keep their meaning elsewhere on a page. Local.
 */
#ifndef WEIR_PROGRAMS_PICTURE_H
#define WEIR_PROGRAMS_PICTURE_H

#include <stdio.h>

enum { WEIRI_PICTURE_NODES = 16, WEIRI_PICTURE_DEVICES = 64 };

typedef struct weiri_picture_node {
    int numa;
    double memory_bytes; /* 0: unknown */
    const char *cpus;    /* "0-7" */
} weiri_picture_node;

typedef struct weiri_picture_device {
    const char *name, *model; /* texts are borrowed and never NULL */
    int numa;                 /* -1: unknown */
    int number;               /* of a NIC: what a GPU's nic refers to */
    int nic;                  /* of a GPU: the NIC that weir would choose; -1: none */
    double pcie_gbs;          /* of a GPU; 0: unknown */
    double link_gbits;        /* of a NIC; 0: unknown */
    int is_down;              /* of a NIC */
} weiri_picture_device;

/* A way from GPU to GPU, such as a ring: a line below the machine, with a number at each GPU. */
typedef struct weiri_picture_way {
    char label[32];
    const int *gpus; /* borrowed */
    int ngpus, is_closed;
} weiri_picture_way;

/* What exceeds the arrays is left out. */
typedef struct weiri_picture {
    const char *title, *summary; /* borrowed, never NULL */
    weiri_picture_node nodes[WEIRI_PICTURE_NODES];
    weiri_picture_device gpus[WEIRI_PICTURE_DEVICES], nics[WEIRI_PICTURE_DEVICES];
    int nnodes, ngpus, nnics;
    const weiri_picture_way *ways; /* borrowed */
    int nways;
    double nvlink_gbs[WEIRI_PICTURE_DEVICES][WEIRI_PICTURE_DEVICES]; /* from, to; 0: no link */
} weiri_picture;

/* Writes the SVG element. is_file: 1 makes it a complete file, with the summary as title. Texts
 * are escaped. Write errors stay in the file's error flag. */
void weiri_picture_put(const weiri_picture *picture, int is_file, FILE *file);

#endif
