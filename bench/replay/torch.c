/* What PyTorch records about a call: see torch.h. */
#include "bench/replay/torch.h"

#include "bench/replay/seats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct torch_kept {
    replay_call call;
    int64_t order, number, id;
    size_t place; /* in the file's order */
} torch_kept;

typedef struct torch_kernel {
    int64_t id, stream;
    double duration_s;
} torch_kernel;

/* The ranks of a process group, from the file's list of groups. */
typedef struct torch_group {
    char name[REPLAY_TORCH_NAME];
    char *ranks;
} torch_group;

/* A communicator of the file, and what is known of it. */
typedef struct torch_member {
    uint32_t comm;
    int64_t rank; /* of the file's writer in it; -1: unknown */
} torch_member;

typedef struct torch_list {
    void *entries;
    size_t count, room;
} torch_list;

struct replay_torch {
    replay_reader *reader;
    int64_t origin_ns, rank; /* rank: of the job, as the calls say; -1: they do not */
    int has_origin;
    int64_t streams[UINT8_MAX]; /* the file's numbers of streams, as they appear */
    int nstreams;
    torch_list kept, kernels, groups, members; /* of the types above */
    int64_t in[REPLAY_RANKS_MAX], out[REPLAY_RANKS_MAX], ranks[REPLAY_RANKS_MAX];
    uint64_t sent[REPLAY_RANKS_MAX], received[REPLAY_RANKS_MAX];
};

/* Returns a new entry at the end of the list, or NULL. */
static void *list_add(torch_list *list, size_t bytes)
{
    if (replay_grow(&list->entries, list->count, &list->room, bytes) != 0)
        return NULL;
    return memset((char *)list->entries + list->count++ * bytes, 0, bytes);
}

static void groups_free(replay_torch *torch)
{
    torch_group *groups = torch->groups.entries;
    for (size_t i = 0; i < torch->groups.count; i++)
        free(groups[i].ranks);
    torch->groups.count = 0;
}

weir_status replay_torch_begin(replay_reader *reader, replay_torch **made)
{
    replay_torch *torch = reader->state ? reader->state : calloc(1, sizeof *torch);
    if (!torch)
        return replay_no_memory();
    reader->state = *made = torch;
    torch->reader = reader;
    torch->rank = -1;
    torch->kept.count = torch->kernels.count = torch->members.count = 0;
    torch->nstreams = 0;
    groups_free(torch);
    return WEIR_OK;
}

weir_status replay_torch_finish(replay_reader *reader, int failed)
{
    replay_torch *torch = reader->state;
    (void)failed;
    if (torch) {
        groups_free(torch);
        free(torch->kept.entries);
        free(torch->kernels.entries);
        free(torch->groups.entries);
        free(torch->members.entries);
        free(torch);
    }
    return WEIR_OK;
}

/* ------------------------------------------------------------------- lists */

/* Reads a list of whole numbers of at most REPLAY_RANKS_MAX entries. Returns how many there are, or
 * -1 if the list is not whole: PyTorch ends long ones with "...". */
static int read_list(const char *text, int64_t *list)
{
    int count = 0;
    const char *at = text + strspn(text, " [");
    while (*at && *at != ']') {
        char *end;
        errno = 0;
        const int64_t value = strtoll(at, &end, 10);
        if (end == at || errno || count == REPLAY_RANKS_MAX)
            return -1;
        list[count++] = value;
        at = end + strspn(end, " ,");
    }
    return *at || !*text ? count : -1;
}

static int has_entries(const char *list)
{
    list += strspn(list, " [");
    return *list && *list != ']';
}

weir_status replay_torch_groups(replay_torch *torch, char *text)
{
    char *to = text;
    if (!*text)
        return WEIR_OK;
    for (const char *from = text; *from; from++)
        if (*from != '\\')
            *to++ = *from;
    *to = '\0';
    for (char *at = text; (at = strstr(at, "\"pg_name\"")) != NULL; at++) {
        char name[REPLAY_TORCH_NAME], *next = strstr(at + 1, "\"pg_name\"");
        char *ranks = strstr(at, "\"ranks\"");
        if (sscanf(at + 9, " : \"%63[^\"]\"", name) != 1 || !ranks || (next && ranks > next))
            continue;
        ranks += strcspn(ranks, "[");
        torch_group *group = list_add(&torch->groups, sizeof *group);
        if (!group || !(group->ranks = strndup(ranks, strcspn(ranks, "]") + 1)))
            return replay_no_memory();
        memcpy(group->name, name, sizeof name);
    }
    return WEIR_OK;
}

