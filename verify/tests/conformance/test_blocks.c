/*
 * Proves that transfers of blocks move exactly the bytes of their lists, compared with a model that
 * copies byte by byte, in mapped and in unregistered memory; that tags arrive after the data; and
 * that wrong lists, freed pools and dead peers are reported by entry while nothing is written.
 */
#include "verify/tests/support/internode_ranks.h"

#include "comm/internode/internode.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <weir/blocks.h>

enum { POOL = 1 << 20, ENTRIES = 2000, ROUNDS = 40 };

/* ----------------------------------------------------------------- a model */

static unsigned char byte_at(int rank, size_t at)
{
    return (unsigned char)((at * 2654435761u >> 7) + (unsigned)rank * 101u + 13u);
}

static void fill(unsigned char *pool, size_t bytes, int rank)
{
    for (size_t i = 0; i < bytes; i++)
        pool[i] = byte_at(rank, i);
}

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

/* Applies a call to the byte images of the two pools. */
static void model(const weir_blocks_args *a, unsigned char *to, const unsigned char *from, size_t d,
                  uint64_t source, uint64_t destination)
{
    if (d < (size_t)a->ndims) {
        for (uint64_t i = 0; i < a->dims[d].count; i++)
            model(a, to, from, d + 1, source + i * a->dims[d].source_stride,
                  destination + i * a->dims[d].destination_stride);
        return;
    }
    for (size_t e = 0; e < a->count; e++) {
        const uint64_t *w = a->list + e * (a->block_bytes ? 2 : 3);
        const uint64_t bytes = a->block_bytes ? a->block_bytes : w[2];
        for (uint64_t i = 0; i < bytes; i++)
            to[w[1] + destination + i] = from[w[0] + source + i];
    }
}

/* Fills a list whose destinations do not overlap, in random order. Equal on all ranks. */
static void draw_list(uint64_t *list, weir_blocks_args *a, uint64_t *seed)
{
    const size_t words = a->block_bytes ? 2 : 3;
    const uint64_t cell = POOL / ENTRIES, most = a->block_bytes ? a->block_bytes : cell;
    for (size_t e = 0; e < a->count; e++)
        list[e * words + 1] = e * cell;
    for (size_t e = a->count; e-- > 1;) {
        const size_t other = draw(seed, e + 1);
        const uint64_t kept = list[e * words + 1];
        list[e * words + 1] = list[other * words + 1];
        list[other * words + 1] = kept;
    }
    for (size_t e = 0; e < a->count; e++) {
        const uint64_t bytes = a->block_bytes ? most : draw(seed, most + 1);
        list[e * words] = draw(seed, POOL - bytes + 1);
        list[e * words + 1] += draw(seed, cell - bytes + 1);
        if (words == 3)
            list[e * words + 2] = bytes;
    }
    a->list = list;
}

/* ------------------------------------------------------------------ ranks */

typedef struct pair {
    weir_comm *comm;
    weir_mem *mem;
    unsigned char *pool;
    weir_blocks *blocks;
    int rank, peer;
} pair;

static int pair_open(pair *p, weir_comm *comm, int *failures, int is_registered)
{
    *p = (pair){.comm = comm, .rank = weir_comm_rank(comm)};
    p->peer = (p->rank + 1) % weir_comm_nranks(comm);
    if (is_registered) {
        EXPECT_OK(failures, weir_mem_alloc(comm, POOL, &p->mem));
        p->pool = p->mem ? weir_mem_pointer(p->mem) : NULL;
    } else {
        p->pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_OK(failures, weir_mem_register(comm, p->pool, POOL, &p->mem));
        EXPECT(failures, !weir_mem_shareable(p->mem));
    }
    if (*failures)
        return 0;
    fill(p->pool, POOL, p->rank);
    EXPECT_OK(failures, weir_blocks_create(comm, p->mem, NULL, &p->blocks));
    return !*failures;
}

static void pair_close(pair *p)
{
    const int is_mapped = p->mem && !weir_mem_shareable(p->mem);
    weir_blocks_free(p->blocks);
    weir_mem_free(p->mem);
    if (is_mapped)
        munmap(p->pool, POOL);
}

