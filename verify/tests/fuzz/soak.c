/*
 * A soak test of alltoallv: over many calls whose splits change every time (some zero, some large,
 * some given by the host and some read from the device), all data are right and memory does not
 * grow. Splits are hashes, so every rank knows all of them. Buffers move within their memory from
 * call to call; the memory is freed and allocated again now and then, alternately from the library
 * and from the system.
 *
 *   mpirun -np 4 soak [--calls N] [--room BYTES] [--backend auto|host|cuda]
 *                     [--seed N] [--leak BYTES] [--leak-gpu BYTES]
 *
 * Memory is sampled while no buffers exist: before the first call, after a tenth of the calls, and
 * after the last. The exit code is 1 if data were wrong, or if a rank uses more memory at the end
 * than after that tenth. --leak and --leak-gpu lose so many bytes in each call, to prove that leaks
 * are detected.
 */
#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"
#include "bench/job/job.h"
#include "programs/numbers.h"
#include "verify/hash.h"
#include "verify/verify.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEGMENTS = 20,      /* number of times that buffers are allocated */
    WARM_SEGMENTS = 2,  /* one with each kind of memory */
    SLACK_BYTES = 4096, /* range in which buffers move */
    GUARD = 16,         /* elements checked after the last block */
    WIDTH = 4,          /* bytes of an element */
    EXIT_WRONG = 1,
};
static const size_t allowed_bytes = (size_t)1 << 20; /* growth that allocators may cause */

typedef struct settings {
    size_t calls, room_bytes, seed, leak_bytes, leak_gpu_bytes;
    const char *backend;
} settings;

/* Memory of one rank's buffer: registered, or unregistered (plain). */
typedef struct place {
    weir_mem *mem;
    void *plain;
    char *base;
} place;

typedef struct memory_use {
    uint64_t host_bytes, gpu_bytes;
} memory_use;

typedef struct soak {
    bench_job *job;
    const settings *asked;
    place in, out;
    char *in_copy, *out_copy; /* host memory, where data are compared */
    size_t *counts;           /* 5 arrays of nranks, in the order of weirv_case */
    void *device_counts;      /* a copy of the first 4 on the GPU */
    weirv_case c;
    uint64_t wrong, moved_bytes;
} soak;

/* ------------------------------------------------------------------ options */

static int parse(int argc, char **argv, settings *asked)
{
    static const struct option options[] = {
        {"calls", required_argument, NULL, 'c'},
        {"room", required_argument, NULL, 'r'},
        {"backend", required_argument, NULL, 'b'},
        {"seed", required_argument, NULL, 's'},
        {"leak", required_argument, NULL, 'l'},
        {"leak-gpu", required_argument, NULL, 'g'},
        {NULL, 0, NULL, 0},
    };
    size_t *const numbers[] = {['c'] = &asked->calls,
                               ['r'] = &asked->room_bytes,
                               ['s'] = &asked->seed,
                               ['l'] = &asked->leak_bytes,
                               ['g'] = &asked->leak_gpu_bytes};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b')
            asked->backend = optarg;
        else if (option == '?' || weiri_bytes_read(optarg, numbers[option]) != 0)
            return -1;
    }
    int known = !strcmp(asked->backend, "auto") || !strcmp(asked->backend, "host") ||
                !strcmp(asked->backend, "cuda");
    return known && optind == argc && asked->calls >= SEGMENTS && asked->room_bytes >= 65536 ? 0
                                                                                             : -1;
}

static weir_backend backend_of(const char *word)
{
    if (strcmp(word, "auto") == 0)
        return WEIR_BACKEND_AUTO;
    return strcmp(word, "cuda") == 0 ? WEIR_BACKEND_CUDA : WEIR_BACKEND_HOST;
}

/* ------------------------------------------------------------------- memory */

static memory_use memory_now(const bench_job *job)
{
    memory_use use = {0, 0};
    unsigned long long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%llu %llu", &all, &resident) == 2)
        use.host_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
    if (file)
        fclose(file);
    if (job->gpu) {
        bench_gpu_info info;
        bench_gpu_describe(job->gpu, &info);
        use.gpu_bytes = info.memory_bytes - info.free_bytes;
    }
    return use;
}

