/* The state of a communicator's collectives: layout of the areas, the end of epochs, and the shares
 * and blocks into which calls divide buffers. */
#include "coll/coll.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/float_env.h"
#include "compute/copy.h"
#include "coll/internode/gpu_staging.h"
#include "coll/planned.h"
#include "comm/node/peer_copy.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST_MESSAGE_BYTES = 1024, /* payload of a message */
    LARGEST_MESSAGE_BYTES = 262144,
    LARGEST_PIECE_BYTES = 262144,
    FEW_PARTS = 16, /* of payloads */
};

static size_t round_down(size_t value, size_t unit)
{
    return value / unit * unit;
}

enum {
    CONTROL_BYTES = 3 * sizeof(weiri_word) + WEIRI_POSTS * sizeof(weiri_post) +
                    WEIRI_LANE_DEPTH * sizeof(weiri_lane),
    SLOTS_BYTES = 4 * (sizeof(weiri_slot) + WEIRI_CHUNK_BYTES),
    MESSAGES_BYTES = 2 * (sizeof(weiri_message) + SMALLEST_MESSAGE_BYTES),
};
_Static_assert(CONTROL_BYTES + SLOTS_BYTES <= WEIRI_AREA_LEAST_BYTES &&
                   sizeof(weiri_word) + MESSAGES_BYTES <= WEIRI_AREA_LEAST_BYTES_EACH,
               "every communicator's area holds the layout");

/* How epochs use a buffer in rotation: of the largest power of two that it holds, so many parts at
 * most. */
static weiri_rotation rotation_of(size_t bytes, size_t from_bytes, size_t most_parts)
{
    size_t room = 1;
    while (room <= bytes / 2)
        room *= 2;
    return (weiri_rotation){from_bytes, room, most_parts < room ? most_parts : room};
}

/* Rotation of parts. If ranks share cores, parts serve only writers that are ahead, which need no
 * switch of ranks for every call. Writers get no more parts than they can fill. If each rank has a
 * core, parts that have left the caches save time on AMD's processors. On Intel's, ranks that wait
 * for each other lose more by pages and lines that they have not used for long. There payloads gain
 * by few parts, and payloads of two ranks by none, because two ranks trade them. */
static void coll_set_rotations(weiri_coll *coll)
{
    const weiri_rotation none = {SIZE_MAX, 0, 1};
    const int is_amd = weiri_copy_streams_to_peers();
    if (coll->comm->oversubscribed) {
        coll->ahead_rotation =
            rotation_of(coll->piece_bytes, WEIRI_LANE_BYTES + 1, WEIRI_EPOCHS_AHEAD / 2);
        coll->begun_rotation = none;
        coll->message_rotation = none;
    } else {
        coll->ahead_rotation = rotation_of(coll->piece_bytes, WEIRI_ROTATED_BYTES, SIZE_MAX);
        coll->begun_rotation = is_amd ? coll->ahead_rotation : none;
        coll->trades = coll->nranks == 2 && !is_amd;
        coll->message_rotation = none;
        if (!coll->trades)
            coll->message_rotation = rotation_of(coll->message_bytes, WEIRI_ROTATED_BYTES,
                                                 is_amd ? SIZE_MAX : FEW_PARTS);
    }
    coll->slot_rotation = coll->begun_rotation;
}

/* Divides the area: at most two thirds for slots and results, the rest for messages. */
static void coll_lay_out(weiri_coll *coll, size_t area_bytes)
{
    size_t n = (size_t)coll->nranks;
    size_t control = CONTROL_BYTES + n * sizeof(weiri_word);
    size_t rest = area_bytes - control;
    size_t piece = round_down(rest / 6, WEIRI_CHUNK_BYTES);
    coll->piece_bytes = piece < LARGEST_PIECE_BYTES ? piece : LARGEST_PIECE_BYTES;
    if (coll->piece_bytes < WEIRI_CHUNK_BYTES)
        coll->piece_bytes = WEIRI_CHUNK_BYTES;
    coll->result_bytes = coll->piece_bytes;
    rest -= 2 * (2 * sizeof(weiri_slot) + coll->piece_bytes + coll->result_bytes);
    size_t message = round_down(rest / (2 * n), WEIR_LINE_BYTES) - sizeof(weiri_message);
    coll->message_bytes = message < LARGEST_MESSAGE_BYTES ? message : LARGEST_MESSAGE_BYTES;
    coll_set_rotations(coll);
}

static void *area_take(char **cursor, size_t bytes)
{
    void *taken = *cursor;
    *cursor += bytes;
    return taken;
}

static void area_locate(const weiri_coll *coll, char *base, weiri_area *area)
{
    size_t n = (size_t)coll->nranks;
    area->done = area_take(&base, sizeof(weiri_word));
    area->claimed = area_take(&base, 2 * sizeof(weiri_word));
    area->consumed = area_take(&base, n * sizeof(weiri_word));
    area->lane = area_take(&base, WEIRI_LANE_DEPTH * sizeof(weiri_lane));
    for (int parity = 0; parity < 2; parity++) {
        area->slot[parity] = area_take(&base, sizeof(weiri_slot) + coll->piece_bytes);
        area->result[parity] = area_take(&base, sizeof(weiri_slot) + coll->result_bytes);
        area->message[parity] = area_take(&base, n * sizeof(weiri_message));
        area->payload[parity] = area_take(&base, n * coll->message_bytes);
    }
    area->post = area_take(&base, WEIRI_POSTS * sizeof(weiri_post));
}