/* Random lists, as every rank knows them; each rank checks its whole pool against the model. */
static void check_transfers(weir_comm *comm, int *failures, int is_registered, int is_put)
{
    pair p;
    uint64_t seed = 7, *list = malloc(ENTRIES * 3 * sizeof *list);
    unsigned char *expected = malloc(POOL), *from = malloc(POOL);
    if (!pair_open(&p, comm, failures, is_registered))
        return;
    const int nranks = weir_comm_nranks(comm), before = (p.rank + nranks - 1) % nranks;
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
        a.block_bytes = round % 2 ? 0 : draw(&seed, POOL / ENTRIES) + 1;
        a.count = round % 3 ? ENTRIES : draw(&seed, ENTRIES);
        draw_list(list, &a, &seed);
        a.peer = p.peer;
        a.slot = round % 64;
        a.tag = (uint64_t)round + 1;
        fill(p.pool, POOL, p.rank);
        fill(expected, POOL, p.rank);
        fill(from, POOL, is_put ? before : p.peer);
        model(&a, expected, from, 0, 0, 0);
        EXPECT_OK(failures, weir_comm_barrier(comm));
        /* A rank that both sends and receives the same bytes would race with its neighbour. */
        for (int turn = 0; turn < nranks; turn++) {
            if (turn == p.rank) {
                unsigned char *kept = malloc(POOL);
                memcpy(kept, p.pool, POOL);
                fill(p.pool, POOL, p.rank);
                EXPECT_OK(failures,
                          is_put ? weir_blocks_put(p.blocks, &a) : weir_blocks_get(p.blocks, &a));
                if (is_put)
                    memcpy(p.pool, kept, POOL);
                free(kept);
            }
            if (turn == before)
                EXPECT_OK(failures, weir_blocks_wait(p.blocks, before, a.slot, a.tag, 0));
            if (!is_put && turn == p.rank) {
                EXPECT(failures, memcmp(p.pool, expected, POOL) == 0);
                fill(p.pool, POOL, p.rank);
            }
            EXPECT_OK(failures, weir_comm_barrier(comm));
        }
        if (is_put)
            EXPECT(failures, memcmp(p.pool, expected, POOL) == 0);
    }
    free(list), free(expected), free(from);
    pair_close(&p);
}

static void puts_mapped(weir_comm *comm, int *failures)
{
    check_transfers(comm, failures, 1, 1);
}
static void gets_mapped(weir_comm *comm, int *failures)
{
    check_transfers(comm, failures, 1, 0);
}
static void puts_unregistered(weir_comm *comm, int *failures)
{
    check_transfers(comm, failures, 0, 1);
}
static void gets_unregistered(weir_comm *comm, int *failures)
{
    check_transfers(comm, failures, 0, 0);
}

/* Dimensions repeat a list: K and V of 4 layers, of 7 pages, into another layout. */
static void check_strides(weir_comm *comm, int *failures, int is_registered)
{
    enum { PAGE = 528, PAGES = 16, LAYERS = 4 };
    const uint64_t list[] = {0 * PAGE, 3 * PAGE, 2 * PAGE, 1 * PAGE, 15 * PAGE,
                             0 * PAGE, 4 * PAGE, 2 * PAGE, 9 * PAGE, 15 * PAGE,
                             1 * PAGE, 7 * PAGE, 7 * PAGE, 8 * PAGE};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    unsigned char *expected = malloc(POOL), *from = malloc(POOL);
    pair p;
    if (!pair_open(&p, comm, failures, is_registered))
        return;
    a.list = list, a.count = 7, a.block_bytes = PAGE, a.peer = p.peer, a.slot = 5, a.tag = 9;
    a.ndims = 2;
    a.dims = (const weir_blocks_dim[]){{LAYERS, 2 * PAGES * PAGE, PAGES * PAGE},
                                       {2, PAGES * PAGE, LAYERS * PAGES * PAGE}};
    fill(expected, POOL, p.rank);
    fill(from, POOL, 0);
    model(&a, expected, from, 0, 0, 0);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    if (p.rank == 0)
        EXPECT_OK(failures, weir_blocks_put(p.blocks, &a));
    if (p.rank == 1) {
        EXPECT_OK(failures, weir_blocks_wait(p.blocks, 0, 5, 9, 0));
        EXPECT(failures, memcmp(p.pool, expected, POOL) == 0);
    }
    free(expected), free(from);
    pair_close(&p);
}

