/*
 * Start and end of a rank, and agreement between ranks over the bootstrap. The process is bound
 * before weir's communicator is created, so that shared memory is first touched where the rank will
 * run.
 */
#define _GNU_SOURCE /* sets of cpus */
#include "bench/job/job.h"

#include "base/build_id.h"
#include "base/config.h"
#include "base/env.h"
#include "base/log.h"
#include "base/mpi_open.h"
#include "base/text.h"
#include "base/transports.h"
#include "bench/gpu/clocks.h"
#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"
#include "bench/job/watched_boot.h"
#include "topo/topo.h"
#include <weir/plan.h>

#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The analyzer's macros are for callers. */
#undef bench_job_note
#undef bench_job_agree

/* The lowest rate at which a rank fills and checks its buffers: all ranks on a few cores, under a
 * sanitizer. */
enum { SLOWEST_BYTES_PER_MS = 4096 };

/* Whichever communicator reports, it knows where its ranks are. */
static void note_phase(bench_job *job, const char *phase, uint64_t iteration)
{
    weir_comm_note(job->comm, phase, iteration);
    if (job->all != job->comm)
        weir_comm_note(job->all, phase, iteration);
}

void bench_job_phase(bench_job *job, const char *phase, uint64_t iteration)
{
    bench_watch_step(&job->watch, phase, 0);
    note_phase(job, phase, iteration);
}

void bench_job_phase_bytes(bench_job *job, const char *phase, size_t bytes)
{
    bench_watch_step(&job->watch, phase, bytes / SLOWEST_BYTES_PER_MS);
    note_phase(job, phase, 0);
}

/* Completes the note about a failure: the library's text, or else that of the status. */
static void complete_note(bench_job *job, weir_status status)
{
    if (!job->note.text[0])
        bench_job_note(job, status, "%s", weir_last_error());
    if (strcmp(job->note.text, "no error") == 0)
        bench_job_note(job, status, "%s", weir_status_text(status));
    weiri_text_escape(job->note.text, sizeof job->note.text);
}

static void print_failure(bench_job *job, weir_status status, const char *what)
{
    complete_note(job, status);
    fprintf(stderr, "%s: rank %d: %s: %s\n", job->program, job->rank, what, job->note.text);
    job->note.text[0] = '\0';
}

/* The bootstrap has the job's deadline while it connects; later exchanges are watched by the
 * watchdog, because ranks may check data for longer than that between them. */
enum { WATCHED_MS = 0x7fffffff };

static void use_timeout(bench_job *job, int timeout_ms)
{
    (void)weir_boot_set_timeout(job->boot, timeout_ms);
}

/* An MPI that does not know the launcher makes each process a separate job. Open MPI then names
 * another PMIx job than the launcher did. */
static weir_status check_mpi_joined(bench_job *job, const bench_launch *launch,
                                    const char *pmix_job)
{
    const char *now = getenv("PMIX_NAMESPACE");
    int nranks = weir_boot_nranks(job->boot);
    if (launch->rank < nranks && (nranks > 1 || !*pmix_job || (now && strcmp(now, pmix_job) == 0)))
        return WEIR_OK;
    return bench_job_note(job, WEIR_ERR_SYSTEM,
                          "%s=%d: a launcher started this process, but MPI (%s) did not join "
                          "the job and sees %d rank%s; name the launcher's library by "
                          "WEIR_MPI_SO, or try WEIR_LAUNCHER=pmix",
                          launch->variable, launch->rank, weiri_mpi_file(), nranks,
                          nranks == 1 ? "" : "s");
}

static weir_status connect_by_mpi(bench_job *job, const bench_launch *launch)
{
    char pmix_job[256];
    const char *before = getenv("PMIX_NAMESPACE");
    snprintf(pmix_job, sizeof pmix_job, "%s", launch->variable && before ? before : "");
    bench_job_phase(job, "set-up: MPI_Init", 0);
    job->mpi = bench_mpi_start(job->program, launch->rank);
    bench_job_phase(job, "set-up: bootstrap over MPI", 0);
    job->setup_ms = weiri_clock_s() * -1e3; /* MPI's own start is not weir's */
    const weir_status status = bench_mpi_boot(job->mpi, &job->boot);
    return status == WEIR_OK ? check_mpi_joined(job, launch, pmix_job) : status;
}

