/* Comment lines about how rows were measured, and which of them prove nothing because something
 * disturbed them: see table.h. */
#include "bench/output/table.h"

#include "base/words.h"

static void write_subject(FILE *out, const bench_row *row, int placement,
                          const bench_result *result)
{
    fprintf(out,
            "#   %s, %zu B, %s%s%s: ", placement == BENCH_IN_PLACE ? "in place" : "out of place",
            row->shape.bytes, result->candidate, *result->algo ? " " : "", result->algo);
}

static void write_throttling(FILE *out, const bench_row *row, int placement,
                             const bench_result *result)
{
    char reasons[BENCH_REASONS_BYTES], state[96];
    const bench_clocks *clocks = &result->clocks;
    bench_clocks_reasons(clocks, reasons);
    bench_clocks_describe(clocks, state, sizeof state);
    write_subject(out, row, placement, result);
    fprintf(out,
            "GPUs throttled in %d of %d reading%s: %s; lowest clocks, most power and heat: "
            "%s\n",
            clocks->throttled, clocks->samples, weiri_s(clocks->samples), reasons, state);
}

void bench_remarks_last_rank(FILE *out, const bench_run *run, const bench_rank_info *infos,
                             const bench_lateness *late)
{
    fprintf(out, "rank %d", late->rank);
    if (infos && run->job->gpu)
        fprintf(out, " (%s, GPU %d)", infos[late->rank].host, infos[late->rank].device);
    else if (infos)
        fprintf(out, " (%s)", infos[late->rank].host);
    fprintf(out, " is last in %.0f%% of iterations, %.3g us after the median\n", late->share * 100,
            late->lag_us);
}

static void write_remarks(FILE *out, const bench_run *run, const bench_rank_info *infos,
                          const bench_row *row, int placement, const bench_result *result)
{
    const bench_options *options = run->options;
    double half = bench_stats_half_width(&result->stats);
    if (result->skew.samples) {
        write_subject(out, row, placement, result);
        fprintf(out, "start skew %.2f us median, %.2f us p99\n", result->skew.median,
                result->skew.p99);
    }
    if (result->late.stands_out) {
        write_subject(out, row, placement, result);
        bench_remarks_last_rank(out, run, infos, &result->late);
    }
    if (result->is_quantized) {
        write_subject(out, row, placement, result);
        fprintf(out,
                "errors, relative to the root mean square of the sums: largest %.2g%%, root mean "
                "square %.2g%%\n",
                100 * result->errors[0], 100 * result->errors[1]);
    }
    if (result->unsteady) {
        write_subject(out, row, placement, result);
        fprintf(out, "times still fell after %d warm-up%s; -w N sets more\n", result->warmups,
                weiri_s(result->warmups));
    }
    if (options->skip >= result->iterations) {
        write_subject(out, row, placement, result);
        fprintf(out, "-K %d leaves none of %d iteration%s to the columns of -I; -n N sets more\n",
                options->skip, result->iterations, weiri_s(result->iterations));
    }
    if (result->clocks.throttled)
        write_throttling(out, row, placement, result);
    if (options->until > 0 && half > options->until) {
        write_subject(out, row, placement, result);
        fprintf(out, "--until %g%% not reached, the median is +- %.2g%% after %d iteration%s\n",
                options->until * 100, half * 100, result->iterations, weiri_s(result->iterations));
    }
}

/* How much longer a competing call takes. A shorter call is mostly reading the clock and waking its
 * thread, and ends within one time slice where both calls share a core: its ratio means nothing. */
static void write_rival(FILE *out, const bench_rival_times *times)
{
    enum { SHORTEST_US = 1 };
    const double alone_us = times->stats[BENCH_RIVAL_ALONE].median;
    const double together_us = times->stats[BENCH_RIVAL_TOGETHER].median;
    fprintf(out, "%s alone %.2f us, together %.2f us: ", times->text, alone_us, together_us);
    if (alone_us < SHORTEST_US || together_us < SHORTEST_US)
        fprintf(out, "too short to compare; give --with a larger size\n");
    else
        fprintf(out, "%.2fx [%.2f, %.2f]\n", times->ratio.ratio, times->ratio.low,
                times->ratio.high);
}