static void strides_mapped(weir_comm *comm, int *failures)
{
    check_strides(comm, failures, 1);
}
static void strides_unregistered(weir_comm *comm, int *failures)
{
    check_strides(comm, failures, 0);
}

/* A rank copies within its own pool. */
static void copies_within(weir_comm *comm, int *failures)
{
    const uint64_t list[] = {1, POOL / 2, 77, 9001, POOL - 1000, 500, 0, POOL / 4, 77};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    unsigned char *expected = malloc(POOL), *from = malloc(POOL);
    pair p;
    if (!pair_open(&p, comm, failures, 1))
        return;
    a.list = list, a.count = 3, a.peer = p.rank, a.tag = 1;
    fill(expected, POOL, p.rank);
    fill(from, POOL, p.rank);
    model(&a, expected, from, 0, 0, 0);
    EXPECT_OK(failures, weir_blocks_get(p.blocks, &a));
    EXPECT(failures, weir_blocks_tag(p.blocks, p.rank, 0) == 1);
    EXPECT(failures, memcmp(p.pool, expected, POOL) == 0);
    free(expected), free(from);
    pair_close(&p);
}

/* ------------------------------------------------------------------- tags */

enum { STREAM_SLOTS = 8, STREAM_TAGS = 500, STREAM_BYTES = 4096 };

/* Rank 0 stores numbered blocks as fast as it can; a tag that came before its data would let rank 1
 * see an older number. */
static void tags_after_data(weir_comm *comm, int *failures)
{
    pair p;
    if (!pair_open(&p, comm, failures, 1))
        return;
    memset(p.pool, 0, POOL);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (uint64_t tag = 1; tag <= STREAM_TAGS && !*failures; tag++) {
        const int slot = (int)(tag % STREAM_SLOTS);
        const uint64_t at = (uint64_t)slot * STREAM_BYTES, list[] = {at, at, at + 2048, at + 2048};
        weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
        a.list = list, a.count = 2, a.block_bytes = 2048, a.peer = 1, a.slot = slot, a.tag = tag;
        if (p.rank == 0) {
            memset(p.pool + at, (int)(tag & 255), STREAM_BYTES);
            if (tag > STREAM_SLOTS) /* rank 1 has read what the slot held */
                EXPECT_OK(failures, weir_blocks_wait(p.blocks, 1, slot, tag - STREAM_SLOTS, 0));
            EXPECT_OK(failures, weir_blocks_put(p.blocks, &a));
        } else {
            EXPECT_OK(failures, weir_blocks_wait(p.blocks, 0, slot, tag, 0));
            EXPECT(failures,
                   p.pool[at] == (tag & 255) && p.pool[at + STREAM_BYTES - 1] == (tag & 255));
            a.peer = 0, a.count = 0;
            EXPECT_OK(failures, weir_blocks_put(p.blocks, &a));
        }
    }
    pair_close(&p);
}

/* A wait ends at its deadline, says what the slot holds, and leaves the communicator usable. */
static void waits_end(weir_comm *comm, int *failures)
{
    pair p;
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    if (!pair_open(&p, comm, failures, 1))
        return;
    a.peer = p.peer, a.slot = 2, a.tag = 5;
    EXPECT_OK(failures, weir_blocks_put(p.blocks, &a));
    EXPECT_OK(failures, weir_blocks_wait(p.blocks, p.peer, 2, 4, 0));
    EXPECT(failures, weir_blocks_tag(p.blocks, p.peer, 2) == 5);
    EXPECT(failures, weir_blocks_wait(p.blocks, p.peer, 2, 6, 50) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, boot_last_error_has("tag 6 in slot 2 within 50 ms; the slot holds 5"));
    EXPECT(failures, weir_blocks_wait(p.blocks, p.peer, 64, 1, 50) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_blocks_tag(p.blocks, 9, 0) == 0);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    pair_close(&p);
}