/* Creates the bootstrap. Collective. */
static weir_status connect_ranks(bench_job *job, const bench_launch *launch)
{
    switch (launch->launcher) {
    case BENCH_LAUNCHER_MPI:
        return connect_by_mpi(job, launch);
    case BENCH_LAUNCHER_PMIX:
        return weir_boot_pmix_create(&job->boot);
    case BENCH_LAUNCHER_SLURM:
        return weir_boot_slurm_create(&job->boot);
    case BENCH_LAUNCHER_TORCHRUN:
        return weir_boot_torchrun_create(&job->boot);
    case BENCH_LAUNCHER_FORK:
        break;
    }
    job->boot = launch->boot;
    return WEIR_OK;
}

/* Rejects ranks with another build than rank 0's before the benchmark's own exchanges, which may
 * differ, too. Collective. */
static weir_status check_builds(bench_job *job)
{
    weiri_build_id *all = calloc((size_t)job->nranks, sizeof *all);
    if (!all)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for %d ranks", job->nranks);
    all[job->rank] = *weiri_build_id_own();
    weir_status status = weir_boot_allgather(job->boot, all, sizeof *all);
    for (int rank = 1; rank < job->nranks && status == WEIR_OK; rank++)
        if (memcmp(&all[rank], &all[0], sizeof *all) != 0)
            status = bench_job_note(
                job, WEIR_ERR_MISMATCH,
                "the ranks run different builds of weir: %.*s (sources %.*s) on rank 0, %.*s "
                "(sources %.*s) on rank %d; start all ranks with the same programs",
                (int)sizeof all->version, all[0].version, (int)sizeof all->sources, all[0].sources,
                (int)sizeof all->version, all[rank].version, (int)sizeof all->sources,
                all[rank].sources, rank);
    free(all);
    return status;
}

/* Returns -1 without memory. */
static int divide_ranks(bench_job *job, const bench_split *split)
{
    const size_t n = (size_t)job->nranks;
    free(job->groups);
    free(job->group_of);
    job->groups = calloc(n, sizeof *job->groups);
    job->group_of = calloc(n, sizeof *job->group_of);
    if (!job->groups || !job->group_of)
        return -1;
    job->ngroups = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        const int color = bench_split_color(split, rank);
        int at = 0;
        while (at < job->ngroups && job->groups[at].color != color)
            at++;
        if (at == job->ngroups)
            job->groups[job->ngroups++] = (bench_group){.color = color, .leader = rank};
        if (rank == job->rank) {
            job->group = at;
            job->group_rank = job->groups[at].nranks;
        }
        job->group_of[rank] = at;
        job->groups[at].nranks++;
    }
    job->group_nranks = job->groups[job->group].nranks;
    return 0;
}

/* The bootstrap of a forked rank belongs to the process that forked it. */
static weir_status take_ranks(bench_job *job)
{
    const int owns_boot = job->launcher != BENCH_LAUNCHER_FORK;
    job->rank = weir_boot_rank(job->boot);
    job->nranks = weir_boot_nranks(job->boot);
    job->values = calloc((size_t)job->nranks, sizeof *job->values);
    weiri_log_set_rank(job->rank);
    const weir_status status = check_builds(job);
    if (status != WEIR_OK)
        return status;
    use_timeout(job, WATCHED_MS);
    if (!job->values || divide_ranks(job, &(bench_split){.operation = BENCH_SPLIT_NONE}) != 0 ||
        bench_watch_boot(&job->watch, &job->boot, owns_boot) != WEIR_OK)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for %d ranks", job->nranks);
    return WEIR_OK;
}

weir_status bench_job_divide(bench_job *job, const bench_split *split)
{
    weir_status status = WEIR_OK;
    if (divide_ranks(job, split) != 0)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for %d ranks", job->nranks);
    status = bench_job_agree(job, status, "groups");
    if (status == WEIR_OK && job->mpi && job->ngroups > 1)
        bench_mpi_divide(job->mpi, job->groups[job->group].color, job->rank);
    return status;
}

