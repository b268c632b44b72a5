/* Results of groups of ranks: see parts.h. */
#include "bench/measure/parts.h"

#include "bench/job/exchange.h"

#include <stdlib.h>

void bench_parts_begin(FILE *out, const bench_job *job, const bench_options *options)
{
    if (job->ngroups > 1)
        fprintf(out,
                "# %d groups of ranks run at the same time (%s %s): a time is that of the slowest "
                "rank of all\n",
                job->ngroups, options->split_from, options->split_name);
}

void bench_parts_put_wrong(const bench_job *job, uint64_t mine, bench_part *parts)
{
    uint64_t *all = bench_exchange_collect(job, &mine, sizeof mine);
    for (int rank = 0; all && rank < job->nranks; rank++)
        parts[job->group_of[rank]].wrong += all[rank];
    free(all);
}

void bench_parts_put_times(const bench_job *job, const double *us, int count, double *scratch,
                           bench_part *parts)
{
    bench_exchange_reduce_groups(job, BENCH_FOLD_MAX, us, count, scratch);
    for (int i = 0; i < job->ngroups && job->rank == 0; i++)
        parts[i].stats = bench_stats_make(scratch + (size_t)i * (size_t)count, (size_t)count);
}

static int is_timed(const bench_part *part)
{
    return !part->wrong && part->stats.samples;
}

static void write_part(FILE *out, const bench_job *job, const bench_part *parts, int group,
                       const char *before)
{
    const bench_part *part = &parts[group];
    fprintf(out, "%sgroup %d ", before, job->groups[group].color);
    if (is_timed(part))
        fprintf(out, "%.2f us", part->stats.median);
    else
        fprintf(out, "%llu wrong", (unsigned long long)part->wrong);
}

void bench_parts_write(FILE *out, const bench_job *job, const char *what, const char *candidate,
                       const bench_part *parts)
{
    enum { SHOWN = 8 };
    int fastest = -1, slowest = -1, written = 0;
    fprintf(out, "#   %s%s%s: ", what, *what ? ", " : "", candidate);
    for (int i = 0; i < job->ngroups; i++) {
        const double us = parts[i].stats.median;
        if (job->ngroups <= SHOWN || parts[i].wrong)
            write_part(out, job, parts, i, written++ ? "; " : "");
        if (!is_timed(&parts[i]))
            continue;
        fastest = fastest < 0 || us < parts[fastest].stats.median ? i : fastest;
        slowest = slowest < 0 || us > parts[slowest].stats.median ? i : slowest;
    }
    if (job->ngroups > SHOWN && fastest >= 0) {
        write_part(out, job, parts, fastest, written ? "; from " : "from ");
        write_part(out, job, parts, slowest, " to ");
    }
    fputc('\n', out);
}
