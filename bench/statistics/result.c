/* Bandwidths and verdicts of results: see result.h. */
#include "bench/statistics/result.h"

#include "bench/statistics/bootstrap.h"
#include "bench/options/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t bench_result_wrong(const bench_result *result)
{
    const weirv_result *check = &result->check;
    return result->checked ? check->wrong + check->overruns + check->inputs_changed : 0;
}

int bench_result_failed(const bench_result *result)
{
    return bench_result_wrong(result) != 0;
}

const char *bench_row_oracle(const bench_row *row, const bench_result *result)
{
    if (!result->checked)
        return "none";
    if (row->oracles == BENCH_ORACLE_MPI)
        return "mpi";
    if (row->oracles == BENCH_ORACLE_EXACT)
        return "exact";
    return result->sampled ? "exact+mpi-windows" : "exact+mpi";
}

const char *bench_outcome_name(bench_outcome outcome)
{
    static const char *const names[] = {"off", "pass", "fail"};
    return names[outcome];
}

const char *bench_determinism_name(const bench_determinism_outcome *outcome)
{
    if (!outcome->tried)
        return "off";
    if (outcome->differing_repeats)
        return outcome->differing_ranks ? "unlike-both" : "unlike-repeats";
    if (outcome->differing_ranks)
        return "unlike-ranks";
    return outcome->differing_sizes ? "unlike-sizes" : "same";
}

void bench_embedded_free(bench_determinism *found)
{
    for (bench_embedded *next; found->embedded; found->embedded = next) {
        next = found->embedded->next;
        free(found->embedded);
    }
}

/* Bytes per time in GB/s (1e9). */
static double algbw_gbs(size_t bytes, double time_us)
{
    return time_us > 0 ? (double)bytes / (time_us * 1e3) : 0;
}

/* The figures of so many errors in a message of so many bytes. */
static bench_figures figures_of(const bench_result *result, unsigned long long wrong, size_t bytes,
                                double factor)
{
    bench_figures figures = {.is_wrong = wrong != 0,
                             .wrong = wrong,
                             .algbw_gbs = NAN,
                             .busbw_gbs = NAN,
                             .shown_algbw_gbs = NAN,
                             .shown_busbw_gbs = NAN,
                             .ceiling_pct = NAN};
    figures.is_usable = result->timed && !bench_result_failed(result);
    if (!figures.is_usable)
        return figures;
    figures.algbw_gbs = algbw_gbs(bytes, result->stats.median);
    figures.busbw_gbs = figures.algbw_gbs * factor;
    figures.shown_algbw_gbs = algbw_gbs(bytes, result->time_us);
    figures.shown_busbw_gbs = figures.shown_algbw_gbs * factor;
    return figures;
}

bench_figures bench_result_figures(const bench_row *row, const bench_result *result)
{
    return figures_of(result, bench_result_wrong(result), row->shape.bytes,
                      bench_bus_factor(row->collective, row->nranks));
}

bench_result bench_result_of_group(const bench_row *row, const bench_result *result, int group)
{
    const bench_group_result *of = &result->groups[group];
    bench_result part = *result;
    part.stats = of->stats;
    part.time_us = of->time_us;
    part.late.is_known = 0;
    part.figures = figures_of(&part, of->wrong, of->shape.bytes,
                              bench_bus_factor(row->collective, of->nranks));
    return part;
}

bench_sequence bench_result_sequence(const bench_result *result)
{
    return (bench_sequence){.samples = result->slowest_us,
                            .count = (size_t)result->iterations,
                            .ends = result->round_ends,
                            .rounds = result->rounds};
}

bench_ratio bench_result_ratio(const bench_result *other, const bench_result *shown)
{
    bench_ratio ratio = bench_stats_ratio(&other->stats, &shown->stats);
    bench_interval interval;
    bench_sequence above = bench_result_sequence(other), below = bench_result_sequence(shown);
    if (bench_bootstrap_ratio(&above, &below, &interval) == 0) {
        ratio.low = interval.low;
        ratio.high = interval.high;
    }
    return ratio;
}

bench_cost bench_row_cost(const bench_row *row)
{
    bench_cost sum = {0, 0};
    for (int placement = 0; placement < row->placements; placement++) {
        sum.timing_s += row->cost[placement].timing_s;
        sum.verification_s += row->cost[placement].verification_s;
    }
    return sum;
}

const char *bench_row_op_name(const bench_row *row)
{
    return bench_collective_has_op(row->collective) ? weir_op_name(row->op) : "none";
}

void bench_row_describe(const bench_row *row, int placement, const bench_result *result, char *text,
                        size_t bytes)
{
    snprintf(text, bytes, "%s%s%s, %s %s, %zu bytes, %s", result->candidate,
             *result->algo ? " " : "", result->algo, weir_dtype_name(row->dtype),
             bench_row_op_name(row), row->shape.bytes,
             placement == BENCH_IN_PLACE ? "in place" : "out of place");
}

void bench_result_clear_rivals(bench_result *result)
{
    for (int i = 0; i < result->nrivals; i++)
        for (int kind = 0; kind < BENCH_RIVAL_KINDS; kind++)
            free(result->rivals[i].us[kind]);
    free(result->rivals);
    result->rivals = NULL;
    result->nrivals = 0;
}

void bench_row_clear(bench_row *row)
{
    for (int placement = 0; placement < BENCH_PLACEMENTS; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            free(row->results[placement][i].slowest_us);
            free(row->results[placement][i].all_us);
            free(row->results[placement][i].groups);
            bench_result_clear_rivals(&row->results[placement][i]);
        }
    memset(row->results, 0, sizeof row->results);
    memset(row->cost, 0, sizeof row->cost);
}
