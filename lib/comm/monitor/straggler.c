/* Compares timed calls of ranks; see straggler.h. */
#include "comm/monitor/straggler.h"

#include <stdlib.h>

int weiri_timed_calls_copy(const weiri_monitored *from, weiri_monitored_call *to)
{
    int count = 0;
    for (int i = 0; i < WEIRI_MONITOR_CALLS; i++) {
        const weiri_monitored_call *one = &from->calls[i];
        const uint64_t number = weir_load_acquire(&one->number);
        const weiri_monitored_call copy = {number, weir_load_relaxed(&one->begin_ns),
                                           weir_load_relaxed(&one->duration_ns)};
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (number && weir_load_relaxed(&one->number) == number)
            to[count++] = copy;
    }
    return count;
}

static const weiri_monitored_call *straggler_call(const weiri_timed_calls *rank, uint64_t number)
{
    for (int i = 0; i < rank->count; i++)
        if (rank->calls[i].number == number)
            return &rank->calls[i];
    return NULL;
}

static int straggler_compare_numbers(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? 1 : one > other ? -1 : 0;
}

/* Lists the numbers of calls that all ranks have timed, the latest first. */
static int straggler_common_calls(const weiri_timed_calls *ranks, int nranks,
                                  uint64_t numbers[WEIRI_MONITOR_CALLS])
{
    int count = 0;
    for (int i = 0; i < ranks->count && count < WEIRI_MONITOR_CALLS; i++) {
        int rank = 1;
        while (rank < nranks && straggler_call(&ranks[rank], ranks->calls[i].number))
            rank++;
        if (rank == nranks)
            numbers[count++] = ranks->calls[i].number;
    }
    qsort(numbers, (size_t)count, sizeof *numbers, straggler_compare_numbers);
    return count;
}

/* The rank that entered last, or that was in the call for the shortest time. */
static int straggler_last(const weiri_monitored_call *calls, int nranks, int has_clock)
{
    int last = 0;
    for (int rank = 1; rank < nranks; rank++)
        if (has_clock ? calls[rank].begin_ns > calls[last].begin_ns
                      : calls[rank].duration_ns < calls[last].duration_ns)
            last = rank;
    return last;
}

static uint64_t straggler_wait(const weiri_monitored_call *one, const weiri_monitored_call *last,
                               int has_clock)
{
    if (!has_clock)
        return one->duration_ns - last->duration_ns;
    const int had_left = one->begin_ns + one->duration_ns <= last->begin_ns;
    return had_left ? 0 : last->begin_ns - one->begin_ns;
}

/* What the ranks waited for each rank, over the calls compared so far. */
typedef struct straggler_sum {
    uint64_t waited_ns, most_ns;
    int nlast;
} straggler_sum;

static void straggler_add(straggler_sum *sums, const weiri_monitored_call *calls, int nranks,
                          int has_clock)
{
    const int last = straggler_last(calls, nranks, has_clock);
    straggler_sum *sum = &sums[last];
    uint64_t most_ns = 0;
    for (int rank = 0; rank < nranks; rank++) {
        const uint64_t wait_ns =
            rank == last ? 0 : straggler_wait(&calls[rank], &calls[last], has_clock);
        sum->waited_ns += wait_ns;
        most_ns = wait_ns > most_ns ? wait_ns : most_ns;
    }
    sum->nlast += most_ns > 0;
    sum->most_ns = most_ns > sum->most_ns ? most_ns : sum->most_ns;
}

/* The work of one comparison. */
typedef struct straggler_work {
    int nranks, ncalls, has_one_clock;
    uint64_t numbers[WEIRI_MONITOR_CALLS];
    weiri_monitored_call *calls; /* of each number, the call of each rank */
    straggler_sum *sums;
} straggler_work;

static weiri_monitored_call *straggler_row(const straggler_work *work, int index)
{
    return work->calls + (size_t)index * (size_t)work->nranks;
}

static int straggler_compare_times(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return one < other ? -1 : one > other;
}

