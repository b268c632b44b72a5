/*
 * Prints how fast blocks move between two GPUs of this node, one way, next to CUDA's own calls in
 * the same run. Run by hand:
 *
 *   whole     one cudaMemcpyAsync of as many bytes between the two pools: the link's rate
 *   weir put  weir_blocks_put of 100,000 blocks in random order, with a tag
 *   batch     cudaMemcpyBatchAsync of the same blocks (10,000 of them: it costs the host much)
 *   each      one cudaMemcpyAsync for each of 10,000 blocks
 *
 * For each: GB/s by events in the stream, the median of repeats, and microseconds of the calling
 * thread. The first block and the last one of a put are compared with what was sent. Ends with 1 if
 * there are no numbers.
 */
#include "verify/tests/support/gpu_ranks.h"

#include <weir/blocks.h>

enum { COUNT = 100000, FEW = 10000, REPEATS = 7, WHOLE_MS = 85000 };

typedef struct speed {
    weir_comm *comm;
    weir_mem *mem, *list_mem;
    weir_mem *mems[MOST_RANKS];
    weir_blocks *blocks;
    uint64_t *list;
    size_t block;
    char *own, *theirs;
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
    return weir_mem_write(s->list_mem, 0, s->list, COUNT * 16) == WEIR_OK;
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

static int run_block(speed *s, int rank)
{
    const size_t bytes = COUNT * s->block;
    int failures = 0;
    EXPECT_OK(&failures, weir_mem_alloc(s->comm, bytes, &s->mem));
    EXPECT_OK(&failures, weir_mem_alloc(s->comm, COUNT * 16, &s->list_mem));
    EXPECT_OK(&failures, weir_mem_exchange(s->comm, s->mem, s->mems));
    EXPECT_OK(&failures, weir_blocks_create(s->comm, s->mem, NULL, &s->blocks));
    if (failures || !draw_list(s))
        return 1;
    s->own = weir_mem_pointer(s->mem), s->theirs = weir_mem_pointer(s->mems[1]);
    EXPECT(&failures, cudaMemset(s->own, rank ? 0 : 0x5a, bytes) == cudaSuccess);
    cudaDeviceSynchronize();
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (rank == 0)
        failures += measure(s, "weir put", enqueue_put, COUNT);
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (rank == 1)
        failures += check_ends(s);
    EXPECT_OK(&failures, weir_comm_barrier(s->comm));
    if (rank == 0) {
        failures += measure(s, "whole", enqueue_whole, COUNT);
#if CUDART_VERSION >= 13000
        failures += measure(s, "batch", enqueue_batch, FEW);
#endif
        failures += measure(s, "each", enqueue_each, FEW);
        EXPECT_OK(&failures, weir_blocks_check(s->blocks));
    }
    weir_blocks_free(s->blocks);
    weir_mem_free(s->mems[1 - rank]);
    weir_mem_free(s->list_mem);
    weir_mem_free(s->mem);
    return failures;
}

static int run_all(weir_boot *boot, void *argument)
{
    static const size_t blocks[] = {4096, 8192, 16384, 65536};
    int failures = 0;
    speed s = {.comm = open_gpu_comm(boot, 30000), .list = malloc(COUNT * 16)};
    (void)argument;
    if (!s.comm || !s.list || cudaStreamCreate(&s.stream) != cudaSuccess ||
        cudaEventCreate(&s.start) != cudaSuccess || cudaEventCreate(&s.stop) != cudaSuccess)
        return NO_COMM;
    const int rank = weir_comm_rank(s.comm);
    if (rank == 0)
        printf("%-9s %7s %8s %10s %12s\n", "", "block", "blocks", "GB/s", "thread us");
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && !failures; i++) {
        s.block = blocks[i];
        failures += run_block(&s, rank);
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
