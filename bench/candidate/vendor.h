/*
 * A vendor's library of collectives (NCCL, RCCL, MCCL), opened at run time. The part of its
 * interface that is used is declared here, so that no header of it is needed; symbols start with
 * nccl or mccl. A child process opens the library first, so that a library that crashes, hangs or
 * lacks symbols is only reported.
 */
#ifndef BENCH_CANDIDATE_VENDOR_H
#define BENCH_CANDIDATE_VENDOR_H

#include <weir/weir.h>

#include <stddef.h>

/* The values of nccl.h; 0 is success. */
typedef int vendor_result;
typedef void *vendor_comm;
typedef struct vendor_id {
    char bytes[128];
} vendor_id;

/* All of ncclConfig_t in version 2.28: a library would read members beyond a shorter struct.
 * INT_MIN and NULL leave the choice to the library. */
typedef struct vendor_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share;
    int nvls_ctas, channels_per_net_peer, nvlink_centric_schedule;
} vendor_config;

enum {
    VENDOR_WINDOW_SYMMETRIC = 1, /* NCCL_WIN_COLL_SYMMETRIC */
    VENDOR_CTA_POLICY_ZERO = 2,  /* NCCL_CTA_POLICY_ZERO: copy engines where possible */
};

/* X(member, symbol without prefix, required, result, arguments); streams are cudaStream_t */
#define BENCH_VENDOR_MAP(X)                                                                        \
    X(get_version, "GetVersion", 1, vendor_result, (int *))                                        \
    X(get_unique_id, "GetUniqueId", 1, vendor_result, (vendor_id *))                               \
    X(error_string, "GetErrorString", 1, const char *, (vendor_result))                            \
    X(comm_init, "CommInitRank", 1, vendor_result, (vendor_comm *, int, vendor_id, int))           \
    X(comm_init_config, "CommInitRankConfig", 0, vendor_result,                                    \
      (vendor_comm *, int, vendor_id, int, vendor_config *))                                       \
    X(comm_split, "CommSplit", 0, vendor_result,                                                   \
      (vendor_comm, int, int, vendor_comm *, vendor_config *))                                     \
    X(comm_destroy, "CommDestroy", 1, vendor_result, (vendor_comm))                                \
    X(allreduce, "AllReduce", 1, vendor_result,                                                    \
      (const void *, void *, size_t, int, int, vendor_comm, void *))                               \
    X(reduce, "Reduce", 1, vendor_result,                                                          \
      (const void *, void *, size_t, int, int, int, vendor_comm, void *))                          \
    X(broadcast, "Broadcast", 1, vendor_result,                                                    \
      (const void *, void *, size_t, int, int, vendor_comm, void *))                               \
    X(reduce_scatter, "ReduceScatter", 1, vendor_result,                                           \
      (const void *, void *, size_t, int, int, vendor_comm, void *))                               \
    X(allgather, "AllGather", 1, vendor_result,                                                    \
      (const void *, void *, size_t, int, vendor_comm, void *))                                    \
    X(alltoall, "AlltoAll", 0, vendor_result,                                                      \
      (const void *, void *, size_t, int, vendor_comm, void *))                                    \
    X(send, "Send", 1, vendor_result, (const void *, size_t, int, int, vendor_comm, void *))       \
    X(recv, "Recv", 1, vendor_result, (void *, size_t, int, int, vendor_comm, void *))             \
    X(group_start, "GroupStart", 1, vendor_result, (void))                                         \
    X(group_end, "GroupEnd", 1, vendor_result, (void))                                             \
    X(mem_alloc, "MemAlloc", 0, vendor_result, (void **, size_t))                                  \
    X(mem_free, "MemFree", 0, vendor_result, (void *))                                             \
    X(window_register, "CommWindowRegister", 0, vendor_result,                                     \
      (vendor_comm, void *, size_t, void **, int))                                                 \
    X(window_deregister, "CommWindowDeregister", 0, vendor_result, (vendor_comm, void *))

typedef struct bench_vendor {
#define BENCH_VENDOR_MEMBER(member, symbol, needed, result, arguments) result(*member) arguments;
    BENCH_VENDOR_MAP(BENCH_VENDOR_MEMBER)
#undef BENCH_VENDOR_MEMBER
    void *library;
    int version;                          /* 22803 for 2.28.3 */
    char name[32];                        /* "nccl:2.28.3" */
    const struct bench_nccl_tuner *tuner; /* that forces settings; NULL: none */
} bench_vendor;

/* Opens the library at path; if that is NULL, WEIR_NCCL_SO, else the first of the usual names that
 * the loader finds. Takes ten seconds if the library hangs. On failure why (at most bytes) is one
 * line. The library stays open until the process ends, because such libraries cannot be unloaded.
 * Local, blocking. */
weir_status bench_vendor_open(const char *path, bench_vendor *vendor, char *why, size_t bytes);

/* The library's numbers of a type and of an operation. Pure. */
int bench_vendor_type(weir_dtype dtype);
int bench_vendor_op(weir_op op);

/* Enqueues a collective on a communicator of nranks ranks: calls that the library does not have,
 * and always alltoallv (with call->splits) and sendrecv, as a group of sends and receives. Blocking
 * or not, and thread-safe, as the library is. */
vendor_result bench_vendor_run(const bench_vendor *vendor, vendor_comm comm, int nranks,
                               const weir_call *call, void *stream);

#endif
