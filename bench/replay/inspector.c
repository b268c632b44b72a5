/*
 * The JSON that NCCL's Inspector (v4.0 to v4.3) and weir's metrics write for one process: an object
 * for each call, in the order in which a communicator's calls ended. It has bytes, but neither
 * types, operations nor roots. From v4.1 on, dump_stats counts the calls that Inspector lost.
 */
#include "bench/replay/json.h"
#include "bench/replay/seats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One object, as far as it is needed. Numbers are -1 if it does not have them. */
typedef struct inspected {
    char comm[64], version[16], writer[32], host[64], collective[32], message[32];
    int64_t pid, rank, nranks, number, bytes, peer, start_us, lost;
    double duration_us;
    long line;
} inspected;

static int inspector_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' &&
           strstr(head, "\"inspector_output_format_version\"");
}

/* Finds the seat of a call's process in its communicator. NULL: it has none, which was noted. */
static weir_status inspected_seat(replay_reader *reader, const inspected *call, replay_seat **seat)
{
    char process[128], key[256];
    *seat = NULL;
    if (!*call->comm || call->rank < 0 || call->nranks <= call->rank ||
        call->nranks > REPLAY_RANKS_MAX) {
        replay_note(reader, call->line, "a call without a communicator and its rank: left out");
        return WEIR_OK;
    }
    snprintf(process, sizeof process, "%s:%lld", call->host, (long long)call->pid);
    snprintf(key, sizeof key, "%s %s %lld", process, call->comm, (long long)call->rank);
    *seat = replay_seat_find(reader, key);
    return *seat ? WEIR_OK
                 : replay_seat_set(reader, call->line, key, process, call->comm, (int)call->nranks,
                                   (int)call->rank, seat);
}

/* Notes what is known to be missing before a call: NCCL counts the calls of each kind, weir all. */
static void inspected_gap(replay_reader *reader, const inspected *from, int is_weir,
                          replay_seat *seat, int kind)
{
    uint64_t *last = &seat->last[is_weir ? *from->message != 0 : kind];
    const uint64_t number = (uint64_t)from->number;
    if (from->number < 0)
        return;
    if (number > *last + 1 && *last)
        replay_note(reader, from->line,
                    "calls are missing before this one (their numbers have a "
                    "gap): %s",
                    is_weir ? "weir times a sample of the calls if they are frequent"
                            : "smaller than NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES, or lost");
    if (number < *last)
        replay_note(reader, from->line,
                    "the number of a call is less than that of the call before "
                    "it; the order of the file is kept");
    *last = number;
}

/* Notes what Inspector does not record of a call, after the call was added. */
static void inspected_note_lacks(replay_reader *reader, const replay_call *call)
{
    if (replay_kind_has_op(call->kind))
        replay_note(reader, 0,
                    "Inspector records neither types nor operations: reductions are kept "
                    "as sums of float, of uint8 if the bytes are no multiple of 4");
    if (replay_kind_has_root(call->kind))
        replay_note(reader, 0, "Inspector does not record roots: rank 0 is taken");
}

static weir_status inspected_add_call(replay_reader *reader, const inspected *from)
{
    const int is_weir = !strcmp(from->writer, "weir"), is_message = *from->message != '\0';
    const char *name = is_message ? from->message : from->collective;
    const int kind = replay_kind_parse(name);
    replay_call call = REPLAY_CALL_INIT;
    replay_seat *seat;
    const char *fault = NULL;
    if (kind == REPLAY_ALLTOALLV || !strcmp(name, "All2Allv"))
        fault = "an alltoallv, of which Inspector does not record the split sizes: left out";
    else if (kind < 0)
        fault = "a call that is not known: left out";
    else if (from->bytes < 0 || (uint64_t)from->bytes > REPLAY_COUNT_MAX ||
             (is_message && (from->peer < 0 || from->peer >= from->nranks)))
        fault = "a call with a negative, missing or huge size, or without its peer: left out";
    if (fault) {
        replay_note(reader, from->line, "%s", fault);
        return WEIR_OK;
    }
    weir_status status = inspected_seat(reader, from, &seat);
    if (status != WEIR_OK || !seat)
        return status;
    inspected_gap(reader, from, is_weir, seat, kind);
    call.kind = (uint8_t)kind;
    call.comm = seat->comm;
    call.dtype = replay_kind_has_op(call.kind) && from->bytes % 4 == 0 ? WEIR_FLOAT : WEIR_UINT8;
    call.count = (uint64_t)from->bytes / weir_dtype_bytes(call.dtype);
    call.peer = replay_kind_has_root(call.kind) ? 0 : is_message ? (int32_t)from->peer : -1;
    call.duration_s = (float)(from->duration_us * 1e-6);
    if (from->start_us >= 0)
        call.start_s = replay_seats_time(reader, from->start_us);
    inspected_note_lacks(reader, &call);
    return replay_add_call(reader, from->line, seat->rank, &call);
}