static weir_status place_alloc(soak *s, int plain, place *at)
{
    bench_job *job = s->job;
    size_t bytes = s->asked->room_bytes + SLACK_BYTES + GUARD * WIDTH;
    weir_status status = WEIR_OK;
    if (!plain)
        status = weir_mem_alloc(job->comm, bytes, &at->mem);
    else if (job->gpu)
        status = bench_gpu_alloc(job->gpu, bytes, &at->plain);
    else if (!(at->plain = malloc(bytes)))
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for a buffer");
    at->base = at->mem ? weir_mem_pointer(at->mem) : at->plain;
    return status;
}

static void place_free(soak *s, place *at)
{
    weir_mem_free(at->mem);
    if (at->plain && s->job->gpu)
        bench_gpu_free(s->job->gpu, at->plain);
    else
        free(at->plain);
    memset(at, 0, sizeof *at);
}

static void leak(soak *s)
{
    void *lost = s->asked->leak_bytes ? malloc(s->asked->leak_bytes) : NULL;
    if (lost)
        memset(lost, 1, s->asked->leak_bytes);
    if (s->asked->leak_gpu_bytes && s->job->gpu)
        bench_gpu_alloc(s->job->gpu, s->asked->leak_gpu_bytes, &lost);
}

/* -------------------------------------------------------------------- calls */

static uint64_t draw(const soak *s, uint64_t call, int from, int to)
{
    return weirv_mix64(s->asked->seed * 0x9e3779b97f4a7c15u + (call << 16) + (uint64_t)from * 256 +
                       (uint64_t)to);
}

/* Zero in a quarter of cases, up to a rank's part of the room in one of sixteen, else small. */
static size_t count_of(const soak *s, uint64_t call, int from, int to)
{
    uint64_t random = draw(s, call, from, to);
    size_t share = s->asked->room_bytes / WIDTH / (size_t)s->job->nranks;
    size_t most = random % 16 == 1 ? share : share < 1024 ? share : 1024;
    return random % 4 == 0 ? 0 : (random >> 8) % (most + 1);
}

static void make_splits(soak *s, uint64_t call)
{
    int rank = s->job->rank, nranks = s->job->nranks;
    size_t n = (size_t)nranks, sent = 0, received = 0;
    for (int peer = 0; peer < nranks; peer++) {
        size_t *at = s->counts + peer, before = 0;
        for (int to = 0; to < rank; to++)
            before += count_of(s, call, peer, to);
        at[0] = count_of(s, call, rank, peer);
        at[n] = sent;
        at[2 * n] = count_of(s, call, peer, rank);
        at[3 * n] = received;
        at[4 * n] = before;
        sent += at[0];
        received += at[2 * n];
    }
    s->moved_bytes += received * WIDTH;
}

static weir_status push(const soak *s, char *home, const char *copy, size_t bytes)
{
    if (s->job->gpu)
        return bench_gpu_push(s->job->gpu, home, copy, bytes);
    memcpy(home, copy, bytes);
    return WEIR_OK;
}

static weir_status pull(const soak *s, char *copy, const char *home, size_t bytes)
{
    if (s->job->gpu)
        return bench_gpu_pull(s->job->gpu, copy, home, bytes);
    memcpy(copy, home, bytes);
    return WEIR_OK;
}

/* Even calls take counts from the host, odd calls from the memory that holds the buffers. */
static weir_status exchange(soak *s, uint64_t call, const char *in, char *out)
{
    weir_comm *comm = s->job->comm;
    weir_stream stream = bench_gpu_stream(s->job->gpu);
    const size_t *c = s->counts;
    size_t n = (size_t)s->job->nranks, room = s->asked->room_bytes;
    if (call % 2 == 0)
        return weir_alltoallv(comm, in, c, c + n, out, c + 2 * n, c + 3 * n, WEIR_FLOAT, stream);
    const uint64_t *counts = s->device_counts ? s->device_counts : (const void *)c;
    return weir_alltoallv_device(comm, in, room, counts, counts + n, out, room, counts + 2 * n,
                                 counts + 3 * n, WEIR_FLOAT, stream);
}

