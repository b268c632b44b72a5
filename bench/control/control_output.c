/* Table and CSV of the programs: see control.h. */
#include "bench/control/control.h"

#include <math.h>
#include <string.h>

#define PUT(record, column, text) bench_record_put(record, BENCH_COLUMN_##column, text)
#define PRINT(record, column, ...) bench_record_print(record, BENCH_COLUMN_##column, __VA_ARGS__)

/* A row of all ranks, its first time, or its part of a group. */
enum { ALL = -1 };
static void csv_row(const control_program *program, const control_run *run, const control_row *row,
                    int is_first, int group)
{
    const bench_job *job = run->job;
    const bench_part *part = group == ALL ? NULL : &row->groups[group];
    const uint64_t wrong = part ? part->wrong : row->wrong;
    double first_us = row->first_us;
    char color[16] = "";
    const bench_stats stats = is_first ? bench_stats_make(&first_us, 1)
                              : part   ? part->stats
                                       : row->stats;
    if (part)
        snprintf(color, sizeof color, "%d", job->groups[group].color);
    const double gbs = row->bytes ? (double)row->bytes / stats.median * 1e-3 : 0;
    bench_record record, *f = &record;
    bench_record_begin(f);
    if (group == ALL)
        bench_record_put_run(f, run->report->run);
    else
        bench_record_put_run_of(f, run->report->run, job->groups[group].nranks,
                                job->groups[group].nnodes, color);
    PUT(f, COLLECTIVE, program->collective);
    PUT(f, TRANSPORT, row->is_peer ? "" : weir_transport_name(weir_comm_transport(job->comm)));
    PUT(f, CONTENDER, row->candidate);
    PRINT(f, ALGO, "%s%s", is_first ? "first:" : "", row->phase);
    PUT(f, DTYPE, row->bytes ? "float" : "none");
    PUT(f, REDOP, row->bytes ? "sum" : "none");
    PUT(f, ROOT, "-1");
    PUT(f, PLACEMENT, "out");
    PRINT(f, BYTES, "%zu", row->bytes);
    PRINT(f, COUNT, "%zu", row->bytes / sizeof(float));
    PRINT(f, ITERS, "%d", is_first ? 1 : row->iterations);
    bench_record_put_times(f, row->wrong ? NULL : &stats, gbs, gbs);
    bench_record_put_verdict(f, row->is_checked, (unsigned long long)wrong,
                             row->is_checked ? "exact" : "none");
    bench_record_leave(f, BENCH_COLUMN_DIST, BENCH_COLUMN_EXPERT_BYTES);
    bench_record_put_lateness(f, part ? NULL : row->late);
    bench_record_put_conditions(f, run->report->run, program->mode, row->is_peer ? "" : NULL,
                                row->is_peer && strncmp(row->candidate, "mpi", 3) != 0 &&
                                    run->report->run->job->starves_peers,
                                0, NULL);
    bench_record_end(f);
    bench_csv_record(&run->report->csv, f);
    bench_csv_flush(&run->report->csv);
}

static void table_row(const control_program *program, const control_row *row)
{
    char first[24] = "-", wrong[24] = "N/A";
    if (!isnan(row->first_us))
        snprintf(first, sizeof first, "%.2f", row->first_us);
    if (row->is_checked)
        snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)row->wrong);
    printf("  %-10s %-20s %11s", *row->phase ? row->phase : program->collective, row->candidate,
           first);
    if (row->wrong)
        printf(" %11s %11s %11s %11s %11s %7s\n", "N/A", "N/A", "N/A", "N/A", "N/A", wrong);
    else
        printf(" %11.2f %11.2f %11.2f %11.2f %11.2f %7s\n", row->stats.median, row->stats.ci_low,
               row->stats.ci_high, row->stats.min, row->stats.p99, wrong);
}

/* Compares a peer's row with weir's, the last one before it. */
static void compare(const control_row *peer)
{
    char text[160];
    const control_row *weir = peer;
    while (weir->is_peer)
        weir--;
    if (weir->wrong || peer->wrong)
        return;
    const bench_ratio ratio = bench_stats_ratio(&peer->stats, &weir->stats);
    bench_ratio_describe(&ratio, peer->candidate, "weir", text, sizeof text);
    printf("#   %s%sweir and %s: %s\n", peer->phase, *peer->phase ? ", " : "", peer->candidate,
           text);
}

void control_write_rows(const control_program *program, const control_run *run)
{
    printf("# %-10s %-20s %11s %11s %11s %11s %11s %11s %7s\n", "phase", "candidate", "first",
           "time", "ci low", "ci high", "min", "p99", "#wrong");
    printf("# %-10s %-20s %11s %11s %11s %11s %11s %11s\n", "", "", "(us)", "(us)", "(us)", "(us)",
           "(us)", "(us)");
    for (int i = 0; i < run->nrows; i++) {
        const control_row *row = &run->rows[i];
        table_row(program, row);
        if (!isnan(row->first_us))
            csv_row(program, run, row, 1, ALL);
        csv_row(program, run, row, 0, ALL);
        for (int group = 0; row->groups && group < run->job->ngroups; group++)
            csv_row(program, run, row, 0, group);
    }
    for (int i = 0; i < run->nrows; i++) {
        const control_row *row = &run->rows[i];
        if (row->groups)
            bench_parts_write(stdout, run->job, row->phase, row->candidate, row->groups);
    }
    for (int i = 0; i < run->nrows; i++)
        if (run->rows[i].is_peer)
            compare(&run->rows[i]);
    if (run->remarks)
        bench_remarks_row(stdout, run->report->run, run->report->infos, run->remarks);
}