/* Finds the ranks of a call's group. Returns 1 if torch->ranks has them all, 0 if it has the first
 * one at most, which is then not -1. */
static int find_ranks(replay_torch *torch, const replay_torch_call *call)
{
    const torch_group *groups = torch->groups.entries;
    torch->ranks[0] = -1;
    if (read_list(call->ranks, torch->ranks) == call->size)
        return 1;
    for (size_t i = 0; i < torch->groups.count; i++)
        if (!strcmp(groups[i].name, call->group) &&
            read_list(groups[i].ranks, torch->ranks) == call->size)
            return 1;
    if (call->start >= 0)
        torch->ranks[0] = call->start;
    if (call->start < 0 || (call->stride <= 0 && call->size > 1))
        return 0;
    for (int64_t i = 0; i < call->size; i++)
        torch->ranks[i] = call->start + i * call->stride;
    return 1;
}

/* ------------------------------------------------------------------- calls */

/* The elements for each rank of a side of an alltoallv, from its rows. Returns 0 if unknown. */
static int find_splits(const char *text, int64_t *rows, int64_t elements, int64_t size,
                       uint64_t *splits)
{
    const int count = read_list(text, rows);
    int64_t sum = 0;
    if (count != size && count != 0)
        return 0;
    for (int i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] > elements || (sum += rows[i]) > elements)
            return 0;
    if (elements < 0 || (count ? sum && elements % sum : elements % size) ||
        (!sum && count && elements))
        return 0;
    for (int i = 0; i < size; i++)
        splits[i] = (uint64_t)(!count ? elements / size : sum ? rows[i] * (elements / sum) : 0);
    return 1;
}

/* Finds the count of a call. Returns NULL, or what is wrong. */
static const char *find_count(replay_torch *torch, const replay_torch_call *from, replay_call *call)
{
    const int64_t in = from->in, out = from->out, size = from->size;
    int64_t count = in;
    if (in > (int64_t)REPLAY_COUNT_MAX || out > (int64_t)REPLAY_COUNT_MAX)
        return "a call of more than 2^40 elements: left out";
    switch (call->kind) {
    case REPLAY_BARRIER:
        count = 0;
        break;
    case REPLAY_ALLGATHER:
        if (out >= 0 && out != in * size)
            return "an allgather of parts that differ in size: left out";
        break;
    case REPLAY_REDUCE_SCATTER:
        count = out;
        if (in >= 0 && in != out * size)
            return "a reduce_scatter of parts that differ in size: left out";
        break;
    case REPLAY_ALLTOALL:
        if (in != out || in % size)
            return "an alltoall whose elements do not divide by the ranks, and whose split sizes "
                   "the file does not have: left out";
        count = in / size;
        break;
    case REPLAY_SCATTER:
        count = out;
        break;
    case REPLAY_ALLTOALLV:
        if (strstr(from->in_split, "...") || strstr(from->out_split, "..."))
            return "an alltoallv of which PyTorch's profiler wrote only the first 30 split sizes: "
                   "left out; record with ExecutionTraceObserver, which writes all";
        if (!find_splits(from->in_split, torch->in, in, size, torch->sent) ||
            !find_splits(from->out_split, torch->out, out, size, torch->received))
            return "an alltoallv whose split sizes do not fit its elements: left out";
        count = 0;
        break;
    default:
        break;
    }
    if (count < 0)
        return "a call with a negative or missing number of elements: left out";
    call->count = (uint64_t)count;
    return NULL;
}

/* Finds what does not depend on the communicator. Returns NULL, or what is wrong. */
static const char *find_call(replay_torch *torch, const replay_torch_call *from, replay_call *call)
{
    const int kind = call->kind, is_barrier = kind == REPLAY_BARRIER;
    const int needs_peer = replay_kind_has_root(kind) || replay_is_message(call);
    const int dtype = is_barrier ? WEIR_INT8 : replay_dtype_parse(from->dtype);
    /* Calls with one buffer, which are in place. */
    const int has_one =
        !strstr(from->name, "_oop") &&
        (kind == REPLAY_ALLREDUCE || kind == REPLAY_BROADCAST || kind == REPLAY_REDUCE);
    if (dtype < 0)
        return "type";
    if (from->size < 1 || from->size > REPLAY_RANKS_MAX)
        return "a call whose group has no known size, or too many ranks: left out";
    if (needs_peer && (from->rank < 0 || from->rank >= from->size))
        return "a call without its root or peer, or with one outside of its group: left out";
    /* From a list of tensors of different sizes. */
    if (kind == REPLAY_ALLTOALL && (has_entries(from->in_split) || has_entries(from->out_split)))
        call->kind = REPLAY_ALLTOALLV;
    call->dtype = (uint8_t)dtype;
    call->peer = needs_peer ? (int32_t)from->rank : -1;
    call->in_place = (uint8_t)(has_one || (from->is_in_place && (kind == REPLAY_ALLGATHER ||
                                                                 kind == REPLAY_REDUCE_SCATTER)));
    return find_count(torch, from, call);
}

