/*
 * Proves transfers of blocks between GPUs: random lists and dimensions, put and got, between pools
 * of the library and of cudaMalloc; waits in streams; replays of a graph whose tag is in memory;
 * and that a wrong entry is reported, keeps its tag back and writes nothing.
 */
#include "verify/tests/support/gpu_ranks.h"

#include <weir/blocks.h>

enum { POOL = 16 << 20, BLOCK = 4112, ENTRIES = 1500 };

typedef struct gpu_pair {
    weir_comm *comm;
    weir_mem *mem, *list_mem;
    weir_blocks *blocks;
    unsigned char *host; /* a copy of the pool */
    void *malloced;
    cudaStream_t stream;
    int rank, nranks, next, before;
} gpu_pair;

static unsigned char byte_at(int rank, size_t at)
{
    return (unsigned char)((at * 2654435761u >> 7) + (unsigned)rank * 101u + 13u);
}

static int pair_open(gpu_pair *p, weir_boot *boot, int *failures, int is_malloced)
{
    *p = (gpu_pair){.comm = open_gpu_comm(boot, 20000), .host = malloc(POOL)};
    if (!p->comm || !p->host)
        return 0;
    p->rank = weir_comm_rank(p->comm), p->nranks = weir_comm_nranks(p->comm);
    p->next = (p->rank + 1) % p->nranks, p->before = (p->rank + p->nranks - 1) % p->nranks;
    for (size_t i = 0; i < POOL; i++)
        p->host[i] = byte_at(p->rank, i);
    EXPECT(failures, cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking) == cudaSuccess);
    if (is_malloced) {
        EXPECT(failures, cudaMalloc(&p->malloced, POOL) == cudaSuccess);
        EXPECT_OK(failures, weir_mem_register(p->comm, p->malloced, POOL, &p->mem));
    } else {
        EXPECT_OK(failures, weir_mem_alloc(p->comm, POOL, &p->mem));
    }
    EXPECT_OK(failures, weir_mem_alloc(p->comm, ENTRIES * 24, &p->list_mem));
    if (*failures)
        return 0;
    EXPECT_OK(failures, weir_mem_write(p->mem, 0, p->host, POOL));
    EXPECT_OK(failures, weir_blocks_create(p->comm, p->mem, NULL, &p->blocks));
    return !*failures;
}

static int pair_close(gpu_pair *p, int failures)
{
    weir_blocks_free(p->blocks);
    weir_mem_free(p->list_mem);
    weir_mem_free(p->mem);
    cudaFree(p->malloced);
    cudaStreamDestroy(p->stream);
    free(p->host);
    if (!failures)
        EXPECT_OK(&failures, weir_comm_destroy(p->comm));
    return failures;
}

/* From anywhere in the first half to cells of the second, backwards. Equal on all ranks. */
static void fill_list(uint64_t *list)
{
    for (uint64_t e = 0; e < ENTRIES; e++) {
        list[2 * e] = e * 2903 * 16 % (POOL / 2 - BLOCK);
        list[2 * e + 1] = POOL / 2 + (ENTRIES - 1 - e) * (BLOCK + 16) + 16 * (e % 2);
    }
}

static weir_blocks_args args_of(const gpu_pair *p, uint64_t tag, int is_put)
{
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    a.peer = is_put ? p->next : p->before;
    a.slot = 3, a.tag = tag, a.count = ENTRIES, a.block_bytes = BLOCK;
    a.list = weir_mem_pointer(p->list_mem);
    a.stream = p->stream;
    return a;
}

/* Compares the pool with what it was, and with the blocks of the rank before. */
static void check_pool(const gpu_pair *p, const uint64_t *list, int *failures)
{
    unsigned char *expected = malloc(POOL);
    for (size_t i = 0; i < POOL; i++)
        expected[i] = byte_at(p->rank, i);
    for (size_t e = 0; e < ENTRIES; e++)
        for (size_t i = 0; i < BLOCK; i++)
            expected[list[2 * e + 1] + i] = byte_at(p->before, list[2 * e] + i);
    EXPECT_OK(failures, weir_mem_read(p->mem, 0, p->host, POOL));
    EXPECT(failures, memcmp(p->host, expected, POOL) == 0);
    free(expected);
}

