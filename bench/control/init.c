/*
 * bench_init: the life of a communicator of all ranks, or of each group of ranks, phase by phase,
 * over weir, MPI and a library with NCCL's interface. Ranks start each phase together; a time is
 * the slowest rank's. A candidate's first communicator has times of its own: of weir it is the
 * job's, the first of the process. Buffers are unregistered memory.
 */
#include "bench/control/control.h"

#include "bench/candidate/vendor.h"
#include "bench/job/cores.h"
#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"
#include "bench/job/mpi_comm.h"
#include "bench/options/faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum init_phase {
    BOOTSTRAP, /* an identifier of the job reaches all ranks, which connect */
    CREATE,
    CALL_SHORT, /* the first allreduces */
    CALL_LONG,
    SPLIT, /* into ranks of even and of odd number */
    DESTROY,
    TOTAL,
    PHASES
} init_phase;
static const char *const phase_names[PHASES] = {"bootstrap", "create",  "call-8B", "call-1MiB",
                                                "split",     "destroy", "total"};

enum { LONG_BYTES = 1 << 20, LEAST = 5, MOST = 100, ELEMENTS = LONG_BYTES / sizeof(float) };

typedef struct init_candidate {
    const bench_peer *peer; /* NULL: weir */
    bench_job *job;
    char name[64], message[160];
    weir_boot *boot;
    weir_comm *comm, *half;
    MPI_Comm mpi, mpi_half;
    bench_vendor vendor;
    vendor_comm vendor_comm, vendor_half;
    int has_comm; /* of MPI */
    double first_us[PHASES], *us[PHASES];
    uint64_t wrong[PHASES], own_wrong[PHASES]; /* own: of this rank */
    bench_part *groups;                        /* of each phase, ngroups; NULL: one group; owned */
} init_candidate;

static init_candidate candidates[CONTROL_CANDIDATES];
static int ncandidates, repetition; /* repetition -1: not timed, or the first one of a peer */
static float *in, *out;             /* of the calls; on a GPU in its memory */
static float *host_out;             /* out, or its copy */

/* --------------------------------------------------------------- the phases */

static weir_status vendor_check(const init_candidate *c, vendor_result result)
{
    if (result == 0)
        return WEIR_OK;
    return bench_job_note(c->job, WEIR_ERR_SYSTEM, "%s: %s", c->name,
                          c->vendor.error_string(result));
}

static weir_status mpi_check(const init_candidate *c, int error)
{
    return error == MPI_SUCCESS ? WEIR_OK
                                : bench_job_note(c->job, WEIR_ERR_SYSTEM, "%s failed", c->name);
}

static weir_comm_config init_config(const bench_job *job)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = job->timeout_ms;
    config.backend = weir_comm_backend(job->comm);
    config.device = weir_comm_device(job->comm);
    return config;
}

static weir_status init_call(init_candidate *c, size_t count)
{
    bench_job *job = c->job;
    weir_stream stream = bench_gpu_stream(job->gpu);
    weir_status status;
    if ((bench_fault)control_options.inject == BENCH_FAULT_SKIP_SIGNAL && !c->peer &&
        repetition == 0 && job->rank == job->nranks - 1)
        return WEIR_OK;
    if (!c->peer)
        status = weir_allreduce(c->comm, in, out, count, WEIR_FLOAT, WEIR_SUM, stream);
    else if (c->peer->kind == BENCH_PEER_MPI)
        status = mpi_check(c, MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, c->mpi));
    else
        status =
            vendor_check(c, c->vendor.allreduce(in, out, count, bench_vendor_type(WEIR_FLOAT),
                                                bench_vendor_op(WEIR_SUM), c->vendor_comm, stream));
    return status == WEIR_OK && job->gpu ? bench_gpu_sync(job->gpu) : status;
}

/* Gives the ranks of a group the bytes of its first rank. Collective over all ranks. */
static weir_status share_id(const init_candidate *c, void *id, size_t bytes)
{
    return bench_exchange_share(c->job, id, bytes) == 0
               ? WEIR_OK
               : bench_job_note(c->job, WEIR_ERR_NO_MEMORY, "no memory for identifiers");
}

