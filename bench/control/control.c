/* Options and flow of the programs: see control.h. */
#include "bench/control/control.h"

#include "bench/candidate/candidate.h"
#include "bench/job/exchange.h"
#include "bench/options/faults.h"
#include "bench/options/parse.h"

#include <math.h>
#include <string.h>

enum { OPTIONS_MAX = 24 };

bench_options control_options;
static weiri_option rows[OPTIONS_MAX];
static weiri_options table = {rows, 0};
static const control_program *program;

/* ------------------------------------------------------------------ options */

static int is_shared(const char *name)
{
    const char *const *shared = program->shared;
    while (*shared && strcmp(*shared, name) != 0)
        shared++;
    return *shared != NULL;
}

static void make_table(void)
{
    for (int i = 0; i < program->own_count; i++)
        rows[table.count++] = program->own[i];
    for (int i = 0; i < bench_options_table.count && table.count < OPTIONS_MAX; i++)
        if (is_shared(bench_options_table.rows[i].name))
            rows[table.count++] = bench_options_table.rows[i];
}

static int check_inject(char *problem)
{
    const int *fault = program->faults;
    while (*fault && *fault != control_options.inject)
        fault++;
    if (*fault == control_options.inject && (program->can_slow || !control_options.inject_slow) &&
        (program->can_slow || !control_options.inject_timed))
        return 0;
    return bench_refuse(problem, "--inject: %s does not have this fault; --help names those it has",
                        program->name);
}

/* A library with NCCL's interface, named by its path, may also work without a GPU. */
static int check_peers(char *problem)
{
    for (int i = 0; i < control_options.npeers; i++) {
        bench_peer *peer = &control_options.peers[i];
        if (peer->kind == BENCH_PEER_FILE || peer->kind == BENCH_PEER_PYTHON ||
            peer->kind == BENCH_PEER_COPIES)
            return bench_refuse(problem,
                                "--peer %s: %s does not; only the benchmarks of "
                                "collectives measure peers in files",
                                peer->text, program->name);
        if (peer->kind == BENCH_PEER_VENDOR && program->no_vendor)
            return bench_refuse(problem, "--peer %s: %s", peer->text, program->no_vendor);
        if (peer->kind == BENCH_PEER_VENDOR && !peer->path && strchr(peer->text, ':'))
            return bench_refuse(problem, "--peer %s: a mode changes nothing here; give --peer nccl",
                                peer->text);
        peer->needs = peer->path ? 0 : peer->needs;
    }
    return 0;
}

static weir_status control_parse(const control_program *of, int argc, char **argv, char *problem)
{
    program = of;
    make_table();
    weiri_options_set_defaults(&bench_options_table, &control_options);
    weiri_options_set_defaults(&table, &control_options);
    control_options.algo = "auto";
    weir_status status = weiri_options_take_all(&table, argc, argv, &control_options);
    if (status != WEIR_OK)
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
    if (status != WEIR_OK || control_options.action != BENCH_ACTION_RUN)
        return status;
    if (check_inject(problem) || check_peers(problem) ||
        bench_split_of_options(&control_options, problem) != 0)
        return WEIR_ERR_INVALID;
    return bench_options_check(&control_options, WEIR_COLL_ALLREDUCE, problem);
}

static weir_status parse_barrier(weir_collective collective, int argc, char **argv, char *problem)
{
    (void)collective;
    return control_parse(&control_barrier, argc, argv, problem);
}

static weir_status parse_init(weir_collective collective, int argc, char **argv, char *problem)
{
    (void)collective;
    return control_parse(&control_init, argc, argv, problem);
}

static void control_inform(const bench_run *run)
{
    (void)run;
    for (const int *fault = program->faults; *fault; fault++)
        if (control_options.action == BENCH_ACTION_LIST_FAULTS)
            printf("%s\n", bench_fault_name((bench_fault)*fault));
    if (control_options.action == BENCH_ACTION_LIST_FAULTS)
        return;
    printf("usage: [mpirun -np RANKS] %s [options]\n\n%s Its ranks are started by\na launcher "
           "(mpirun, srun, torchrun, PMIx) or by the program itself (-g).\n\n",
           program->name, program->purpose);
    weiri_options_print(&table, stdout);
    printf("\nExit codes: 0 all passed, 1 a check failed, 2 usage, 3 system or environment, 4 a\n"
           "deadline passed.\n");
}

