/*
 * Prints how fast blocks move between two GPUs of this node, one way, next to CUDA's own calls in
 * the same run. Run by hand:
 *
 *   whole     one cudaMemcpyAsync of as many bytes between the two pools: the link's rate
 *   weir put  weir_blocks_put of 100,000 blocks in random order, with a tag
 *   plain put the same between pools of cudaMalloc
 *   batch     cudaMemcpyBatchAsync of the same blocks (10,000 of them: it costs the host much)
 *   each      one cudaMemcpyAsync for each of 10,000 blocks
 *   packed    NCCL: weir gathers the blocks on one GPU, ncclSend and ncclRecv of all, weir scatters
 *   sends     NCCL: one ncclSend and ncclRecv for each of 1,000 blocks, in a group
 *
 * For each: GB/s by events in the stream, the median of repeats, and microseconds of the calling
 * thread; NCCL's are the receiver's. NCCL is left out if libnccl.so.2 is not found. The first block
 * and the last one of a put are compared with what was sent, and so are those of "packed". Ends
 * with 1 if there are no numbers.
 */
#include "verify/tests/support/gpu_ranks.h"

#include <dlfcn.h>
#include <weir/blocks.h>

enum { COUNT = 100000, FEW = 10000, FEWER = 1000, REPEATS = 7, WHOLE_MS = 85000 };

/* The functions of NCCL that are used. */
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
enum { NCCL_INT8 = 0 };
typedef struct nccl {
    int (*id_get)(nccl_id *);
    int (*init)(void **, int, nccl_id, int);
    int (*start)(void), (*end)(void);
    int (*send)(const void *, size_t, int, int, void *, cudaStream_t);
    int (*recv)(void *, size_t, int, int, void *, cudaStream_t);
    void *comm; /* NULL: no NCCL */
} nccl;

typedef struct speed {
    weir_comm *comm;
    weir_mem *mem, *list_mem;
    weir_mem *mems[MOST_RANKS];
    weir_blocks *blocks;
    uint64_t *list;
    size_t block;
    char *own, *theirs; /* pools: the blocks, and as much again for "packed" */
    int rank, is_plain;
    nccl nccl;
    cudaStream_t stream;
    cudaEvent_t start, stop;
} speed;

typedef int enqueue(speed *s, size_t count);

static int enqueue_whole(speed *s, size_t count)
{
    return cudaMemcpyAsync(s->theirs, s->own, count * s->block, cudaMemcpyDeviceToDevice,
                           s->stream) == cudaSuccess;
}

static int enqueue_put(speed *s, size_t count)
{
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    a.peer = 1, a.tag = 1, a.list = weir_mem_pointer(s->list_mem), a.count = count;
    a.block_bytes = s->block, a.stream = s->stream;
    return weir_blocks_put(s->blocks, &a) == WEIR_OK;
}

/* Gathers or scatters within the pool, by a list in which one side has the packed blocks. */
static int enqueue_own(speed *s, size_t count)
{
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    a.peer = s->rank, a.list = (uint64_t *)weir_mem_pointer(s->list_mem) + 2 * COUNT;
    a.count = count, a.block_bytes = s->block, a.stream = s->stream;
    return weir_blocks_put(s->blocks, &a) == WEIR_OK;
}

static int enqueue_packed(speed *s, size_t count)
{
    const size_t bytes = count * s->block;
    char *packed = s->own + COUNT * s->block;
    if (s->rank == 0)
        return enqueue_own(s, count) &&
               !s->nccl.send(packed, bytes, NCCL_INT8, 1, s->nccl.comm, s->stream);
    return !s->nccl.recv(packed, bytes, NCCL_INT8, 0, s->nccl.comm, s->stream) &&
           enqueue_own(s, count);
}

static int enqueue_sends(speed *s, size_t count)
{
    int error = s->nccl.start();
    for (size_t e = 0; e < count && !error; e++)
        error = s->rank == 0 ? s->nccl.send(s->own + s->list[2 * e], s->block, NCCL_INT8, 1,
                                            s->nccl.comm, s->stream)
                             : s->nccl.recv(s->own + s->list[2 * e + 1], s->block, NCCL_INT8, 0,
                                            s->nccl.comm, s->stream);
    return !s->nccl.end() && !error;
}

static int enqueue_each(speed *s, size_t count)
{
    int good = 1;
    for (size_t e = 0; e < count && good; e++)
        good = cudaMemcpyAsync(s->theirs + s->list[2 * e + 1], s->own + s->list[2 * e], s->block,
                               cudaMemcpyDeviceToDevice, s->stream) == cudaSuccess;
    return good;
}

