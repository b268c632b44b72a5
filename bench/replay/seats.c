/* Which rank of the job a process is: see seats.h. */
#define _GNU_SOURCE /* tdestroy */
#include "bench/replay/seats.h"

#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* A process, or a stream of one. */
typedef struct seat_process {
    char *key;
    int rank;     /* of the job, for now, plus 1; of a stream: its number plus 1 */
    int nstreams; /* of a process */
} seat_process;

static int by_key(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static replay_seats *seats_of(replay_reader *reader)
{
    if (!reader->state)
        reader->state = calloc(1, sizeof(replay_seats));
    return reader->state;
}

/* Finds the entry with a key in a tree of entries that begin with their key, or adds one of so many
 * bytes. NULL: no memory. */
static void *tree_entry(void **tree, const char *key, size_t bytes)
{
    void *found = tfind(&key, tree, by_key);
    if (found)
        return *(void **)found;
    char **entry = calloc(1, bytes);
    if (entry && (*entry = strdup(key)) && tsearch(entry, tree, by_key))
        return entry;
    if (entry)
        free(*entry);
    free(entry);
    return NULL;
}

replay_seat *replay_seat_find(replay_reader *reader, const char *key)
{
    replay_seats *seats = seats_of(reader);
    if (!seats)
        return NULL;
    if (seats->last && !strcmp(seats->last->key, key))
        return seats->last;
    void *found = tfind(&key, &seats->seats, by_key);
    return seats->last = found ? *(void **)found : NULL;
}

weir_status replay_seat_stream(replay_reader *reader, const char *process, const char *stream,
                               uint8_t *number)
{
    char key[256];
    replay_seats *seats = seats_of(reader);
    snprintf(key, sizeof key, "%s %s", process, stream);
    seat_process *of = seats ? tree_entry(&seats->processes, process, sizeof *of) : NULL;
    seat_process *found = of ? tree_entry(&seats->streams, key, sizeof *found) : NULL;
    if (!found)
        return replay_no_memory();
    if (found->rank == 0)
        found->rank = ++of->nstreams;
    *number = (uint8_t)(found->rank <= UINT8_MAX ? found->rank - 1 : UINT8_MAX);
    return WEIR_OK;
}

weir_status replay_seat_set(replay_reader *reader, long line, const char *key, const char *process,
                            const char *comm, int nranks, int comm_rank, replay_seat **set)
{
    replay_seats *seats = seats_of(reader);
    seat_process *of = seats ? tree_entry(&seats->processes, process, sizeof *of) : NULL;
    replay_seat *seat = of ? tree_entry(&seats->seats, key, sizeof *seat) : NULL;
    if (!seat)
        return replay_no_memory();
    if (of->rank == 0) /* a new one */
        of->rank = ++seats->nprocesses;
    seat->rank = of->rank - 1;
    seat->comm_rank = comm_rank;
    seat->children = seat->is_open = 0;
    memset(seat->last, 0, sizeof seat->last);
    *set = seat;
    weir_status status = replay_add_comm(reader, line, comm, nranks, &seat->comm);
    if (status == WEIR_OK)
        status = replay_set_member(reader, line, seat->comm, comm_rank, seat->rank);
    if (status != WEIR_OK)
        return status;
    const int other = replay_comm_rank(&reader->trace->comms[seat->comm], seat->rank);
    return other == comm_rank
               ? WEIR_OK
               : replay_fail(
                     reader, WEIR_ERR_INVALID, line,
                     "%s has ranks %d and %d of communicator %s; record a job with a process "
                     "for each GPU",
                     process, other, comm_rank, comm);
}

double replay_seats_time(replay_reader *reader, int64_t time_us)
{
    replay_seats *seats = seats_of(reader);
    if (!seats)
        return NAN;
    if (!seats->origin_us)
        seats->origin_us = time_us;
    return (double)(time_us - seats->origin_us) * 1e-6;
}

static void free_entry(void *entry)
{
    free(*(char **)entry);
    free(entry);
}

/* Numbers the ranks of the job as in the largest communicator, the others behind them. */
static void number_ranks(replay_trace *trace)
{
    int numbers[REPLAY_RANKS_MAX];
    const replay_comm *world = NULL;
    int next = 0;
    for (int i = 0; i < trace->ncomms; i++)
        if (!world || trace->comms[i].nranks > world->nranks)
            world = &trace->comms[i];
    for (int i = 0; i < REPLAY_RANKS_MAX; i++)
        numbers[i] = -1;
    for (int i = 0; world && i < world->nranks; i++)
        if (world->ranks[i] >= 0 && numbers[world->ranks[i]] < 0)
            numbers[world->ranks[i]] = next++;
    for (int i = 0; i < REPLAY_RANKS_MAX; i++)
        if (numbers[i] < 0)
            numbers[i] = next++;
    replay_renumber(trace, numbers);
}

weir_status replay_seats_finish(replay_reader *reader, int failed)
{
    replay_seats *seats = reader->state;
    if (!seats)
        return WEIR_OK;
    if (!failed)
        number_ranks(reader->trace);
    tdestroy(seats->seats, free_entry);
    tdestroy(seats->processes, free_entry);
    tdestroy(seats->streams, free_entry);
    free(seats);
    return WEIR_OK;
}

void replay_join_pairs(replay_reader *reader, int rank, size_t first)
{
    const replay_rank *of = &reader->trace->ranks[rank];
    for (size_t i = first; i < of->count; i++) {
        replay_call *call = &of->calls[i];
        const replay_call *before = i > first ? call - 1 : NULL;
        if (!replay_is_message(call))
            continue;
        call->group = (int32_t)(i & INT32_MAX);
        if (!before || before->group < 0 || before->comm != call->comm)
            continue;
        call->group = before->group;
        replay_note(reader, call->line,
                    "the file does not say which sends and receives are of one group: those that "
                    "follow each other in a communicator are");
    }
}