/* Finds the communicator of a call's group, and what the call tells about it and about the rank.
 * Groups of one name may be different ones, which then begin with different ranks. */
static weir_status find_comm(replay_torch *torch, const replay_torch_call *from, replay_call *call)
{
    char name[REPLAY_TORCH_NAME + 24];
    const int are_known = find_ranks(torch, from);
    snprintf(name, sizeof name, "%.40s", *from->group ? from->group : "group");
    if (torch->ranks[0] >= 0)
        snprintf(name + strlen(name), 24, "@%lld", (long long)torch->ranks[0]);
    weir_status status =
        replay_add_comm(torch->reader, from->line, name, (int)from->size, &call->comm);
    torch_member *members = torch->members.entries, *member = NULL;
    for (size_t i = torch->members.count; i-- > 0 && !member;)
        if (members[i].comm == call->comm)
            member = &members[i];
    if (status == WEIR_OK && !member) {
        member = list_add(&torch->members, sizeof *member);
        if (!member)
            return replay_no_memory();
        *member = (torch_member){call->comm, -1};
        for (int i = 0; are_known && i < from->size && status == WEIR_OK; i++) {
            if (torch->ranks[i] < 0 || torch->ranks[i] >= REPLAY_RANKS_MAX)
                return replay_fail(torch->reader, WEIR_ERR_INVALID, from->line,
                                   "rank %lld in group %s; ranks from 0 to %d can be replayed",
                                   (long long)torch->ranks[i], name, REPLAY_RANKS_MAX - 1);
            status =
                replay_set_member(torch->reader, from->line, call->comm, i, (int)torch->ranks[i]);
        }
    }
    if (status != WEIR_OK || call->peer >= 0 || from->rank < 0 || from->rank >= from->size)
        return status;
    member->rank = from->rank;
    if (are_known && torch->rank < 0)
        torch->rank = torch->ranks[from->rank];
    if (are_known && torch->rank != torch->ranks[from->rank])
        return replay_fail(torch->reader, WEIR_ERR_INVALID, from->line,
                           "a call of rank %lld, after calls of rank %lld; each rank's calls must "
                           "be in a file of their own",
                           (long long)torch->ranks[from->rank], (long long)torch->rank);
    return WEIR_OK;
}

weir_status replay_torch_add(replay_torch *torch, const replay_torch_call *from)
{
    replay_call call = REPLAY_CALL_INIT;
    const int kind = replay_kind_parse(from->name);
    if (!strcmp(from->name, "wait"))
        return WEIR_OK;
    if (kind < 0) {
        if (*from->name)
            replay_note(torch->reader, from->line, "a call of %s, which is not known: left out",
                        from->name);
        else
            replay_note(torch->reader, from->line,
                        "a call without its parameters, as PyTorch before 2.3 writes it: left out; "
                        "record with a newer version");
        return WEIR_OK;
    }
    call.kind = (uint8_t)kind;
    const char *fault = find_call(torch, from, &call);
    if (fault && !strcmp(fault, "type"))
        replay_note(torch->reader, from->line, "%s of elements of type %s: left out", from->name,
                    *from->dtype ? from->dtype : "unknown");
    else if (fault)
        replay_note(torch->reader, from->line, "%s", fault);
    if (fault)
        return WEIR_OK;
    if (strstr(from->name, "coalesced"))
        replay_note(torch->reader, from->line,
                    "%s is kept as one call of all its elements; the file does not have the parts",
                    from->name);
    if (replay_kind_has_op(call.kind))
        replay_note(torch->reader, 0,
                    "PyTorch does not record operations: every reduction is kept as sum");
    weir_status status = find_comm(torch, from, &call);
    if (status == WEIR_OK && call.kind == REPLAY_ALLTOALLV)
        status = replay_add_splits(torch->reader, torch->sent, torch->received, (int)from->size,
                                   &call.splits);
    torch_kept *kept = status == WEIR_OK ? list_add(&torch->kept, sizeof *kept) : NULL;
    if (!kept)
        return status == WEIR_OK ? replay_no_memory() : status;
    if (from->time_ns >= 0 && !torch->has_origin) {
        torch->origin_ns = from->time_ns;
        torch->has_origin = 1;
    }
    if (from->time_ns >= 0)
        call.start_s = (double)(from->time_ns - torch->origin_ns) * 1e-9;
    call.line = (uint32_t)from->line;
    *kept = (torch_kept){call, from->order, from->number, from->id, torch->kept.count};
    return WEIR_OK;
}

