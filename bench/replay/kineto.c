/*
 * The trace that PyTorch's profiler (Kineto) writes for one rank: JSON with a list of events, of
 * which "record_param_comms" are the calls, and kernels named nccl... say how long they ran. Events
 * have times in microseconds, in newer versions since baseTimeNanoseconds. Events stand thread by
 * thread, so that only their times give the order of calls.
 */
#include "base/error.h"
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parts of one event, and the memory of its texts. */
typedef struct kineto_event {
    replay_torch_call call;
    char name[REPLAY_TORCH_NAME], ranks[1024], in_split[1024], out_split[1024];
    int64_t duration_ns, group_id;
} kineto_event;

typedef struct kineto_file {
    replay_reader *reader;
    replay_torch *torch;
    replay_json json;
    int64_t base_ns, rank;
} kineto_file;

static int kineto_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' &&
           (strstr(head, "\"traceEvents\"") || strstr(head, "\"baseTimeNanoseconds\"") ||
            (strstr(head, "\"schemaVersion\"") && strstr(head, "\"deviceProperties\"")));
}

/* Microseconds with up to three digits behind the point, in nanoseconds; -1: not a time. */
static int64_t kineto_ns(const char *text)
{
    char *end;
    const long long whole = strtoll(text, &end, 10);
    int64_t part = 0;
    if (*text < '0' || *text > '9' || whole < 0 || whole > INT64_MAX / 2000)
        return -1;
    if (*end == '.')
        for (int i = 0, more = 1; i < 3; i++) {
            more = more && *++end >= '0' && *end <= '9';
            part = part * 10 + (more ? *end - '0' : 0);
        }
    if (strpbrk(end, "eE"))
        return (int64_t)(strtod(text, NULL) * 1e3);
    return whole * 1000 + part;
}

static int64_t kineto_time(replay_json *json)
{
    return replay_json_next(json) == REPLAY_JSON_WORD ? kineto_ns(json->text) : -1;
}

static void kineto_args(replay_json *json, kineto_event *event)
{
    replay_torch_call *call = &event->call;
    const struct {
        const char *key;
        int64_t *number;
        char *text;
        size_t bytes;
    } fields[] = {
        {"Collective name", NULL, call->name, sizeof call->name},
        {"dtype", NULL, call->dtype, sizeof call->dtype},
        {"Process Group Name", NULL, call->group, sizeof call->group},
        {"Process Group Ranks", NULL, event->ranks, sizeof event->ranks},
        {"In split size", NULL, event->in_split, sizeof event->in_split},
        {"Out split size", NULL, event->out_split, sizeof event->out_split},
        {"In msg nelems", &call->in, NULL, 0},
        {"Out msg nelems", &call->out, NULL, 0},
        {"Rank", &call->rank, NULL, 0},
        {"Group size", &call->size, NULL, 0},
        {"Process Group ID", &event->group_id, NULL, 0}, /* of old versions, instead of a name */
        {"Global rank start", &call->start, NULL, 0},
        {"Global rank stride", &call->stride, NULL, 0},
        {"External id", &call->id, NULL, 0},
        {"Record function id", &call->number, NULL, 0},
    };
    enum { FIELDS = sizeof fields / sizeof *fields };
    while (replay_json_key(json)) {
        size_t i = 0;
        while (i < FIELDS && !replay_json_is(json, fields[i].key))
            i++;
        if (i == FIELDS)
            replay_json_skip(json);
        else if (fields[i].text)
            replay_json_string(json, fields[i].text, fields[i].bytes);
        else
            *fields[i].number = replay_json_whole(json, -1);
    }
}

static int is_kernel(const char *name)
{
    return !strncmp(name, "nccl", 4) && strstr(name, "Kernel");
}

