/*
 * libibverbs, loaded at run time when an ib transport is opened first, so that a node without it
 * runs everything else. Building needs only its headers. Functions that the headers define inline
 * (polling, posting) use the device's own table and are called as usual.
 */
#ifndef WEIR_TRANSPORT_NET_IB_VERBS_H
#define WEIR_TRANSPORT_NET_IB_VERBS_H

#include <weir/weir.h>

#include <infiniband/verbs.h>

/* The headers define macros of these names, which would call the library directly. */
#undef ibv_query_port
#undef ibv_reg_mr

typedef struct weiri_verbs {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *base, size_t bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *own,
                                struct ibv_comp_channel *channel, int vector);
    int (*resize_cq)(struct ibv_cq *cq, int entries);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **own);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    int (*fork_init)(void);
    /* NULL if the library is older. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access);
} weiri_verbs;

/* Returns the library, loaded once per process; any thread. WEIR_ERR_UNSUPPORTED if it is
 * missing or too old; the text names the package. */
weir_status weiri_verbs_load(const weiri_verbs **verbs);

#endif