/* -------------------------------------------------------------- bad input */

/* Puts a list that must be rejected with these words, and must change nothing anywhere. */
static void expect_refused(int *failures, const pair *p, weir_blocks_args a, const char *words)
{
    a.peer = p->peer, a.slot = 1, a.tag = 77;
    if (p->rank == 0) {
        EXPECT(failures, weir_blocks_put(p->blocks, &a) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has(words));
    }
    EXPECT_OK(failures, weir_comm_barrier(p->comm));
    EXPECT(failures, weir_blocks_tag(p->blocks, p->peer, 1) == 0);
    for (size_t i = 0; i < POOL; i++)
        if (p->pool[i] != byte_at(p->rank, i)) {
            EXPECT(failures, 0);
            break;
        }
}

static void bad_lists(weir_comm *comm, int *failures)
{
    static const struct {
        uint64_t list[9];
        size_t count;
        uint64_t block_bytes;
        int ndims;
        weir_blocks_dim dim;
        const char *words;
    } rows[] = {
        {{0, 0, POOL - 8, 64}, 2, 16, 0, {0, 0, 0}, "entry 1: 16 bytes at source offset 1048568"},
        {{0, 0, 64, POOL - 15}, 2, 16, 0, {0, 0, 0}, "entry 1: 16 bytes at destination offset"},
        {{0, UINT64_MAX - 3}, 1, 8, 0, {0, 0, 0}, "entry 0: 8 bytes at destination offset"},
        {{0, 0, 8, 0, 64, UINT64_MAX}, 2, 0, 0, {0, 0, 0}, "entry 1: 18446744073709551615 bytes"},
        {{0, 0}, 1, 5ull << 30, 0, {0, 0, 0}, "entry 0: 5368709120 bytes at source"},
        {{0, POOL + 1, 0}, 1, 0, 0, {0, 0, 0}, "entry 0: 0 bytes at destination offset 1048577"},
        {{0, 0}, 1, 64, 1, {2, POOL, 64}, "and up to 1048576 further on"},
        {{128, 0}, 1, 64, 1, {2, POOL - 128, 64}, "and up to 1048448 further on"},
        {{0, 0}, 1, 64, 1, {3, UINT64_MAX, 64}, "exceed 64 bits"},
        {{0, 0}, 1, 64, 1, {0, 0, 0}, "dims[0].count is 0"},
        {{0, 0}, 1, 64, 5, {1, 0, 0}, "ndims is 5"},
        {{0, 4096, 0, 512, 0, 4159}, 3, 64, 0, {0, 0, 0}, "entry 0 and entry 2 write the same"},
        {{0, 4096, 0, 0, 0, 4096}, 3, 4096, 0, {0, 0, 0}, "entry 0 and entry 2 write the same"},
        {{0, 64, 0, 0},
         2,
         64,
         1,
         {2, 0, 64},
         "entry 0 in repetition 0 and entry 1 in repetition 1"},
        {{0, 0}, 1, 64, 1, {1ull << 60, 0, 0}, "entry 0 in repetition 0 and entry 0 in repetition"},
        {{0, 1, 7, 0, 900001, 7, 0, 7, 4}, 3, 0, 0, {0, 0, 0}, "entry 0 and entry 2 write"},
    };
    pair p;
    if (!pair_open(&p, comm, failures, 1))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !*failures; i++) {
        weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
        a.list = rows[i].list, a.count = rows[i].count, a.block_bytes = rows[i].block_bytes;
        a.ndims = rows[i].ndims;
        a.dims = &rows[i].dim;
        expect_refused(failures, &p, a, rows[i].words);
    }
    pair_close(&p);
}

