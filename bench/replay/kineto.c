/*
 * The trace that PyTorch's profiler (Kineto) writes for one rank: JSON with a list of events, of
 * which "record_param_comms" are the calls, and kernels named nccl... say how long they ran, and on
 * which stream. Events have times in microseconds, in newer versions since baseTimeNanoseconds.
 * Events stand thread by thread, so that only their times give the order of calls.
 */
#include "bench/replay/json.h"
#include "bench/replay/torch.h"

#include <stdlib.h>
#include <string.h>

/* The parts of one event, and the memory of its texts. */
typedef struct kineto_event {
    replay_torch_call call;
    char name[REPLAY_TORCH_NAME], ranks[1024], in_split[1024], out_split[1024];
    int64_t duration_ns, group_id, stream;
} kineto_event;

typedef struct kineto_file {
    replay_reader *reader;
    replay_torch *torch;
    int64_t base_ns, rank;
    kineto_event event;
} kineto_file;

static int kineto_recognises(const char *head, size_t bytes)
{
    (void)bytes;
    return head[strspn(head, " \t\r\n")] == '{' &&
           (strstr(head, "\"traceEvents\"") || strstr(head, "\"baseTimeNanoseconds\"") ||
            (strstr(head, "\"schemaVersion\"") && strstr(head, "\"deviceProperties\"")));
}

static int is_kernel(const char *name)
{
    return !strncmp(name, "nccl", 4) && strstr(name, "Kernel");
}

static int is_wanted(const char *name)
{
    return !strcmp(name, "record_param_comms") || is_kernel(name);
}

#define NUMBER(key, member) REPLAY_JSON_NUMBER(kineto_event, key, member)
#define TEXT(key, member) REPLAY_JSON_STRING(kineto_event, key, member)

static const replay_json_field fields[] = {
    {"name", REPLAY_JSON_BEGIN, REPLAY_TORCH_NAME, offsetof(kineto_event, name)},
    {"ts", REPLAY_JSON_NS, 0, offsetof(kineto_event, call.order)},
    {"dur", REPLAY_JSON_NS, 0, offsetof(kineto_event, duration_ns)},
    {"args", REPLAY_JSON_MEMBERS, 0, 0},
    TEXT("Collective name", call.name),
    TEXT("dtype", call.dtype),
    TEXT("Process Group Name", call.group),
    TEXT("Process Group Ranks", ranks),
    TEXT("In split size", in_split),
    TEXT("Out split size", out_split),
    NUMBER("In msg nelems", call.in),
    NUMBER("Out msg nelems", call.out),
    NUMBER("Rank", call.rank),
    NUMBER("Group size", call.size),
    NUMBER("Process Group ID", group_id), /* of old versions, instead of a name */
    NUMBER("Global rank start", call.start),
    NUMBER("Global rank stride", call.stride),
    NUMBER("External id", call.id),
    NUMBER("Record function id", call.number),
    NUMBER("stream", stream), /* of a kernel */
};
static const replay_json_table table = {fields, sizeof fields / sizeof *fields, is_wanted};

/* Reads one event; most end here as soon as their name is known. */
static weir_status kineto_event_read(replay_json *json, void *context)
{
    kineto_file *file = context;
    kineto_event *event = &file->event;
    replay_torch_call *call = &event->call;
    *call = (replay_torch_call)REPLAY_TORCH_CALL_INIT;
    call->ranks = event->ranks;
    call->in_split = event->in_split;
    call->out_split = event->out_split;
    call->order = -1;
    call->line = json->line;
    *event->name = *event->ranks = *event->in_split = *event->out_split = '\0';
    event->duration_ns = event->group_id = event->stream = -1;
    if (!replay_json_object(json, &table, event) || json->fault || !is_wanted(event->name))
        return json->status;
    if (is_kernel(event->name))
        return call->id < 0 || event->duration_ns < 0
                   ? WEIR_OK
                   : replay_torch_kernel(file->torch, call->id, (double)event->duration_ns * 1e-9,
                                         event->stream);
    if (call->order < 0) {
        replay_note(file->reader, call->line,
                    "a call without a time, so its place among the others is unknown: left out");
        return WEIR_OK;
    }
    if (!*call->group)
        snprintf(call->group, sizeof call->group, "%lld", (long long)event->group_id);
    call->time_ns = file->base_ns + call->order;
    return replay_torch_add(file->torch, call);
}

static weir_status kineto_top(replay_json *json, void *context)
{
    kineto_file *file = context;
    weir_status status = WEIR_OK;
    replay_json_next(json);
    while (status == WEIR_OK && replay_json_key(json)) {
        if (replay_json_is(json, "schemaVersion")) {
            const int64_t version = replay_json_whole(json, -1);
            if (version != 1)
                status =
                    replay_fail(file->reader, WEIR_ERR_INVALID, json->line,
                                "schemaVersion %lld; version 1 can be read", (long long)version);
        } else if (replay_json_is(json, "baseTimeNanoseconds")) {
            file->base_ns = replay_json_whole(json, 0);
        } else if (replay_json_is(json, "distributedInfo")) {
            replay_json_raw(json);
            const char *rank = strstr(json->text, "\"rank\"");
            long long number;
            if (rank && sscanf(rank + 6, " : %lld", &number) == 1)
                file->rank = number;
            status = replay_torch_groups(file->torch, json->text);
        } else if (replay_json_is(json, "traceEvents")) {
            status = replay_json_each(json, kineto_event_read, file);
        } else {
            replay_json_skip(json);
        }
    }
    return status;
}

static weir_status kineto_read(replay_reader *reader, replay_source *source)
{
    kineto_file file = {.reader = reader, .rank = -1};
    weir_status status = replay_torch_begin(reader, &file.torch);
    if (status == WEIR_OK)
        status = replay_json_file(reader, source, kineto_top, &file);
    return status == WEIR_OK ? replay_torch_end(file.torch, file.rank) : status;
}

const replay_format replay_format_kineto = {"a trace of PyTorch's profiler", kineto_recognises,
                                            kineto_read, replay_torch_finish};