static int transfers(weir_boot *boot, void *argument)
{
    const int is_malloced = *(const int *)argument & 1, is_put = *(const int *)argument & 2;
    uint64_t list[2 * ENTRIES];
    int failures = 0;
    gpu_pair p;
    if (!pair_open(&p, boot, &failures, is_malloced))
        return NO_COMM;
    fill_list(list);
    /* A word further on, so that the destinations are aligned differently from the sources. */
    for (size_t e = 0; e < ENTRIES; e += 3)
        list[2 * e] += 8;
    EXPECT_OK(&failures, weir_mem_write(p.list_mem, 0, list, sizeof list));
    EXPECT_OK(&failures, weir_comm_barrier(p.comm));
    weir_blocks_args a = args_of(&p, 9, is_put);
    EXPECT_OK(&failures, is_put ? weir_blocks_put(p.blocks, &a) : weir_blocks_get(p.blocks, &a));
    const int source = is_put ? p.before : p.next;
    EXPECT_OK(&failures, weir_blocks_wait_on(p.blocks, source, 3, 9, p.stream));
    EXPECT(&failures, cudaStreamSynchronize(p.stream) == cudaSuccess);
    EXPECT_OK(&failures, weir_blocks_wait(p.blocks, source, 3, 9, 1000));
    EXPECT(&failures, weir_blocks_tag(p.blocks, source, 3) == 9);
    EXPECT_OK(&failures, weir_blocks_check(p.blocks));
    check_pool(&p, list, &failures);
    return pair_close(&p, failures);
}

/* Each replay stores the tag that is in memory. */
static int graphs(weir_boot *boot, void *argument)
{
    uint64_t list[2 * ENTRIES], *tag = NULL;
    int failures = 0;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t replay = NULL;
    gpu_pair p;
    (void)argument;
    if (!pair_open(&p, boot, &failures, 0))
        return NO_COMM;
    fill_list(list);
    EXPECT_OK(&failures, weir_mem_write(p.list_mem, 0, list, sizeof list));
    EXPECT(&failures, cudaMalloc((void **)&tag, sizeof *tag) == cudaSuccess);
    weir_blocks_args a = args_of(&p, 0, 1);
    a.tag_word = tag;
    EXPECT(&failures, cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    EXPECT_OK(&failures, weir_blocks_put(p.blocks, &a));
    EXPECT(&failures, cudaStreamEndCapture(p.stream, &graph) == cudaSuccess);
    EXPECT(&failures, cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
    EXPECT_OK(&failures, weir_comm_barrier(p.comm));
    for (uint64_t turn = 5; turn < 9 && !failures; turn++) {
        EXPECT(&failures,
               cudaMemcpy(tag, &turn, sizeof turn, cudaMemcpyHostToDevice) == cudaSuccess);
        EXPECT(&failures, cudaGraphLaunch(replay, p.stream) == cudaSuccess);
        EXPECT_OK(&failures, weir_blocks_wait_on(p.blocks, p.before, 3, turn, p.stream));
        EXPECT(&failures, cudaStreamSynchronize(p.stream) == cudaSuccess);
    }
    check_pool(&p, list, &failures);
    EXPECT_OK(&failures, weir_comm_barrier(p.comm));
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaFree(tag);
    return pair_close(&p, failures);
}

static int wrong_entries(weir_boot *boot, void *argument)
{
    uint64_t list[2 * ENTRIES];
    int failures = 0;
    gpu_pair p;
    (void)argument;
    if (!pair_open(&p, boot, &failures, 0))
        return NO_COMM;
    fill_list(list);
    list[2 * 700 + 1] = POOL - BLOCK + 1;
    EXPECT_OK(&failures, weir_mem_write(p.list_mem, 0, list, sizeof list));
    EXPECT_OK(&failures, weir_comm_barrier(p.comm));
    weir_blocks_args a = args_of(&p, 9, 1);
    EXPECT_OK(&failures, weir_blocks_put(p.blocks, &a));
    EXPECT(&failures, cudaStreamSynchronize(p.stream) == cudaSuccess);
    EXPECT(&failures, weir_blocks_check(p.blocks) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("weir_blocks_put: entry 700: 4112 bytes at destination"));
    EXPECT_OK(&failures, weir_blocks_check(p.blocks));
    EXPECT_OK(&failures, weir_comm_barrier(p.comm));
    EXPECT(&failures, weir_blocks_tag(p.blocks, p.before, 3) == 0);
    a.list = list; /* the host's memory */
    EXPECT(&failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
    return pair_close(&p, failures);
}

int main(void)
{
    static int kinds[] = {0, 1, 2, 3};
    const struct CMUnitTest tests[] = {
        AT("gets between the library's pools", test_on_gpus,
           (&(ranks_test){0, transfers, &kinds[0], NULL})),
        AT("gets between pools of cudaMalloc", test_on_gpus,
           (&(ranks_test){0, transfers, &kinds[1], NULL})),
        AT("puts between the library's pools", test_on_gpus,
           (&(ranks_test){0, transfers, &kinds[2], NULL})),
        AT("puts between pools of cudaMalloc", test_on_gpus,
           (&(ranks_test){0, transfers, &kinds[3], NULL})),
        AT("replays of a graph", test_on_gpus, (&(ranks_test){0, graphs, NULL, NULL})),
        AT("wrong entries", test_on_gpus, (&(ranks_test){0, wrong_entries, NULL, NULL})),
    };
    return RUN_TESTS("blocks on GPUs", tests);
}