int bench_job_least_nranks(const bench_job *job)
{
    int least = job->nranks;
    for (int i = 0; i < job->ngroups; i++)
        least = job->groups[i].nranks < least ? job->groups[i].nranks : least;
    return least;
}

int bench_job_rank_of(const bench_job *job, int group_rank)
{
    int rank = 0;
    for (int before = group_rank; job->group_of[rank] != job->group || before-- > 0;)
        rank++;
    return rank;
}

int bench_job_most_nodes(const bench_job *job)
{
    int most = 1;
    for (int i = 0; i < job->ngroups; i++)
        most = job->groups[i].nnodes > most ? job->groups[i].nnodes : most;
    return most;
}

int bench_job_is_even(const bench_job *job)
{
    return bench_job_least_nranks(job) * job->ngroups == job->nranks;
}

weir_status bench_job_start(bench_job *job, const char *program, int timeout_s,
                            const bench_launch *launch)
{
    char timeout_ms[24];
    memset(job, 0, sizeof *job);
    job->program = program;
    job->launcher = launch->launcher;
    job->no_mpi = launch->no_mpi;
    job->rank = launch->rank;
    job->timeout_ms = timeout_s ? timeout_s * 1000 : weiri_config_timeout_ms();
    snprintf(timeout_ms, sizeof timeout_ms, "%d", job->timeout_ms);
    if (timeout_s && launch->launcher != BENCH_LAUNCHER_MPI)
        setenv("WEIR_TIMEOUT_MS", timeout_ms, 1); /* the bootstraps read it */
    bench_watch_start(&job->watch, program, launch->rank, launch->nranks, job->timeout_ms);
    bench_job_phase(job, "set-up: bootstrap", 0);
    if (gethostname(job->host, sizeof job->host - 1) != 0)
        snprintf(job->host, sizeof job->host, "unknown");
    job->host[strcspn(job->host, ".")] = '\0';
    job->setup_ms = weiri_clock_s() * -1e3;
    weir_status status = connect_ranks(job, launch);
    job->boot_us = job->setup_ms * 1e3 + weiri_clock_s() * 1e6;
    if (status == WEIR_OK)
        status = take_ranks(job);
    if (status != WEIR_OK) {
        /* Ranks that MPI has not joined have the same failure. */
        const int is_apart = job->launcher == BENCH_LAUNCHER_MPI && job->nranks == 0;
        if (!is_apart || bench_setup_claim_refusal(launch->rank == 0))
            print_failure(job, status, "bootstrap");
        bench_mpi_end(job->mpi);
        if (is_apart)
            bench_setup_hold_refusal();
    }
    job->setup_ms += weiri_clock_s() * 1e3;
    return status;
}

/* Where a rank runs, as its kernel says. */
typedef struct rank_identity {
    char host[sizeof((bench_job *)0)->host], kernel[sizeof((bench_job *)0)->kernel];
    uint64_t cpus; /* a hash of those that it may run on */
} rank_identity;

static void read_kernel(char *id, size_t bytes)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!file || !fgets(id, (int)bytes, file))
        *id = '\0';
    if (file)
        fclose(file);
    id[strcspn(id, "\n")] = '\0';
}

/* FNV-1a over the mask. A kernel of more cpus than the mask has bits refuses to write it. */
static uint64_t hash_affinity(void)
{
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned char mask[1024] = {0};
    sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask);
    for (size_t i = 0; i < sizeof mask; i++)
        hash = (hash ^ mask[i]) * 0x100000001b3u;
    return hash;
}

/* Containers share a kernel and its cpus under different host names. */
static int shares_kernel(const rank_identity *a, const rank_identity *b)
{
    return strcmp(a->kernel, b->kernel) == 0 && (a->kernel[0] || strcmp(a->host, b->host) == 0);
}

static void count_local_ranks(bench_job *job, const rank_identity *all)
{
    const rank_identity *mine = &all[job->rank];
    int on_kernel = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        if (!shares_kernel(&all[rank], mine))
            continue;
        const int is_local = strcmp(all[rank].host, mine->host) == 0;
        const int has_my_cpus = all[rank].cpus == mine->cpus;
        on_kernel++;
        job->local_rank += is_local && rank < job->rank;
        job->local_nranks += is_local;
        job->cpu_rank += has_my_cpus && rank < job->rank;
        job->cpu_nranks += has_my_cpus;
    }
    job->has_common_cpus = job->cpu_nranks > 1 && job->cpu_nranks == on_kernel;
}

