/*
 * NCCL's description of a machine as read (nccl.c) and as hwloc XML (nccl_write.c). Internal to
 * this folder.
 */
#ifndef TOPO_NCCL_H
#define TOPO_NCCL_H

#include <hwloc.h>

#include "topo/small_xml.h"

typedef struct nccl_bus {
    unsigned domain, bus, device, function;
} nccl_bus;

/* A <pci>. */
typedef struct nccl_pci {
    const weiri_xml_element *gpu; /* its <gpu>; NULL: none */
    nccl_bus bus;
    unsigned low, high; /* the buses below it, itself included, in its domain */
    int depth;          /* 1: below a <cpu> */
    unsigned class_id;
    long vendor, device; /* 0: unknown */
    double pcie_gbs;     /* 0: unknown */
    int is_switch, is_gpu;
} nccl_pci;

typedef struct nccl_cpu {
    const weiri_xml_element *element;
    long numa;
    hwloc_bitmap_t cpus;
} nccl_cpu;

typedef struct nccl_machine {
    weiri_xml xml;
    nccl_cpu *cpus;
    int ncpus;
    hwloc_bitmap_t all; /* hardware threads */
    int hides_threads;  /* 1: some are invented */
    nccl_pci *pcis;     /* by element; unused for elements that are no <pci> */
    nccl_pci **gpus;
    int ngpus;
    double *direct_gbs; /* [from * ngpus + to]: links between two GPUs */
    double *switch_gbs; /* of each GPU to NVSwitches */
} nccl_machine;

/* Of a processor: NCCL's attribute, and hwloc's. */
enum { WEIRI_NCCL_FACTS = 4 };
extern const char *const weiri_nccl_facts[WEIRI_NCCL_FACTS][2];

/* Reads a file, whose path must live as long as machine. The caller frees it, even after an error.
 * WEIR_ERR_INVALID: it cannot be read, or is not NCCL's description of one machine; the message has
 * path and line. */
weir_status weiri_nccl_read(const char *path, nccl_machine *machine);
void weiri_nccl_free(nccl_machine *machine);
/* Reads the address of a PCI device. Returns 0 if text is none. */
int weiri_nccl_address(const char *text, nccl_bus *bus);
/* GB/s of a PCIe link of some GT/s and lanes, as hwloc counts them. Pure. */
double weiri_nccl_pcie_gbs(double rate, long width);
/* What is known of a <pci>. Pure. */
nccl_pci *weiri_nccl_pci(const nccl_machine *machine, const weiri_xml_element *element);
/* The first link at or after an element among its siblings; NULL: none. Pure. */
const weiri_xml_element *weiri_nccl_link(const weiri_xml_element *element);
/* Bandwidth between two GPUs by links and switches, in one direction; 0: none. */
double weiri_nccl_link_gbs(const nccl_machine *machine, int from, int to);
/* Translates a file to hwloc XML, which the caller frees. Errors: those of weiri_nccl_read. */
weir_status weiri_nccl_translate(const char *path, char **xml, size_t *bytes);

#endif
