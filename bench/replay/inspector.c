/*
 * The JSON that NCCL's Inspector (v4.0 to v4.3) and weir's metrics write for one process: an object
 * for each call, in the order in which a communicator's calls ended. It has bytes, but neither
 * types, operations nor roots. From v4.1 on, dump_stats counts the calls that Inspector lost.
 */
#include "base/error.h"
#include "bench/replay/json.h"
#include "bench/replay/seats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One object, as far as it is needed. Numbers are -1 if it does not have them. */
typedef struct inspected {
    char comm[64], version[16], writer[32], host[64], name[32];
    int64_t pid, rank, nranks, number, bytes, peer, start_us, lost;
    double duration_us;
    int is_call, is_pair;
    long line;
} inspected;

static const struct inspected_kind {
    const char *name;
    int kind;
} kinds[] = {
    {"AllReduce", REPLAY_ALLREDUCE}, {"ReduceScatter", REPLAY_REDUCE_SCATTER},
    {"AllGather", REPLAY_ALLGATHER}, {"Broadcast", REPLAY_BROADCAST},
    {"Reduce", REPLAY_REDUCE},       {"AlltoAll", REPLAY_ALLTOALL},
    {"All2All", REPLAY_ALLTOALL},    {"Gather", REPLAY_GATHER},
    {"Scatter", REPLAY_SCATTER},     {"Send", REPLAY_SEND},
    {"Recv", REPLAY_RECV},
};

static int inspector_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' &&
           strstr(head, "\"inspector_output_format_version\"");
}

/* Reads the next value, a number; NAN if it is none. */
static double inspected_real(replay_json *json)
{
    return replay_json_next(json) == REPLAY_JSON_WORD ? strtod(json->text, NULL) : NAN;
}

static void inspected_object(replay_json *json, inspected *call, int depth);

/* Reads the value of a key, whatever object it is in: all keys differ. */
static void inspected_value(replay_json *json, inspected *call, int depth)
{
    const struct {
        const char *key;
        int64_t *number;
        char *text;
        size_t bytes;
    } fields[] = {
        {"id", NULL, call->comm, sizeof call->comm},
        {"inspector_output_format_version", NULL, call->version, sizeof call->version},
        {"rec_mechanism", NULL, call->writer, sizeof call->writer},
        {"hostname", NULL, call->host, sizeof call->host},
        {"coll", NULL, call->name, sizeof call->name},
        {"p2p", NULL, call->name, sizeof call->name},
        {"pid", &call->pid, NULL, 0},
        {"rank", &call->rank, NULL, 0},
        {"n_ranks", &call->nranks, NULL, 0},
        {"coll_sn", &call->number, NULL, 0},
        {"p2p_sn", &call->number, NULL, 0},
        {"coll_msg_size_bytes", &call->bytes, NULL, 0},
        {"p2p_msg_size_bytes", &call->bytes, NULL, 0},
        {"p2p_peer", &call->peer, NULL, 0},
        {"coll_start_ts", &call->start_us, NULL, 0},
        {"p2p_start_ts", &call->start_us, NULL, 0},
    };
    const int is_time = strstr(json->text, "_exec_time_us") != NULL;
    const int is_loss = strstr(json->text, "drop") != NULL;
    size_t i = 0;
    call->is_pair |= replay_json_is(json, "p2p_perf");
    call->is_call |= replay_json_is(json, "coll_perf") || replay_json_is(json, "p2p_perf");
    while (i < sizeof fields / sizeof *fields && !replay_json_is(json, fields[i].key))
        i++;
    if (i < sizeof fields / sizeof *fields && fields[i].text)
        replay_json_string(json, fields[i].text, fields[i].bytes);
    else if (i < sizeof fields / sizeof *fields)
        *fields[i].number = replay_json_whole(json, -1);
    else if (is_time)
        call->duration_us = inspected_real(json);
    else if (is_loss)
        call->lost += replay_json_whole(json, 0) > 0;
    else {
        const replay_token token = replay_json_next(json);
        if (token == REPLAY_JSON_OBJECT && depth < 4)
            inspected_object(json, call, depth + 1);
        else if (token == REPLAY_JSON_OBJECT || token == REPLAY_JSON_ARRAY)
            replay_json_leave(json);
    }
}

static void inspected_object(replay_json *json, inspected *call, int depth)
{
    while (replay_json_key(json))
        inspected_value(json, call, depth);
}

/* Finds the seat of a call's process in its communicator. NULL: it has none, which was noted. */
static weir_status inspected_seat(replay_reader *reader, const inspected *call, replay_seat **seat)
{
    char process[128], key[256];
    replay_seats *seats = replay_seats_of(reader);
    *seat = NULL;
    if (!*call->comm || call->rank < 0 || call->nranks <= call->rank ||
        call->nranks > REPLAY_RANKS_MAX) {
        replay_note(reader, call->line, "a call without a communicator and its rank: left out");
        return WEIR_OK;
    }
    snprintf(process, sizeof process, "%s:%lld", call->host, (long long)call->pid);
    snprintf(key, sizeof key, "%s %s %lld", process, call->comm, (long long)call->rank);
    *seat = seats ? replay_seat_find(seats, key) : NULL;
    return *seat ? WEIR_OK
                 : replay_seat_set(reader, call->line, key, process, call->comm, (int)call->nranks,
                                   (int)call->rank, seat);
}

