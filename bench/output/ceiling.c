/* Results relative to the measured links: see ceiling.h. */
#include "bench/output/ceiling.h"

#include "base/words.h"

#include <math.h>
#include <string.h>

/* Links and operations are both measured, so a result may be a little above its ceiling. */
static const double most_over_pct = 10;

static weir_status ceiling_refuse(const bench_run *run, const char *why)
{
    return bench_job_note(run->job, WEIR_ERR_INVALID, "--ceiling %s: %s",
                          run->options->ceiling_path, why);
}

weir_status bench_ceiling_open(bench_ceiling *ceiling, const bench_run *run)
{
    const char *path = run->options->ceiling_path;
    char text[160];
    weiri_links *links;
    *ceiling = (bench_ceiling){.run = run};
    if (!path)
        return WEIR_OK;
    if (weiri_links_read(path, &links) != WEIR_OK)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--ceiling: %s", weir_last_error());
    ceiling->links = links;
    if (strcmp(links->backend, weir_backend_name(weir_comm_backend(run->job->comm))) != 0)
        return ceiling_refuse(
            run, "these are links of other memory; weir-topo --measure measures GPUs', "
                 "with --ranks N cores'");
    if (run->job->nnodes > 1)
        return ceiling_refuse(run, "these are links within one node, and the ranks are on several");
    if (weiri_links_asymmetry(links, text, sizeof text))
        bench_warning_add(run->job, "links", "--ceiling %s: %s; measure again on an idle machine",
                          path, text);
    if (links->endpoints != run->job->nranks)
        bench_job_say(run->job,
                      "warning: --ceiling %s: its links join %d endpoint%s, and there %s %d "
                      "rank%s, so percentages mean little; give the links of as many (weir-topo "
                      "--measure)",
                      path, links->endpoints, weiri_s(links->endpoints),
                      run->job->nranks == 1 ? "is" : "are", run->job->nranks,
                      weiri_s(run->job->nranks));
    return WEIR_OK;
}

double bench_ceiling_pct(const bench_ceiling *ceiling, double busbw_gbs, double median_us)
{
    const double bytes = busbw_gbs * median_us * 1e3;
    if (!ceiling->links || !(bytes > 0))
        return NAN;
    return 100 * weiri_links_floor_us(ceiling->links, bytes) / median_us;
}

static void ceiling_keep(struct bench_ceiling_spot *spot, char *algo, double pct,
                         const bench_row *row, const bench_result *result)
{
    snprintf(algo, sizeof result->algo, "%s", result->algo);
    *spot = (struct bench_ceiling_spot){pct, row->shape.bytes, algo};
}

void bench_ceiling_row(bench_ceiling *ceiling, const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++) {
        const bench_result *result = &row->results[placement][row->primary[placement]];
        const double pct = result->figures.ceiling_pct;
        if (isnan(pct))
            continue;
        if (!ceiling->low.algo || pct < ceiling->low.pct)
            ceiling_keep(&ceiling->low, ceiling->algos[0], pct, row, result);
        if (!ceiling->high.algo || pct > ceiling->high.pct)
            ceiling_keep(&ceiling->high, ceiling->algos[1], pct, row, result);
    }
}

void bench_ceiling_end(bench_ceiling *ceiling, FILE *out)
{
    const struct bench_ceiling_spot *low = &ceiling->low, *high = &ceiling->high;
    if (low->algo)
        fprintf(out,
                "# %-20s : %.0f%% of what %d measured links allow at %zu B (%s), up to %.0f%% at "
                "%zu B (%s)\n",
                "Ceiling", low->pct, ceiling->links->endpoints, low->bytes, low->algo, high->pct,
                high->bytes, high->algo);
    if (high->algo && high->pct > 100 + most_over_pct)
        bench_warning_add(ceiling->run->job, "ceiling",
                          "%.0f%% of the ceiling at %zu B (%s): the links of %s were measured too "
                          "slow, or data stayed in caches; measure again on an idle machine "
                          "(weir-topo --measure)",
                          high->pct, high->bytes, high->algo, ceiling->run->options->ceiling_path);
    weiri_links_free(ceiling->links);
    ceiling->links = NULL;
}