static void find_local_ranks(bench_job *job)
{
    rank_identity *all = calloc((size_t)job->nranks, sizeof *all);
    if (!all)
        bench_watch_give_up(&job->watch, job->comm, "no memory for the ranks' places");
    rank_identity *mine = &all[job->rank];
    read_kernel(job->kernel, sizeof job->kernel);
    memcpy(mine->host, job->host, sizeof mine->host);
    memcpy(mine->kernel, job->kernel, sizeof mine->kernel);
    mine->cpus = hash_affinity();
    if (weir_boot_allgather(job->boot, all, sizeof *all) != WEIR_OK)
        bench_exchange_fail(job);
    job->local_nranks = 0;
    count_local_ranks(job, all);
    free(all);
}

static void describe_place(bench_job *job, const weiri_place *place, int is_wanted)
{
    char shared[32] = "", cpus[80];
    weiri_text_shorten_list(place->cpus, cpus, sizeof cpus);
    if (place->sharers > 1)
        snprintf(shared, sizeof shared, ", %d ranks share", place->sharers);
    snprintf(job->place, sizeof job->place, "cpus %s%s (%s)", cpus, shared,
             place->bound_by_launcher ? "bound by the launcher"
             : !place->bound          ? "not bound"
             : is_wanted              ? "as recorded"
                                      : "bound by weir");
}

/* 1 if the rank's own thread does all the work. With GPUs the driver has threads, which would be
 * bound to the same core. */
static int works_alone(const bench_job *job, const weiri_topo *topo, weir_backend backend)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return !job->has_threads && (backend == WEIR_BACKEND_HOST || counts.gpus == 0);
}

/* A node that cannot be discovered or bound to is reported but not an error: results are only less
 * steady. */
static void place_process(bench_job *job, weir_backend backend)
{
    weiri_topo *topo = NULL;
    weiri_place place;
    snprintf(job->machine, sizeof job->machine, "unknown machine");
    snprintf(job->place, sizeof job->place, "not bound");
    job->binding = "none";
    if (weiri_topo_discover(&topo) != WEIR_OK) {
        weiri_log(WEIRI_LOG_WARN, "not bound: %s", weir_last_error());
        return;
    }
    weiri_topo_summary(topo, job->machine, sizeof job->machine);
    weiri_topo_digest(topo, job->digest);
    if (weiri_topo_place(topo, job->cpu_rank, job->cpu_nranks, &place) == WEIR_OK) {
        const int is_wanted = job->wanted_cpus && weiri_topo_want(topo, job->wanted_cpus, &place);
        if (weiri_topo_bind(topo, job->has_common_cpus, &place) != WEIR_OK)
            weiri_log(WEIRI_LOG_WARN, "not bound: %s", weir_last_error());
        job->process_cores = (double)place.ncores / (place.sharers > 1 ? place.sharers : 1);
        job->all_cores.known =
            sched_getaffinity(0, sizeof job->all_cores.set, (cpu_set_t *)job->all_cores.set) == 0;
        if (!is_wanted && works_alone(job, topo, backend) &&
            weiri_topo_settle(topo, &place) != WEIR_OK)
            weiri_log(WEIRI_LOG_WARN, "not on one core: %s", weir_last_error());
        describe_place(job, &place, is_wanted);
        job->binding = place.bound_by_launcher ? "launcher" : place.bound ? "weir" : "none";
        job->cores = (double)place.ncores / (place.sharers > 1 ? place.sharers : 1);
        weiri_place_free(&place);
    }
    weiri_topo_destroy(topo);
}

