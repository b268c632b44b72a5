/*
 * Start and end of a rank, and agreement between ranks over MPI. The process is bound before
 * weir's communicator is created, so that shared memory is first touched where the rank will run.
 */
#include "bench/job/job.h"

#include "base/config.h"
#include "base/log.h"
#include "bench/gpu/gpu.h"
#include "bench/gpu/clocks.h"
#include "topo/topo.h"
#include <weir/mpi.h>

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The lowest rate at which a rank fills and checks its buffers: all ranks on a few cores, under a
 * sanitizer. */
enum { SLOWEST_BYTES_PER_MS = 4096 };

void bench_job_phase(bench_job *job, const char *phase, uint64_t iteration)
{
    bench_watch_step(&job->watch, phase, 0);
    weir_comm_note(job->comm, phase, iteration);
}

void bench_job_phase_bytes(bench_job *job, const char *phase, size_t bytes)
{
    bench_watch_step(&job->watch, phase, bytes / SLOWEST_BYTES_PER_MS);
    weir_comm_note(job->comm, phase, 0);
}

void bench_job_start(bench_job *job, const char *program, int timeout_s)
{
    int provided = MPI_THREAD_SINGLE; /* the watchdog thread calls no MPI */
    memset(job, 0, sizeof *job);
    job->program = program;
    job->timeout_ms = timeout_s ? timeout_s * 1000 : weiri_config_timeout_ms();
    bench_watch_start(&job->watch, program, job->timeout_ms);
    bench_job_phase(job, "set-up: MPI_Init", 0);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    bench_job_phase(job, "set-up: MPI_Comm_dup", 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &job->mpi);
    MPI_Comm_rank(job->mpi, &job->rank);
    MPI_Comm_size(job->mpi, &job->nranks);
    if (gethostname(job->host, sizeof job->host - 1) != 0)
        snprintf(job->host, sizeof job->host, "unknown");
    job->host[strcspn(job->host, ".")] = '\0';
    weiri_log_set_rank(job->rank);
}

static void find_local_ranks(bench_job *job)
{
    MPI_Comm local;
    MPI_Comm_split_type(job->mpi, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &job->local_rank);
    MPI_Comm_size(local, &job->local_nranks);
    MPI_Comm_free(&local);
}

static void describe_place(bench_job *job, const weiri_place *place)
{
    char shared[32] = "";
    if (place->sharers > 1)
        snprintf(shared, sizeof shared, ", %d ranks share", place->sharers);
    snprintf(job->place, sizeof job->place, "cpus %.80s%s (%s)", place->cpus, shared,
             place->bound_by_launcher ? "bound by the launcher"
             : place->bound           ? "bound by weir"
                                      : "not bound");
}

/* 1 if the rank's own thread does all the work. With GPUs the driver has threads, which would be
 * bound to the same core. */
static int works_alone(const weiri_topo *topo, weir_backend backend)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return backend == WEIR_BACKEND_HOST || counts.gpus == 0;
}

/* A node that cannot be discovered or bound to is reported but not an error: results are only less
 * steady. */