static weir_status weir_phase(init_candidate *c, init_phase phase)
{
    const bench_job *job = c->job;
    const weir_comm_config config = init_config(job);
    weir_unique_id id = {{0}};
    weir_status status = WEIR_OK, shared;
    switch (phase) {
    case BOOTSTRAP:
        if (job->group_rank == 0)
            status = weir_unique_id_create(&id);
        shared = share_id(c, &id, sizeof id);
        status = status == WEIR_OK ? shared : status;
        return status == WEIR_OK
                   ? weir_boot_tcp_create(&id, job->group_rank, job->group_nranks, &c->boot)
                   : status;
    case CREATE:
        return weir_comm_create(c->boot, &config, &c->comm);
    case SPLIT:
        return weir_comm_split(c->comm, job->group_rank % 2, job->rank, &config, &c->half);
    default:
        status = weir_comm_destroy(c->comm);
        weir_boot_destroy(c->boot);
        c->comm = NULL;
        c->boot = NULL;
        return status;
    }
}

static weir_status mpi_phase(init_candidate *c, init_phase phase)
{
    switch (phase) {
    case BOOTSTRAP:
        return WEIR_OK;
    case CREATE:
        return mpi_check(c, MPI_Comm_dup(c->job->mpi->group, &c->mpi));
    case SPLIT:
        return mpi_check(
            c, MPI_Comm_split(c->mpi, c->job->group_rank % 2, c->job->rank, &c->mpi_half));
    default:
        return mpi_check(c, MPI_Comm_free(&c->mpi));
    }
}

static weir_status vendor_phase(init_candidate *c, init_phase phase)
{
    const bench_job *job = c->job;
    static vendor_id id;
    weir_status status = WEIR_OK, shared;
    switch (phase) {
    case BOOTSTRAP:
        if (job->group_rank == 0)
            status = vendor_check(c, c->vendor.get_unique_id(&id));
        shared = share_id(c, &id, sizeof id);
        return status == WEIR_OK ? shared : status;
    case CREATE:
        return vendor_check(
            c, c->vendor.comm_init(&c->vendor_comm, job->group_nranks, id, job->group_rank));
    case SPLIT:
        return vendor_check(c, c->vendor.comm_split(c->vendor_comm, job->group_rank % 2, job->rank,
                                                    &c->vendor_half, NULL));
    default:
        return vendor_check(c, c->vendor.comm_destroy(c->vendor_comm));
    }
}

/* Destroys what split made; not timed. */
static weir_status destroy_half(init_candidate *c)
{
    if (!c->peer)
        return weir_comm_destroy(c->half);
    if (c->peer->kind == BENCH_PEER_MPI)
        return mpi_check(c, MPI_Comm_free(&c->mpi_half));
    return vendor_check(c, c->vendor.comm_destroy(c->vendor_half));
}

static int has_phase(const init_candidate *c, init_phase phase)
{
    if (!c->peer)
        return 1;
    return c->peer->kind == BENCH_PEER_MPI ? phase != BOOTSTRAP
                                           : phase != SPLIT || c->vendor.comm_split;
}

/* Compares the output of a call. */
static weir_status check_call(init_candidate *c, init_phase phase, size_t count)
{
    const bench_job *job = c->job;
    const float sum = (float)job->group_nranks * (float)(job->group_nranks + 1) / 2;
    weir_status status = WEIR_OK;
    if (job->gpu)
        status = bench_gpu_pull(job->gpu, host_out, out, count * sizeof *out);
    if ((bench_fault)control_options.inject == BENCH_FAULT_FLIP_BIT && !c->peer &&
        repetition == 0 && phase == CALL_LONG && job->rank == job->nranks - 1)
        ((unsigned char *)host_out)[count]++;
    for (size_t i = 0; i < count && status == WEIR_OK; i++)
        if (host_out[i] != sum && !c->wrong[phase]++)
            snprintf(c->message, sizeof c->message, "%s: element %zu: got %.9g, expected %g",
                     phase_names[phase], i, (double)host_out[i], (double)sum);
    return status;
}

/* Fills the output with what no call leaves. */
static weir_status clear_output(const bench_job *job)
{
    memset(host_out, 0xff, LONG_BYTES);
    return job->gpu ? bench_gpu_push(job->gpu, out, host_out, LONG_BYTES) : WEIR_OK;
}

/* Collective; agreed. */
static weir_status run_phase(init_candidate *c, init_phase phase, double *us)
{
    bench_job *job = c->job;
    const int is_call = phase == CALL_SHORT || phase == CALL_LONG;
    const size_t count = phase == CALL_SHORT ? 2 : ELEMENTS;
    weir_status status = is_call ? clear_output(job) : WEIR_OK;
    bench_job_barrier_closely(job);
    bench_job_phase(job, phase_names[phase], (uint64_t)(repetition + 1));
    const double began_us = weiri_clock_us();
    if (status == WEIR_OK)
        status = is_call                           ? init_call(c, count)
                 : !c->peer                        ? weir_phase(c, phase)
                 : c->peer->kind == BENCH_PEER_MPI ? mpi_phase(c, phase)
                                                   : vendor_phase(c, phase);
    *us = weiri_clock_us() - began_us;
    if (status == WEIR_OK && is_call)
        status = check_call(c, phase, count);
    return bench_job_agree(job, status, phase_names[phase]);
}