/* Ten million entries are checked and moved; the last one is found to overlap another. */
static void many_entries(weir_comm *comm, int *failures)
{
    enum { MANY = SANITISED ? 100000 : 10000000, EACH = 3 };
    weir_mem *mem = NULL;
    weir_blocks *blocks = NULL;
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    uint64_t *list = malloc((size_t)MANY * 2 * sizeof *list);
    EXPECT_OK(failures, weir_mem_alloc(comm, (size_t)MANY * EACH, &mem));
    EXPECT_OK(failures, weir_blocks_create(comm, mem, NULL, &blocks));
    if (*failures || !list)
        return;
    unsigned char *pool = weir_mem_pointer(mem);
    fill(pool, (size_t)MANY * EACH, weir_comm_rank(comm));
    for (size_t e = 0; e < MANY; e++) {
        list[2 * e] = e * EACH;
        list[2 * e + 1] = (MANY - 1 - e) * EACH;
    }
    a.list = list, a.count = MANY, a.block_bytes = EACH, a.peer = 1, a.tag = 1;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    if (weir_comm_rank(comm) == 0) {
        EXPECT_OK(failures, weir_blocks_put(blocks, &a));
        list[2 * (MANY - 1) + 1] = 1;
        list[1] = 0;
        a.tag = 2;
        EXPECT(failures, weir_blocks_put(blocks, &a) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has("entry 0 and entry"));
    } else {
        EXPECT_OK(failures, weir_blocks_wait(blocks, 0, 0, 1, 0));
        for (size_t i = 0; i < (size_t)MANY * EACH; i++)
            if (pool[i] != byte_at(0, (MANY - 1 - i / EACH) * EACH + i % EACH)) {
                EXPECT(failures, 0);
                break;
            }
        EXPECT(failures, weir_blocks_wait(blocks, 0, 0, 2, 20) == WEIR_ERR_TIMEOUT);
    }
    weir_blocks_free(blocks);
    weir_mem_free(mem);
    free(list);
}

/* A block that takes the kernel several calls. */
static void long_block(weir_comm *comm, int *failures)
{
    const size_t bytes = (64u << 20) + 12345;
    const uint64_t list[] = {0, 0};
    weir_mem *mem = NULL;
    weir_blocks *blocks = NULL;
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    unsigned char *pool = malloc(bytes);
    fill(pool, bytes, weir_comm_rank(comm));
    EXPECT_OK(failures, weir_mem_register(comm, pool, bytes, &mem));
    EXPECT_OK(failures, weir_blocks_create(comm, mem, NULL, &blocks));
    if (*failures)
        return;
    a.list = list, a.count = 1, a.block_bytes = bytes, a.peer = 0;
    if (weir_comm_rank(comm) == 1) {
        EXPECT_OK(failures, weir_blocks_get(blocks, &a));
        for (size_t i = 0; i < bytes && !*failures; i++)
            EXPECT(failures, pool[i] == byte_at(0, i));
    }
    weir_blocks_free(blocks);
    weir_mem_free(mem);
    free(pool);
}

/* A pool that its owner has freed early: both ranks get an error, and nothing is written. */
static void freed_early(weir_comm *comm, int *failures, int is_registered)
{
    const uint64_t list[] = {0, 0, 64, POOL / 2};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    pair p;
    if (!pair_open(&p, comm, failures, is_registered))
        return;
    a.list = list, a.count = 2, a.block_bytes = 64, a.peer = 1, a.tag = 1;
    if (p.rank == 1 && is_registered)
        weir_mem_free(p.mem);
    else if (p.rank == 1)
        munmap(p.pool + POOL / 2, POOL / 2);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    if (p.rank == 0) {
        EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has(is_registered ? "rank 1 has freed its pool"
                                                           : "entry 1: the source in rank 0's"));
    } else if (is_registered) {
        a.peer = 0;
        EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
        EXPECT(failures, weir_blocks_get(p.blocks, &a) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has("rank 1 has freed its pool"));
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    EXPECT(failures, weir_blocks_tag(p.blocks, 0, 0) == 0);
    weir_blocks_free(p.blocks);
    if (p.rank == 0 || !is_registered)
        weir_mem_free(p.mem);
}

