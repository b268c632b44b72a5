/*
 * The RDMA ports of this node, read from Linux's /sys without any driver library; and the choice of
 * a port for a rank, with the reason as text. The ib transport opens the chosen port; weir-topo
 * shows it.
 */
#ifndef WEIR_TRANSPORT_NET_RDMA_PORT_H
#define WEIR_TRANSPORT_NET_RDMA_PORT_H

#include "transport/net/nic.h"
#include <weir/weir.h>

enum { WEIRI_RDMA_GIDS = 16, WEIRI_RDMA_PATH_BYTES = 256, WEIRI_RDMA_GID_TEXT_BYTES = 48 };

typedef enum weiri_rdma_gid_type {
    WEIRI_GID_IB,     /* InfiniBand */
    WEIRI_GID_ROCE_1, /* in Ethernet frames */
    WEIRI_GID_ROCE_2  /* in UDP */
} weiri_rdma_gid_type;

typedef struct weiri_rdma_gid {
    int index;
    unsigned char bytes[16];
    weiri_rdma_gid_type type;
} weiri_rdma_gid;

typedef struct weiri_rdma_port {
    char device[64]; /* "mlx5_0" */
    int port;        /* from 1 */
    int active;
    char state[24];                   /* "ACTIVE", "DOWN" */
    int ethernet;                     /* link layer: 1 Ethernet (RoCE), 0 InfiniBand */
    double gbits;                     /* 0: unknown */
    int is_software;                  /* implemented by the kernel (soft-RoCE), without a NIC */
    char netdev[32];                  /* its Ethernet interface, or empty */
    char path[WEIRI_RDMA_PATH_BYTES]; /* of its PCI device in /sys/devices; empty: it has none */
    int numa;                         /* -1: unknown */
    weiri_rdma_gid gids[WEIRI_RDMA_GIDS]; /* the first ones */
    int ngids;
} weiri_rdma_port;

/* The rank that a port is chosen for. */
typedef struct weiri_rdma_user {
    char gpu[WEIRI_RDMA_PATH_BYTES]; /* the GPU's path in /sys/devices; empty: none */
    int numa;                        /* of its cores, if it has no GPU; -1: unknown */
    int ordinal;                     /* spreads ranks over equal ports */
} weiri_rdma_user;

/* A choice, and its reason. */
typedef struct weiri_rdma_choice {
    int port; /* index in the table */
    int gid;  /* index in its gids */
    char why[256];
} weiri_rdma_choice;

/* Lists the ports below sys ("/sys"), sorted by name; the caller frees *ports. It is not an
 * error if there are none. Local. WEIR_ERR_NO_MEMORY. */
weir_status weiri_rdma_ports(const char *sys, weiri_rdma_port **ports, int *count);

/* The path in /sys/devices of a PCI address such as "0000:1b:00.0"; 0 if there is none. */
int weiri_rdma_pci_path(const char *sys, const char *address, char path[WEIRI_RDMA_PATH_BYTES]);
/* Its NUMA node; -1: unknown. */
int weiri_rdma_numa_of(const char *sys, const char *address);
/* The NUMA node of the cores that this process may run on; -1 if there are several, or unknown. */
int weiri_rdma_own_numa(const char *sys);
weiri_nic_distance weiri_rdma_distance(const weiri_rdma_user *user, const weiri_rdma_port *port);

/* Chooses a port by state and distance, and one of its GIDs. wanted_hca ("mlx5_0", "mlx5_0:1") and
 * wanted_gid (an index) override the choice unless NULL and -1. Local. WEIR_ERR_UNSUPPORTED if no
 * port is usable (no device, no active port, no GID); WEIR_ERR_INVALID if the wanted port or GID
 * does not exist. The error text lists the alternatives and the remedy. */
weir_status weiri_rdma_choose(const weiri_rdma_port *ports, int count, const weiri_rdma_user *user,
                              const char *wanted_hca, long wanted_gid, weiri_rdma_choice *choice);

/* The GID of a port that connections should use, by index in its gids; -1: none. RoCE: version 2
 * before 1, IPv4 before IPv6 before link-local. */
int weiri_rdma_best_gid(const weiri_rdma_port *port);
/* "10.9.9.1", "fe80::1": a GID as an address. */
void weiri_rdma_gid_text(const weiri_rdma_gid *gid, char text[WEIRI_RDMA_GID_TEXT_BYTES]);
int weiri_rdma_gid_is_ipv4(const unsigned char bytes[16]);
/* "InfiniBand", "RoCE v1", "RoCE v2". Static storage. */
const char *weiri_rdma_gid_type_name(weiri_rdma_gid_type type);

#endif