/* Runs the phases from first to last. Collective; agreed. */
static weir_status run_phases(init_candidate *c, init_phase first, init_phase last, double *us)
{
    weir_status status = WEIR_OK;
    for (int phase = (int)first; phase <= (int)last && status == WEIR_OK; phase++) {
        us[phase] = 0;
        if (!has_phase(c, (init_phase)phase))
            continue;
        status = run_phase(c, (init_phase)phase, &us[phase]);
        if (status == WEIR_OK && phase == SPLIT)
            status = bench_job_agree(c->job, destroy_half(c), "destroy");
    }
    return status;
}

/* -------------------------------------------------------------- measurement */

/* weir's first communicator is the job's, which remains. Collective; agreed. */
static weir_status run_first(init_candidate *c)
{
    double *us = c->first_us;
    if (c->peer)
        return run_phases(c, BOOTSTRAP, DESTROY, us);
    c->comm = c->job->comm;
    weir_status status = run_phases(c, CALL_SHORT, SPLIT, us);
    c->comm = NULL;
    us[BOOTSTRAP] = c->job->boot_us;
    us[CREATE] = c->job->comm_us;
    if (c->job->ngroups > 1) /* these are of all ranks */
        us[BOOTSTRAP] = us[CREATE] = NAN;
    us[DESTROY] = 0;
    return status;
}

static weir_status open_candidate(bench_job *job, init_candidate *c, const bench_peer *peer)
{
    char why[200] = "";
    *c = (init_candidate){.job = job, .peer = peer, .name = "weir"};
    if (!peer)
        return WEIR_OK;
    if (peer->kind == BENCH_PEER_MPI && job->gpu)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--peer mpi: it is measured on the host only; add --backend host");
    if (peer->kind == BENCH_PEER_MPI)
        return control_open_mpi(job, c->name, sizeof c->name);
    if (!job->gpu && !peer->path)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--peer %s: it works on GPUs; give --backend cuda, or --peer mpi",
                              peer->text);
    weir_status status = bench_vendor_open(peer->path, &c->vendor, why, sizeof why);
    if (status != WEIR_OK)
        return bench_job_note(job, status,
                              "--peer %s: %s; name the library by WEIR_NCCL_SO or "
                              "--peer PATH",
                              peer->text, why);
    memcpy(c->name, c->vendor.name, sizeof c->vendor.name); /* the shorter one */
    return WEIR_OK;
}

static weir_status open_buffers(bench_job *job)
{
    float *host_in = malloc(LONG_BYTES);
    host_out = malloc(LONG_BYTES);
    weir_status status = WEIR_OK;
    if (!host_in || !host_out)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for 2 MiB of buffers");
    for (size_t i = 0; i < ELEMENTS && status == WEIR_OK; i++)
        host_in[i] = (float)(job->group_rank + 1);
    in = host_in;
    out = host_out;
    if (!job->gpu || status != WEIR_OK)
        return bench_job_agree(job, status, "buffers");
    void *device[2] = {NULL, NULL};
    for (int i = 0; i < 2 && status == WEIR_OK; i++)
        status = bench_gpu_alloc(job->gpu, LONG_BYTES, &device[i]);
    in = device[0];
    out = device[1];
    if (status == WEIR_OK)
        status = bench_gpu_push(job->gpu, in, host_in, LONG_BYTES);
    free(host_in);
    return bench_job_agree(job, status, "buffers");
}

/* Runs all candidates once, in an order that alternates. *slowest_us: at least the slowest's. */
static weir_status run_repetition(double *slowest_us)
{
    weir_status status = WEIR_OK;
    for (int k = 0; k < ncandidates && status == WEIR_OK; k++) {
        init_candidate *c = &candidates[repetition % 2 ? ncandidates - 1 - k : k];
        double us[PHASES];
        const double began_us = weiri_clock_us();
        status = run_phases(c, BOOTSTRAP, DESTROY, us);
        *slowest_us = fmax(*slowest_us, weiri_clock_us() - began_us);
        for (int phase = 0; repetition >= 0 && phase < TOTAL; phase++)
            c->us[phase][repetition] = us[phase];
    }
    return status;
}

