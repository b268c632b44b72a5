/*
 * The end of a job that was killed: some ranks got further than others. A call without its partners
 * is removed together with all later calls of its rank, which may leave others without a partner.
 */
#include "bench/replay/matching.h"

#include "base/error.h"
#include "base/words.h"

#include <stdlib.h>

static void limit_rank(size_t *limits, uint32_t rank, uint32_t call)
{
    if (call < limits[rank])
        limits[rank] = call;
}

/* Collectives that not all ranks of the communicator have reached. */
static int limit_collectives(const replay_trace *trace, size_t *limits)
{
    replay_comm_calls *lists = replay_collect(trace);
    for (int i = 0; lists && i < trace->ncomms; i++) {
        const replay_comm *comm = &trace->comms[i];
        size_t least = SIZE_MAX;
        for (int member = 0; member < comm->nranks; member++)
            least = lists[i].counts[member] < least ? lists[i].counts[member] : least;
        for (int member = 0; member < comm->nranks; member++)
            if (lists[i].counts[member] > least)
                limit_rank(limits, (uint32_t)comm->ranks[member], lists[i].calls[member][least]);
    }
    replay_comm_calls_free(trace, lists);
    return lists ? 0 : -1;
}

static int compare_pairs(const replay_end *a, const replay_end *b)
{
    if (a->comm != b->comm)
        return a->comm < b->comm ? -1 : 1;
    return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* Messages of which one end is missing. */
static int limit_messages(const replay_trace *trace, size_t *limits)
{
    size_t nsends = 0, nrecvs = 0, send = 0, recv = 0;
    replay_end *sends = replay_list_ends(trace, REPLAY_SEND, &nsends);
    replay_end *recvs = replay_list_ends(trace, REPLAY_RECV, &nrecvs);
    const int failed = !sends || !recvs;
    while (!failed && (send < nsends || recv < nrecvs)) {
        const int order = send == nsends   ? 1
                          : recv == nrecvs ? -1
                                           : compare_pairs(&sends[send], &recvs[recv]);
        if (order < 0)
            limit_rank(limits, sends[send].rank, sends[send].call);
        if (order > 0)
            limit_rank(limits, recvs[recv].rank, recvs[recv].call);
        send += order <= 0;
        recv += order >= 0;
    }
    free(sends);
    free(recvs);
    return failed ? -1 : 0;
}

/* Removes calls from the limits on, and returns how many. */
static size_t trim_ranks(replay_trace *trace, const size_t *limits)
{
    size_t removed = 0;
    for (int rank = 0; rank < trace->nranks; rank++) {
        if (limits[rank] >= trace->ranks[rank].count)
            continue;
        removed += trace->ranks[rank].count - limits[rank];
        trace->ranks[rank].count = limits[rank];
    }
    return removed;
}

static void note_trim(replay_trace *trace, size_t removed)
{
    if (!removed || trace->nnotes == REPLAY_NOTES_MAX)
        return;
    replay_note_entry *note = &trace->notes[trace->nnotes++];
    *note = (replay_note_entry){.count = 1};
    snprintf(note->text, sizeof note->text,
             "the recording is cut: %zu call%s at its end, which not all ranks have reached, left "
             "out",
             removed, weiri_s(removed));
}

weir_status replay_trim(replay_trace *trace)
{
    size_t removed = 0, more = 1;
    size_t *limits = malloc(((size_t)trace->nranks + 1) * sizeof *limits);
    while (limits && more) {
        for (int rank = 0; rank < trace->nranks; rank++)
            limits[rank] = SIZE_MAX;
        if (limit_collectives(trace, limits) != 0 || limit_messages(trace, limits) != 0)
            break;
        removed += more = trim_ranks(trace, limits);
    }
    free(limits);
    if (!limits || more)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to find the end of a cut recording");
    note_trim(trace, removed);
    for (int rank = 0; rank < trace->nranks; rank++)
        if (!trace->ranks[rank].count)
            return weiri_fail(WEIR_ERR_INVALID,
                              "%s: rank %d has no call whose partners have been recorded",
                              trace->files[0], rank);
    return WEIR_OK;
}
