/* A recorded job: names of calls, queries, notes: see trace.h. */
#include "bench/replay/trace.h"

#include "base/words.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[REPLAY_KINDS] = {
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "alltoall",
    "alltoallv", "gather",         "scatter",   "send",      "recv",   "barrier"};

const char *replay_kind_name(replay_kind kind)
{
    return (unsigned)kind < REPLAY_KINDS ? kind_names[kind] : NULL;
}

int replay_kind_parse(const char *name)
{
    for (int kind = 0; kind < REPLAY_KINDS; kind++)
        if (!strcmp(name, kind_names[kind]))
            return kind;
    return -1;
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
    for (int i = 0; i < trace->ncomms; i++)
        free(trace->comms[i].ranks);
    for (int i = 0; trace->ranks && i < REPLAY_RANKS_MAX; i++)
        free(trace->ranks[i].calls);
    for (int i = 0; i < trace->nfiles; i++)
        free(trace->files[i]);
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