/* The first communicators, then an untimed repetition, which finds their number. Collective;
 * agreed. */
static weir_status prepare(bench_job *job, int *repetitions)
{
    weir_status status = WEIR_OK;
    double slowest_us = 1;
    repetition = -1;
    for (int i = 0; i < ncandidates && status == WEIR_OK; i++)
        status = run_first(&candidates[i]);
    if (status == WEIR_OK)
        status = run_repetition(&slowest_us);
    if (status != WEIR_OK)
        return status;
    const double fit = 2e6 / bench_exchange_fold(job, BENCH_FOLD_MAX, slowest_us);
    *repetitions = control_options.iterations ? control_options.iterations
                   : fit < LEAST              ? LEAST
                   : fit > MOST               ? MOST
                                              : (int)fit;
    for (int i = 0; i < ncandidates; i++)
        for (int phase = 0; phase < PHASES; phase++) {
            candidates[i].us[phase] = calloc((size_t)*repetitions, sizeof(double));
            if (!candidates[i].us[phase])
                status = bench_job_note(job, WEIR_ERR_NO_MEMORY,
                                        "no memory for times; give a "
                                        "smaller -n");
        }
    return bench_job_agree(job, status, "times");
}

/* The times of each group's slowest rank, on rank 0. scratch: (1 + 2 ngroups) n numbers.
 * Collective. */
static void gather_groups(init_candidate *c, int n, double *scratch)
{
    const bench_job *job = c->job;
    const size_t all = (size_t)job->ngroups * (size_t)n;
    double *us = scratch + n, *total_us = us + all;
    memset(total_us, 0, all * sizeof *total_us);
    for (int phase = 0; phase < PHASES; phase++) {
        bench_part *groups = &c->groups[phase * job->ngroups];
        if (phase < TOTAL)
            bench_exchange_reduce_groups(job, BENCH_FOLD_MAX, c->us[phase], n, us);
        for (size_t i = 0; phase < TOTAL && i < all && job->rank == 0; i++)
            total_us[i] += us[i];
        bench_parts_put_wrong(job, c->own_wrong[phase], groups);
        for (int at = 0; at < job->ngroups && job->rank == 0; at++) {
            const double *shown = (phase == TOTAL ? total_us : us) + (size_t)at * (size_t)n;
            const bench_sequence series = {shown, (size_t)n, NULL, 1};
            groups[at].stats = bench_stats_series(&series, 0.001, scratch);
        }
    }
}

/* The times of the slowest rank, on rank 0. Collective. */
static void gather_times(init_candidate *c, int n, double *scratch)
{
    const bench_job *job = c->job;
    memcpy(c->own_wrong, c->wrong, sizeof c->wrong);
    if (c->groups)
        gather_groups(c, n, scratch);
    bench_exchange_reduce(job, BENCH_FOLD_MAX, c->first_us, TOTAL, c->first_us);
    c->first_us[TOTAL] = 0;
    for (int phase = 0; phase < TOTAL; phase++) {
        bench_exchange_reduce(job, BENCH_FOLD_MAX, c->us[phase], n, c->us[phase]);
        control_share_wrong(job, c->name, c->message, &c->wrong[phase]);
        *c->message = '\0';
        c->wrong[TOTAL] += c->wrong[phase];
        c->first_us[TOTAL] += c->first_us[phase];
        for (int i = 0; i < n; i++)
            c->us[TOTAL][i] += c->us[phase][i];
    }
    if (!c->peer && job->launcher == BENCH_LAUNCHER_FORK) /* before the ranks existed */
        c->first_us[BOOTSTRAP] = NAN;
    if (!c->peer) /* the job's communicator remains */
        c->first_us[DESTROY] = c->first_us[TOTAL] = NAN;
}

static void fill_row(control_run *run, const init_candidate *c, init_phase phase, int n,
                     double *scratch)
{
    const bench_sequence series = {c->us[phase], (size_t)n, NULL, 1};
    const int is_call = phase == CALL_SHORT || phase == CALL_LONG, ngroups = run->job->ngroups;
    if (phase < TOTAL && !has_phase(c, phase))
        return;
    run->rows[run->nrows++] =
        (control_row){.phase = phase_names[phase],
                      .candidate = c->name,
                      .is_peer = c->peer != NULL,
                      .is_checked = is_call,
                      .iterations = n,
                      .bytes = phase == CALL_SHORT  ? 2 * sizeof(float)
                               : phase == CALL_LONG ? LONG_BYTES
                                                    : 0,
                      .wrong = is_call ? c->wrong[phase] : 0,
                      .stats = bench_stats_series(&series, 0.001, scratch),
                      .first_us = c->first_us[phase],
                      .groups = c->groups ? c->groups + (int)phase * ngroups : NULL};
}

