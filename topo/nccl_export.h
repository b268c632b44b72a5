/*
 * A machine in the form that NCCL reads (NCCL_TOPO_FILE): see nccl_export.c. Internal to this
 * folder.
 */
#ifndef TOPO_NCCL_EXPORT_H
#define TOPO_NCCL_EXPORT_H

#include "topo/model.h"

enum { GUEST_DEVICES_MOST = 512, GUEST_NODES_MOST = 64 };

/* What a virtual machine calls the host's devices and NUMA nodes. */
typedef struct topo_guest {
    struct guest_device {
        char host[16], guest[16]; /* PCI addresses */
        int line;
    } devices[GUEST_DEVICES_MOST];
    struct guest_node {
        long long host, guest;
        hwloc_bitmap_t cpus; /* the guest's hardware threads */
    } nodes[GUEST_NODES_MOST];
    int ndevices, nnodes;
} topo_guest;

/* Reads a map of a machine's devices, which the caller frees. WEIR_ERR_INVALID: a line is not part
 * of a map, or names what the machine does not have; the message has path and line. */
weir_status weiri_guest_read(const char *path, const weiri_topo *topo, topo_guest *guest);
void weiri_guest_free(topo_guest *guest);
/* What the map has for a device or a node; NULL if it has nothing. Pure. */
const struct guest_device *weiri_guest_device(const topo_guest *guest, const char *pci);
const struct guest_node *weiri_guest_node(const topo_guest *guest, int numa);

/* Writes the machine, or if guest is not NULL that virtual machine on it. Write errors stay in the
 * file's error flag. */
void weiri_nccl_export(const weiri_topo *topo, const topo_guest *guest, FILE *to);

#endif