static void freed_registered(weir_comm *comm, int *failures)
{
    freed_early(comm, failures, 1);
}
static void freed_unregistered(weir_comm *comm, int *failures)
{
    freed_early(comm, failures, 0);
}

/* The receiver, or the sender that is being waited for, dies. */
static int peer_dies(weir_boot *boot, void *argument)
{
    const int is_registered = *(const int *)argument;
    const uint64_t list[] = {0, 0};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    int failures = 0;
    pair p;
    weir_comm *comm = open_comm(boot);
    if (!comm || !pair_open(&p, comm, &failures, is_registered))
        return NO_COMM;
    a.list = list, a.count = 1, a.block_bytes = 64, a.peer = 1, a.tag = 3;
    if (p.rank == 1) {
        while (!weir_blocks_tag(p.blocks, 0, 0))
            usleep(1000);
        kill(getpid(), SIGKILL);
    }
    EXPECT_OK(&failures, weir_blocks_put(p.blocks, &a));
    EXPECT(&failures, weir_blocks_wait(p.blocks, 1, 0, 1, 20000) == WEIR_ERR_PEER);
    EXPECT(&failures, boot_last_error_has("process of rank 1 has ended before it stored tag 1"));
    EXPECT(&failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_PEER);
    return failures;
}

static void test_peer_dies(void **state)
{
    run_ranks_killed(2, 1, peer_dies, *state);
}

static void arguments(weir_comm *comm, int *failures)
{
    const uint64_t list[] = {0, 0};
    weir_blocks_config config = WEIR_BLOCKS_CONFIG_INIT;
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    weir_blocks *blocks = NULL;
    pair p;
    if (!pair_open(&p, comm, failures, 1))
        return;
    EXPECT(failures, weir_blocks_create(comm, NULL, NULL, &blocks) == WEIR_ERR_INVALID);
    config.slots = 4 + p.rank;
    EXPECT(failures, weir_blocks_create(comm, p.mem, &config, &blocks) == WEIR_ERR_MISMATCH);
    config.slots = (1 << 20) + 1;
    EXPECT(failures, weir_blocks_create(comm, p.mem, &config, &blocks) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("slots is 1048577; use 1 to 1048576"));
    EXPECT(failures, !blocks);
    config.slots = 1 << 20;
    EXPECT(failures, weir_blocks_create(comm, p.mem, &config, &blocks) == WEIR_OK);
    weir_blocks_free(blocks);
    EXPECT(failures, weir_blocks_put(NULL, &a) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_blocks_put(p.blocks, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("peer is -1"));
    a.peer = p.rank, a.slot = 64, a.tag = 1;
    EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("slot is 64"));
    EXPECT(failures, weir_blocks_wait_on(p.blocks, 0, 0, 0, &a) == WEIR_ERR_INVALID);
    a.slot = 0, a.count = 1;
    EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("list is NULL"));
    a.list = list, a.block_bytes = 64;
    a.size = 4;
    EXPECT(failures, weir_blocks_put(p.blocks, &a) == WEIR_ERR_INVALID);
    weir_blocks_free(NULL);
    pair_close(&p);
}

/* ------------------------------------------------------------ several nodes */

/* The calls of a node, between emulated nodes. */
#define BETWEEN_NODES(body)                                                                        \
    static void nodes_##body(weir_comm *comm, const layout *where, int *failures)                  \
    {                                                                                              \
        (void)where;                                                                               \
        body(comm, failures);                                                                      \
    }
BETWEEN_NODES(puts_mapped)
BETWEEN_NODES(gets_mapped)
BETWEEN_NODES(puts_unregistered)
BETWEEN_NODES(gets_unregistered)
BETWEEN_NODES(strides_mapped)
BETWEEN_NODES(tags_after_data)
BETWEEN_NODES(waits_end)
BETWEEN_NODES(bad_lists)
BETWEEN_NODES(many_entries)
BETWEEN_NODES(long_block)
BETWEEN_NODES(freed_registered)

