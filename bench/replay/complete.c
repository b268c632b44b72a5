/* The last step of reading a recorded job, what no single file shows: see read.h. */
#include "bench/replay/read.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fails at the place of a call. */
#define FAIL_AT(reader, call, ...)                                                                 \
    ((reader)->file = (call)->file,                                                                \
     replay_fail((reader), WEIR_ERR_INVALID, (long)(call)->line, __VA_ARGS__))

static weir_status check_splits(replay_reader *reader, const replay_call *call, int nranks)
{
    const replay_trace *trace = reader->trace;
    uint64_t sum = 0;
    if (call->splits > trace->nsplits || trace->nsplits - call->splits < 2 * (uint64_t)nranks)
        return FAIL_AT(reader, call, "alltoallv without its elements for each rank");
    for (int i = 0; i < 2 * nranks; i++) {
        const uint64_t split = trace->splits[call->splits + (uint64_t)i];
        if (split == REPLAY_UNKNOWN && i >= nranks)
            continue;
        if (split > REPLAY_COUNT_MAX || (sum += split) > REPLAY_COUNT_MAX)
            return FAIL_AT(reader, call, "alltoallv of more than 2^40 elements");
    }
    return WEIR_OK;
}

/* What one call shows without the others. */
static weir_status check_call(replay_reader *reader, const replay_call *call)
{
    const replay_kind kind = (replay_kind)call->kind;
    if (!replay_kind_name(kind) || !weir_dtype_bytes((weir_dtype)call->dtype) ||
        !weir_op_name((weir_op)call->op) || call->comm >= (uint32_t)reader->trace->ncomms)
        return FAIL_AT(reader, call, "a call without a known collective, type or operation");
    const replay_comm *comm = &reader->trace->comms[call->comm];
    const int has_peer = replay_kind_has_root(kind) || replay_is_message(call);
    if (call->count > REPLAY_COUNT_MAX)
        return FAIL_AT(reader, call, "%s of %llu elements; at most 2^40 can be replayed",
                       replay_kind_name(kind), (unsigned long long)call->count);
    if (has_peer && (call->peer < 0 || call->peer >= comm->nranks))
        return FAIL_AT(reader, call, "%s with rank %d as %s; communicator %s has ranks 0 to %d",
                       replay_kind_name(kind), call->peer,
                       replay_kind_has_root(kind) ? "root" : "peer", comm->name, comm->nranks - 1);
    return kind == REPLAY_ALLTOALLV ? check_splits(reader, call, comm->nranks) : WEIR_OK;
}

/* Checks that a communicator knows its ranks, and that each of these has calls. */
static weir_status check_members(const replay_trace *trace, const replay_comm *comm)
{
    char seen[REPLAY_RANKS_MAX] = {0};
    for (int member = 0; member < comm->nranks; member++) {
        const int rank = comm->ranks[member];
        if (rank < 0 || !trace->ranks[rank].count)
            return weiri_fail(WEIR_ERR_INVALID,
                              "communicator %s has %d ranks, but its rank %d has no calls%s; name "
                              "the files of all ranks",
                              comm->name, comm->nranks, member,
                              rank >= 0 ? "" : ", and no file says which rank of the job it is");
        if (seen[rank]++)
            return weiri_fail(WEIR_ERR_INVALID,
                              "communicator %s has rank %d of the job twice; name each file once",
                              comm->name, rank);
    }
    return WEIR_OK;
}

/* Moves calls and members to ranks without gaps. */
static void number_ranks(replay_trace *trace)
{
    int numbers[REPLAY_RANKS_MAX], next = 0;
    for (int is_empty = 0; is_empty < 2; is_empty++)
        for (int rank = 0; rank < REPLAY_RANKS_MAX; rank++)
            if ((trace->ranks[rank].count == 0) == is_empty)
                numbers[rank] = next++;
    replay_renumber(trace, numbers);
}