static void place_process(bench_job *job, weir_backend backend)
{
    weiri_topo *topo = NULL;
    weiri_place place;
    snprintf(job->machine, sizeof job->machine, "unknown machine");
    snprintf(job->place, sizeof job->place, "not bound");
    if (weiri_topo_discover(&topo) != WEIR_OK) {
        weiri_log(WEIRI_LOG_WARN, "not bound: %s", weir_last_error());
        return;
    }
    weiri_topo_summary(topo, job->machine, sizeof job->machine);
    weiri_topo_digest(topo, job->digest);
    if (weiri_topo_place(topo, job->local_rank, job->local_nranks, &place) == WEIR_OK) {
        if (weiri_topo_bind(topo, &place) != WEIR_OK)
            weiri_log(WEIRI_LOG_WARN, "not bound: %s", weir_last_error());
        if (works_alone(topo, backend) && weiri_topo_settle(topo, &place) != WEIR_OK)
            weiri_log(WEIRI_LOG_WARN, "not on one core: %s", weir_last_error());
        describe_place(job, &place);
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
    if (status == WEIR_OK)
        status =
            bench_job_agree(job, weir_comm_create(job->boot, &config, &job->comm), "communicator");
    if (status != WEIR_OK)
        return status;
    bench_watch_comm(&job->watch, job->comm);
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

weir_status bench_job_connect(bench_job *job, weir_backend backend)
{
    find_local_ranks(job);
    bench_job_phase(job, "set-up: binding", 0);
    place_process(job, backend);
    bench_job_barrier(job);
    bench_job_phase(job, "set-up: communicator", 0);
    double started = MPI_Wtime();
    weir_status status =
        bench_job_agree(job, weir_boot_mpi_create(job->mpi, &job->boot), "bootstrap");
    if (status != WEIR_OK)
        return status;
    status = job_make_communicator(job, backend);
    if (status != WEIR_OK)
        return status;
    double mine_ms = (MPI_Wtime() - started) * 1e3;
    MPI_Allreduce(&mine_ms, &job->setup_ms, 1, MPI_DOUBLE, MPI_MAX, job->mpi);
    job->nnodes = weir_comm_nnodes(job->comm);
    open_nvml(job);
    return WEIR_OK;
}

/* The communicator is destroyed last, so that the watchdog can ask it about peers until then. The
 * final barrier has a deadline and needs no MPI. */
void bench_job_end(bench_job *job)
{
    bench_job_phase(job, "tear-down: MPI_Finalize", 0);
    MPI_Comm_free(&job->mpi);
    MPI_Finalize();
    bench_watch_comm(&job->watch, NULL);
    bench_job_phase(job, "tear-down: last barrier", 0);
    if (job->comm && weir_comm_barrier(job->comm) != WEIR_OK)
        bench_watch_give_up(&job->watch, job->comm, weir_last_error());
    bench_watch_end(&job->watch);
    bench_nvml_close(job->nvml);
    bench_gpu_close(job->gpu);
    if (job->comm)
        (void)weir_comm_destroy(job->comm); /* the barrier above has reported failures */
    weir_boot_destroy(job->boot);
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

static void print_failure(bench_job *job, const char *what)
{
    fprintf(stderr, "%s: rank %d: %s: %s\n", job->program, job->rank, what,
            job->note.text[0] ? job->note.text : weir_last_error());
    job->note.text[0] = '\0';
}

/* After these errors the communicator is aborted: a peer may never arrive. */
static int is_abort(weir_status status)
{
    return status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_ABORTED || status == WEIR_ERR_PEER;
}

weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what)
{
    struct {
        int status, rank;
    } mine_and_rank = {(int)mine, job->rank}, worst = mine_and_rank;
    MPI_Request request;
    int done = 0;
    double deadline = MPI_Wtime() + job->timeout_ms * 1e-3 + 1;
    if (is_abort(mine) && job->comm) {
        fflush(stdout); /* the phase stays unchanged, for the report */
        bench_watch_give_up(&job->watch, job->comm, weir_last_error());
    }
    bench_job_phase(job, what, 0);
    MPI_Iallreduce(&mine_and_rank, &worst, 1, MPI_2INT, MPI_MINLOC, job->mpi, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        if (is_abort(mine) && MPI_Wtime() > deadline) {
            print_failure(job, what);
            MPI_Abort(job->mpi, weir_status_exit_code(mine));
        }
        sched_yield();
    }
    weir_status agreed = (weir_status)worst.status;
    int prints = is_abort(agreed) ? mine != WEIR_OK : worst.rank == job->rank;
    if (agreed != WEIR_OK && prints)
        print_failure(job, what);
    return agreed;
}

void bench_job_hold_output(void)
{
    if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
        return;
    int empty = open("/dev/null", O_RDONLY);
    if (empty < 0 || empty == STDOUT_FILENO)
        return;
    dup2(empty, STDOUT_FILENO);
    close(empty);
}

weir_status bench_job_check_output(bench_job *job)
{
    int failed = fflush(stdout) != 0;
    if (!failed && !ferror(stdout))
        return WEIR_OK;
    return bench_job_note(job, WEIR_ERR_SYSTEM,
                          "standard output cannot be written: is the disk full, or is it closed?");
}

void bench_job_barrier(bench_job *job)
{
    bench_job_phase(job, "MPI_Barrier", 0);
    MPI_Barrier(job->mpi);
}

void bench_job_say(const bench_job *job, const char *format, ...)
{
    va_list arguments;
    if (job->rank != 0)
        return;
    fprintf(stderr, "%s: ", job->program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

int bench_job_has_common_clock(const bench_job *job)
{
    return job->local_nranks == job->nranks;
}
