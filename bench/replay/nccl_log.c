/*
 * A log of NCCL or RCCL with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL, of one process or of a
 * job. What a launcher puts before a message is skipped: a message begins with "HOST:PID:THREAD
 * [GPU] NCCL INFO ", and names its communicator by address. Lines of INIT say which communicator,
 * and which rank of it, that is: by commId, or, for a split from NCCL 2.23 on, by the parent, the
 * color and how many splits the parent had.
 */
#include "bench/replay/seats.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char info[] = "NCCL INFO ";

/* What stands before a message. */
typedef struct log_place {
    char process[96];
    int gpu;
    int64_t time_us; /* -1: none, or only whole seconds */
} log_place;

static int log_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return strstr(head, info) != NULL;
}

/* The time stamp of NCCL_DEBUG_TIMESTAMP_LEVELS that ends a text: "[2026-01-02 03:04:05.678] ". */
static int64_t log_time(const char *from, const char *end)
{
    struct tm day = {.tm_isdst = 0};
    double seconds;
    char bracket;
    while (end > from && *end != '[')
        end--;
    if (sscanf(end, "[%d-%d-%d %d:%d:%lf%c", &day.tm_year, &day.tm_mon, &day.tm_mday, &day.tm_hour,
               &day.tm_min, &seconds, &bracket) != 7 ||
        bracket != ']' || seconds == floor(seconds))
        return -1;
    day.tm_year -= 1900;
    day.tm_mon--;
    return (int64_t)timegm(&day) * 1000000 + (int64_t)(seconds * 1e6);
}

/* Reads what stands before a message at the text. 0: not a prefix of NCCL. */
static int log_prefix(const char *line, const char *message, log_place *place)
{
    const char *at = message, *host;
    int pid, length = 0;
    /* Back over "[GPU] " and "PID:THREAD ", and over the characters of a host's name. */
    while (at > line && *at != '[')
        at--;
    if (sscanf(at, "[%d]", &place->gpu) != 1 || at - line < 4)
        return 0;
    for (at--; at > line && (isalnum((unsigned char)at[-1]) || strchr(":.-_", at[-1]));)
        at--;
    /* Forward over tags such as "0:". */
    for (host = at; *at && (sscanf(at, ":%d:%*d [%n", &pid, &length) != 1 || !length);)
        if (*at++ == ':')
            host = at;
    if (!length)
        return 0;
    snprintf(place->process, sizeof place->process, "%.*s:%d", (int)(at - host) % 64, host, pid);
    place->time_us = log_time(line, host);
    return 1;
}

/* ----------------------------------------------------------------- lines of INIT */

/* A communicator's beginning: "[Rank 3] ncclCommSplit comm 0x5 rank 3 nranks 8 cudaDev 3 ... parent
 * 0x4 splitCount 1 color 0 key 3 - Init START", and the same at its end. */
static weir_status log_init(replay_reader *reader, long line, const log_place *place,
                            const char *message)
{
    char pointer[32], parent[32], id[32], key[160], process[128], name[160];
    const char *comm = strstr(message, "comm 0x"), *of = strstr(message, " parent 0x");
    const char *by = strstr(message, " color "), *with_id = strstr(message, " commId "), *count;
    int rank, nranks, device = place->gpu, color = 0;
    const int ends = strstr(message, "Init COMPLETE") != NULL;
    replay_seat *seat;
    if (!comm || sscanf(comm, "comm %31s rank %d nranks %d cudaDev %d", pointer, &rank, &nranks,
                        &device) < 3)
        return WEIR_OK;
    snprintf(key, sizeof key, "%s %s", place->process, pointer);
    seat = replay_seat_find(reader, key);
    if (ends && seat && seat->is_open) { /* the beginning said all */
        seat->is_open = 0;
        return WEIR_OK;
    }
    if (with_id && sscanf(with_id, " commId %31s", id) == 1) {
        snprintf(name, sizeof name, "%s", id);
    } else if (of && by && sscanf(of, " parent %31s", parent) == 1 &&
               sscanf(by, " color %d", &color) == 1) {
        snprintf(name, sizeof name, "%s %s", place->process, parent);
        seat = replay_seat_find(reader, name);
        if (!seat) {
            replay_note(reader, line,
                        "a split of a communicator whose Init is not in the log: its "
                        "calls are left out");
            return WEIR_OK;
        }
        /* NCCL 2.23 does not print how many splits the parent had. */
        count = strstr(message, " splitCount ");
        if (!count)
            count = strstr(message, " childCount ");
        seat->children = count ? atoi(count + 12) : seat->children + 1;
        snprintf(name, sizeof name, "%s/%d.%d", reader->trace->comms[seat->comm].name,
                 seat->children, color);
    } else {
        return WEIR_OK;
    }
    snprintf(process, sizeof process, "%s/%d", place->process, device);
    weir_status status = replay_seat_set(reader, line, key, process, name, nranks, rank, &seat);
    if (status == WEIR_OK)
        seat->is_open = !ends;
    return status;
}

/* ----------------------------------------------------------------- lines of COLL */

/* Whether a call's buffers are those of its in-place form. */
static int log_in_place(const replay_call *call, const char *send, const char *receive,
                        int comm_rank)
{
    const uint64_t from = strtoull(send, NULL, 16), to = strtoull(receive, NULL, 16);
    const uint64_t part = (uint64_t)comm_rank * call->count * weir_dtype_bytes(call->dtype);
    switch (call->kind) {
    case REPLAY_ALLREDUCE:
    case REPLAY_BROADCAST:
    case REPLAY_REDUCE:
        return from == to;
    case REPLAY_ALLGATHER:
        return from == to + part;
    case REPLAY_REDUCE_SCATTER:
        return to == from + part;
    case REPLAY_GATHER:
        return call->peer == comm_rank && from == to + part;
    case REPLAY_SCATTER:
        return call->peer == comm_rank && to == from + part;
    default:
        return 0;
    }
}