static weir_status inspected_add(replay_reader *reader, const inspected *from)
{
    if (from->lost)
        replay_note(reader, from->line,
                    "Inspector lost calls; raise NCCL_INSPECTOR_DUMP_COLL_RING_"
                    "SIZE and NCCL_INSPECTOR_DUMP_P2P_RING_SIZE");
    if (strncmp(from->version, "v4.", 3) != 0 || from->version[3] > '3' || from->version[4])
        return replay_fail(reader, WEIR_ERR_INVALID, from->line,
                           "Inspector's format %s; v4.0 to v4.3 can be read",
                           *from->version ? from->version : "without a version");
    return *from->collective || *from->message ? inspected_add_call(reader, from) : WEIR_OK;
}

static int by_start(const void *a, const void *b)
{
    const replay_call *x = a, *y = b;
    return x->start_s != y->start_s ? (x->start_s > y->start_s) - (x->start_s < y->start_s)
                                    : (x->line > y->line) - (x->line < y->line);
}

/* Puts the calls of a rank that the file added in order of their starts, if it has them; otherwise
 * the order between communicators is the file's. */
static void inspector_order(replay_reader *reader, int rank, size_t first)
{
    const replay_rank *of = &reader->trace->ranks[rank];
    int has_starts = 1, comms = 0;
    for (size_t i = first; i < of->count; i++) {
        has_starts &= !isnan(of->calls[i].start_s);
        comms |= of->calls[i].comm != of->calls[first].comm;
    }
    if (has_starts && of->count > first)
        qsort(of->calls + first, of->count - first, sizeof *of->calls, by_start);
    else if (comms)
        replay_note(reader, 0,
                    "without starts of calls, the order between communicators is that in "
                    "which Inspector wrote them; record with "
                    "NCCL_INSPECTOR_DUMP_VERBOSE=1");
    replay_join_pairs(reader, rank, first);
}

/* Whether a counter of lost calls, such as num_dropped_coll, is above 0. */
static int inspected_lost(const char *object)
{
    for (const char *at = object; (at = strstr(at, "drop")) != NULL; at++)
        if (replay_json_whole(at + strcspn(at, ":") + (strchr(at, ':') != NULL)) > 0)
            return 1;
    return 0;
}

#define TEXT(key, member) replay_json_string(object, key, call.member, sizeof call.member)
#define WHOLE(key) replay_json_number(object, key)

static weir_status inspector_object(void *context, const replay_json_value *value)
{
    const char *object = value->text;
    inspected call = {.line = value->line, .lost = inspected_lost(object)};
    TEXT("id", comm);
    TEXT("inspector_output_format_version", version);
    TEXT("rec_mechanism", writer);
    TEXT("hostname", host);
    TEXT("coll", collective);
    TEXT("p2p", message);
    const int is_message = *call.message != '\0';
    call.pid = WHOLE("pid");
    call.rank = WHOLE("rank");
    call.nranks = WHOLE("n_ranks");
    call.number = WHOLE(is_message ? "p2p_sn" : "coll_sn");
    call.bytes = WHOLE(is_message ? "p2p_msg_size_bytes" : "coll_msg_size_bytes");
    call.peer = WHOLE("p2p_peer");
    call.start_us = WHOLE(is_message ? "p2p_start_ts" : "coll_start_ts");
    call.duration_us = replay_json_real(
        replay_json_find(object, is_message ? "p2p_exec_time_us" : "coll_exec_time_us"));
    return inspected_add(context, &call);
}

static weir_status inspector_read(replay_reader *reader, replay_source *source)
{
    size_t before[REPLAY_RANKS_MAX];
    for (int i = 0; i < REPLAY_RANKS_MAX; i++)
        before[i] = reader->trace->ranks[i].count;
    weir_status status = replay_json_read(reader, source, NULL, inspector_object, reader);
    for (int i = 0; status == WEIR_OK && i < REPLAY_RANKS_MAX; i++)
        if (reader->trace->ranks[i].count > before[i])
            inspector_order(reader, i, before[i]);
    return status;
}

const replay_format replay_format_inspector = {"NCCL Inspector's JSON", inspector_recognises,
                                               inspector_read, replay_seats_finish};