/* Removes communicators without calls. */
static void number_comms(replay_trace *trace, const char *used, uint32_t *numbers)
{
    int next = 0;
    for (int i = 0; i < trace->ncomms; i++) {
        if (!used[i])
            continue;
        numbers[i] = (uint32_t)next;
        trace->comms[next++] = trace->comms[i];
    }
    trace->ncomms = next;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            trace->ranks[rank].calls[i].comm = numbers[trace->ranks[rank].calls[i].comm];
}

/* Leaves out the times of a rank that are none, or lie before that of a previous call of the
 * stream. (Threads write a line when a call ends.) Returns the first one that is left; INFINITY:
 * none. */
static double check_times(replay_reader *reader, const replay_rank *rank)
{
    double first = INFINITY, lasts[UINT8_MAX + 1];
    for (int stream = 0; stream <= UINT8_MAX; stream++)
        lasts[stream] = -INFINITY;
    for (size_t i = 0; i < rank->count; i++) {
        replay_call *call = &rank->calls[i];
        double *last = &lasts[call->stream];
        const int jumps = call->start_s < *last;
        reader->file = call->file;
        if (jumps)
            replay_note(reader, call->line,
                        "starts before the rank's previous call: the "
                        "clock jumps, or lines are out of order; the call "
                        "is kept in the file's order, its time left out");
        if (call->duration_s < 0)
            replay_note(reader, call->line,
                        "a call that ends before it starts: its duration "
                        "is left out");
        if (call->duration_s < 0 || isinf(call->duration_s))
            call->duration_s = NAN;
        if (jumps || isinf(call->start_s))
            call->start_s = NAN;
        if (isnan(call->start_s))
            continue;
        *last = call->start_s;
        first = *last < first ? *last : first;
    }
    return first;
}

/* Lets times begin at 0. */
static void complete_times(replay_reader *reader)
{
    replay_trace *trace = reader->trace;
    double begin = INFINITY;
    for (int rank = 0; rank < trace->nranks; rank++) {
        const double first = check_times(reader, &trace->ranks[rank]);
        begin = first < begin ? first : begin;
    }
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            trace->ranks[rank].calls[i].start_s -= begin;
}

/* Checks all calls, and marks the communicators that have calls. */
static weir_status check_calls(replay_reader *reader, char *used)
{
    const replay_trace *trace = reader->trace;
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count && status == WEIR_OK; i++) {
            const replay_call *call = &trace->ranks[rank].calls[i];
            status = check_call(reader, call);
            if (status == WEIR_OK && replay_comm_rank(&trace->comms[call->comm], rank) < 0)
                status = FAIL_AT(
                    reader, call, "rank %d is not in communicator %s, on which it calls %s", rank,
                    trace->comms[call->comm].name, replay_kind_name((replay_kind)call->kind));
            if (status == WEIR_OK)
                used[call->comm] = 1;
        }
    return status;
}

weir_status replay_complete(replay_reader *reader)
{
    replay_trace *trace = reader->trace;
    weir_status status = WEIR_OK;
    if (!trace->nranks)
        return weiri_fail(WEIR_ERR_INVALID, "%s: no calls that could be replayed%s%s",
                          trace->nfiles ? trace->files[0] : "a folder without files",
                          trace->nnotes ? ": " : "", trace->nnotes ? trace->notes[0].text : "");
    const size_t ncomms = (size_t)trace->ncomms;
    replay_pool pool = {NULL, 0};
    char *used = replay_take(&pool, ncomms, 1);
    uint32_t *comms = replay_take(&pool, ncomms, sizeof *comms);
    if (pool.has_failed)
        status = replay_no_memory();
    if (status == WEIR_OK)
        status = check_calls(reader, used);
    for (int i = 0; i < trace->ncomms && status == WEIR_OK; i++)
        if (used[i])
            status = check_members(trace, &trace->comms[i]);
    if (status == WEIR_OK) {
        number_comms(trace, used, comms);
        number_ranks(trace);
        complete_times(reader);
    }
    replay_pool_free(&pool);
    return status;
}