/* A call: "AllReduce: opCount 2a sendbuff 0x1 recvbuff 0x2 count 10 datatype 7 op 0 root 0 comm 0x3
 * [nranks=8] stream 0x4". */
static weir_status log_call(replay_reader *reader, long line, const log_place *place,
                            const char *message)
{
    static const char *const keys[] = {" opCount ",  " sendbuff ", " recvbuff ", " count ",
                                       " datatype ", " op ",       " root ",     " comm ",
                                       " [nranks=",  " stream "};
    enum { NUMBER, SEND, RECEIVE, COUNT, DTYPE, OP, ROOT, COMM, NRANKS, STREAM, FIELDS };
    const char *fields[FIELDS];
    char name[64], pointer[32], stream[32], key[160];
    replay_call call = REPLAY_CALL_INIT;
    int is_whole = sscanf(message, "%63[^: ]:", name) == 1;
    for (int i = 0; i < FIELDS && is_whole; i++) {
        fields[i] = strstr(i ? fields[i - 1] : message, keys[i]);
        is_whole = fields[i] != NULL;
        if (is_whole)
            fields[i] += strlen(keys[i]) - 1;
    }
    if (!is_whole || sscanf(fields[COMM], " %31s", pointer) != 1 ||
        sscanf(fields[STREAM], " %31s", stream) != 1) {
        replay_note(reader, line, "a call whose line is torn or not known: left out");
        return WEIR_OK;
    }
    const long long count = strtoll(fields[COUNT], NULL, 10);
    const long dtype = strtol(fields[DTYPE], NULL, 10), op = strtol(fields[OP], NULL, 10);
    const long nranks = strtol(fields[NRANKS] + 1, NULL, 10);
    snprintf(key, sizeof key, "%s %s", place->process, pointer);
    replay_seat *seat = replay_seat_find(reader, key);
    const char *plain = !strncmp(name, "mscclFunc", 9)       ? name + 9
                        : !strncmp(name, "mscclpp_nccl", 12) ? name + 12
                                                             : name;
    const int kind = replay_kind_parse(plain);
    if (kind < 0 || kind == REPLAY_ALLTOALLV) {
        replay_note(reader, line, "a call of %s, which is not known: left out", name);
    } else if (!seat || nranks != reader->trace->comms[seat->comm].nranks) {
        replay_note(reader, line,
                    "a call of a communicator whose Init is not in the log: left out; record with "
                    "NCCL_DEBUG_SUBSYS=INIT,COLL");
    } else if (dtype < 0 || dtype >= WEIR_DTYPE_COUNT || count < 0 ||
               (uint64_t)count > REPLAY_COUNT_MAX || op < 0) {
        replay_note(reader, line,
                    "a call with a type, operation or number of elements that is not known: left "
                    "out");
    } else {
        call.kind = (uint8_t)kind;
        call.comm = seat->comm;
        const weir_status status = replay_seat_stream(reader, place->process, stream, &call.stream);
        if (status != WEIR_OK)
            return status;
        call.count = (uint64_t)count;
        call.dtype = (uint8_t)dtype; /* NCCL's numbers are weir's */
        call.op = (uint8_t)(op < WEIR_OP_COUNT ? op : WEIR_SUM);
        if (place->time_us >= 0)
            call.start_s = replay_seats_time(reader, place->time_us);
        if (replay_kind_has_root(call.kind) || replay_is_message(&call))
            call.peer = (int32_t)strtol(fields[ROOT], NULL, 10);
        call.in_place =
            (uint8_t)log_in_place(&call, fields[SEND], fields[RECEIVE], seat->comm_rank);
        if (op >= WEIR_OP_COUNT && replay_kind_has_op(call.kind))
            replay_note(reader, line, "an operation of ncclRedOpCreatePreMulSum is kept as sum");
        if (replay_is_message(&call)) {
            call.group = (int32_t)(strtoull(fields[NUMBER], NULL, 16) & INT32_MAX);
            replay_note(reader, 0,
                        "sends and receives that follow each other with one opCount are "
                        "kept as one group");
        }
        return replay_add_call(reader, line, seat->rank, &call);
    }
    return WEIR_OK;
}

static weir_status log_read(replay_reader *reader, replay_source *source)
{
    char *line;
    size_t length;
    int is_whole;
    weir_status status;
    while ((status = replay_source_line(source, &line, &length, &is_whole)) == WEIR_OK && line) {
        const long number = replay_source_line_number(source);
        for (char *at = line; status == WEIR_OK && (at = strstr(at, info)) != NULL;) {
            log_place place;
            const int is_known = log_prefix(line, at, &place);
            char *message = at + sizeof info - 1, *next = strstr(message, info);
            at = message;
            if (!is_known)
                continue;
            if (next) /* another message within the line */
                *next = '\0';
            if (strstr(message, ": opCount "))
                status = log_call(reader, number, &place, message);
            else if (strstr(message, "Init START") || strstr(message, "Init COMPLETE"))
                status = log_init(reader, number, &place, message);
            if (next)
                *next = *info;
        }
        if (status != WEIR_OK)
            return status;
        reader->trace->is_cut |= !is_whole;
        if (!is_whole)
            replay_note(reader, number, "the file ends within a line, or a line is too long");
    }
    return status;
}

const replay_format replay_format_nccl_log = {"a log of NCCL", log_recognises, log_read,
                                              replay_seats_finish};