/* Creates the communicator of a backend, and opens the rank's GPU. Collective; agreed. */
static weir_status job_make_communicator(bench_job *job, weir_backend backend)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = job->timeout_ms;
    config.backend = backend;
    weir_status status = backend == WEIR_BACKEND_CUDA ? bench_gpu_probe(&job->note) : WEIR_OK;
    status = bench_job_agree(job, status, "GPUs");
    if (status == WEIR_OK) {
        const double began_us = weiri_clock_us();
        status = weir_comm_create(job->boot, &config, &job->all);
        job->comm = job->all;
        job->comm_us = weiri_clock_us() - began_us;
        status = bench_job_agree(job, status, "communicator");
    }
    if (status != WEIR_OK)
        return status;
    bench_watch_comm(&job->watch, job->all);
    if (job->ngroups > 1) {
        status = weir_comm_split(job->all, job->groups[job->group].color, job->rank, &config,
                                 &job->comm);
        status = bench_job_agree(job, status, "communicators of groups");
    }
    if (status != WEIR_OK)
        return status;
    if (bench_gpu_serves(job->comm))
        status = bench_gpu_open(job->comm, &job->note, &job->gpu);
    return bench_job_agree(job, status, "GPUs");
}

/* If NVML is missing, the header says so. */
static void open_nvml(bench_job *job)
{
    bench_gpu_info gpu;
    if (!job->gpu)
        return;
    bench_job_phase(job, "set-up: NVML", 0);
    bench_gpu_describe(job->gpu, &gpu);
    job->nvml = bench_nvml_open(gpu.bus);
}

/* Rejects a network transport if all ranks are on one node, where they share memory: the results
 * would not be what was asked for. */
static weir_status check_transport(bench_job *job)
{
    const char *wanted = weiri_env(WEIRI_ENV_TRANSPORT);
    const weiri_transport_row *row =
        wanted ? weiri_transport_row_of(weiri_transport_find(wanted)) : NULL;
    weir_status status = WEIR_OK;
    if (row && row->joins_nodes && job->nnodes == 1)
        status = bench_job_note(job, WEIR_ERR_UNSUPPORTED,
                                "transport '%s' connects nodes, but all ranks are on one node; use "
                                "shm or auto, or ranks with different values of %s",
                                wanted, weiri_env_name(WEIRI_ENV_HOSTID));
    return bench_job_agree(job, status, "communicator");
}

/* Gives every rank the number of nodes of each group. Collective. */
static void count_nodes(bench_job *job)
{
    job->values[job->rank] = weir_comm_nnodes(job->comm);
    if (weir_boot_allgather(job->boot, job->values, sizeof *job->values) != WEIR_OK)
        bench_exchange_fail(job);
    for (int i = 0; i < job->ngroups; i++)
        job->groups[i].nnodes = (int)job->values[job->groups[i].leader];
}

/* Whether the library may choose GPUs: nobody has asked for a backend, or hidden the GPUs. */
static int leaves_backend_open(weir_backend backend)
{
    const char *asked = weiri_env(WEIRI_ENV_BACKEND), *visible = getenv("CUDA_VISIBLE_DEVICES");
    return backend == WEIR_BACKEND_AUTO && (!asked || strcmp(asked, "auto") == 0) &&
           !(visible && (!*visible || *visible == '-'));
}

weir_status bench_job_connect(bench_job *job, weir_backend backend)
{
    find_local_ranks(job);
    bench_job_phase(job, "set-up: binding", 0);
    place_process(job, backend);
    bench_job_barrier(job);
    bench_job_phase(job, "set-up: communicator", 0);
    double began_s = weiri_clock_s();
    use_timeout(job, job->timeout_ms);
    job->may_use_gpus = leaves_backend_open(backend);
    weir_status status = job_make_communicator(job, backend);
    if (status != WEIR_OK)
        return status;
    use_timeout(job, WATCHED_MS);
    job->setup_ms =
        bench_exchange_fold(job, BENCH_FOLD_MAX, job->setup_ms + (weiri_clock_s() - began_s) * 1e3);
    job->nnodes = weir_comm_nnodes(job->all);
    count_nodes(job);
    open_nvml(job);
    return check_transport(job);
}

/* The communicator is destroyed last, so that the watchdog can ask it about peers until then. The
 * final barrier has a deadline and needs no MPI. */