static void compare(soak *s)
{
    weirv_result result = {0};
    size_t all = weirv_recv_elements(&s->c);
    weirv_check_exact(&s->c, s->out_copy, &result);
    weirv_compare_poison(WEIR_FLOAT, s->job->rank, all, GUARD, s->out_copy + all * WIDTH, &result);
    if (result.wrong && !s->wrong)
        fprintf(stderr, "soak: rank %d: element %zu is wrong: got %s, expected %s\n", s->job->rank,
                result.first.index, result.first.got, result.first.expected);
    s->wrong += result.wrong;
}

static weir_status one_call(soak *s, uint64_t call)
{
    size_t in_shift = draw(s, call, 254, s->job->rank) % (SLACK_BYTES / WIDTH) * WIDTH;
    size_t out_shift = draw(s, call, 255, s->job->rank) % (SLACK_BYTES / WIDTH) * WIDTH;
    char *in = s->in.base + in_shift, *out = s->out.base + out_shift;
    make_splits(s, call);
    size_t in_bytes = weirv_send_elements(&s->c) * WIDTH;
    size_t out_bytes = (weirv_recv_elements(&s->c) + GUARD) * WIDTH;
    s->c.seed = call;
    weirv_poison(s->out_copy, out_bytes);
    weirv_fill_input(&s->c, s->in_copy);
    weir_status status = push(s, in, s->in_copy, in_bytes);
    if (status == WEIR_OK)
        status = push(s, out, s->out_copy, out_bytes);
    if (status == WEIR_OK && s->device_counts)
        status = bench_gpu_push(s->job->gpu, s->device_counts, s->counts,
                                4 * (size_t)s->job->nranks * sizeof *s->counts);
    if (status == WEIR_OK)
        status = exchange(s, call, in, out);
    if (status == WEIR_OK && s->job->gpu)
        status = bench_gpu_sync(s->job->gpu);
    if (status == WEIR_OK && s->job->gpu)
        status = weir_comm_check(s->job->comm);
    if (status == WEIR_OK)
        status = pull(s, s->out_copy, out, out_bytes);
    if (status == WEIR_OK)
        compare(s);
    leak(s);
    return status;
}

/* ---------------------------------------------------------------- the run */

static weir_status run_segment(soak *s, int segment)
{
    uint64_t first = s->asked->calls * (uint64_t)segment / SEGMENTS;
    uint64_t end = s->asked->calls * ((uint64_t)segment + 1) / SEGMENTS;
    weir_status status = place_alloc(s, segment % 2, &s->in);
    if (status == WEIR_OK)
        status = place_alloc(s, segment % 2, &s->out);
    status = bench_job_agree(s->job, status, "buffers");
    for (uint64_t call = first; call < end && status == WEIR_OK; call++) {
        bench_job_phase(s->job, "soak", call);
        status = one_call(s, call);
    }
    status = bench_job_agree(s->job, status, "alltoallv");
    place_free(s, &s->out);
    place_free(s, &s->in);
    bench_job_barrier(s->job);
    return status;
}

/* Prints the maximum over ranks of the memory in use and of its growth since an earlier sample. */
static memory_use report_memory(const soak *s, const char *when, const memory_use *before)
{
    memory_use use = memory_now(s->job);
    double mib = 1 << 20;
    double mine[4] = {(double)use.host_bytes / mib, (double)use.gpu_bytes / mib, 0, 0}, most[4];
    if (before) {
        mine[2] = ((double)use.host_bytes - (double)before->host_bytes) / mib;
        mine[3] = ((double)use.gpu_bytes - (double)before->gpu_bytes) / mib;
    }
    bench_exchange_reduce(s->job, BENCH_FOLD_MAX, mine, 4, most);
    if (s->job->rank == 0)
        printf("%-20s %12.2f %12.2f %12.2f %12.2f\n", when, most[0], most[2], most[1], most[3]);
    fflush(stdout);
    return use;
}

static int grew(uint64_t before, uint64_t after)
{
    return after > before + allowed_bytes;
}

/* Whether all ranks passed; the same on every rank. */
static int judge(const soak *s, const memory_use *warm, const memory_use *end)
{
    uint64_t found[4] = {s->wrong, (uint64_t)grew(warm->host_bytes, end->host_bytes),
                         (uint64_t)grew(warm->gpu_bytes, end->gpu_bytes), s->moved_bytes};
    for (int i = 0; i < 4; i++)
        found[i] = (uint64_t)bench_exchange_fold(s->job, BENCH_FOLD_SUM, (double)found[i]);
    if (s->job->rank == 0)
        printf("# %llu wrong elements, %.2f GB moved; memory of the host %s, of the GPU %s\n",
               (unsigned long long)found[0], (double)found[3] * 1e-9, found[1] ? "GREW" : "flat",
               !s->job->gpu ? "not used"
               : found[2]   ? "GREW"
                            : "flat");
    return !found[0] && !found[1] && !found[2];
}