static void coll_destroy(void *opaque)
{
    weiri_coll *coll = opaque;
    weiri_planned_close(coll);
    if (coll->stager)
        coll->stager_close(coll->stager);
    weiri_gpu_staging_destroy(coll);
    weir_mem_free(coll->quantized);
    free(coll->scratch);
    free(coll->areas);
    free(coll->pairs);
    free(coll->heard);
    free(coll->sources);
    free(coll->blocks);
    free(coll->outputs);
    free(coll->progress);
    free(coll);
}

weir_status weiri_coll_make(weir_comm *comm, weiri_coll **coll)
{
    weiri_coll *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the collectives' state");
    size_t n = (size_t)comm->nranks;
    made->comm = comm;
    made->rank = comm->rank;
    made->nranks = comm->nranks;
    made->last_algo = "none";
    /* Storing past the caches is faster when the inputs and outputs of all ranks together exceed
     * the last-level cache, which is twice the threshold of a single loop. */
    made->streaming_from_bytes = weiri_streaming_threshold_bytes() / (size_t)made->nranks + 1;
    made->areas = calloc(n, sizeof *made->areas);
    made->pairs = calloc(n, sizeof *made->pairs);
    made->heard = calloc(n, sizeof *made->heard);
    made->sources = calloc(n, sizeof *made->sources);
    made->blocks = calloc(n, sizeof *made->blocks);
    made->outputs = calloc(n, sizeof *made->outputs);
    made->progress = calloc(n, sizeof *made->progress);
    weir_status status = WEIR_OK;
    if (!made->areas || !made->pairs || !made->heard || !made->sources || !made->blocks ||
        !made->outputs || !made->progress)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the collectives' tables");
    if (!comm->internode)
        coll_lay_out(made, comm->area_bytes);
    const weiri_float_env environment = weiri_float_begin(); /* for estimates of costs */
    if (status == WEIR_OK)
        status = weiri_coll_tune(made);
    weiri_float_end(environment);
    if (status != WEIR_OK) {
        coll_destroy(made);
        return status;
    }
    for (int rank = 0; !comm->internode && rank < comm->nranks; rank++)
        area_locate(made, comm->peers[rank].area, &made->areas[rank]);
    comm->coll = *coll = made;
    comm->coll_destroy = coll_destroy;
    return WEIR_OK;
}

weir_status weiri_coll_await_done(weiri_coll *coll, uint64_t finished, int rank)
{
    int first = rank == WEIRI_ALL_RANKS ? 0 : rank;
    int last = rank == WEIRI_ALL_RANKS ? coll->nranks - 1 : rank;
    uint64_t oldest = UINT64_MAX;
    for (int reader = first; reader <= last; reader++) {
        if (reader == coll->rank)
            continue;
        const uint64_t *done = &coll->areas[reader].done->value;
        weir_status status =
            weiri_comm_wait(coll->comm, done, finished, reader, "reuse of scratch memory");
        if (status != WEIR_OK)
            return status;
        uint64_t reached = weir_load_acquire(done);
        oldest = reached < oldest ? reached : oldest;
    }
    if (rank == WEIRI_ALL_RANKS)
        coll->all_done = oldest;
    return WEIR_OK;
}

weir_status weiri_coll_end_together(weiri_coll *coll, const char *phase)
{
    weiri_coll_end(coll);
    int n = coll->nranks;
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
        weir_status status =
            weiri_comm_wait(coll->comm, &coll->areas[rank].done->value, coll->epoch, rank, phase);
        if (status != WEIR_OK)
            return status;
    }
    coll->all_done = coll->epoch;
    return WEIR_OK;
}

weiri_share weiri_share_of(size_t count_all, size_t element_bytes, int rank, int nranks)
{
    size_t line = WEIR_LINE_BYTES / element_bytes;
    size_t lines = (count_all + line - 1) / line;
    size_t each = (lines + (size_t)nranks - 1) / (size_t)nranks * line;
    size_t first = each * (size_t)rank < count_all ? each * (size_t)rank : count_all;
    size_t left = count_all - first;
    return (weiri_share){first, left < each ? left : each};
}

void weiri_move(const weiri_coll *coll, void *to, const void *from, size_t bytes,
                size_t total_bytes)
{
    if (total_bytes >= coll->streaming_from_bytes)
        weiri_copy_streaming(to, from, bytes);
    else
        weiri_copy(to, from, bytes);
}

void weiri_place_own(const weiri_coll *coll, const weiri_task *task, char *place,
                     size_t total_bytes)
{
    if (place != task->call->in)
        weiri_move(coll, place, task->call->in, task->count_bytes, total_bytes);
}

weir_status weiri_coll_mismatch(const weiri_coll *coll, const weiri_task *task, const char *phase,
                                int peer, uint64_t sent_bytes)
{
    weiri_fail(
        WEIR_ERR_MISMATCH,
        "rank %d: in %s rank %d sends %llu bytes, but %zu are expected; counts must match %s",
        weiri_comm_parent_rank(coll->comm, coll->rank), phase,
        weiri_comm_parent_rank(coll->comm, peer), (unsigned long long)sent_bytes,
        weiri_block_bytes(task, peer, coll->nranks, 1),
        weiri_is_pairwise(task) ? "pairwise" : "on all ranks");
    return weiri_comm_give_up(coll->comm, WEIR_ERR_MISMATCH);
}

weir_status weir_comm_set_algo(weir_comm *comm, weir_collective collective, const char *name)
{
    if (!comm || !name || (unsigned)collective >= WEIR_COLL_COUNT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_comm_set_algo: comm, collective and name are required");
    weiri_coll *coll = NULL;
    weir_status status = weiri_coll_get(comm, &coll);
    return status == WEIR_OK ? weiri_coll_set_algo(coll, collective, name) : status;
}
