/*
 * The structure of a topology, internal to this folder: hwloc's tree, and the tables that are read
 * out of it once.
 */
#ifndef TOPO_MODEL_H
#define TOPO_MODEL_H

#include <hwloc.h>

#include "topo/topo.h"
#include "transport/net/rdma_port.h"

/* One device: what callers see, and where it sits in hwloc's tree. */
typedef struct weiri_topo_entry {
    weiri_topo_device device;
    hwloc_obj_t pci;
} weiri_topo_entry;

typedef struct weiri_topo_table {
    weiri_topo_entry *entries; /* in PCI address order */
    int count;
} weiri_topo_table;

struct weiri_topo {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t usable; /* hardware threads this process may run on; of a recorded machine all */
    hwloc_obj_type_t core_type; /* cores; hardware threads where no core is reported */
    weiri_topo_table gpus, nics;
    weiri_rdma_port *ports; /* of a live machine, ordered by name */
    int nports;
    double *nvlink_gbs; /* [from * gpus.count + to]; NULL if nothing is known */
};

/* PCI vendors whose GPUs compute. */
enum { WEIRI_VENDOR_NVIDIA = 0x10de, WEIRI_VENDOR_AMD = 0x1002, WEIRI_VENDOR_INTEL = 0x8086 };

/* Info attributes that discovery adds to hwloc's objects, so that a recording
 * keeps what hwloc itself does not report. */
#define WEIRI_TOPO_INFO_MODEL "GPUModel"
#define WEIRI_TOPO_INFO_HIDDEN "WeirHidden"
#define WEIRI_TOPO_INFO_COMPUTE "WeirCompute"
#define WEIRI_TOPO_INFO_LINK_GBITS "WeirLinkGbits"
#define WEIRI_TOPO_INFO_LINK_STATE "WeirLinkState"
#define WEIRI_TOPO_INFO_PCIE "WeirPCIe"       /* "32.0 GT/s PCIe x16": what the link can do */
#define WEIRI_TOPO_INFO_SM "WeirSM"           /* of a GPU: "90", its compute capability */
#define WEIRI_TOPO_INFO_LINKS "WeirLinks"     /* "nvlink 0000:f3:00.0 5 0x068000;", each link */
#define WEIRI_TOPO_INFO_SWITCH "WeirSwitch"   /* of a bridge: it stands for a whole switch */
#define WEIRI_TOPO_INFO_SOURCE "WeirSource"   /* of the machine: "NCCL" described it */
#define WEIRI_TOPO_INFO_THREADS "WeirThreads" /* of the machine: "unknown" */

/* Checks that a file is XML of hwloc in a version that the library reads. WEIR_ERR_INVALID: it is
 * not, with what it is instead, as far as its first tag shows. */
weir_status weiri_topo_check_recording(const char *xml_path);
/* 1 if a file's first tag is that of NCCL's topology files; 0 otherwise, or if it is unreadable. */
int weiri_topo_is_nccl_file(const char *path);

/* Hides the variables by which hwloc would describe another machine, until
 * weiri_topo_restore_redirections, which must follow. A second thread waits meanwhile. */
void weiri_topo_hide_redirections(void);
void weiri_topo_restore_redirections(void);

/* Adds the info attributes above from sysfs and procfs. Live machines only. */
void weiri_topo_annotate(hwloc_topology_t hwloc);
/* 1 if a folder of AMD's driver ("/sys/class/kfd/kfd/topology/nodes") lists the device as one that
 * computes for this process. */
int weiri_topo_amd_computes(const char *folder, const struct hwloc_pcidev_attr_s *at);
/* Adds what NVIDIA's driver (NVML) knows about GPUs: compute capability and links. Nothing if there
 * is no driver. */
void weiri_topo_annotate_nvml(hwloc_topology_t hwloc);
/* GB/s of one NVLink in one direction, by the GPU's compute capability. Pure. */
double weiri_nvlink_gbs(int capability);
/* The machine as NCCL describes it, which has fewer facts. The caller destroys it. */
weir_status weiri_topo_nccl_view(const weiri_topo *topo, weiri_topo **view);
/* 1 if NCCL has described the machine. */
int weiri_topo_is_nccl(const weiri_topo *topo);
/* 0: NCCL's file does not list them, and one stands for those of a NUMA node. */
int weiri_topo_knows_threads(const weiri_topo *topo);
/* Fill topo->gpus, topo->nics; topo->nvlink_gbs. WEIR_ERR_NO_MEMORY. */
weir_status weiri_topo_collect_devices(weiri_topo *topo);
weir_status weiri_topo_collect_nvlink(weiri_topo *topo);

/* Draws the machine and ways through its GPUs as an SVG file. */
struct weiri_picture_way;
void weiri_topo_draw(const weiri_topo *topo, const struct weiri_picture_way *ways, int nways,
                     FILE *out);
/* Fills topo->ports from this machine. WEIR_ERR_NO_MEMORY. */
weir_status weiri_topo_collect_ports(weiri_topo *topo);
/* Chooses the port and GID that the `ib` transport of a rank in this place uses, and the reason.
 * Errors: those of weiri_rdma_choose. */
weir_status weiri_topo_choose_port(const weiri_topo *topo, const weiri_place *place,
                                   weiri_rdma_choice *choice);
weiri_topo_path weiri_topo_gpu_port(const weiri_topo *topo, int gpu, int port);

/* The device at a PCI address, upper or lower case; -1: none. Pure. */
int weiri_topo_find(const weiri_topo_table *table, const char *pci);
/* Returns a set as a list ("0-3,8"), which the caller frees; NULL without memory. */
char *weiri_topo_list(hwloc_const_bitmap_t cpus);
/* The PCI device that an OS device belongs to, or NULL. */
hwloc_obj_t weiri_topo_pci_of(hwloc_obj_t osdev);
/* 1 for a PCI device that is a GPU which a compute runtime can use. */
int weiri_topo_is_gpu(hwloc_obj_t pci);
/* The NUMA node that contains all cores of a normal object (of a device: of its first normal
 * ancestor), or -1. */
int weiri_topo_numa_of(const weiri_topo *topo, hwloc_obj_t object);
/* The processor's name as hwloc reports it, or "". */
const char *weiri_topo_processor(const weiri_topo *topo);

#endif
