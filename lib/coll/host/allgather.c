/*
 * Allgather on the host.
 *
 * packet: every rank publishes its input piece by piece in its slot and copies the others' from
 *         theirs.
 * direct: every rank publishes a descriptor of its input and copies from the others' buffers,
 *         beginning with its successor, so that no two ranks read the same one at once.
 * cma:    the same; the kernel copies from buffers that cannot be mapped.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "allgather (packet)";
static const char direct_phase[] = "allgather (direct)";

static void allgather_place_own(const weiri_coll *coll, const weiri_task *task)
{
    weiri_place_own(coll, task, weiri_out_at(task, (size_t)coll->rank * task->count_bytes),
                    task->count_bytes * (size_t)coll->nranks);
}

/* While two ranks wait for each other, each requests the lines that it will store to next. */
static void allgather_request_next(const weiri_coll *coll, size_t bytes)
{
    if (!coll->trades || bytes <= WEIRI_INLINE_BYTES)
        return;
    weiri_slot *slot = weiri_slot_in(coll, coll->epoch + 1, coll->rank);
    weiri_request_for_writing(slot,
                              sizeof *slot + (bytes < WEIRI_NEXT_BYTES ? bytes : WEIRI_NEXT_BYTES));
}

static weir_status allgather_packet_run(weiri_coll *coll, const weiri_task *task)
{
    int n = coll->nranks;
    weiri_copy_fn *copy = weiri_slot_copy(coll, task->count_bytes * (size_t)n);
    for (size_t done = 0; done < task->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, task->count_bytes, done);
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot_publish(coll, coll->epoch, weiri_in_at(task, done), total, WEIRI_CHUNK_BYTES,
                           weiri_copy_to_peer);
        if (done == 0)
            allgather_place_own(coll, task);
        allgather_request_next(coll, total);
        for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
            char *to = weiri_out_at(task, (size_t)rank * task->count_bytes + done);
            status =
                weiri_slot_follow(coll, rank, to, total, WEIRI_CHUNK_BYTES, copy, packet_phase);
            if (status != WEIR_OK)
                return status;
        }
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}

/* Copies from the buffers whose descriptors the ranks have published. */
static weir_status allgather_fetch(weiri_coll *coll, const weiri_task *task)
{
    int n = coll->nranks;
    weir_status status = WEIR_OK;
    allgather_place_own(coll, task);
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
        status = weiri_fetch(coll, rank, weiri_post_of(coll, rank)->in, 0,
                             weiri_out_at(task, (size_t)rank * task->count_bytes),
                             task->count_bytes, task->count_bytes * (size_t)n);
        if (status != WEIR_OK)
            return status;
    }
    return weiri_coll_end_together(coll, direct_phase);
}

static weir_status allgather_direct_run(weiri_coll *coll, const weiri_task *task)
{
    int all_in, all_out,
        lends = weiri_reads_unregistered(coll, task) &&
                weiri_lends_unregistered(coll, task->call->collective);
    weir_status status = weiri_posts_exchange(coll, task->call->in, task->count_bytes,
                                              lends ? WEIRI_LENDS_ANY : WEIRI_LENDS_MAPPED, NULL, 0,
                                              &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in && !weiri_posts_are_readable(coll))
        return weiri_algo_fall_back_plain(coll, task);
    if (!all_in)
        coll->last_algo = "cma";
    return allgather_fetch(coll, task);
}

static weir_status allgather_cma_run(weiri_coll *coll, const weiri_task *task)
{
    int all_in, all_out;
    if (!coll->comm->reads_unregistered)
        return weiri_algo_fall_back(coll, task, &weiri_host_allgather_packet_row);
    weir_status status = weiri_posts_exchange(coll, task->call->in, task->count_bytes,
                                              WEIRI_LENDS_COPIED, NULL, 0, &all_in, &all_out);
    return status == WEIR_OK ? allgather_fetch(coll, task) : status;
}

const weiri_algo weiri_host_allgather_packet_row = {
    .info = {WEIRI_HOST_TRAITS(ALLGATHER, "packet", "publish the input, copy all inputs")},
    .run = allgather_packet_run,
};

const weiri_algo weiri_host_allgather_direct_row = {
    .info = {WEIRI_HOST_TRAITS(ALLGATHER, "direct", "copy from registered memory"),
             .needs_mapped = 1},
    .run = allgather_direct_run,
};

const weiri_algo weiri_host_allgather_cma_row = {
    .info = {WEIRI_HOST_TRAITS(ALLGATHER, "cma",
                               "the kernel copies from the peers' buffers; unregistered memory")},
    .run = allgather_cma_run,
};
