/*
 * Each rank writes its options as text, one line per option that must be the same everywhere, and
 * compares the text with rank 0's. Ranks with different options would otherwise wait for each
 * other in different operations until the deadline.
 */
#include "bench/job/preflight.h"

#include "bench/job/exchange.h"
#include "bench/options/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 200 };

static const char *action_name(int action)
{
    switch ((bench_action)action) {
    case BENCH_ACTION_HELP: return "--help";
    case BENCH_ACTION_HELP_ENV: return "--help-env";
    case BENCH_ACTION_VERSION: return "--version";
    case BENCH_ACTION_LIST_ALGOS: return "--list-algos";
    case BENCH_ACTION_LIST_FAULTS: return "--inject list";
    case BENCH_ACTION_RUN:
        break;
    }
    return "a measurement";
}

static void write_iterations(FILE *to, const bench_options *o)
{
    fprintf(to, "-b %zu\n-e %zu\n-i %zu\n-f %zu\n", o->min_bytes, o->max_bytes, o->step_bytes,
            o->step_factor);
    fprintf(to, "-n %d\n--visits %d\n--until %g%%\n-m %d\n-N %d\n-c %d\n-z %d\n-G %d\n",
            o->iterations, o->rounds, o->until * 100, o->aggregate, o->cycles, o->checks,
            o->blocking, o->graph);
    if (o->warmups < 0)
        fprintf(to, "no -w\n");
    else
        fprintf(to, "-w %d\n", o->warmups);
}

static void write_call(FILE *to, const bench_options *o)
{
    fprintf(to, "-d %s\n-o %s\n-r %d\n",
            o->dtype == BENCH_ALL ? "all" : weir_dtype_name((weir_dtype)o->dtype),
            o->op == BENCH_ALL ? "all" : weir_op_name((weir_op)o->op), o->root);
    fprintf(to,
            "--algo %s\n%s\n%s\n--backend %s\n--mode %s\n--verify %s\n--buffers %s\n"
            "--dist %s\n--counts %s\n--seed %zu\n-R %d\n-u %d\n",
            o->algo, o->tune_path ? "--tune" : "no --tune", o->plan ? "--plan" : "no --plan",
            o->words.backend, o->words.mode, o->words.verify, o->words.buffers, o->dist,
            o->words.counts, o->seed, o->registration, o->unalign_elements);
    fprintf(to, "%s\n%s\n%s%s%s --inject slow:%d\n", o->cold ? "--cold" : "no --cold",
            o->determinism ? "--determinism" : "no --determinism",
            o->inject ? "--inject " : "no --inject",
            o->inject ? bench_fault_name((bench_fault)o->inject) : "",
            o->inject_timed ? "@timed" : "", o->inject_slow);
    for (int i = 0; i < o->npeers; i++)
        fprintf(to, "%s--peer %s", i ? " " : "", o->peers[i].text);
    fprintf(to, "%s\n", o->npeers ? "" : "no --peer");
}

/* Returns a text that the caller frees; NULL if out of memory. */
static char *describe_options(const bench_job *job, const bench_options *options, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (!to)
        return NULL;
    fprintf(to, "%s\n%s\n", job->program, action_name(options->action));
    if (options->action == BENCH_ACTION_RUN) {
        write_iterations(to, options);
        write_call(to, options);
    }
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

void bench_consistency_check(const bench_job *job, const bench_options *options, char *problem)
{
    size_t bytes = 0;
    char *mine = describe_options(job, options, &bytes);
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
