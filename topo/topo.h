/*
 * What a rank needs to know of its machine: NUMA nodes, cores, GPUs and NICs,
 * how near they are to one another, and where each rank of the machine should
 * run. hwloc does the discovery; this is the part of its answer that weir
 * uses, in weir's words.
 *
 * A topology is read only once it exists: threads may share it. Everything
 * here is local; nothing is collective. NUMA nodes carry the number that the
 * operating system gives them (as numactl shows), GPUs and NICs the position
 * in PCI address order. -1 stands for "none" or "unknown".
 */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdio.h>

#include <weir/weir.h>

typedef struct weiri_topo weiri_topo;

typedef struct weiri_topo_counts {
    int packages;
    int numa_nodes;
    int cores;
    int pus;          /* hardware threads */
    int usable_cores; /* with a hardware thread that this process may run on */
    int usable_pus;
    int gpus;
    int nics;
} weiri_topo_counts;

typedef struct weiri_topo_device {
    char name[32];  /* "cuda0", "gpu0" if no driver names it; "mlx5_0", "eth0" */
    char model[96]; /* "NVIDIA H200"; empty if unknown */
    char pci[16];   /* "0000:1b:00.0" */
    unsigned vendor_id;
    unsigned device_id;
    int numa;          /* -1: unknown, or spread over several nodes */
    double pcie_gbs;   /* PCIe link, GB/s; 0: unknown */
    double link_gbits; /* network link, Gbit/s; 0: unknown or no NIC */
    int link_up;       /* 1 up, 0 down, -1 unknown or no NIC */
    int openfabrics;   /* 1: verbs can drive it (InfiniBand, RoCE, Omni-Path) */
} weiri_topo_device;

/* Nearest first. Each names the closest thing that two devices have in common. */
typedef enum weiri_topo_path {
    WEIRI_TOPO_SELF,
    WEIRI_TOPO_SAME_SWITCH, /* a PCIe switch: traffic stays below the root */
    WEIRI_TOPO_SAME_ROOT,   /* a PCIe root complex */
    WEIRI_TOPO_SAME_NUMA,   /* a NUMA node */
    WEIRI_TOPO_CROSS_NUMA   /* the whole machine, or the place of one is unknown */
} weiri_topo_path;

enum { WEIRI_PLACE_CPUS_BYTES = 1024, WEIRI_TOPO_DIGEST_BYTES = 17 };

/* Where a rank runs. */
typedef struct weiri_place {
    int local_rank; /* among the ranks of this machine */
    int local_nranks;
    int bound;             /* 1: weiri_topo_bind has bound the process to cpus */
    int bound_by_launcher; /* 1: the launcher had; cpus are then its choice */
    int ncores;            /* cores that cpus touch */
    int sharers;           /* ranks that share these cores, this one included; 0: unknown */
    int numa;
    int gpu;
    int nic;
    char cpus[WEIRI_PLACE_CPUS_BYTES]; /* hardware threads as a list, "0-3,8" */
} weiri_place;

/* Discovers this machine within milliseconds: no GPU driver is asked. The
 * caller destroys the topology. WEIR_ERR_SYSTEM: hwloc failed. */
weir_status weiri_topo_discover(weiri_topo **topo);
/* The same, and asks the GPU drivers that hwloc has plug-ins for (names,
 * NVLink): this may take a second. */
weir_status weiri_topo_discover_full(weiri_topo **topo);
/* Reads a recorded machine (hwloc XML). WEIR_ERR_INVALID: not readable as one. */
weir_status weiri_topo_load(const char *xml_path, weiri_topo **topo);
/* Records the machine as hwloc XML, without host name, addresses and serial
 * numbers. WEIR_ERR_INVALID: the file cannot be written. */
weir_status weiri_topo_save(const weiri_topo *topo, const char *xml_path);
/* NULL is allowed. */
void weiri_topo_destroy(weiri_topo *topo);