void bench_job_end(bench_job *job)
{
    bench_watch_agree_end(&job->watch);
    if (job->mpi)
        bench_job_phase(job, "tear-down: MPI_Finalize", 0);
    bench_mpi_end(job->mpi);
    bench_watch_comm(&job->watch, NULL);
    bench_job_phase(job, "tear-down: last barrier", 0);
    if (job->all && weir_comm_barrier(job->all) != WEIR_OK)
        bench_watch_give_up(&job->watch, job->all, weir_last_error());
    bench_watch_end(&job->watch);
    bench_nvml_close(job->nvml);
    bench_gpu_close(job->gpu);
    if (job->comm != job->all)
        (void)weir_comm_destroy(job->comm); /* the barrier above has reported failures */
    if (job->all)
        (void)weir_comm_destroy(job->all);
    weir_boot_destroy(job->boot);
    weir_plan_free(job->plan);
    free(job->values);
    free(job->groups);
    free(job->group_of);
    memset(job, 0, sizeof *job);
}

weir_status bench_job_note(bench_job *job, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bench_note_list(&job->note, status, format, arguments);
    va_end(arguments);
    return status;
}

/* After these errors the communicator is aborted: a peer may never arrive. */
static int is_abort(weir_status status)
{
    return status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_ABORTED || status == WEIR_ERR_PEER;
}

/* Ends a rank with a report, after the bootstrap failed. why: the failure that broke it, such as a
 * deadline in set-up; "" if this exchange was the first to fail. */
static _Noreturn void leave_broken_job(bench_job *job, const char *why)
{
    if (!*why)
        bench_exchange_fail(job);
    fflush(stdout);
    bench_watch_give_up(&job->watch, job->all, why);
}

weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what)
{
    char why[512];
    if (is_abort(mine) && job->comm) {
        fflush(stdout); /* the phase stays unchanged, for the report */
        bench_watch_give_up(&job->watch, job->comm, weir_last_error());
    }
    bench_job_phase(job, what, 0);
    if (mine != WEIR_OK)
        complete_note(job, mine);
    snprintf(why, sizeof why, "%s", is_abort(mine) ? job->note.text : "");
    if (mine != WEIR_OK)
        bench_watch_failed(&job->watch, job->note.text);
    job->values[job->rank] = mine;
    if (weir_boot_allgather(job->boot, job->values, sizeof *job->values) != WEIR_OK)
        leave_broken_job(job, why);
    int worst = 0;
    for (int rank = 1; rank < job->nranks; rank++)
        if (job->values[rank] < job->values[worst])
            worst = rank;
    weir_status agreed = (weir_status)job->values[worst];
    int prints = is_abort(agreed) ? mine != WEIR_OK : worst == job->rank;
    if (agreed != WEIR_OK)
        bench_watch_agree_end(&job->watch);
    if (agreed != WEIR_OK && prints)
        print_failure(job, mine, what);
    return agreed;
}

/* Whether standard output is a pipe whose reader has ended. */
static int output_lost_reader(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && output.revents & POLLERR;
}

weir_status bench_job_check_output(bench_job *job)
{
    int failed = fflush(stdout) != 0;
    if (!failed && !ferror(stdout))
        return WEIR_OK;
    return bench_job_note(job, WEIR_ERR_SYSTEM,
                          output_lost_reader()
                              ? "standard output cannot be written: its reader, such as head, has "
                                "ended; write it to a file, or give --csv FILE"
                              : "standard output cannot be written: is the disk full, or is it "
                                "closed?");
}

void bench_job_barrier(bench_job *job)
{
    bench_job_phase(job, "barrier", 0);
    if (weir_boot_barrier(job->boot) != WEIR_OK)
        bench_exchange_fail(job);
}

/* Over sockets ranks are woken one by one; the communicator's barrier lets them go together. */
void bench_job_barrier_closely(bench_job *job)
{
    bench_job_barrier(job);
    if (!job->mpi && weir_comm_barrier(job->all) != WEIR_OK)
        bench_watch_give_up(&job->watch, job->all, weir_last_error());
}

/* Longer lines are cut. */
enum { SAY_BYTES = 4096 };

void bench_job_say(const bench_job *job, const char *format, ...)
{
    va_list arguments;
    if (job->rank != 0)
        return;
    char line[SAY_BYTES];
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    weiri_text_escape(line, sizeof line);
    fprintf(stderr, "%s: %s\n", job->program, line);
}

int bench_job_has_common_clock(const bench_job *job)
{
    return job->local_nranks == job->nranks;
}