/* Reads one event; most end here as soon as their name is known. */
static weir_status kineto_event_read(kineto_file *file, kineto_event *event)
{
    replay_json *json = &file->json;
    event->call = (replay_torch_call)REPLAY_TORCH_CALL_INIT;
    event->call.ranks = event->ranks;
    event->call.in_split = event->in_split;
    event->call.out_split = event->out_split;
    *event->name = *event->ranks = *event->in_split = *event->out_split = '\0';
    event->duration_ns = event->group_id = -1;
    event->call.line = json->line;
    while (replay_json_key(json)) {
        if (replay_json_is(json, "name")) {
            replay_json_next(json);
            snprintf(event->name, sizeof event->name, "%s", json->text);
            if (strcmp(event->name, "record_param_comms") != 0 && !is_kernel(event->name)) {
                replay_json_leave(json);
                return json->status;
            }
        } else if (replay_json_is(json, "ts")) {
            event->call.order = kineto_time(json);
        } else if (replay_json_is(json, "dur")) {
            event->duration_ns = kineto_time(json);
        } else if (replay_json_is(json, "args") && replay_json_next(json) == REPLAY_JSON_OBJECT) {
            kineto_args(json, event);
        } else if (!replay_json_is(json, "args")) {
            replay_json_skip(json);
        }
    }
    if (json->fault || json->status != WEIR_OK)
        return json->status;
    if (is_kernel(event->name))
        return event->call.id < 0 || event->duration_ns < 0
                   ? WEIR_OK
                   : replay_torch_kernel(file->torch, event->call.id,
                                         (double)event->duration_ns * 1e-9);
    if (strcmp(event->name, "record_param_comms") != 0)
        return WEIR_OK;
    if (event->call.order < 0) {
        replay_note(file->reader, event->call.line,
                    "a call without a time, so its place among the "
                    "others is unknown: left out");
        return WEIR_OK;
    }
    if (!*event->call.group)
        snprintf(event->call.group, sizeof event->call.group, "%lld", (long long)event->group_id);
    event->call.time_ns = file->base_ns + event->call.order;
    return replay_torch_add(file->torch, &event->call);
}

static void kineto_job(kineto_file *file, char *text)
{
    const char *rank = strstr(text, "\"rank\"");
    long long number;
    if (rank && sscanf(rank + 6, " : %lld", &number) == 1)
        file->rank = number;
}

static weir_status kineto_top(kineto_file *file, kineto_event *event)
{
    replay_json *json = &file->json;
    weir_status status = WEIR_OK;
    if (replay_json_next(json) != REPLAY_JSON_OBJECT)
        return WEIR_OK;
    while (status == WEIR_OK && replay_json_key(json)) {
        if (replay_json_is(json, "schemaVersion")) {
            if (replay_json_whole(json, -1) != 1)
                replay_note(file->reader, json->line, "a schemaVersion that is not 1 is read as 1");
        } else if (replay_json_is(json, "baseTimeNanoseconds")) {
            file->base_ns = replay_json_whole(json, 0);
        } else if (replay_json_is(json, "distributedInfo")) {
            replay_json_raw(json);
            kineto_job(file, json->text);
            status = replay_torch_groups(file->torch, json->text);
        } else if (replay_json_is(json, "traceEvents")) {
            replay_token token = replay_json_next(json);
            while (status == WEIR_OK && token == REPLAY_JSON_ARRAY) {
                while (status == WEIR_OK && replay_json_next(json) == REPLAY_JSON_OBJECT)
                    status = kineto_event_read(file, event);
                token = REPLAY_JSON_CLOSE;
            }
        } else {
            replay_json_skip(json);
        }
    }
    return status != WEIR_OK ? status : json->status;
}

static weir_status kineto_read(replay_reader *reader, replay_source *source)
{
    kineto_file file = {.reader = reader, .rank = -1};
    kineto_event *event = malloc(sizeof *event);
    if (!event)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an event");
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = replay_json_open(&file.json, source);
    if (status == WEIR_OK)
        status = kineto_top(&file, event);
    reader->trace->is_cut |= file.json.fault != NULL;
    if (status == WEIR_OK && file.json.fault)
        replay_note(reader, file.json.line, "%s: what follows is left out", file.json.fault);
    if (status == WEIR_OK)
        status = replay_torch_end(file.torch, file.rank);
    replay_json_close(&file.json);
    free(event);
    return status;
}

const replay_format replay_format_kineto = {"a trace of PyTorch's profiler", kineto_recognises,
                                            kineto_read, replay_torch_finish};