static void write_rivals(FILE *out, const bench_row *row, int placement, const bench_result *result)
{
    for (int i = 0; i < result->nrivals; i++) {
        const bench_rival_times *times = &result->rivals[i];
        write_subject(out, row, placement, result);
        if (times->count[BENCH_RIVAL_TOGETHER])
            write_rival(out, times);
        else
            fprintf(out, "%s did not end a call meanwhile; raise -n\n", times->text);
        if (times->count[BENCH_RIVAL_STEP] && times->count[BENCH_RIVAL_TOGETHER]) {
            const double alone_us = times->stats[BENCH_RIVAL_ALONE].median;
            write_subject(out, row, placement, result);
            fprintf(out, "%s and one call %.2f us: exposed communication %.2f us [%.2f, %.2f]\n",
                    times->text, times->stats[BENCH_RIVAL_STEP].median,
                    (times->step.ratio - 1) * alone_us, (times->step.low - 1) * alone_us,
                    (times->step.high - 1) * alone_us);
        }
    }
}

void bench_remarks_row(FILE *out, const bench_run *run, const bench_rank_info *infos,
                       const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            const bench_result *result = &row->results[placement][i];
            if (!result->figures.is_usable)
                continue;
            write_rivals(out, row, placement, result);
            write_remarks(out, run, infos, row, placement, result);
        }
    fflush(out);
}

static void write_group(FILE *out, const bench_run *run, const bench_row *row,
                        const bench_result *result, int group, const char *before)
{
    const bench_result part = bench_result_of_group(row, result, group);
    fprintf(out, "%sgroup %d", before, run->job->groups[group].color);
    if (part.figures.is_usable)
        fprintf(out, " %.2f us, %.2f GB/s", part.time_us, part.figures.shown_busbw_gbs);
    else
        fprintf(out, " %llu wrong", part.figures.wrong);
}

static void write_groups(FILE *out, const bench_run *run, const bench_row *row, int placement,
                         const bench_result *result)
{
    enum { SHOWN = 8 };
    const int count = run->job->ngroups;
    int fastest = 0, slowest = 0;
    write_subject(out, row, placement, result);
    for (int i = 0; i < count; i++) {
        if (count <= SHOWN)
            write_group(out, run, row, result, i, i ? "; " : "");
        fastest = result->groups[i].time_us < result->groups[fastest].time_us ? i : fastest;
        slowest = result->groups[i].time_us > result->groups[slowest].time_us ? i : slowest;
    }
    if (count > SHOWN) {
        write_group(out, run, row, result, fastest, "from ");
        write_group(out, run, row, result, slowest, " to ");
    }
    fputc('\n', out);
}

void bench_remarks_groups(FILE *out, const bench_run *run, const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            const bench_result *result = &row->results[placement][i];
            if (result->groups && (i == row->primary[placement] || result->peer))
                write_groups(out, run, row, placement, result);
        }
}

void bench_interval_row(bench_interval_count *count, const bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            const bench_result *result = &row->results[placement][i];
            if (!result->figures.is_usable)
                continue;
            count->rows++;
            if (result->stats.ci_high - result->stats.ci_low <= result->stats.median)
                continue;
            if (count->wide++ == 0)
                bench_row_describe(row, placement, result, count->first, sizeof count->first);
        }
}

void bench_interval_end(const bench_interval_count *count, bench_job *job)
{
    if (count->wide > 0)
        bench_warning_add(job, "interval",
                          "%ld of %ld result%s ha%s an interval wider than the time itself, the "
                          "first: %s; such rows prove nothing: raise -n, or give --until 5%%",
                          count->wide, count->rows, weiri_s(count->rows),
                          count->wide == 1 ? "s" : "ve", count->first);
}

static void write_determinism(const bench_determinism *found, const bench_determinism_row *row,
                              FILE *out)
{
    fprintf(out, "# %-20s : %s: ", "Determinism", row->name);
    if (row->differing_repeats)
        fprintf(out, "other bits in repeats of %ld of %ld result%s", row->differing_repeats,
                row->results, weiri_s(row->results));
    else
        fprintf(out, "same bits in %d repeats", BENCH_REPEATS);
    if (found->nranks && row->differing_ranks)
        fprintf(out, "%s on the ranks in %ld of %ld result%s",
                row->differing_repeats ? " and" : "; other bits", row->differing_ranks,
                row->results, weiri_s(row->results));
    else if (found->nranks)
        fprintf(out, "%s on %d rank%s", row->differing_repeats ? "; same bits" : " and",
                found->nranks, weiri_s(found->nranks));
    if (row->differing_sizes)
        fprintf(out, "; other bits at other sizes or places in %ld of %ld result%s",
                row->differing_sizes, row->results, weiri_s(row->results));
    else if (found->embeds)
        fprintf(out, "; the same at every size");
    fprintf(out, "%s%s\n", row->first[0] ? "; first in " : "", row->first);
}

void bench_remarks_determinism(FILE *out, const bench_determinism *found)
{
    for (int i = 0; i < found->nrows; i++)
        write_determinism(found, &found->rows[i], out);
}