static weir_status set_up(soak *s)
{
    bench_job *job = s->job;
    size_t n = (size_t)job->nranks, bytes = s->asked->room_bytes + GUARD * WIDTH;
    weir_status status = WEIR_OK;
    s->counts = calloc(5 * n, sizeof *s->counts);
    s->in_copy = malloc(bytes);
    s->out_copy = malloc(bytes);
    if (!s->counts || !s->in_copy || !s->out_copy)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory");
    else if (job->gpu)
        status = bench_gpu_alloc(job->gpu, 4 * n * sizeof *s->counts, &s->device_counts);
    s->c = (weirv_case){.collective = WEIR_COLL_ALLTOALLV,
                        .dtype = WEIR_FLOAT,
                        .rank = job->rank,
                        .nranks = job->nranks,
                        .send_counts = s->counts,
                        .send_displs = s->counts + n,
                        .recv_counts = s->counts + 2 * n,
                        .recv_displs = s->counts + 3 * n,
                        .recv_from = s->counts + 4 * n};
    if (status == WEIR_OK) { /* makes the pages resident before the first sample */
        memset(s->in_copy, 1, bytes);
        memset(s->out_copy, 1, bytes);
    }
    return bench_job_agree(job, status, "set-up");
}

static int run(bench_job *job, const settings *asked)
{
    soak s = {.job = job, .asked = asked};
    memory_use start, warm = {0, 0}, end = {0, 0};
    weir_status status = set_up(&s);
    if (job->rank == 0)
        printf("# soak: alltoallv, %d ranks, %s, %zu calls, new splits in each, room of %zu bytes\n"
               "# maximum of ranks    host (MiB)    growth since    GPU (MiB)    growth since\n",
               job->nranks, weir_backend_name(weir_comm_backend(job->comm)), asked->calls,
               asked->room_bytes);
    start = report_memory(&s, "start", NULL);
    for (int segment = 0; segment < SEGMENTS && status == WEIR_OK; segment++) {
        status = run_segment(&s, segment);
        if (segment + 1 == WARM_SEGMENTS)
            warm = report_memory(&s, "after warm-up", &start);
    }
    if (status == WEIR_OK)
        end = report_memory(&s, "end", &warm);
    int good = status == WEIR_OK && judge(&s, &warm, &end);
    if (s.device_counts)
        bench_gpu_free(job->gpu, s.device_counts);
    free(s.in_copy);
    free(s.out_copy);
    free(s.counts);
    return status != WEIR_OK ? weir_status_exit_code(status) : good ? 0 : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    settings asked = {.calls = 60000, .room_bytes = (size_t)1 << 20, .seed = 1, .backend = "auto"};
    bench_job job = {.program = "soak"};
    int bad = parse(argc, argv, &asked);
    bench_launch launch;
    char problem[BENCH_PROBLEM_BYTES] = "no launcher started this process; use mpirun";
    if (bench_launch_find(&launch, problem) != 0 || !launch.variable) {
        bench_job_say(&job, "%s", problem);
        return weir_status_exit_code(WEIR_ERR_INVALID);
    }
    if (bench_job_start(&job, "soak", 0, &launch) != WEIR_OK)
        return weir_status_exit_code(WEIR_ERR_SYSTEM);
    int code = weir_status_exit_code(WEIR_ERR_INVALID);
    weir_status status = WEIR_OK;
    if (bad)
        bench_job_say(&job, "expected --calls N (20 or more), --room BYTES (64K or more), "
                            "--backend auto|host|cuda, --seed N, --leak BYTES, --leak-gpu BYTES");
    else if ((status = bench_job_connect(&job, backend_of(asked.backend))) != WEIR_OK)
        code = weir_status_exit_code(status);
    else
        code = run(&job, &asked);
    bench_job_end(&job);
    return code;
}