static weir_status init_measure(control_run *run)
{
    bench_job *job = run->job;
    int n = 0;
    double unused_us = 0;
    weir_status status = open_buffers(job);
    control_options.buffers = BENCH_BUFFERS_PLAIN;
    for (; ncandidates <= control_options.npeers && status == WEIR_OK; ncandidates++)
        status = bench_job_agree(
            job,
            open_candidate(job, &candidates[ncandidates],
                           ncandidates ? &control_options.peers[ncandidates - 1] : NULL),
            "peer");
    for (int i = 1; i < ncandidates && status == WEIR_OK && job->gpu; i++)
        if (candidates[i].peer->kind == BENCH_PEER_VENDOR)
            bench_cores_check(job, candidates[i].name);
    if (status == WEIR_OK)
        status = prepare(job, &n);
    for (repetition = 0; repetition < n && status == WEIR_OK; repetition++)
        status = run_repetition(&unused_us);
    if (status != WEIR_OK)
        return status;
    double *scratch = calloc((1 + 2 * (size_t)job->ngroups) * (size_t)n + 1, sizeof *scratch);
    int failed = !scratch;
    for (int i = 0; i < ncandidates && job->ngroups > 1; i++) {
        candidates[i].groups = calloc(PHASES * (size_t)job->ngroups, sizeof(bench_part));
        failed |= !candidates[i].groups;
    }
    if (failed)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for times; give a smaller -n");
    status = bench_job_agree(job, status, "times");
    for (int i = 0; i < ncandidates && status == WEIR_OK; i++)
        gather_times(&candidates[i], n, scratch);
    for (int phase = 0; phase < PHASES && status == WEIR_OK; phase++)
        for (int i = 0; i < ncandidates; i++)
            fill_row(run, &candidates[i], (init_phase)phase, n, scratch);
    free(scratch);
    return status;
}

static void init_close(void)
{
    bench_gpu *gpu = candidates[0].job ? candidates[0].job->gpu : NULL;
    for (int i = 0; i < ncandidates; i++) {
        free(candidates[i].groups);
        for (int phase = 0; phase < PHASES; phase++)
            free(candidates[i].us[phase]);
    }
    if (gpu) {
        bench_gpu_free(gpu, in);
        bench_gpu_free(gpu, out);
    } else {
        free(in);
    }
    free(host_out);
}

#define AT(member) offsetof(bench_options, member)
static const weiri_option own[] = {
    {'n', "iters", "N", &weiri_option_int, AT(iterations), .high = 100000, .initial = "0",
     .flags = WEIRI_OPTION_SAME | WEIRI_OPTION_EXPLAINED, .manifest = "iterations",
     .help = "timed communicators (default: 0, as many as fit two seconds, from 5 to 100)"},
    {0, "peer", "mpi|nccl|PATH", &bench_option_peer, 0, .flags = WEIRI_OPTION_SAME,
     .manifest = "peers",
     .help =
         "also measure MPI_Comm_dup, _split and _free, or ncclCommInitRank, Split and Destroy of "
         "NCCL or of a library with its interface; may be repeated"},
    {0, "inject", "list|flip-bit|skip-signal", &bench_option_inject, 0, .flags = WEIRI_OPTION_SAME,
     .manifest = "inject_slow_percent",
     .help = "flip-bit: a byte is changed in the last rank's first timed result of 1 MiB; "
             "skip-signal: the last rank does not make its first timed calls"},
};
static const int faults[] = {BENCH_FAULT_FLIP_BIT, BENCH_FAULT_SKIP_SIGNAL, BENCH_FAULT_NONE};
static const char *const shared[] = {"ngpus", "timeout",  "csv",     "backend", "transport",
                                     "split", "help-env", "version", "help",    NULL};
const control_program control_init = {
    .name = "bench_init",
    .collective = "init",
    .purpose = "Measures how long creation, first calls and destruction of communicators take.",
    .notes =
        "# Timing: a barrier before each phase, the slowest rank's time; first: a candidate's "
        "first\n"
        "# communicator in the process; calls: the first allreduces on a communicator, checked\n"
        "# weir's ranks connect in bootstrap, NCCL's in create; split: into even and odd ranks\n",
    .mode = "barrier-operation",
    .shared = shared,
    .own = own,
    .own_count = sizeof own / sizeof own[0],
    .faults = faults,
    .measure = init_measure,
    .close = init_close,
};