/* The peer makes no call of the library: a thread of its process does what is needed. */
static void sleeping_peer(weir_comm *comm, const layout *where, int *failures)
{
    const uint64_t list[] = {0, 64};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    pair p;
    (void)where;
    if (!pair_open(&p, comm, failures, 1))
        return;
    a.list = list, a.count = 1, a.block_bytes = POOL - 64, a.peer = 1, a.tag = 4;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    if (p.rank == 0) {
        EXPECT_OK(failures, weir_blocks_put(p.blocks, &a));
        EXPECT_OK(failures, weir_blocks_get(p.blocks, &a));
        for (size_t i = 0; i < POOL && !*failures; i++)
            EXPECT(failures, p.pool[i] == byte_at(i >= 64 && i < 128, i < 128 ? i % 64 : i - 128));
    } else {
        usleep(400000);
        EXPECT(failures, weir_blocks_tag(p.blocks, 0, 0) == 4);
        EXPECT(failures, p.pool[63] == byte_at(1, 63) && p.pool[64] == byte_at(0, 0));
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    pair_close(&p);
}

/* Threads wait for tags of both directions while large transfers cross. */
static void crossing_transfers(weir_comm *comm, const layout *where, int *failures)
{
    enum { TIMES = 30, BLOCK = 4096, HALF = POOL / 2 / BLOCK };
    uint64_t list[2 * HALF];
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    pair p;
    (void)where;
    if (!pair_open(&p, comm, failures, 1))
        return;
    for (uint64_t e = 0; e < HALF; e++) {
        list[2 * e] = e * BLOCK;
        list[2 * e + 1] = POOL / 2 + (HALF - 1 - e) * BLOCK;
    }
    a.list = list, a.count = HALF, a.block_bytes = BLOCK, a.peer = p.peer;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (a.tag = 1; a.tag <= TIMES && !*failures; a.tag++) {
        EXPECT_OK(failures, (a.tag + (uint64_t)p.rank) % 2 ? weir_blocks_put(p.blocks, &a)
                                                           : weir_blocks_get(p.blocks, &a));
        EXPECT_OK(failures, weir_blocks_wait(p.blocks, p.peer, 0, a.tag, 0));
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (size_t i = 0; i < POOL / 2 && !*failures; i++)
        EXPECT(failures,
               p.pool[POOL / 2 + i] == byte_at(p.peer, (HALF - 1 - i / BLOCK) * BLOCK + i % BLOCK));
    pair_close(&p);
}

/* A rank of another node dies while a put waits for it, or stops. */
static int peer_of_other_node_ends(weir_boot *boot, void *argument)
{
    const int *signal_of = argument;
    const layout where = {.nodes = "ab", .nnodes = 2, .transport = "tcp"};
    const uint64_t list[] = {0, 0};
    weir_blocks_args a = WEIR_BLOCKS_ARGS_INIT;
    int failures = 0;
    pair p;
    setenv("WEIR_TIMEOUT_MS", "1500", 1);
    weir_comm *comm = open_internode(boot, &where);
    if (!comm || !pair_open(&p, comm, &failures, 1))
        return NO_COMM;
    a.list = list, a.count = 1, a.block_bytes = POOL, a.peer = 1, a.tag = 3;
    if (p.rank == 1) {
        while (!weir_blocks_tag(p.blocks, 0, 0))
            usleep(1000);
        kill(getpid(), *signal_of);
        return 0;
    }
    const pid_t peer = (pid_t)comm->internode->pids[1];
    EXPECT_OK(&failures, weir_blocks_put(p.blocks, &a));
    usleep(300000);
    weir_status status = WEIR_OK;
    for (int i = 0; i < 1000 && status == WEIR_OK; i++)
        status = weir_blocks_put(p.blocks, &a);
    EXPECT(&failures, status == (*signal_of == SIGKILL ? WEIR_ERR_PEER : WEIR_ERR_TIMEOUT));
    if (*signal_of == SIGSTOP)
        EXPECT(&failures, boot_last_error_has("rank 1 has accepted nothing for 1500 ms"));
    kill(peer, SIGKILL);
    return failures;
}

static void test_peer_of_other_node_ends(void **state)
{
    run_ranks_killed(2, 1, peer_of_other_node_ends, *state);
}

int main(void)
{
    static int killed = SIGKILL, stopped = SIGSTOP;
    static int registered = 1, unregistered = 0;
    const struct CMUnitTest tests[] = {
        COMM_TEST("a rank copies within its pool", 2, copies_within),
        COMM_TEST("2 ranks put into mapped pools", 2, puts_mapped),
        COMM_TEST("3 ranks get from mapped pools", 3, gets_mapped),
        COMM_TEST("2 ranks put into unregistered pools", 2, puts_unregistered),
        COMM_TEST("3 ranks get from unregistered pools", 3, gets_unregistered),
        COMM_TEST("dimensions repeat a list", 2, strides_mapped),
        COMM_TEST("dimensions repeat a list, unregistered", 2, strides_unregistered),
        COMM_TEST("a tag arrives after its data", 2, tags_after_data),
        COMM_TEST("waits end at their deadline", 2, waits_end),
        COMM_TEST("wrong lists are rejected by entry", 2, bad_lists),
        COMM_TEST("10 million entries", 2, many_entries),
        COMM_TEST("a long block, unregistered", 2, long_block),
        COMM_TEST("a pool freed early", 2, freed_registered),
        COMM_TEST("a pool unmapped early", 2, freed_unregistered),
        AT("a dead peer", test_peer_dies, &registered),
        AT("a dead peer, unregistered", test_peer_dies, &unregistered),
        COMM_TEST("invalid arguments", 2, arguments),
        LAYOUT_TEST("2 nodes put", nodes_puts_mapped, "ab", 2, "tcp"),
        LAYOUT_TEST("3 ranks of 2 nodes put", nodes_puts_mapped, "aba", 2, "tcp"),
        LAYOUT_TEST("2 nodes get", nodes_gets_mapped, "ab", 2, "tcp"),
        LAYOUT_TEST("4 ranks of 3 nodes get", nodes_gets_mapped, "abca", 3, "tcp"),
        LAYOUT_TEST("2 nodes put, unregistered", nodes_puts_unregistered, "ab", 2, "tcp"),
        LAYOUT_TEST("2 nodes get, unregistered", nodes_gets_unregistered, "ab", 2, "tcp"),
        LAYOUT_TEST("dimensions repeat a list, 2 nodes", nodes_strides_mapped, "ab", 2, "tcp"),
        LAYOUT_TEST("a tag arrives after its data, 2 nodes", nodes_tags_after_data, "ab", 2, "tcp"),
        LAYOUT_TEST("waits end at their deadline, 2 nodes", nodes_waits_end, "ab", 2, "tcp"),
        LAYOUT_TEST("wrong lists are rejected by entry, 2 nodes", nodes_bad_lists, "ab", 2, "tcp"),
        LAYOUT_TEST("10 million entries, 2 nodes", nodes_many_entries, "ab", 2, "tcp"),
        LAYOUT_TEST("a long block, 2 nodes", nodes_long_block, "ab", 2, "tcp"),
        LAYOUT_TEST("a pool freed early, 2 nodes", nodes_freed_registered, "ab", 2, "tcp"),
        LAYOUT_TEST("a peer that sleeps", sleeping_peer, "ab", 2, "tcp"),
        LAYOUT_TEST("a peer that sleeps, first use", sleeping_peer, "ab", 2, "tcp", 0, 1),
        LAYOUT_TEST("transfers that cross", crossing_transfers, "ab", 2, "tcp"),
        LAYOUT_TEST("2 nodes put, another network", nodes_puts_mapped, "ab", 2),
        LAYOUT_TEST("2 nodes get, another network", nodes_gets_mapped, "ab", 2),
        AT("a dead peer of another node", test_peer_of_other_node_ends, &killed),
        AT("a stopped peer of another node", test_peer_of_other_node_ends, &stopped),
    };
    return RUN_TESTS("blocks", tests);
}
