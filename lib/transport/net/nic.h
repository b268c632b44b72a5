/*
 * The rule by which a rank's NIC is chosen. It is shared by the ib transport, which applies it to
 * the ports of this node (rdma_port.h), and by weir-topo, which also applies it to recorded nodes.
 */
#ifndef WEIR_TRANSPORT_NET_NIC_H
#define WEIR_TRANSPORT_NET_NIC_H

/* The distance of a NIC from a GPU or from a rank's cores: the closest common ancestor. The values
 * are those of weiri_topo_path (topo/topo.h). */
typedef enum weiri_nic_distance {
    WEIRI_NIC_SAME_SWITCH = 1, /* a PCIe switch */
    WEIRI_NIC_SAME_ROOT,       /* a PCIe root complex */
    WEIRI_NIC_SAME_NUMA,       /* a NUMA node */
    WEIRI_NIC_FAR              /* another NUMA node, or a location is unknown */
} weiri_nic_distance;

/* The properties of a NIC, or of one of its ports, that the rule uses. */
typedef struct weiri_nic_view {
    int up;       /* 1 up, 0 down, -1 unknown */
    int verbs;    /* 1: verbs can drive it */
    int distance; /* weiri_nic_distance */
} weiri_nic_view;

/* Returns the index of the NIC for a rank, or -1 if count is 0. Prefers NICs that are not down,
 * then those with verbs, then the nearest. ordinal selects among equals, so that ranks with the
 * same choice spread over them. Local. */
int weiri_nic_pick(const weiri_nic_view *views, int count, int ordinal);

/* How many NICs are as good as the one at index, itself included. */
int weiri_nic_equals(const weiri_nic_view *views, int count, int index);

/* "same-switch" etc., as weir-topo prints it. Static storage. */
const char *weiri_nic_distance_name(int distance);

#endif
