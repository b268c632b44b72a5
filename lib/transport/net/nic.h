/*
 * Which network card serves a rank: the one rule, for the `ib` wire, which looks at the ports of
 * this machine (rdma_port.h), and for weir-topo, which also reads machines that were recorded.
 */
#ifndef WEIR_TRANSPORT_NET_NIC_H
#define WEIR_TRANSPORT_NET_NIC_H

/* How far a card is from a GPU or from the cores of a rank: the closest thing that both are
 * below. The values are those of weiri_topo_path (topo/topo.h). */
typedef enum weiri_nic_distance {
    WEIRI_NIC_SAME_SWITCH = 1, /* a PCIe switch */
    WEIRI_NIC_SAME_ROOT,       /* a PCIe root complex */
    WEIRI_NIC_SAME_NUMA,       /* a NUMA node */
    WEIRI_NIC_FAR              /* the whole machine, or the place of one is unknown */
} weiri_nic_distance;

/* What the rule knows of a card or of one of its ports. */
typedef struct weiri_nic_view {
    int up;       /* 1 up, 0 down, -1 unknown */
    int verbs;    /* 1: verbs can drive it */
    int distance; /* weiri_nic_distance */
} weiri_nic_view;

/* Of count cards the one for a rank, or -1 if there is none: those that are down come last, those
 * that verbs can drive first, then the nearest; of equals, ordinal picks one, so that ranks with
 * the same choice spread over it. Local. */
int weiri_nic_pick(const weiri_nic_view *views, int count, int ordinal);

/* How many of the cards are as good as the one at index, itself included. */
int weiri_nic_equals(const weiri_nic_view *views, int count, int index);

/* "same-switch" and so on, as weir-topo says it. Static storage. */
const char *weiri_nic_distance_name(int distance);

#endif
