/* Which calls belong together: see match.h. The order of their steps is found in order.c. */
#include "bench/replay/matching.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static weir_status no_memory(void)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to match the recorded calls; cut the "
                                          "recording, or use a node with more memory");
}

/* "rank 3 calls allreduce float sum 1024 (FILE:LINE)" */
static void describe(const replay_trace *trace, int rank, const replay_call *call, char *text,
                     size_t bytes)
{
    const replay_kind kind = (replay_kind)call->kind;
    char peer[32] = "";
    if (replay_kind_has_root(kind))
        snprintf(peer, sizeof peer, " root=%d", call->peer);
    else if (call->kind == REPLAY_SEND || call->kind == REPLAY_RECV)
        snprintf(peer, sizeof peer, " %s=%d", kind == REPLAY_SEND ? "to" : "from", call->peer);
    snprintf(text, bytes, "rank %d calls %s %s%s%s %llu%s (%s:%u)", rank, replay_kind_name(kind),
             weir_dtype_name((weir_dtype)call->dtype), replay_kind_has_op(kind) ? " " : "",
             replay_kind_has_op(kind) ? weir_op_name((weir_op)call->op) : "",
             (unsigned long long)call->count, peer, trace->files[call->file], call->line);
}

/* ---------------------------------------------------------------- collectives */

static int is_same_call(const replay_call *a, const replay_call *b)
{
    const replay_kind kind = (replay_kind)a->kind;
    return a->kind == b->kind && (kind == REPLAY_BARRIER || a->dtype == b->dtype) &&
           (a->count == b->count || kind == REPLAY_ALLTOALLV || kind == REPLAY_BARRIER) &&
           (!replay_kind_has_op(kind) || a->op == b->op) &&
           (!replay_kind_has_root(kind) || a->peer == b->peer);
}

/* The nth collective of a member, and its rank in the job. */
static replay_call *nth_call(const replay_trace *trace, const replay_comm_calls *lists, int comm,
                             int member, size_t n, int *rank)
{
    *rank = trace->comms[comm].ranks[member];
    return &trace->ranks[*rank].calls[lists[comm].calls[member][n]];
}

/* Fills in what the receivers do not know, and compares the rest with what is sent. */
static weir_status match_splits(replay_trace *trace, const replay_comm_calls *lists, int comm,
                                size_t n)
{
    const int nranks = trace->comms[comm].nranks;
    int to_rank, from_rank;
    char sender[400], receiver[400];
    for (int to = 0; to < nranks; to++) {
        const replay_call *call = nth_call(trace, lists, comm, to, n, &to_rank);
        for (int from = 0; from < nranks; from++) {
            const replay_call *source = nth_call(trace, lists, comm, from, n, &from_rank);
            const uint64_t sent = trace->splits[source->splits + (uint64_t)to];
            uint64_t *received = &trace->splits[call->splits + (uint64_t)(nranks + from)];
            if (*received == REPLAY_UNKNOWN)
                *received = sent;
            if (*received == sent)
                continue;
            describe(trace, from_rank, source, sender, sizeof sender);
            describe(trace, to_rank, call, receiver, sizeof receiver);
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "communicator %s, collective %zu: %s and sends %llu elements to rank "
                              "%d; %s and expects %llu",
                              trace->comms[comm].name, n, sender, (unsigned long long)sent, to_rank,
                              receiver, (unsigned long long)*received);
        }
    }
    return WEIR_OK;
}

/* Compares the nth collective of two members. */
static weir_status match_two(const replay_trace *trace, const replay_comm_calls *lists, int comm,
                             int member, size_t n)
{
    char mine[400] = "", first[400] = "";
    int rank;
    const size_t firsts = lists[comm].counts[0], counts = lists[comm].counts[member];
    const replay_call *a = n < firsts ? nth_call(trace, lists, comm, 0, n, &rank) : NULL;
    if (a)
        describe(trace, rank, a, first, sizeof first);
    else
        snprintf(first, sizeof first, "rank %d has ended", trace->comms[comm].ranks[0]);
    const replay_call *b = n < counts ? nth_call(trace, lists, comm, member, n, &rank) : NULL;
    if (b)
        describe(trace, rank, b, mine, sizeof mine);
    else
        snprintf(mine, sizeof mine, "rank %d has ended", trace->comms[comm].ranks[member]);
    return weiri_fail(WEIR_ERR_MISMATCH, "communicator %s, collective %zu: %s, but %s",
                      trace->comms[comm].name, n, first, mine);
}

static weir_status match_comm(replay_trace *trace, const replay_comm_calls *lists, int comm)
{
    int rank;
    weir_status status = WEIR_OK;
    for (int member = 1; member < trace->comms[comm].nranks; member++) {
        const size_t mine = lists[comm].counts[member], firsts = lists[comm].counts[0];
        for (size_t n = 0; n < mine || n < firsts; n++)
            if (n >= mine || n >= firsts ||
                !is_same_call(nth_call(trace, lists, comm, 0, n, &rank),
                              nth_call(trace, lists, comm, member, n, &rank)))
                return match_two(trace, lists, comm, member, n);
    }
    for (size_t n = 0; n < lists[comm].counts[0] && status == WEIR_OK; n++)
        if (nth_call(trace, lists, comm, 0, n, &rank)->kind == REPLAY_ALLTOALLV)
            status = match_splits(trace, lists, comm, n);
    return status;
}

