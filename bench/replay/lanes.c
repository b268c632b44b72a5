/*
 * Which communicators' calls were in flight together, so that they are replayed on streams or
 * threads of their own: lanes. Files that have streams, or threads, say it; else times of calls
 * that overlap do. A communicator's calls, and those of a group, are in one lane.
 */
#include "bench/replay/match.h"

enum { LANES_MAX = REPLAY_LANES_MAX, OPEN_MAX = 64 };

/* A call that has not ended when a later one begins. */
typedef struct open_call {
    const replay_call *call;
    double end_s;
} open_call;

static int share_group(const replay_call *a, const replay_call *b)
{
    return a->group >= 0 && a->group == b->group;
}

/* Moves the later communicator to the next lane if both are in one. 1: it was moved. Lanes only
 * grow, so that passes over the calls end. */
static int part(replay_trace *trace, uint32_t a, uint32_t b)
{
    uint8_t *lane = &trace->comms[a > b ? a : b].lane;
    if (a == b || trace->comms[a].lane != trace->comms[b].lane || *lane == LANES_MAX - 1)
        return 0;
    ++*lane;
    return 1;
}

static int join(replay_trace *trace, uint32_t a, uint32_t b)
{
    uint8_t *one = &trace->comms[a].lane, *two = &trace->comms[b].lane;
    const int differ = *one != *two;
    *one = *two = *one > *two ? *one : *two;
    return differ;
}

/* Parts the communicators of a rank's calls that overlap, and joins those of its groups. 1: lanes
 * have changed. */
static int pass(replay_trace *trace, const replay_rank *rank, int by_times)
{
    open_call open[OPEN_MAX];
    int nopen = 0, has_changed = 0;
    for (size_t i = 0; i < rank->count; i++) {
        const replay_call *call = &rank->calls[i];
        if (i && share_group(call, call - 1))
            has_changed |= join(trace, call->comm, call[-1].comm);
        if (!by_times || isnan(call->start_s))
            continue;
        for (int k = nopen - 1; k >= 0; k--)
            if (open[k].end_s <= call->start_s || open[k].call->comm == call->comm)
                open[k] = open[--nopen];
            else if (!share_group(open[k].call, call))
                has_changed |= part(trace, open[k].call->comm, call->comm);
        /* Clocks and durations are rounded. */
        if (call->duration_s > 0 && nopen < OPEN_MAX)
            open[nopen++] =
                (open_call){call, call->start_s + (double)call->duration_s * (1 - 1e-6) - 2e-6};
    }
    return has_changed;
}

/* Gives a communicator the lane of its first call's stream. 1: the file has several streams. */
static int lanes_of_streams(replay_trace *trace)
{
    int has_streams = 0;
    for (int i = 0; i < trace->ncomms; i++)
        trace->comms[i].lane = UINT8_MAX;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++) {
            const replay_call *call = &trace->ranks[rank].calls[i];
            uint8_t *lane = &trace->comms[call->comm].lane;
            if (*lane == UINT8_MAX)
                *lane = call->stream < LANES_MAX ? call->stream : LANES_MAX - 1;
            has_streams |= call->stream != 0;
        }
    for (int i = 0; i < trace->ncomms; i++)
        if (trace->comms[i].lane == UINT8_MAX) /* without calls */
            trace->comms[i].lane = 0;
    return has_streams;
}

int replay_lanes(replay_trace *trace)
{
    const int has_streams = lanes_of_streams(trace);
    uint8_t numbers[LANES_MAX], used[LANES_MAX] = {0};
    int nlanes = 0;
    for (int has_changed = 1; has_changed;) {
        has_changed = 0;
        for (int rank = 0; rank < trace->nranks; rank++)
            has_changed |= pass(trace, &trace->ranks[rank], !has_streams);
    }
    for (int i = 0; i < trace->ncomms; i++)
        used[trace->comms[i].lane] = 1;
    for (int lane = 0; lane < LANES_MAX; lane++)
        numbers[lane] = (uint8_t)(used[lane] ? nlanes++ : 0);
    for (int i = 0; i < trace->ncomms; i++)
        trace->comms[i].lane = numbers[trace->comms[i].lane];
    return nlanes;
}
