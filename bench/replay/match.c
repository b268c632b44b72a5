/*
 * Which calls belong together: see match.h. All calls are sorted by what they may belong to, a
 * communicator's collectives or the messages between two ranks on it, and by their side of it, a
 * rank or the sender and the receiver. The nth calls of all sides are one instance.
 */
#include "bench/replay/match.h"

#include "base/error.h"
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

typedef struct match_end {
    uint64_t key;  /* the communicator in the upper half; below 0, or sender and receiver plus 1 */
    uint32_t side; /* rank of the communicator; of messages 0 for sends, 1 for receives */
    uint32_t rank, call;
} match_end;

/* The calls of one key. */
typedef struct match_group {
    const match_end *ends;
    uint32_t comm;
    int is_message, sides;
    size_t end;                                               /* behind its last call */
    size_t first[REPLAY_RANKS_MAX], counts[REPLAY_RANKS_MAX]; /* of each side's calls */
} match_group;

typedef struct match_run {
    replay_pool pool;
    replay_matching m;
    match_end *ends;
    size_t *limits; /* of each rank: later calls are left out */
    match_group group;
} match_run;

/* --------------------------------------------------------------------- groups */

static int compare_ends(const void *a, const void *b)
{
    const match_end *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->side != y->side)
        return x->side < y->side ? -1 : 1;
    return x->call < y->call ? -1 : x->call > y->call;
}

static match_end end_of(const replay_trace *trace, int rank, size_t at)
{
    const replay_call *call = &trace->ranks[rank].calls[at];
    const replay_comm *comm = &trace->comms[call->comm];
    match_end end = {(uint64_t)call->comm << 32, 0, (uint32_t)rank, (uint32_t)at};
    if (!replay_is_message(call)) {
        end.side = (uint32_t)replay_comm_rank(comm, rank);
        return end;
    }
    end.side = call->kind == REPLAY_RECV;
    const int peer = comm->ranks[call->peer], from = end.side ? peer : rank;
    end.key += (uint64_t)from * REPLAY_RANKS_MAX + (uint64_t)(end.side ? rank : peer) + 1;
    return end;
}

/* Finds the next group. 0: there is none. */
static int next_group(match_run *run)
{
    match_group *g = &run->group;
    const size_t count = replay_calls(run->m.trace);
    size_t at = g->end;
    if (at == count)
        return 0;
    const uint64_t key = run->ends[at].key;
    g->ends = run->ends;
    g->comm = (uint32_t)(key >> 32);
    g->is_message = (uint32_t)key != 0;
    g->sides = g->is_message ? 2 : run->m.trace->comms[g->comm].nranks;
    for (int side = 0; side < g->sides; side++) {
        g->first[side] = at;
        g->counts[side] = 0;
        for (; at < count && g->ends[at].key == key && g->ends[at].side == (uint32_t)side; at++)
            g->counts[side] += g->ends[at].call < run->limits[g->ends[at].rank];
    }
    g->end = at;
    return 1;
}

static const match_end *group_end(const match_group *g, int side, size_t n)
{
    return n < g->counts[side] ? &g->ends[g->first[side] + n] : NULL;
}

static replay_call *group_call(const match_run *run, int side, size_t n)
{
    const match_end *end = group_end(&run->group, side, n);
    return end ? &run->m.trace->ranks[end->rank].calls[end->call] : NULL;
}

/* ------------------------------------------------------------------ mismatches */