/* Notes what is known to be missing before a call: NCCL counts the calls of each kind, weir all. */
static void inspected_gap(replay_reader *reader, const inspected *from, int is_weir,
                          replay_seat *seat, int kind)
{
    uint64_t *last = &seat->last[is_weir ? from->is_pair : kind];
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

static weir_status inspected_add(replay_reader *reader, const inspected *from)
{
    const int is_weir = !strcmp(from->writer, "weir");
    replay_call call = REPLAY_CALL_INIT;
    replay_seat *seat;
    size_t k = 0;
    if (from->lost)
        replay_note(reader, from->line,
                    "Inspector lost calls; raise NCCL_INSPECTOR_DUMP_COLL_RING_"
                    "SIZE and NCCL_INSPECTOR_DUMP_P2P_RING_SIZE");
    if (strncmp(from->version, "v4.", 3) != 0 || from->version[3] > '3' || from->version[4])
        replay_note(reader, from->line, "Inspector's format %s, not v4.0 to v4.3, is read as these",
                    *from->version ? from->version : "without a version");
    if (!from->is_call)
        return WEIR_OK;
    while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].name, from->name) != 0)
        k++;
    if (k == sizeof kinds / sizeof *kinds) {
        replay_note(reader, from->line,
                    !strcmp(from->name, "All2Allv")
                        ? "an alltoallv, of which Inspector does not record the split sizes: left "
                          "out"
                        : "a call that is not known: left out");
        return WEIR_OK;
    }
    const int has_op = replay_kind_has_op(kinds[k].kind),
              has_root = replay_kind_has_root(kinds[k].kind);
    if (from->bytes < 0 || (uint64_t)from->bytes > REPLAY_COUNT_MAX ||
        (from->is_pair && (from->peer < 0 || from->peer >= from->nranks))) {
        replay_note(reader, from->line,
                    "a call with a negative, missing or huge size, or without "
                    "its peer: left out");
        return WEIR_OK;
    }
    weir_status status = inspected_seat(reader, from, &seat);
    if (status != WEIR_OK || !seat)
        return status;
    inspected_gap(reader, from, is_weir, seat, kinds[k].kind);
    call.kind = (uint8_t)kinds[k].kind;
    call.comm = seat->comm;
    call.dtype = has_op && from->bytes % 4 == 0 ? WEIR_FLOAT : WEIR_UINT8;
    call.count = (uint64_t)from->bytes / weir_dtype_bytes(call.dtype);
    call.peer = has_root ? 0 : from->is_pair ? (int32_t)from->peer : -1;
    call.duration_s = (float)(from->duration_us * 1e-6);
    if (from->start_us >= 0)
        call.start_s = replay_seats_time(reader, from->start_us);
    if (has_op)
        replay_note(reader, 0,
                    "Inspector records neither types nor operations: reductions are kept "
                    "as sums of float, of uint8 if the bytes are no multiple of 4");
    if (has_root)
        replay_note(reader, 0, "Inspector does not record roots: rank 0 is taken");
    return replay_add_call(reader, from->line, seat->rank, &call);
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

static weir_status inspector_read(replay_reader *reader, replay_source *source)
{
    replay_json json;
    weir_status status = replay_json_open(&json, source);
    size_t *before = calloc(REPLAY_RANKS_MAX, sizeof *before);
    if (status == WEIR_OK && !before)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the calls of ranks");
    for (int i = 0; before && i < REPLAY_RANKS_MAX; i++)
        before[i] = reader->trace->ranks[i].count;
    while (status == WEIR_OK && replay_json_next(&json) == REPLAY_JSON_OBJECT) {
        inspected call = {.pid = -1,
                          .rank = -1,
                          .nranks = -1,
                          .number = -1,
                          .bytes = -1,
                          .peer = -1,
                          .start_us = -1,
                          .duration_us = NAN,
                          .line = json.line};
        inspected_object(&json, &call, 0);
        if (!json.fault)
            status = inspected_add(reader, &call);
    }
    if (status == WEIR_OK)
        status = json.status;
    reader->trace->is_cut |= json.fault != NULL;
    if (status == WEIR_OK && json.fault)
        replay_note(reader, json.line, "%s: what follows is left out", json.fault);
    for (int i = 0; status == WEIR_OK && i < REPLAY_RANKS_MAX; i++)
        if (reader->trace->ranks[i].count > before[i])
            inspector_order(reader, i, before[i]);
    free(before);
    replay_json_close(&json);
    return status;
}

const replay_format replay_format_inspector = {"NCCL Inspector's JSON", inspector_recognises,
                                               inspector_read, replay_seats_finish};
