/*
 * Start and end of a rank, and agreement among ranks over MPI. The process is
 * bound before weir's communicator exists, so that shared memory is touched
 * first where the rank will run.
 */
#include "bench/job.h"

#include "base/env.h"
#include "base/log.h"
#include "topo/topo.h"
#include "weir_boot_mpi.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { EXIT_DEADLINE = 4, WATCH_DEADLINES = 5 };

/* The watch: a timer's signal compares what bench_job_progress counted. Both
 * belong to the process, as the signal does. */
static volatile unsigned long progress_count;
static volatile unsigned long progress_seen;

void bench_job_progress(void)
{
    progress_count++;
}

/* Async-signal-safe: only write and _exit. */
static void watch(int signal_number)
{
    static const char line[] = "weir: no progress within five deadlines (-T, WEIR_TIMEOUT_MS): "
                               "a rank is stopped or too slow; the job ends\n";
    (void)signal_number;
    if (progress_count != progress_seen) {
        progress_seen = progress_count;
        return;
    }
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
        _exit(EXIT_DEADLINE);
    _exit(EXIT_DEADLINE);
}

static void start_watch(int timeout_ms)
{
    long seconds = (long)timeout_ms * WATCH_DEADLINES / 1000 + 1;
    struct itimerval every = {.it_interval = {.tv_sec = seconds}, .it_value = {.tv_sec = seconds}};
    struct sigaction action = {.sa_handler = watch, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

void bench_job_start(bench_job *job, const char *program)
{
    memset(job, 0, sizeof *job);
    job->program = program;
    MPI_Init(NULL, NULL);
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

/* A machine that cannot be read or bound to is told, not fatal: the numbers
 * are then only less steady. */
static void place_process(bench_job *job)
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
        describe_place(job, &place);
    }
    weiri_topo_destroy(topo);
}

weir_status bench_job_connect(bench_job *job, int timeout_s)
{
    weir_comm_config config = {.timeout_ms = timeout_s * 1000};
    job->timeout_ms = timeout_s ? timeout_s * 1000 : weiri_env_timeout_ms();
    start_watch(job->timeout_ms);
    find_local_ranks(job);
    place_process(job);
    bench_job_barrier(job);
    double started = MPI_Wtime();
    weir_status status = bench_job_agree(job, weir_boot_mpi_create(job->mpi, &job->boot),
                                         "bootstrap");
    if (status != WEIR_OK)
        return status;
    status = bench_job_agree(job, weir_comm_create(job->boot, &config, &job->comm),
                             "communicator");
    if (status != WEIR_OK)
        return status;
    double mine_ms = (MPI_Wtime() - started) * 1e3;
    MPI_Allreduce(&mine_ms, &job->setup_ms, 1, MPI_DOUBLE, MPI_MAX, job->mpi);
    job->nnodes = weir_comm_nnodes(job->comm);
    return WEIR_OK;
}

void bench_job_end(bench_job *job)
{
    if (job->comm)
        weir_comm_destroy(job->comm);
    weir_boot_destroy(job->boot);
    MPI_Comm_free(&job->mpi);
    MPI_Finalize();
    memset(job, 0, sizeof *job);
}

weir_status bench_job_note(bench_job *job, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->note, sizeof job->note, format, arguments);
    va_end(arguments);
    return status;
}

static void tell(bench_job *job, const char *what)
{
    fprintf(stderr, "%s: rank %d: %s: %s\n", job->program, job->rank, what,
            job->note[0] ? job->note : weir_last_error());
    job->note[0] = '\0';
}

/* After these the communicator is aborted: a peer may never come again. */
static int is_abort(weir_status status)
{
    return status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_ABORTED || status == WEIR_ERR_PEER;
}

weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what)
{
    struct {
        int status, rank;
    } own = {(int)mine, job->rank}, worst = own;
    MPI_Request request;
    int done = 0;
    double deadline = MPI_Wtime() + job->timeout_ms * 1e-3 + 1;
    bench_job_progress();
    MPI_Iallreduce(&own, &worst, 1, MPI_2INT, MPI_MINLOC, job->mpi, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        if (is_abort(mine) && MPI_Wtime() > deadline) {
            tell(job, what);
            MPI_Abort(job->mpi, weir_status_exit_code(mine));
        }
        sched_yield();
    }
    weir_status agreed = (weir_status)worst.status;
    int tells = is_abort(agreed) ? mine != WEIR_OK : worst.rank == job->rank;
    if (agreed != WEIR_OK && tells)
        tell(job, what);
    return agreed;
}

void bench_job_barrier(bench_job *job)
{
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
