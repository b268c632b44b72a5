/*
 * NCCL's library for expert parallelism (libnccl_ep.so), opened at run time. The part of its
 * interface that is used is declared here, so that no header of it is needed: that of API 1
 * (EP 0.1). Its structs carry their sizes, and API 2 (EP 0.2) reads of a shorter one what it has.
 */
#ifndef BENCH_MOE_NCCL_EP_H
#define BENCH_MOE_NCCL_EP_H

#include <stddef.h>
#include <stdint.h>

typedef int nccl_ep_result; /* ncclResult_t; 0 is success */

enum {
    NCCL_EP_MAGIC = (int)0xC00FFFEE,
    NCCL_EP_TENSOR_MAGIC = (int)0xCAFECAFE,
    NCCL_EP_API = 1,
    NCCL_EP_LOW_LATENCY = 0,
    NCCL_EP_EXPERT_MAJOR = 1,
    /* ncclDataType_t */
    NCCL_EP_INT32 = 2,
    NCCL_EP_INT64 = 4,
    NCCL_EP_FLOAT = 7,
    NCCL_EP_BFLOAT16 = 9,
};

typedef struct nccl_ep_tensor {
    unsigned size, magic, ndim;
    int datatype;
    void *data, *window;
    uint64_t window_offset;
    size_t *sizes;
} nccl_ep_tensor;

/* The numbers that 0 leaves to the library are not named here. */
typedef struct nccl_ep_config {
    unsigned size, magic, version;
    int algorithm;
    unsigned experts, max_tokens, max_recv_tokens, max_token_bytes;
    unsigned long rdma_bytes;
    unsigned queue_pairs, channels, max_sms;
    void *allocator[3];
    unsigned enable_mask;
    uint64_t timeout_ns;
} nccl_ep_config;

typedef struct nccl_ep_layout_info {
    unsigned size, magic;
    nccl_ep_tensor *expert_counters, *source_counters, *expert_offsets, *total;
} nccl_ep_layout_info;

typedef struct nccl_ep_dispatch_inputs {
    unsigned size, magic;
    nccl_ep_tensor *tokens, *weights, *scales;
} nccl_ep_dispatch_inputs;

typedef struct nccl_ep_dispatch_outputs {
    unsigned size, magic;
    nccl_ep_tensor *tokens, *weights, *scales, *experts;
} nccl_ep_dispatch_outputs;

/* Of combine, both inputs and outputs. */
typedef struct nccl_ep_combined {
    unsigned size, magic;
    nccl_ep_tensor *tokens, *weights;
} nccl_ep_combined;

/* X(member, symbol, arguments) */
#define BENCH_NCCL_EP_MAP(X)                                                                       \
    X(get_version, "ncclEpGetVersion", (int *))                                                    \
    X(create_group, "ncclEpCreateGroup", (void **, void *, const nccl_ep_config *))                \
    X(destroy_group, "ncclEpGroupDestroy", (void *))                                               \
    X(init_handle, "ncclEpInitHandle",                                                             \
      (void **, void *, int, const void *, int, const nccl_ep_tensor *))                           \
    X(update_handle, "ncclEpUpdateHandle",                                                         \
      (void *, const nccl_ep_tensor *, const nccl_ep_layout_info *, void *))                       \
    X(destroy_handle, "ncclEpHandleDestroy", (void *))                                             \
    X(dispatch, "ncclEpDispatch",                                                                  \
      (void *, const nccl_ep_dispatch_inputs *, const nccl_ep_dispatch_outputs *,                  \
       const nccl_ep_layout_info *, const void *, void *))                                         \
    X(combine, "ncclEpCombine",                                                                    \
      (void *, const nccl_ep_combined *, const nccl_ep_combined *, const void *, void *))

typedef struct bench_nccl_ep {
#define BENCH_NCCL_EP_MEMBER(member, symbol, arguments) nccl_ep_result(*member) arguments;
    BENCH_NCCL_EP_MAP(BENCH_NCCL_EP_MEMBER)
#undef BENCH_NCCL_EP_MEMBER
    int version; /* 100 for 0.1.0 */
} bench_nccl_ep;

/* Opens the library at path; NULL: by its usual names. It stays open until the process ends. On
 * failure why (at most bytes) is one line, and -1 is returned. Local. */
int bench_nccl_ep_open(const char *path, bench_nccl_ep *library, char *why, size_t bytes);

#endif