static void control_check(bench_run *run, char *problem)
{
    const int nranks = run->job->nranks, slow = control_options.inject_slow_rank - 1;
    if (control_options.inject && nranks < 2)
        bench_refuse(problem, "--inject %s: needs two ranks; start more",
                     bench_fault_name((bench_fault)control_options.inject));
    else if (slow >= nranks)
        bench_refuse(problem, "--inject slow-rank:%d: there are %d ranks; give a rank from 0 to %d",
                     slow, nranks, nranks - 1);
}

/* --------------------------------------------------------------------- flow */

static weir_status control_open(bench_run *run, bench_report *report, void **state)
{
    static control_run only; /* larger than small stacks */
    only.job = run->job;
    only.report = report;
    *state = &only;
    if (control_options.inject_slow)
        bench_warning_add(run->job, "inject", "--inject slow: operations of weir were made slower");
    return WEIR_OK;
}

static void control_begin(void *state)
{
    const bench_job *job = ((control_run *)state)->job;
    printf("# weir version %s\n# Collective test starting: %s\n# Ranks: %d on %d node%s; rank 0 on "
           "%s, %s\n%s",
           WEIR_VERSION, program->name, job->nranks, job->nnodes, job->nnodes == 1 ? "" : "s",
           job->host, job->place, program->notes);
    bench_parts_begin(stdout, job, &control_options);
    printf("#\n");
}

static weir_status control_next(void *state, void **point)
{
    control_run *run = state;
    *point = run->has_run++ ? NULL : run;
    weir_status status = run->job->rank == 0 ? bench_report_check(run->report) : WEIR_OK;
    return bench_job_agree(run->job, status, "output");
}

static weir_status control_point(void *measured)
{
    return program->measure(measured);
}

static void control_write(void *state)
{
    control_run *run = state;
    for (int i = 0; i < run->nrows; i++)
        run->report->failed += (long)run->rows[i].wrong;
    if (run->job->rank == 0)
        control_write_rows(program, run);
}

static void control_end(void *state)
{
    const long failed = ((control_run *)state)->report->failed;
    printf("# Out of bounds values : %ld %s\n#\n# Collective test concluded: %s\n", failed,
           failed ? "FAILED" : "OK", program->name);
}

static void control_close(bench_run *run, void *state)
{
    (void)run, (void)state;
    if (program)
        program->close();
}

#define CONTROL                                                                                    \
    .table = &table, .options = &control_options, .inform = control_inform,                        \
    .check = control_check, .open = control_open, .begin = control_begin, .next = control_next,    \
    .point = control_point, .row = control_write, .end = control_end, .close = control_close

const bench_workload bench_barriers = {CONTROL, .parse = parse_barrier};
const bench_workload bench_init = {CONTROL, .parse = parse_init};

/* ------------------------------------------------------------------- shared */

void control_share_wrong(const bench_job *job, const char *candidate, const char *message,
                         uint64_t *wrong)
{
    const int mine = *message ? job->rank : job->nranks;
    const int first = (int)bench_exchange_fold(job, BENCH_FOLD_MIN, mine);
    *wrong = (uint64_t)bench_exchange_fold(job, BENCH_FOLD_SUM, (double)*wrong);
    if (first == job->rank)
        fprintf(stderr, "%s: rank %d: %s: %s\n", job->program, first, candidate, message);
}

weir_status control_open_mpi(bench_job *job, char *name, size_t bytes)
{
    bench_candidate *mpi = NULL;
    weir_status status = bench_candidate_mpi_open(job, &mpi);
    if (status != WEIR_OK)
        return status;
    snprintf(name, bytes, "%s", mpi->name);
    mpi->ops->close(mpi);
    return WEIR_OK;
}