#if CUDART_VERSION >= 13000
static int enqueue_batch(speed *s, size_t count)
{
    static void *to[FEW];
    static const void *from[FEW];
    static size_t bytes[FEW];
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    for (size_t e = 0; e < count; e++) {
        to[e] = s->theirs + s->list[2 * e + 1];
        from[e] = s->own + s->list[2 * e];
        bytes[e] = s->block;
    }
    return cudaMemcpyBatchAsync(to, from, bytes, count, &attributes, &first, 1, s->stream) ==
           cudaSuccess;
}
#endif

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int measure(speed *s, const char *what, enqueue *call, size_t count)
{
    double gbs[REPEATS], thread_us[REPEATS];
    float ms = 0;
    for (int i = -2; i < REPEATS; i++) {
        if (call == enqueue_packed || call == enqueue_sends)
            weir_comm_barrier(s->comm);
        cudaEventRecord(s->start, s->stream);
        const double begin = now_s();
        if (!call(s, count)) {
            printf("%-9s %7zu: failed: %s; %s\n", what, s->block, weir_last_error(),
                   cudaGetErrorString(cudaGetLastError()));
            return 1;
        }
        const double us = (now_s() - begin) * 1e6;
        cudaEventRecord(s->stop, s->stream);
        if (cudaStreamSynchronize(s->stream) != cudaSuccess ||
            cudaEventElapsedTime(&ms, s->start, s->stop) != cudaSuccess || i < 0)
            continue;
        gbs[i] = (double)(count * s->block) / ms / 1e6;
        thread_us[i] = us;
    }
    qsort(gbs, REPEATS, sizeof *gbs, by_size);
    qsort(thread_us, REPEATS, sizeof *thread_us, by_size);
    if ((call == enqueue_packed || call == enqueue_sends) != s->rank)
        return 0;
    printf("%-9s %7zu %8zu %10.2f %12.2f\n", what, s->block, count, gbs[REPEATS / 2],
           thread_us[REPEATS / 2]);
    fflush(stdout);
    return 0;
}

/* Draws sources and destinations in random order, and writes the list to the GPU. */
static int draw_list(speed *s)
{
    uint64_t seed = 1;
    for (size_t e = 0; e < COUNT; e++)
        s->list[2 * e] = s->list[2 * e + 1] = e * s->block;
    for (size_t e = COUNT; e-- > 1;)
        for (int side = 0; side < 2; side++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const size_t other = (seed >> 33) % (e + 1);
            const uint64_t kept = s->list[2 * e + (size_t)side];
            s->list[2 * e + (size_t)side] = s->list[2 * other + (size_t)side];
            s->list[2 * other + (size_t)side] = kept;
        }
    uint64_t *packed = s->list + 2 * COUNT;
    for (size_t e = 0; e < COUNT; e++) {
        const uint64_t at = (COUNT + e) * s->block;
        packed[2 * e] = s->rank ? at : s->list[2 * e];
        packed[2 * e + 1] = s->rank ? s->list[2 * e + 1] : at;
    }
    return weir_mem_write(s->list_mem, 0, s->list, 2 * COUNT * 16) == WEIR_OK;
}

/* Rank 1 looks at the first and the last block of the list. */
static int check_ends(const speed *s)
{
    unsigned char *got = malloc(s->block);
    int wrong = 0;
    for (size_t e = 0; e < COUNT; e += COUNT - 1) {
        weir_mem_read(s->mem, s->list[2 * e + 1], got, s->block);
        for (size_t i = 0; i < s->block; i++)
            wrong |= got[i] != 0x5a;
    }
    free(got);
    if (wrong)
        printf("blocks of %zu bytes: WRONG DATA\n", s->block);
    return wrong;
}

static int open_pools(speed *s, void **malloced)
{
    const size_t bytes = 2 * COUNT * s->block;
    int failures = 0;
    if (!s->is_plain) {
        EXPECT_OK(&failures, weir_mem_alloc(s->comm, bytes, &s->mem));
    } else {
        EXPECT(&failures, cudaMalloc(malloced, bytes) == cudaSuccess);
        EXPECT_OK(&failures, weir_mem_register(s->comm, *malloced, bytes, &s->mem));
    }
    EXPECT_OK(&failures, weir_mem_alloc(s->comm, 2 * COUNT * 16, &s->list_mem));
    EXPECT_OK(&failures, weir_mem_exchange(s->comm, s->mem, s->mems));
    EXPECT_OK(&failures, weir_blocks_create(s->comm, s->mem, NULL, &s->blocks));
    if (failures || !draw_list(s))
        return 1;
    s->own = weir_mem_pointer(s->mem), s->theirs = weir_mem_pointer(s->mems[1]);
    EXPECT(&failures, cudaMemset(s->own, s->rank ? 0 : 0x5a, bytes) == cudaSuccess);
    cudaDeviceSynchronize();
    return failures;
}