/* Describes the nth call of a side: "rank 3 calls allreduce float sum 1024 (FILE:LINE)" */
static void describe(const match_run *run, int side, size_t n, char *text, size_t bytes)
{
    const replay_trace *trace = run->m.trace;
    const match_group *g = &run->group;
    const replay_call *call = group_call(run, side, n);
    char peer[32] = "";
    if (!call && g->is_message)
        snprintf(text, bytes, "no rank has the other end");
    else if (!call)
        snprintf(text, bytes, "rank %d has ended", trace->comms[g->comm].ranks[side]);
    if (!call)
        return;
    const replay_kind kind = (replay_kind)call->kind;
    const int has_op = replay_kind_has_op(kind);
    if (replay_kind_has_root(kind) || g->is_message)
        snprintf(peer, sizeof peer, " %s=%d", g->is_message ? side ? "from" : "to" : "root",
                 call->peer);
    snprintf(text, bytes, "rank %u calls %s %s%s%s %llu%s (%s:%u)", group_end(g, side, n)->rank,
             replay_kind_name(kind), weir_dtype_name((weir_dtype)call->dtype), has_op ? " " : "",
             has_op ? weir_op_name((weir_op)call->op) : "", (unsigned long long)call->count, peer,
             trace->files[call->file], call->line);
}

/* Names the nth calls of two sides, that of a side that has one first. */
static weir_status mismatch(const match_run *run, int side, int other, size_t n, const char *detail)
{
    char one[400], two[400];
    const int swaps = !group_call(run, side, n);
    describe(run, swaps ? other : side, n, one, sizeof one);
    describe(run, swaps ? side : other, n, two, sizeof two);
    return weiri_fail(WEIR_ERR_MISMATCH, "communicator %s, %s %zu: %s, but %s%s",
                      run->m.trace->comms[run->group.comm].name,
                      run->group.is_message ? "message" : "collective", n, one, two, detail);
}

static size_t bytes_of(const replay_call *call)
{
    return call->count * weir_dtype_bytes((weir_dtype)call->dtype);
}

static int is_same_call(const replay_call *a, const replay_call *b)
{
    const replay_kind kind = (replay_kind)a->kind;
    if (replay_is_message(a))
        return bytes_of(a) == bytes_of(b);
    return a->kind == b->kind && (kind == REPLAY_BARRIER || a->dtype == b->dtype) &&
           (a->count == b->count || kind == REPLAY_ALLTOALLV || kind == REPLAY_BARRIER) &&
           (!replay_kind_has_op(kind) || a->op == b->op) &&
           (!replay_kind_has_root(kind) || a->peer == b->peer);
}

/* Fills in what the receivers of an alltoallv do not know, and compares the rest with what is
 * sent. */
static weir_status match_splits(match_run *run, size_t n)
{
    const int nranks = run->group.sides;
    uint64_t *splits = run->m.trace->splits;
    char detail[120];
    for (int to = 0; to < nranks; to++)
        for (int from = 0; from < nranks; from++) {
            const uint64_t sent = splits[group_call(run, from, n)->splits + (uint64_t)to];
            uint64_t *received =
                &splits[group_call(run, to, n)->splits + (uint64_t)(nranks + from)];
            if (*received == REPLAY_UNKNOWN)
                *received = sent;
            snprintf(detail, sizeof detail,
                     ": the first one sends %llu elements to rank %u, "
                     "which expects %llu",
                     (unsigned long long)sent, group_end(&run->group, to, n)->rank,
                     (unsigned long long)*received);
            if (*received != sent)
                return mismatch(run, from, to, n, detail);
        }
    return WEIR_OK;
}

/* Compares the calls of a group, and gives each instance its number. */
static weir_status match_group_calls(match_run *run)
{
    const match_group *g = &run->group;
    weir_status status = WEIR_OK;
    for (int side = 1; side < g->sides; side++)
        for (size_t n = 0; n < g->counts[0] || n < g->counts[side]; n++) {
            const replay_call *a = group_call(run, 0, n), *b = group_call(run, side, n);
            if (!a || !b || !is_same_call(a, b))
                return mismatch(run, 0, side, n, "");
        }
    for (size_t n = 0; n < g->counts[0] && status == WEIR_OK; n++) {
        if (group_call(run, 0, n)->kind == REPLAY_ALLTOALLV)
            status = match_splits(run, n);
        for (int side = 0; side < g->sides; side++) {
            const match_end *end = group_end(g, side, n);
            run->m.numbers[end->rank][end->call] = run->m.instances;
            if (g->is_message)
                run->m.partners[end->rank][end->call] = group_end(g, !side, n)->call;
        }
        run->m.instances++;
    }
    return status;
}

