/*
 * The hardware of a node as ranks need it: NUMA nodes, cores, GPUs and NICs, how close they are to
 * one another, and where each rank of the node should run. hwloc discovers it; weir uses a part of
 * what it finds. A topology does not change once it exists, so threads may share it. All functions
 * are local. NUMA nodes have the numbers of the operating system (as numactl shows them); GPUs and
 * NICs are numbered in PCI address order. -1 means "none" or "unknown".
 */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdio.h>

#include <weir/weir.h>

typedef struct weiri_topo weiri_topo;

typedef struct weiri_topo_counts {
    int packages, numa_nodes, cores;
    int pus;          /* hardware threads */
    int usable_cores; /* with a hardware thread that this process may run on */
    int usable_pus, gpus, nics;
} weiri_topo_counts;

typedef struct weiri_topo_device {
    char name[32];  /* "cuda0", "gpu0" if no driver names it; "mlx5_0", "eth0" */
    char model[96]; /* "NVIDIA H200"; empty if unknown */
    char pci[16];   /* "0000:1b:00.0" */
    unsigned vendor_id, device_id;
    int numa;          /* -1: unknown, or spread over several nodes */
    double pcie_gbs;   /* PCIe link, GB/s; 0: unknown */
    double link_gbits; /* network link, Gbit/s; 0: unknown or no NIC */
    int link_up;       /* 1 up, 0 down, -1 unknown or no NIC */
    int openfabrics;   /* 1: a device with verbs (InfiniBand, RoCE, Omni-Path) */
} weiri_topo_device;

/* The closest component that two devices share, closest first. */
typedef enum weiri_topo_path {
    WEIRI_TOPO_SELF,
    WEIRI_TOPO_SAME_SWITCH, /* a PCIe switch: traffic stays below the root */
    WEIRI_TOPO_SAME_ROOT,   /* a PCIe root complex */
    WEIRI_TOPO_SAME_NUMA,   /* a NUMA node */
    WEIRI_TOPO_CROSS_NUMA   /* the machine only, or the location of one device is unknown */
} weiri_topo_path;

enum { WEIRI_TOPO_DIGEST_BYTES = 17 };

/* Where a rank runs. weiri_place_free frees the list. */
typedef struct weiri_place {
    int local_rank; /* among the ranks of this node */
    int local_nranks;
    int bound;             /* 1: weiri_topo_bind has bound the process to cpus */
    int bound_by_launcher; /* 1: the launcher had bound it; cpus are then its choice */
    int ncores;            /* cores that contain cpus */
    int sharers;           /* ranks that share these cores, this one included; 0: unknown */
    int numa, gpu, nic;
    char *cpus; /* hardware threads as a list, "0-3,8" */
} weiri_place;

/* Discovers this machine within milliseconds, without starting GPU drivers. Variables by which
 * hwloc describes another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC) do not count. The caller
 * destroys the topology. WEIR_ERR_SYSTEM: hwloc failed. */
weir_status weiri_topo_discover(weiri_topo **topo);
/* The same, including what GPU drivers report through hwloc's plug-ins (names, NVLink); may take a
 * second. */
weir_status weiri_topo_discover_full(weiri_topo **topo);
/* Reads a recorded machine (hwloc XML). The caller destroys the topology. WEIR_ERR_INVALID: the
 * file is not a readable recording. */
weir_status weiri_topo_load(const char *xml_path, weiri_topo **topo);
/* Reads NCCL's description of a machine (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE; RCCL's has the same
 * form). The caller destroys the topology. WEIR_ERR_INVALID: the file is not one, with path and
 * line. */
weir_status weiri_topo_load_nccl(const char *path, weiri_topo **topo);
/* Reads either, by the file's first tag. */
weir_status weiri_topo_load_any(const char *path, weiri_topo **topo);
/* Records the machine as hwloc XML, without host name, addresses and serial numbers.
 * WEIR_ERR_INVALID: the file cannot be written. */
weir_status weiri_topo_save(const weiri_topo *topo, const char *xml_path);
/* Writes the machine for NCCL (NCCL_TOPO_FILE); map: a file that says how a virtual machine names
 * its devices, which makes the file that machine's; NULL: none. WEIR_ERR_INVALID: the map is wrong,
 * or the file cannot be written. */
weir_status weiri_topo_save_nccl(const weiri_topo *topo, const char *map, const char *path);
/* The name of a variable that is set and by which hwloc would describe another machine; NULL: none.
 * Static storage. */
const char *weiri_topo_redirection(void);
/* NULL is allowed. */
void weiri_topo_destroy(weiri_topo *topo);

/* 1: this machine; 0: a recorded one, to which processes cannot be bound. */
int weiri_topo_is_live(const weiri_topo *topo);
void weiri_topo_count(const weiri_topo *topo, weiri_topo_counts *counts);
/* The device, which lives as long as topo; NULL if the index is outside 0..count-1. */
const weiri_topo_device *weiri_topo_gpu(const weiri_topo *topo, int gpu);
const weiri_topo_device *weiri_topo_nic(const weiri_topo *topo, int nic);
/* The GPU at a PCI address in the notation of CUDA or sysfs, upper or lower case; -1 if there is
 * none. */
int weiri_topo_gpu_by_pci(const weiri_topo *topo, const char *pci);

/* The closest component that two devices share. */
weiri_topo_path weiri_topo_gpu_gpu(const weiri_topo *topo, int gpu_a, int gpu_b);
weiri_topo_path weiri_topo_gpu_nic(const weiri_topo *topo, int gpu, int nic);
/* "self", "same-switch", "same-root", "same-numa", "cross-numa". */
const char *weiri_topo_path_name(weiri_topo_path path);
/* NVLink bandwidth from a to b in GB/s, including NVSwitches; 0 if there is none or hwloc does not
 * report it. */