static int run_nccl(speed *s)
{
    int failures = 0;
    EXPECT(&failures, cudaMemset(s->own, s->rank ? 0 : 0x5a, COUNT * s->block) == cudaSuccess);
    cudaDeviceSynchronize();
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    failures += measure(s, "packed", enqueue_packed, COUNT);
    failures += s->rank ? check_ends(s) : 0;
    return failures + measure(s, "sends", enqueue_sends, FEWER);
}

static int run_block(speed *s)
{
    void *malloced = NULL;
    int failures = open_pools(s, &malloced);
    if (failures)
        return failures;
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (s->rank == 0)
        failures += measure(s, s->is_plain ? "plain put" : "weir put", enqueue_put, COUNT);
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (s->rank == 1)
        failures += check_ends(s);
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (s->rank == 0) {
        failures += measure(s, "whole", enqueue_whole, COUNT);
#if CUDART_VERSION >= 13000
        failures += measure(s, "batch", enqueue_batch, FEW);
#endif
        failures += measure(s, "each", enqueue_each, FEW);
        EXPECT_OK(&failures, weir_blocks_check(s->blocks));
    }
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (s->nccl.comm && !s->is_plain)
        failures += run_nccl(s);
    weir_blocks_free(s->blocks);
    weir_mem_free(s->mems[1 - s->rank]);
    weir_mem_free(s->list_mem);
    weir_mem_free(s->mem);
    cudaFree(malloced);
    return failures;
}

/* Loads NCCL on both ranks, or on none. */
static void open_nccl(speed *s, weir_boot *boot)
{
    const char *path = getenv("WEIR_NCCL_SO");
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
    struct {
        nccl_id id;
        int has;
    } all[2];
    if (library) {
        *(void **)&s->nccl.id_get = dlsym(library, "ncclGetUniqueId");
        *(void **)&s->nccl.init = dlsym(library, "ncclCommInitRank");
        *(void **)&s->nccl.start = dlsym(library, "ncclGroupStart");
        *(void **)&s->nccl.end = dlsym(library, "ncclGroupEnd");
        *(void **)&s->nccl.send = dlsym(library, "ncclSend");
        *(void **)&s->nccl.recv = dlsym(library, "ncclRecv");
    }
    all[s->rank].has = library && s->nccl.recv && !s->nccl.id_get(&all[s->rank].id);
    if (weir_boot_allgather(boot, all, sizeof *all) != WEIR_OK || !all[0].has || !all[1].has ||
        s->nccl.init(&s->nccl.comm, 2, all[0].id, s->rank) != 0)
        s->nccl.comm = NULL;
    if (!s->nccl.comm && s->rank == 0)
        printf("NCCL is left out: %s\n", library ? "it fails" : "no libnccl.so.2");
}

static int run_all(weir_boot *boot, void *argument)
{
    static const size_t blocks[] = {4096, 8192, 16384, 65536};
    int failures = 0;
    speed s = {.comm = open_gpu_comm(boot, 30000), .list = malloc(2 * COUNT * 16)};
    (void)argument;
    if (!s.comm || !s.list || cudaStreamCreate(&s.stream) != cudaSuccess ||
        cudaEventCreate(&s.start) != cudaSuccess || cudaEventCreate(&s.stop) != cudaSuccess)
        return NO_COMM;
    s.rank = weir_comm_rank(s.comm);
    open_nccl(&s, boot);
    if (s.rank == 0)
        printf("%-9s %7s %8s %10s %12s\n", "", "block", "blocks", "GB/s", "thread us");
    for (size_t i = 0; i < 2 * sizeof blocks / sizeof *blocks && !failures; i++) {
        s.block = blocks[i / 2];
        s.is_plain = i % 2;
        failures += run_block(&s);
    }
    free(s.list);
    return failures;
}

int main(void)
{
    int codes[2] = {0, 0};
    if (weir_boot_fork_run(2, run_all, NULL, WHOLE_MS, codes) != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_last_error());
        return 1;
    }
    return codes[0] || codes[1];
}
