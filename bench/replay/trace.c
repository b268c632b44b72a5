/* A recorded job: names of calls, queries, notes: see trace.h. */
#include "bench/replay/trace.h"

#include "base/error.h"
#include "base/words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const kind_names[REPLAY_KINDS] = {
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "alltoall",
    "alltoallv", "gather",         "scatter",   "send",      "recv",   "barrier"};

const char *replay_kind_name(replay_kind kind)
{
    return (unsigned)kind < REPLAY_KINDS ? kind_names[kind] : NULL;
}

typedef struct trace_name {
    const char *name;
    int value;
} trace_name;

/* Names of NCCL, RCCL, Inspector and PyTorch that differ from ours by more than case. */
static const trace_name other_kinds[] = {
    {"ReduceScatter", REPLAY_REDUCE_SCATTER},
    {"All2All", REPLAY_ALLTOALL},
    {"AllToAllPivot", REPLAY_ALLTOALL},
    {"allreduce_coalesced", REPLAY_ALLREDUCE},
    {"_broadcast_oop", REPLAY_BROADCAST},
    {"_reduce_oop", REPLAY_REDUCE},
    {"all_gather", REPLAY_ALLGATHER},
    {"_allgather_base", REPLAY_ALLGATHER},
    {"allgather_into_tensor_coalesced", REPLAY_ALLGATHER},
    {"_reduce_scatter_base", REPLAY_REDUCE_SCATTER},
    {"reduce_scatter_tensor_coalesced", REPLAY_REDUCE_SCATTER},
    {"all_to_all", REPLAY_ALLTOALL},
    {"all_to_allv", REPLAY_ALLTOALLV},
};

/* Names of PyTorch, without "c10::", and short ones that its users and NCCL's know. */
static const trace_name other_dtypes[] = {
    {"i8", WEIR_INT8},
    {"Char", WEIR_INT8},
    {"signed char", WEIR_INT8},
    {"u8", WEIR_UINT8},
    {"Byte", WEIR_UINT8},
    {"unsigned char", WEIR_UINT8},
    {"Bool", WEIR_UINT8},
    {"i32", WEIR_INT32},
    {"Int", WEIR_INT32},
    {"u32", WEIR_UINT32},
    {"i64", WEIR_INT64},
    {"Long", WEIR_INT64},
    {"long int", WEIR_INT64},
    {"u64", WEIR_UINT64},
    {"f16", WEIR_HALF},
    {"float16", WEIR_HALF},
    {"f32", WEIR_FLOAT},
    {"float32", WEIR_FLOAT},
    {"f64", WEIR_DOUBLE},
    {"float64", WEIR_DOUBLE},
    {"bf16", WEIR_BFLOAT16},
    {"f8e4m3", WEIR_FP8_E4M3},
    {"f8e5m2", WEIR_FP8_E5M2},
    {"Float8_e4m3fn", WEIR_FP8_E4M3},
    {"Float8_e5m2", WEIR_FP8_E5M2},
};

static int name_value(const trace_name *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcasecmp(name, names[i].name))
            return names[i].value;
    return -1;
}

int replay_kind_parse(const char *name)
{
    for (int kind = 0; kind < REPLAY_KINDS; kind++)
        if (!strcasecmp(name, kind_names[kind]))
            return kind;
    return name_value(other_kinds, sizeof other_kinds / sizeof *other_kinds, name);
}

int replay_dtype_parse(const char *name)
{
    name += strncmp(name, "c10::", 5) ? 0 : 5;
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        if (!strcasecmp(name, weir_dtype_name((weir_dtype)dtype)))
            return dtype;
    return name_value(other_dtypes, sizeof other_dtypes / sizeof *other_dtypes, name);
}

int replay_kind_has_op(replay_kind kind)
{
    return kind == REPLAY_ALLREDUCE || kind == REPLAY_REDUCE_SCATTER || kind == REPLAY_REDUCE;
}

int replay_kind_has_root(replay_kind kind)
{
    return kind == REPLAY_BROADCAST || kind == REPLAY_REDUCE || kind == REPLAY_GATHER ||
           kind == REPLAY_SCATTER;
}

int replay_is_message(const replay_call *call)
{
    return call->kind == REPLAY_SEND || call->kind == REPLAY_RECV;
}

/* What precedes each piece of memory. */
typedef struct pool_piece {
    _Alignas(max_align_t) void *before;
} pool_piece;

void *replay_take(replay_pool *pool, size_t count, size_t bytes)
{
    const size_t head = sizeof(pool_piece);
    pool_piece *piece = count < (SIZE_MAX - head) / bytes ? calloc(1, head + count * bytes) : NULL;
    if (!piece) {
        pool->has_failed = 1;
        return NULL;
    }
    piece->before = pool->last;
    pool->last = piece;
    return piece + 1;
}

char *replay_take_text(replay_pool *pool, const char *text)
{
    char *taken = replay_take(pool, strlen(text) + 1, 1);
    return taken ? strcpy(taken, text) : NULL;
}

void replay_pool_free(replay_pool *pool)
{
    for (pool_piece *piece = pool->last, *before; piece; piece = before) {
        before = piece->before;
        free(piece);
    }
    *pool = (replay_pool){NULL, 0};
}

int replay_grow(void *list, size_t count, size_t *room, size_t bytes)
{
    void **entries = list;
    if (count < *room)
        return 0;
    const size_t more = *room + *room / 2 + 16;
    void *grown = realloc(*entries, more * bytes);
    if (!grown)
        return -1;
    *entries = grown;
    *room = more;
    return 0;
}

weir_status replay_no_memory(void)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the recorded calls; use a node with more "
                                          "memory, or cut the recording");
}

size_t replay_calls(const replay_trace *trace)
{
    size_t calls = 0;
    for (int rank = 0; rank < trace->nranks; rank++)
        calls += trace->ranks[rank].count;
    return calls;
}

int replay_comm_rank(const replay_comm *comm, int rank)
{
    if (rank < comm->nranks && comm->ranks[rank] == rank)
        return rank;
    for (int i = 0; i < comm->nranks; i++)
        if (comm->ranks[i] == rank)
            return i;
    return -1;
}

void replay_trace_free(replay_trace *trace)
{
    if (!trace)
        return;
    for (int i = 0; trace->ranks && i < REPLAY_RANKS_MAX; i++)
        free(trace->ranks[i].calls);
    replay_pool_free(&trace->pool);
    free(trace->comms);
    free(trace->ranks);
    free(trace->splits);
    free(trace->files);
    free(trace);
}

void replay_notes_print(const replay_trace *trace, FILE *to)
{
    for (int i = 0; i < trace->nnotes; i++) {
        const replay_note_entry *note = &trace->notes[i];
        fprintf(to, "%s:", trace->files[note->file]);
        if (note->line)
            fprintf(to, "%u:", note->line);
        fprintf(to, " %s", note->text);
        if (note->count > 1)
            fprintf(to, " (and %llu more)", (unsigned long long)(note->count - 1));
        fputc('\n', to);
    }
    if (trace->more_notes)
        fprintf(to, "%llu more note%s of other kinds\n", (unsigned long long)trace->more_notes,
                weiri_s(trace->more_notes));
}