/* ------------------------------------------------- the end of a job that was killed */

/* Limits ranks to the calls of a group that all sides have reached. 1: some have more. */
static int limit_group(match_run *run)
{
    const match_group *g = &run->group;
    size_t least = SIZE_MAX;
    int has_more = 0;
    for (int side = 0; side < g->sides; side++)
        least = g->counts[side] < least ? g->counts[side] : least;
    for (int side = 0; side < g->sides; side++)
        if (g->counts[side] > least) {
            const match_end *end = group_end(g, side, least);
            if (end->call < run->limits[end->rank])
                run->limits[end->rank] = end->call;
            has_more = 1;
        }
    return has_more;
}

/* Some ranks got further than others: a call without its partners is removed together with all
 * later calls of its rank, which may leave others without a partner. */
static weir_status trim(match_run *run)
{
    replay_trace *trace = run->m.trace;
    size_t removed = 0;
    for (int has_more = 1; has_more;)
        for (has_more = 0, run->group.end = 0; next_group(run);)
            has_more |= limit_group(run);
    for (int rank = 0; rank < trace->nranks; rank++) {
        removed += trace->ranks[rank].count - run->limits[rank];
        if (!run->limits[rank])
            return weiri_fail(WEIR_ERR_INVALID,
                              "%s: rank %d has no call whose partners have been recorded",
                              trace->files[0], rank);
    }
    if (!removed || trace->nnotes == REPLAY_NOTES_MAX)
        return WEIR_OK;
    replay_note_entry *note = &trace->notes[trace->nnotes++];
    *note = (replay_note_entry){.count = 1};
    snprintf(note->text, sizeof note->text,
             "the recording is cut: %zu call%s at its end, which not all ranks have reached, left "
             "out",
             removed, weiri_s(removed));
    return WEIR_OK;
}

/* --------------------------------------------------------------------- all */

static weir_status match_open(match_run *run, replay_trace *trace)
{
    const size_t nranks = (size_t)trace->nranks, count = replay_calls(trace);
    replay_matching *m = &run->m;
    m->trace = trace;
    if (count >= UINT32_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "more than 2^32 calls; cut the recording");
    m->numbers = replay_take(&run->pool, nranks, sizeof *m->numbers);
    m->partners = replay_take(&run->pool, nranks, sizeof *m->partners);
    run->limits = replay_take(&run->pool, nranks, sizeof *run->limits);
    uint32_t *numbers = replay_take(&run->pool, 2 * count, sizeof *numbers);
    run->ends = malloc((count + 1) * sizeof *run->ends);
    if (run->pool.has_failed || !run->ends)
        return replay_no_memory();
    size_t at = 0;
    for (int rank = 0; rank < trace->nranks; rank++) {
        m->numbers[rank] = numbers + at;
        m->partners[rank] = numbers + count + at;
        run->limits[rank] = trace->ranks[rank].count;
        for (size_t i = 0; i < run->limits[rank]; i++)
            run->ends[at++] = end_of(trace, rank, i);
    }
    qsort(run->ends, count, sizeof *run->ends, compare_ends);
    return trace->is_cut ? trim(run) : WEIR_OK;
}

weir_status replay_match(replay_trace *trace, replay_schedule **schedule)
{
    match_run *run = calloc(1, sizeof *run);
    if (!run)
        return replay_no_memory();
    weir_status status = match_open(run, trace);
    for (run->group.end = 0; status == WEIR_OK && next_group(run);)
        status = match_group_calls(run);
    for (int rank = 0; status == WEIR_OK && rank < trace->nranks; rank++)
        trace->ranks[rank].count = run->limits[rank];
    free(run->ends);
    run->ends = NULL;
    if (status == WEIR_OK) {
        run->m.nlanes = replay_lanes(trace);
        status = replay_order(&run->m, schedule);
    }
    free(run->ends);
    replay_pool_free(&run->pool);
    free(run);
    return status;
}
