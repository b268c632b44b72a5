/*
 * Allreduce in one step, for small sizes: every rank publishes its input in its slot and reduces
 * the contents of all slots. Each byte is read nranks times, but a call takes only one latency.
 * An input longer than a slot is divided into pieces, one epoch each. The reduction follows the
 * writers chunk by chunk.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char phase[] = "allreduce (packet)";

static weir_status allreduce_packet_run(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = WEIR_OK;
    for (size_t done = 0; done < task->count_bytes && status == WEIR_OK;
         done += coll->piece_bytes) {
        const char *in = weiri_in_at(task, done);
        size_t total = weiri_piece_at(coll, task->count_bytes, done);
        status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot_publish(coll, coll->epoch, in, total, WEIRI_CHUNK_BYTES, weiri_copy_to_peer);
        status = weiri_slots_reduce(coll, task, in, total, weiri_out_at(task, done), phase);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return status;
}

const weiri_algo weiri_host_allreduce_packet_row = {
    .info = {WEIRI_HOST_TRAITS(ALLREDUCE, "packet",
                               "publish the input, reduce all inputs; one latency, small sizes")},
    .run = allreduce_packet_run,
};