weir_status replay_torch_kernel(replay_torch *torch, int64_t id, double duration_s, int64_t stream)
{
    torch_kernel *kernel = list_add(&torch->kernels, sizeof *kernel);
    if (!kernel)
        return replay_no_memory();
    *kernel = (torch_kernel){id, stream, duration_s};
    return WEIR_OK;
}

/* -------------------------------------------------------- the end of a file */

static int by_order(const void *a, const void *b)
{
    const torch_kept *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
                                : (x->place > y->place) - (x->place < y->place);
}

static int by_id(const void *a, const void *b)
{
    const torch_kernel *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The number of a stream of the file. */
static uint8_t stream_number(replay_torch *torch, int64_t stream)
{
    int i = 0;
    while (i < torch->nstreams && torch->streams[i] != stream)
        i++;
    if (i == torch->nstreams && i < UINT8_MAX)
        torch->streams[torch->nstreams++] = stream;
    return (uint8_t)(i < UINT8_MAX ? i : UINT8_MAX - 1);
}

/* Finds the time of all kernels with a call's id, and their stream. */
static void use_kernels(replay_torch *torch, int64_t id, replay_call *call)
{
    const torch_kernel *kernels = torch->kernels.entries, *end = kernels + torch->kernels.count;
    const torch_kernel key = {.id = id}, *at = NULL;
    double sum = 0;
    if (id >= 0 && torch->kernels.count)
        at = bsearch(&key, kernels, torch->kernels.count, sizeof key, by_id);
    if (!at)
        return;
    while (at > kernels && at[-1].id == id)
        at--;
    call->stream = stream_number(torch, at->stream);
    for (; at < end && at->id == id; at++)
        sum += at->duration_s;
    call->duration_s = (float)sum;
}

weir_status replay_torch_end(replay_torch *torch, int64_t rank)
{
    torch_kept *kept = torch->kept.entries;
    torch_member *members = torch->members.entries;
    const torch_kept *last = kept; /* the one with the greatest number so far */
    const size_t count = torch->kept.count;
    weir_status status = WEIR_OK;
    if (!count) {
        replay_note(torch->reader, 0,
                    "no calls with parameters (record_param_comms), which PyTorch records over "
                    "NCCL, not over gloo");
        return WEIR_OK;
    }
    if (rank >= 0 && torch->rank >= 0 && rank != torch->rank)
        return replay_fail(torch->reader, WEIR_ERR_INVALID, 0,
                           "the file says that it is of rank %lld, its calls that they are of rank "
                           "%lld",
                           (long long)rank, (long long)torch->rank);
    rank = rank >= 0 ? rank : torch->rank;
    if (rank < 0 || rank >= REPLAY_RANKS_MAX)
        return replay_fail(torch->reader, WEIR_ERR_INVALID, 0,
                           "neither the file nor its calls say of which rank from 0 to %d it is",
                           REPLAY_RANKS_MAX - 1);
    const size_t first = torch->reader->trace->ranks[rank].count;
    qsort(kept, count, sizeof *kept, by_order);
    if (torch->kernels.count)
        qsort(torch->kernels.entries, torch->kernels.count, sizeof(torch_kernel), by_id);
    for (size_t i = 0; i < torch->members.count && status == WEIR_OK; i++)
        if (members[i].rank >= 0)
            status = replay_set_member(torch->reader, 0, members[i].comm, (int)members[i].rank,
                                       (int)rank);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        replay_call *call = &kept[i].call;
        use_kernels(torch, kept[i].id, call);
        if (kept[i].number < last->number && call->start_s > last->call.start_s + 1e-3)
            replay_note(torch->reader, call->line,
                        "PyTorch numbered a call before calls of earlier times: the clock jumps; "
                        "calls are kept in the order of times");
        last = kept[i].number > last->number ? &kept[i] : last;
        status = replay_add_call(torch->reader, call->line, (int)rank, call);
    }
    if (status == WEIR_OK)
        replay_join_pairs(torch->reader, (int)rank, first);
    return status;
}