/* Shifts a rank's times by the median difference between its ends of calls and rank 0's. */
static void straggler_align(const straggler_work *work, int rank)
{
    int64_t ahead[WEIRI_MONITOR_CALLS];
    int count = 0;
    for (int i = 0; i < work->ncalls; i++) {
        const weiri_monitored_call *row = straggler_row(work, i);
        if (row[0].begin_ns && row[rank].begin_ns)
            ahead[count++] = (int64_t)(row[rank].begin_ns + row[rank].duration_ns -
                                       row[0].begin_ns - row[0].duration_ns);
    }
    qsort(ahead, (size_t)count, sizeof *ahead, straggler_compare_times);
    for (int i = 0; count && i < work->ncalls; i++)
        straggler_row(work, i)[rank].begin_ns -= (uint64_t)ahead[count / 2];
}

static void straggler_compare_calls(const straggler_work *work)
{
    for (int rank = 1; !work->has_one_clock && rank < work->nranks; rank++)
        straggler_align(work, rank);
    for (int i = 0; i < work->ncalls; i++) {
        const weiri_monitored_call *row = straggler_row(work, i);
        int has_times = 1;
        for (int rank = 0; rank < work->nranks; rank++)
            has_times &= row[rank].begin_ns != 0;
        straggler_add(work->sums, row, work->nranks, has_times);
    }
}

/* The rank with the largest sum. */
static weiri_straggler straggler_most(const straggler_work *work)
{
    weiri_straggler found = {.rank = -1, .ncalls = work->ncalls};
    uint64_t most_ns = 0;
    for (int rank = 0; rank < work->nranks; rank++) {
        const straggler_sum *sum = &work->sums[rank];
        if (sum->waited_ns <= most_ns)
            continue;
        most_ns = sum->waited_ns;
        found.rank = rank;
        found.nlast = sum->nlast;
        found.most_ns = sum->most_ns;
        found.waited_ns = most_ns / (uint64_t)(work->nranks - 1);
    }
    return found;
}

weiri_straggler weiri_straggler_find(const weiri_timed_calls *ranks, int nranks, int ncalls,
                                     int has_one_clock)
{
    weiri_straggler found = {.rank = -1};
    straggler_work work = {.nranks = nranks, .has_one_clock = has_one_clock};
    const int common = nranks > 1 ? straggler_common_calls(ranks, nranks, work.numbers) : 0;
    work.ncalls = common < ncalls ? common : ncalls;
    work.calls = calloc((size_t)work.ncalls * (size_t)nranks + 1, sizeof *work.calls);
    work.sums = calloc((size_t)nranks, sizeof *work.sums);
    for (int i = 0; work.calls && i < work.ncalls; i++)
        for (int rank = 0; rank < nranks; rank++)
            straggler_row(&work, i)[rank] = *straggler_call(&ranks[rank], work.numbers[i]);
    if (work.calls && work.sums && work.ncalls) {
        straggler_compare_calls(&work);
        found = straggler_most(&work);
    }
    free(work.sums);
    free(work.calls);
    return found;
}

weiri_straggler weiri_straggler_of(const weir_comm *comm, int ncalls)
{
    const weir_comm *node = comm->host_comm ? comm->host_comm : comm;
    const int n = node->nranks;
    weiri_straggler found = {.rank = -1};
    weiri_timed_calls *ranks = calloc((size_t)n, sizeof *ranks);
    weiri_monitored_call *calls = calloc((size_t)n * WEIRI_MONITOR_CALLS, sizeof *calls);
    for (int rank = 0; ranks && calls && rank < n; rank++) {
        weiri_monitored_call *own = calls + (size_t)rank * WEIRI_MONITOR_CALLS;
        ranks[rank] = (weiri_timed_calls){
            own, weiri_timed_calls_copy(&node->peers[rank].page->monitored, own)};
    }
    if (ranks && calls)
        found = weiri_straggler_find(ranks, n, ncalls, 1);
    if (found.rank >= 0)
        found.rank = weiri_comm_parent_rank(node, found.rank);
    free(calls);
    free(ranks);
    return found;
}