double weiri_topo_nvlink_gbs(const weiri_topo *topo, int gpu_a, int gpu_b);

/* The NIC for a GPU: ports that are down come last, devices with verbs come first, then the
 * closest. GPUs for which several NICs are equal are distributed over them. gpu -1: no GPU is
 * preferred. Returns -1 if there is no NIC. */
int weiri_topo_pick_nic(const weiri_topo *topo, int gpu);
/* The same for a rank without a GPU on a NUMA node; ordinal distributes ranks. */
int weiri_topo_pick_nic_at(const weiri_topo *topo, int numa, int ordinal);

/* Computes where a rank should run. This is a function of the topology and the number of ranks
 * alone, so every rank computes every rank's place. Rank i uses GPU i (modulo their number) and
 * cores of that GPU's NUMA node; without GPUs the ranks are spread over the usable cores. Ranks of
 * a NUMA node divide its cores; if there are more ranks than cores, they share cores. Binds
 * nothing. The caller frees the place. WEIR_ERR_INVALID: local_rank is outside 0..local_nranks-1.
 */
weir_status weiri_topo_place(const weiri_topo *topo, int local_rank, int local_nranks,
                             weiri_place *place);
/* The same for all ranks: a list that the caller frees with weiri_places_free. */
weir_status weiri_topo_places(const weiri_topo *topo, int local_nranks, weiri_place **places);
void weiri_place_free(weiri_place *place);
void weiri_places_free(weiri_place *places, int local_nranks);
/* Changes the place to these cpus, "0-3,8". Returns 0, and changes nothing, if the list is none or
 * the process may not run on all of them. */
int weiri_topo_want(const weiri_topo *topo, const char *cpus, weiri_place *place);
/* Binds the process to place->cpus, unless the launcher has bound it: then sets place to the
 * launcher's choice. The launcher counts as having bound the process if the kernel does not let it
 * run on every hardware thread of the machine, except if is_common is 1: all of several ranks of
 * this node may run on the same hardware threads, so they inherited them (from taskset, a Slurm
 * step, a container) and divide them. Does nothing for a place that is bound already.
 * WEIR_ERR_UNSUPPORTED: a recorded machine; WEIR_ERR_SYSTEM: the operating system refuses (place is
 * unchanged). */
weir_status weiri_topo_bind(const weiri_topo *topo, int is_common, weiri_place *place);
/* Binds the calling thread, and no other, to the last core of a place that weiri_topo_bind has
 * bound to several cores, and sets place to that core: its distance from the other ranks is then
 * the same in every run. (Operating systems tend to interrupt the first core of a machine.) Does
 * nothing if the launcher bound the process. WEIR_ERR_SYSTEM: the operating system refuses (place
 * is unchanged). */
weir_status weiri_topo_settle(const weiri_topo *topo, weiri_place *place);
/* Binds the calling thread to the usable cores that are closest to a GPU, so that memory which it
 * then touches first is close to the GPU too; gpu -1: to all usable cores. Does nothing if no
 * usable core is close. WEIR_ERR_SYSTEM: the operating system refuses. */
weir_status weiri_topo_visit_gpu(const weiri_topo *topo, int gpu);
/* 1 if the user asked Open MPI, which started this process, for a binding, and it was carried
 * out. */
int weiri_topo_asked_openmpi(void);

/* Writes 16 hexadecimal digits that are equal for machines of equal structure: processor, cores and
 * caches per NUMA node, devices, their addresses and distances. Names, link states and this
 * process's affinity do not count. */
void weiri_topo_digest(const weiri_topo *topo, char hex[WEIRI_TOPO_DIGEST_BYTES]);
/* Writes "2 cores, 1 NUMA node, no GPU, 1 NIC, AMD EPYC", truncated to bytes. */
void weiri_topo_summary(const weiri_topo *topo, char *text, size_t bytes);

/* Prints the kinds of the nodes whose records (--save) are the .xml files of a folder, with the
 * number of nodes of each. */
weir_status weiri_topo_print_kinds(const char *folder, FILE *out);
/* Prints the hardware, the places of nranks ranks, and distances, as text or as one JSON object.
 * source describes where topo comes from ("this machine", a path). Errors, before anything is
 * written: those of weiri_topo_place. Write errors stay in out's error flag. */
weir_status weiri_topo_print_text(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out);
weir_status weiri_topo_print_json(const weiri_topo *topo, const char *source, int nranks,
                                  FILE *out);
/* Prints what differs between two machines, a line each, or that nothing does. found: the number of
 * differences. If NCCL has described one of them, only what NCCL knows is compared. */
weir_status weiri_topo_diff(const weiri_topo *a, const char *name_a, const weiri_topo *b,
                            const char *name_b, FILE *out, int *found);
/* Prints the graphs (rings, trees) that NCCL has made on the machine, a file of
 * NCCL_GRAPH_DUMP_FILE. WEIR_ERR_INVALID: the file is not one, or names GPUs that topo lacks. */
typedef enum weiri_graph_form {
    WEIRI_GRAPH_TEXT,
    WEIRI_GRAPH_JSON,
    WEIRI_GRAPH_SVG
} weiri_graph_form;
weir_status weiri_topo_print_graphs(const weiri_topo *topo, const char *path, weiri_graph_form form,
                                    FILE *out);
/* Draws the hardware as an SVG file. Write errors stay in out's error flag. */
void weiri_topo_print_svg(const weiri_topo *topo, FILE *out);

#endif
