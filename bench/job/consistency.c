/*
 * Each rank writes its options as text, one line per option that the table marks as the same on all
 * ranks, and compares the text with rank 0's. Ranks with different options would otherwise wait for
 * each other in different operations until the deadline.
 */
#include "bench/job/preflight.h"

#include "bench/job/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 200 };

static const char *action_name(int action)
{
    switch ((bench_action)action) {
    case BENCH_ACTION_HELP:
        return "--help";
    case BENCH_ACTION_HELP_ENV:
        return "--help-env";
    case BENCH_ACTION_VERSION:
        return "--version";
    case BENCH_ACTION_LIST_ALGOS:
        return "--list-algos";
    case BENCH_ACTION_LIST_FAULTS:
        return "--inject list";
    case BENCH_ACTION_RUN:
        break;
    }
    return "a measurement";
}

/* Returns a text that the caller frees; NULL if out of memory. */
static char *describe_options(const bench_run *run, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (!to)
        return NULL;
    fprintf(to, "%s\n%s\n", run->job->program, action_name(run->options->action));
    if (run->options->action == BENCH_ACTION_RUN)
        weiri_options_write_same(run->table, run->options, to);
    fclose(to);
    return text;
}

static void compare_texts(const bench_job *job, const char *mine, const char *first, char *problem)
{
    /* NOLINTNEXTLINE(*-core.NullDereference): a rank without has shared it */
    while (*mine && *first) {
        const int mine_bytes = (int)strcspn(mine, "\n"), first_bytes = (int)strcspn(first, "\n");
        if (mine_bytes != first_bytes || memcmp(mine, first, (size_t)mine_bytes) != 0) {
            snprintf(problem, BENCH_PROBLEM_BYTES,
                     "rank %d has %.*s where rank 0 has %.*s: give all ranks the same program and "
                     "options",
                     job->rank, mine_bytes < SHOWN_BYTES ? mine_bytes : SHOWN_BYTES, mine,
                     first_bytes < SHOWN_BYTES ? first_bytes : SHOWN_BYTES, first);
            return;
        }
        mine += mine_bytes + 1;
        first += first_bytes + 1;
    }
}

void bench_consistency_share(const bench_job *job, char *problem)
{
    int mine = *problem ? job->rank : job->nranks;
    int first = (int)bench_exchange_fold(job, BENCH_FOLD_MIN, mine);
    if (first < job->nranks)
        bench_exchange_broadcast(job, problem, BENCH_PROBLEM_BYTES, first);
}

void bench_consistency_check(const bench_run *run, char *problem)
{
    const bench_job *job = run->job;
    size_t bytes = 0;
    char *mine = describe_options(run, &bytes);
    unsigned long long first_bytes = mine ? bytes : 0;
    bench_exchange_broadcast(job, &first_bytes, sizeof first_bytes, 0);
    char *first = calloc(1, first_bytes + 1);
    if (!mine || !first)
        snprintf(problem, BENCH_PROBLEM_BYTES, "rank %d: no memory to compare options", job->rank);
    else if (job->rank == 0)
        memcpy(first, mine, bytes);
    bench_consistency_share(job, problem);
    if (!*problem) {
        bench_exchange_broadcast(job, first, (size_t)first_bytes, 0);
        compare_texts(job, mine, first, problem);
        bench_consistency_share(job, problem);
    }
    free(first);
    free(mine);
}