/* 1: this machine; 0: a recorded one, to which nothing can be bound. */
int weiri_topo_is_live(const weiri_topo *topo);
void weiri_topo_count(const weiri_topo *topo, weiri_topo_counts *counts);
/* The device, which lives as long as topo; NULL outside 0..count-1. */
const weiri_topo_device *weiri_topo_gpu(const weiri_topo *topo, int gpu);
const weiri_topo_device *weiri_topo_nic(const weiri_topo *topo, int nic);
/* The GPU at a PCI address as CUDA or sysfs write it, either case; -1: none. */
int weiri_topo_gpu_by_pci(const weiri_topo *topo, const char *pci);

/* How far apart two devices are. */
weiri_topo_path weiri_topo_gpu_gpu(const weiri_topo *topo, int gpu_a, int gpu_b);
weiri_topo_path weiri_topo_gpu_nic(const weiri_topo *topo, int gpu, int nic);
/* "self", "same-switch", "same-root", "same-numa", "cross-numa". */
const char *weiri_topo_path_name(weiri_topo_path path);
/* NVLink bandwidth from a to b in GB/s, through NVSwitches too; 0 if there is
 * none or hwloc does not know. */
double weiri_topo_nvlink_gbs(const weiri_topo *topo, int gpu_a, int gpu_b);

/* The NIC for a GPU: ports that are down come last, devices that verbs can
 * drive before others, then the nearest. GPUs with the same choice spread over
 * it. gpu -1: no GPU is preferred. Returns -1 if there is no NIC. */
int weiri_topo_pick_nic(const weiri_topo *topo, int gpu);
/* Likewise for a rank without a GPU on a NUMA node; ordinal spreads ranks. */
int weiri_topo_pick_nic_at(const weiri_topo *topo, int numa, int ordinal);

/* Where a rank should run: a function of the topology alone, so that every
 * rank computes every rank's place. Rank i takes GPU i (modulo their number)
 * and cores of that GPU's NUMA node; without GPUs the ranks spread over the
 * usable cores. Ranks of a node split its cores among them; when there are
 * more ranks than cores, they take turns. Then nothing is bound yet.
 * WEIR_ERR_INVALID: local_rank outside 0..local_nranks-1. */
weir_status weiri_topo_place(const weiri_topo *topo, int local_rank, int local_nranks,
                             weiri_place *place);
/* Binds the process to place->cpus, unless the launcher bound it: then place
 * tells the launcher's choice. The launcher did if the process may not run on
 * every hardware thread of the machine, or if its environment says so. Called
 * again for a bound place it does nothing. WEIR_ERR_UNSUPPORTED: a recorded
 * machine; WEIR_ERR_SYSTEM: the operating system refuses (place is as before). */
weir_status weiri_topo_bind(const weiri_topo *topo, weiri_place *place);
/* Keeps the calling thread, alone of the process's, on the last core of a place that
 * weiri_topo_bind has bound to several, and tells that core in place: its distance from the
 * other ranks' is then the same in every start. (The first core of a machine is the one that
 * systems like to interrupt.) Does nothing where the launcher bound the process. WEIR_ERR_SYSTEM:
 * the operating system refuses (place is as before). */
weir_status weiri_topo_settle(const weiri_topo *topo, weiri_place *place);
/* The launcher that says in the environment that it bound this process, or
 * NULL. Static storage. */
const char *weiri_topo_launcher_binding(void);

/* 16 hexadecimal digits that are equal for machines of equal structure:
 * processor, cores and caches per NUMA node, devices, their addresses and
 * distances. Names, link states and this process's affinity do not count. */
void weiri_topo_digest(const weiri_topo *topo, char hex[WEIRI_TOPO_DIGEST_BYTES]);
/* "2 cores, 1 NUMA node, no GPU, 1 NIC, AMD EPYC", cut to bytes. */
void weiri_topo_summary(const weiri_topo *topo, char *text, size_t bytes);

/* The machine, the places of nranks ranks, and distances, for people or as one
 * JSON object. source says where topo comes from ("this machine", a path).
 * Errors: those of weiri_topo_place. Write errors stay in out (ferror). */
weir_status weiri_topo_print_text(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out);
weir_status weiri_topo_print_json(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out);

#endif