/* Gives every collective the number of its instance. */
static weir_status match_collectives(replay_matching *m)
{
    replay_trace *trace = m->trace;
    replay_comm_calls *lists = replay_collect(trace);
    weir_status status = lists ? WEIR_OK : no_memory();
    for (int comm = 0; comm < trace->ncomms && status == WEIR_OK; comm++) {
        status = match_comm(trace, lists, comm);
        for (int member = 0; member < trace->comms[comm].nranks && status == WEIR_OK; member++)
            for (size_t n = 0; n < lists[comm].counts[0]; n++)
                m->numbers[trace->comms[comm].ranks[member]][lists[comm].calls[member][n]] =
                    m->instances + (uint32_t)n;
        m->instances += (uint32_t)(status == WEIR_OK ? lists[comm].counts[0] : 0);
    }
    replay_comm_calls_free(trace, lists);
    return status;
}

/* ------------------------------------------------------------------- messages */

static const replay_call *end_call(const replay_trace *trace, const replay_end *end)
{
    return &trace->ranks[end->rank].calls[end->call];
}

static weir_status message_fails(const replay_trace *trace, const replay_end *end,
                                 const replay_end *other)
{
    char one[400], two[400] = "no rank has the other end";
    describe(trace, (int)end->rank, end_call(trace, end), one, sizeof one);
    if (other)
        describe(trace, (int)other->rank, end_call(trace, other), two, sizeof two);
    return weiri_fail(WEIR_ERR_MISMATCH, "communicator %s: %s, but %s",
                      trace->comms[end->comm].name, one, two);
}

static size_t message_bytes(const replay_call *call)
{
    return call->count * weir_dtype_bytes((weir_dtype)call->dtype);
}

static weir_status match_ends(replay_matching *m, const replay_end *sends, size_t nsends,
                              const replay_end *recvs, size_t nrecvs)
{
    const replay_trace *trace = m->trace;
    for (size_t i = 0; i < nsends || i < nrecvs; i++) {
        const replay_end *send = i < nsends ? &sends[i] : NULL;
        const replay_end *recv = i < nrecvs ? &recvs[i] : NULL;
        if (send && recv && send->comm == recv->comm && send->pair == recv->pair) {
            if (message_bytes(end_call(trace, send)) != message_bytes(end_call(trace, recv)))
                return message_fails(trace, send, recv);
            m->numbers[send->rank][send->call] = m->numbers[recv->rank][recv->call] =
                m->instances++;
            m->partners[send->rank][send->call] = recv->call;
            m->partners[recv->rank][recv->call] = send->call;
            continue;
        }
        const int send_is_first = send && (!recv || send->comm < recv->comm ||
                                           (send->comm == recv->comm && send->pair < recv->pair));
        return message_fails(trace, send_is_first ? send : recv, NULL);
    }
    return WEIR_OK;
}

static weir_status match_messages(replay_matching *m)
{
    size_t nsends = 0, nrecvs = 0;
    m->first_message = m->instances;
    replay_end *sends = replay_list_ends(m->trace, REPLAY_SEND, &nsends);
    replay_end *recvs = replay_list_ends(m->trace, REPLAY_RECV, &nrecvs);
    weir_status status = sends && recvs ? match_ends(m, sends, nsends, recvs, nrecvs) : no_memory();
    free(sends);
    free(recvs);
    return status;
}

/* --------------------------------------------------------------------- all */

static weir_status matching_open(replay_matching *m, replay_trace *trace)
{
    const size_t nranks = (size_t)trace->nranks;
    *m = (replay_matching){.trace = trace,
                           .numbers = calloc(nranks, sizeof *m->numbers),
                           .partners = calloc(nranks, sizeof *m->partners)};
    if (replay_calls(trace) >= UINT32_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "more than 2^32 calls; cut the recording");
    for (int rank = 0; rank < trace->nranks && m->numbers && m->partners; rank++) {
        m->numbers[rank] = calloc(trace->ranks[rank].count + 1, sizeof **m->numbers);
        m->partners[rank] = calloc(trace->ranks[rank].count + 1, sizeof **m->partners);
        if (!m->numbers[rank] || !m->partners[rank])
            return no_memory();
    }
    return m->numbers && m->partners ? WEIR_OK : no_memory();
}

static void matching_close(replay_matching *m)
{
    for (int rank = 0; rank < m->trace->nranks; rank++) {
        if (m->numbers)
            free(m->numbers[rank]);
        if (m->partners)
            free(m->partners[rank]);
    }
    free(m->numbers);
    free(m->partners);
}

weir_status replay_match(replay_trace *trace, replay_schedule **schedule)
{
    replay_matching m;
    weir_status status = trace->is_cut ? replay_trim(trace) : WEIR_OK;
    if (status != WEIR_OK)
        return status;
    status = matching_open(&m, trace);
    if (status == WEIR_OK)
        status = match_collectives(&m);
    if (status == WEIR_OK)
        status = match_messages(&m);
    if (status == WEIR_OK)
        status = replay_order(&m, schedule);
    matching_close(&m);
    return status;
}
