/* The table of contract.h. */
#include "base/contract.h"

#include "base/error.h"

#define RESULT WEIRI_AFTER_RESULT
#define KEPT WEIRI_AFTER_KEPT
#define UNDEFINED WEIRI_AFTER_UNDEFINED

const weiri_contract weiri_contracts[] = {
    [WEIR_COLL_ALLREDUCE] = {.name = "allreduce",
                             .label = "AllReduce",
                             .nccl_function = "ncclAllReduce",
                             .mpi_function = "MPI_Allreduce",
                             .reduces = 1,
                             .bus = WEIRI_BUS_TWICE_OTHERS,
                             .in_place = WEIRI_IN_PLACE_CALLS,
                             .place = "in == out",
                             .out = {RESULT, RESULT},
                             .in_place_in = {RESULT, RESULT}},
    [WEIR_COLL_REDUCE_SCATTER] = {.name = "reduce_scatter",
                                  .label = "ReduceScatter",
                                  .nccl_function = "ncclReduceScatter",
                                  .mpi_function = "MPI_Reduce_scatter_block",
                                  .reduces = 1,
                                  .in_has_blocks = 1,
                                  .bus = WEIRI_BUS_OTHERS,
                                  .in_place = WEIRI_IN_PLACE_CALLS,
                                  .place = "out == in + rank * count",
                                  .out = {RESULT, RESULT},
                                  .in_place_in = {UNDEFINED, UNDEFINED}},
    [WEIR_COLL_ALLGATHER] = {.name = "allgather",
                             .label = "AllGather",
                             .nccl_function = "ncclAllGather",
                             .mpi_function = "MPI_Allgather",
                             .out_has_blocks = 1,
                             .bus = WEIRI_BUS_OTHERS,
                             .in_place = WEIRI_IN_PLACE_CALLS,
                             .place = "in == out + rank * count",
                             .out = {RESULT, RESULT},
                             .in_place_in = {KEPT, KEPT}},
    [WEIR_COLL_BROADCAST] = {.name = "broadcast",
                             .label = "Broadcast",
                             .nccl_function = "ncclBroadcast",
                             .mpi_function = "MPI_Bcast",
                             .has_root = 1,
                             .only_root_reads = 1,
                             .in_place = WEIRI_IN_PLACE_CALLS,
                             .place = "in == out",
                             .out = {RESULT, RESULT},
                             .in_place_in = {KEPT, RESULT}},
    [WEIR_COLL_REDUCE] = {.name = "reduce",
                          .label = "Reduce",
                          .nccl_function = "ncclReduce",
                          .mpi_function = "MPI_Reduce",
                          .reduces = 1,
                          .has_root = 1,
                          .in_place = WEIRI_IN_PLACE_CALLS,
                          .place = "in == out",
                          .out = {RESULT, KEPT},
                          .in_place_in = {RESULT, KEPT}},
    [WEIR_COLL_ALLTOALL] = {.name = "alltoall",
                            .label = "All2All",
                            .nccl_function = "ncclAlltoAll",
                            .mpi_function = "MPI_Alltoall",
                            .in_has_blocks = 1,
                            .out_has_blocks = 1,
                            .bus = WEIRI_BUS_OTHERS,
                            .in_place = WEIRI_IN_PLACE_PLANS,
                            .place = "in == out",
                            .out = {RESULT, RESULT},
                            .in_place_in = {RESULT, RESULT}},
    [WEIR_COLL_ALLTOALLV] = {.name = "alltoallv",
                             .label = "All2Allv",
                             .mpi_function = "MPI_Alltoallv",
                             .in_has_blocks = 1,
                             .out_has_blocks = 1,
                             .is_uneven = 1,
                             .bus = WEIRI_BUS_OTHERS,
                             .out = {RESULT, RESULT},
                             .in_place_in = {RESULT, RESULT}},
    [WEIR_COLL_SENDRECV] = {.name = "sendrecv",
                            .label = "SendRecv",
                            .mpi_function = "MPI_Sendrecv",
                            .is_uneven = 1,
                            .out = {RESULT, RESULT},
                            .in_place_in = {RESULT, RESULT}},
    [WEIRI_COLL_GATHER] = {.name = "gather",
                           .label = "Gather",
                           .nccl_function = "ncclGather",
                           .mpi_function = "MPI_Gather",
                           .out_has_blocks = 1,
                           .has_root = 1,
                           .bus = WEIRI_BUS_OTHERS,
                           .in_place = WEIRI_IN_PLACE_CALLS,
                           .place = "in == out + rank * count",
                           .out = {RESULT, KEPT},
                           .in_place_in = {KEPT, KEPT}},
    [WEIRI_COLL_SCATTER] = {.name = "scatter",
                            .label = "Scatter",
                            .nccl_function = "ncclScatter",
                            .mpi_function = "MPI_Scatter",
                            .in_has_blocks = 1,
                            .has_root = 1,
                            .only_root_reads = 1,
                            .bus = WEIRI_BUS_OTHERS,
                            .in_place = WEIRI_IN_PLACE_CALLS,
                            .place = "out == in + rank * count",
                            .out = {RESULT, RESULT},
                            .in_place_in = {KEPT, KEPT}},
    /* For a value that is no collective. */
    [WEIR_COLL_COUNT] = {.in_place = WEIRI_IN_PLACE_PLANS,
                         .out = {RESULT, RESULT},
                         .in_place_in = {UNDEFINED, UNDEFINED}},
};

static int ranges_overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

static weir_status refuse_overlap(const char *kind, const char *name, const char *place,
                                  const weiri_buffers *of)
{
    return weiri_fail(WEIR_ERR_INVALID, "%s%s: in and out %s; use two that do not overlap%s%s",
                      kind, name, of->in == of->out ? "are the same buffer" : "overlap",
                      place ? ", or " : "", place ? place : "");
}

weir_status weiri_contract_check_buffers(const weiri_contract *contract, const char *kind,
                                         const char *name, weiri_in_place possible, int rank,
                                         const weiri_buffers *of)
{
    const int can_be_in_place = contract->in_place >= possible;
    if (!contract->name ||
        !ranges_overlap((uintptr_t)of->in, of->in_bytes, (uintptr_t)of->out, of->out_bytes) ||
        (can_be_in_place && weiri_contract_is_in_place(contract, rank, of)))
        return WEIR_OK;
    return refuse_overlap(kind, name, can_be_in_place ? contract->place : NULL, of);
}

weir_status weiri_contract_check_splits(const weir_splits *splits, const char *kind,
                                        const char *name, size_t element_bytes, int nranks,
                                        const weiri_buffers *of)
{
    for (int to = 0; to < nranks; to++)
        for (int from = 0; from < nranks; from++)
            if (ranges_overlap((uintptr_t)of->in + splits->send_displs[to] * element_bytes,
                               splits->send_counts[to] * element_bytes,
                               (uintptr_t)of->out + splits->recv_displs[from] * element_bytes,
                               splits->recv_counts[from] * element_bytes))
                return refuse_overlap(kind, name, NULL, of);
    return WEIR_OK;
}
