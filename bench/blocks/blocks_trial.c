/* Caches, lists and their check: see blocks_trial.h. */
#include "bench/blocks/blocks_trial.h"

#include "bench/job/exchange.h"
#include "bench/job/memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -------------------------------------------------------------------- words */

/* A word is (writer << 40 | offset / 8) times an odd number, so that it can be undone. */
static const uint64_t factor = 0x9e3779b97f4a7c15, inverse = 0xf1de83e19937733d;
enum { CLEARED = 1 << 20, WORD_BYTES = 8, OFFSET_BITS = 40 };

static uint64_t word_at(int writer, uint64_t offset)
{
    return (((uint64_t)writer + 1) << OFFSET_BITS | offset / WORD_BYTES) * factor;
}

static void fill_block(uint64_t *block, size_t bytes, int writer, uint64_t offset)
{
    uint64_t word = word_at(writer, offset);
    for (size_t i = 0; i < bytes / WORD_BYTES; i++, word += factor)
        block[i] = word;
}

/* Returns the index of the first wrong word; -1: none. */
static long find_wrong(const uint64_t *block, size_t bytes, int writer, uint64_t offset)
{
    uint64_t word = word_at(writer, offset), differs = 0;
    for (size_t i = 0; i < bytes / WORD_BYTES; i++)
        differs |= block[i] ^ (word + i * factor);
    for (long i = 0; differs && i < (long)(bytes / WORD_BYTES); i++, word += factor)
        if (block[i] != word)
            return i;
    return -1;
}

/* ------------------------------------------------------------------- layout */

static void lay_out(blocks_trial *t)
{
    const blocks_engine *e = &t->options->engine;
    const int vectors = e->is_apart ? 1 : e->vectors;
    t->block_bytes =
        2 * (size_t)e->page_tokens * (size_t)e->heads * (size_t)e->head_size * (size_t)vectors;
    t->cache_pages = 3 * t->pages;
    const uint64_t plane = t->block_bytes * (uint64_t)t->cache_pages, layers = (uint64_t)e->layers;
    const uint64_t planes = e->is_apart ? 2 : 1;
    const uint64_t layer = e->is_layer_inside ? plane : plane * planes;
    const uint64_t value = e->is_layer_inside ? plane * layers : plane;
    t->dims[0] = (weir_blocks_dim){layers, layer, layer};
    t->dims[1] = (weir_blocks_dim){planes, value, value};
    t->ndims = 2;
    if (__builtin_mul_overflow(t->block_bytes, (uint64_t)t->cache_pages * planes * layers,
                               &t->cache_bytes))
        t->cache_bytes = SIZE_MAX;
}

/* Refuses a cache that does not fit the node's memory, before the lists of its pages are made.
 * Collective; agreed. */
static weir_status check_memory(const blocks_trial *t)
{
    const bench_job *job = t->job;
    const bench_memory_room room = {bench_memory_available(""), job->local_nranks,
                                    BENCH_MEMORY_NO_GPU};
    const size_t most = SIZE_MAX / (size_t)job->local_nranks;
    const bench_need need = {.host_bytes = t->cache_bytes < most ? t->cache_bytes : most};
    weir_status status = WEIR_OK;
    char why[160];
    if (!bench_memory_holds(&room, &need)) {
        bench_memory_explain(&room, &need, why, sizeof why);
        status = bench_job_note(t->job, WEIR_ERR_NO_MEMORY,
                                "--pages %d does not fit node %s: caches have 3 times as many, and "
                                "%s; give fewer --pages or --layers, or start fewer ranks",
                                t->pages, job->host, why);
    }
    return bench_job_agree(t->job, status, "cache");
}

static uint64_t block_offset(const blocks_trial *t, int layer, int plane, int page)
{
    return (uint64_t)layer * t->dims[0].source_stride + (uint64_t)plane * t->dims[1].source_stride +
           (uint64_t)page * t->block_bytes;
}

/* -------------------------------------------------------------------- lists */

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

/* Fills numbers with 0 to count - 1 in the order that the options ask for. */
static void order_pages(const blocks_trial *t, int *numbers, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++)
        numbers[i] = i;
    for (int i = count; !t->options->is_sorted && i-- > 1;) {
        const int other = (int)draw(&seed, (uint64_t)i + 1), kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
}

static int is_prefill(const blocks_trial *t, int rank)
{
    return rank < t->options->prefill;
}

/* Adds to a receiver's routes those pages that come from one sender. Equal on both ranks. */
static weir_status add_route(blocks_trial *t, blocks_route *route, int from, int to)
{
    const int first = is_prefill(t, from) ? 0 : t->options->prefill;
    const int senders = is_prefill(t, from) ? t->options->prefill : t->nranks - t->options->prefill;
    const uint64_t seed =
        t->options->common.seed * 1000003 + (uint64_t)to + ((uint64_t)t->job->group << 32);
    int *sources = malloc((size_t)t->pages * sizeof *sources);
    int *places = malloc(2 * (size_t)t->pages * sizeof *places);
    *route = (blocks_route){.from = from,
                            .to = to,
                            .fd = -1,
                            .list = malloc(((size_t)t->pages + 1) * 2 * sizeof(uint64_t))};
    const int is_made = sources && places && route->list;
    for (int i = 0; is_made && i < t->pages; i++) {
        if (!i) {
            order_pages(t, sources, t->pages, seed * 31 + (uint64_t)from);
            order_pages(t, places, 2 * t->pages, seed);
            route->unlisted = t->pages + places[t->pages];
        }
        if (first + i % senders != from)
            continue;
        route->list[2 * route->count] = (uint64_t)sources[i] * t->block_bytes;
        route->list[2 * route->count++ + 1] = (uint64_t)(t->pages + places[i]) * t->block_bytes;
        if (to == t->rank)
            t->origins[t->pages + places[i]] = (blocks_origin){from, sources[i]};
    }
    free(sources);
    free(places);
    return is_made ? WEIR_OK : bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for lists");
}

static weir_status make_routes(blocks_trial *t)
{
    const int rank = t->rank, nranks = t->nranks;
    weir_status status = WEIR_OK;
    t->sends = calloc((size_t)nranks, sizeof *t->sends);
    t->receives = calloc((size_t)nranks, sizeof *t->receives);
    t->origins = malloc((size_t)t->cache_pages * sizeof *t->origins);
    t->names = malloc((size_t)nranks * sizeof *t->names);
    if (!t->sends || !t->receives || !t->origins || !t->names)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for lists");
    for (int peer = 0; peer < nranks; peer++)
        t->names[peer] = bench_job_rank_of(t->job, peer);
    for (int page = 0; page < t->cache_pages; page++)
        t->origins[page] = (blocks_origin){-1, 0};
    for (int peer = 0; peer < nranks && status == WEIR_OK; peer++) {
        const int mine = is_prefill(t, rank), both = t->options->is_both;
        if (is_prefill(t, peer) == mine)
            continue;
        if (mine || both)
            status = add_route(t, &t->sends[t->nsends++], rank, peer);
        if (status == WEIR_OK && (!mine || both))
            status = add_route(t, &t->receives[t->nreceives++], peer, rank);
    }
    for (int i = 0; i < t->nreceives; i++)
        t->received_bytes +=
            t->receives[i].count * t->block_bytes * t->dims[0].count * t->dims[1].count;
    return status;
}

/* -------------------------------------------------------------------- caches */

static weir_status make_cache(blocks_trial *t)
{
    weir_status status;
    if (t->options->common.buffers == BENCH_BUFFERS_PLAIN) {
        t->malloced = malloc(t->cache_bytes);
        if (!t->malloced)
            return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for %zu bytes of cache",
                                  t->cache_bytes);
        status = weir_mem_register(t->job->comm, t->malloced, t->cache_bytes, &t->mem);
    } else {
        status = weir_mem_alloc(t->job->comm, t->cache_bytes, &t->mem);
    }
    if (status == WEIR_OK) {
        t->cache = weir_mem_pointer(t->mem);
        fill_block((uint64_t *)(void *)t->cache, t->cache_bytes, t->job->rank, 0);
    }
    return status;
}

/* Tells all ranks where the caches are. Collective; agreed. */
static weir_status share_processes(blocks_trial *t)
{
    const size_t bytes = (size_t)t->job->nranks * sizeof *t->processes;
    const blocks_process mine = {getpid(), (uint64_t)(uintptr_t)t->cache};
    weir_status status = WEIR_OK;
    t->processes = calloc(1, bytes);
    if (!t->processes)
        status = bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for ranks");
    status = bench_job_agree(t->job, status, "ranks");
    if (status == WEIR_OK) {
        bench_exchange_gather(t->job, &mine, sizeof mine, t->processes);
        bench_exchange_broadcast(t->job, t->processes, bytes, 0);
    }
    return status;
}

weir_status blocks_trial_open(blocks_trial *t, bench_job *job, const blocks_options *o, int pages)
{
    *t = (blocks_trial){.job = job,
                        .options = o,
                        .rank = job->group_rank,
                        .nranks = job->group_nranks,
                        .pages = pages};
    lay_out(t);
    weir_status status = check_memory(t);
    if (status != WEIR_OK)
        return status;
    status = make_routes(t);
    if (status == WEIR_OK)
        status = make_cache(t);
    status = bench_job_agree(job, status, "cache");
    if (status == WEIR_OK)
        status =
            bench_job_agree(job, weir_blocks_create(job->comm, t->mem, NULL, &t->blocks), "blocks");
    if (status == WEIR_OK)
        status = share_processes(t);
    if (status == WEIR_OK && o->has_peer[BLOCKS_SOCKET])
        status = blocks_socket_open(t);
    if (status == WEIR_OK && o->has_peer[BLOCKS_MPI])
        status = bench_job_agree(job, blocks_mpi_open(t), "mpi");
    return status;
}

void blocks_trial_close(blocks_trial *t)
{
    if (t->job && t->options->has_peer[BLOCKS_MPI])
        blocks_mpi_close(t);
    blocks_socket_close(t);
    weir_blocks_free(t->blocks);
    weir_mem_free(t->mem);
    free(t->malloced);
    for (int i = 0; i < t->nsends; i++)
        free(t->sends[i].list);
    for (int i = 0; i < t->nreceives; i++)
        free(t->receives[i].list);
    free(t->sends);
    free(t->receives);
    free(t->origins);
    free(t->processes);
    free(t->names);
    *t = (blocks_trial){.job = NULL};
}

/* -------------------------------------------------------------------- checks */

void blocks_trial_clear(blocks_trial *t)
{
    const size_t bytes = 2 * (size_t)t->pages * t->block_bytes;
    for (int layer = 0; layer < (int)t->dims[0].count; layer++)
        for (int plane = 0; plane < (int)t->dims[1].count; plane++) {
            const uint64_t at = block_offset(t, layer, plane, t->pages);
            fill_block((uint64_t *)(void *)(t->cache + at), bytes, CLEARED, at);
        }
}

/* Describes what a block holds instead of its data. */
static void describe(const blocks_trial *t, const blocks_origin *from, int page, int layer,
                     int plane, uint64_t got, char *message)
{
    const uint64_t plain = got * inverse, at = (plain << (64 - OFFSET_BITS) >> (64 - OFFSET_BITS));
    const int64_t writer = (int64_t)(plain >> OFFSET_BITS) - 1;
    const uint64_t plane_bytes = t->block_bytes * (uint64_t)t->cache_pages;
    const long held = (long)(at * WORD_BYTES % plane_bytes / t->block_bytes);
    char where[64], what[96];
    snprintf(where, sizeof where, "page %d, layer %d%s", page, layer,
             t->dims[1].count == 1 ? ""
             : plane               ? ", values"
                                   : ", keys");
    if (writer == CLEARED)
        snprintf(what, sizeof what, "has not arrived");
    else if (writer >= 0 && writer < t->job->nranks)
        snprintf(what, sizeof what, "holds page %ld of rank %ld", held, (long)writer);
    else
        snprintf(what, sizeof what, "holds 0x%016llx", (unsigned long long)got);
    if (from->rank < 0)
        snprintf(message, BLOCKS_MESSAGE_BYTES, "%s is in no list, but %s", where, what);
    else
        snprintf(message, BLOCKS_MESSAGE_BYTES, "%s, which is page %d of rank %d, %s", where,
                 from->page, t->names[from->rank], what);
}

/* A block that has not arrived, but then does, was announced too early. */
static void await_late(const uint64_t *block, size_t bytes, int writer, uint64_t offset,
                       char *message)
{
    const size_t used = strlen(message);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    if (find_wrong(block, bytes, writer, offset) < 0)
        snprintf(message + used, BLOCKS_MESSAGE_BYTES - used, " yet: it came after its tag");
}

static int check_block(const blocks_trial *t, int is_local, int layer, int plane, int page,
                       char *message)
{
    const uint64_t at = block_offset(t, layer, plane, page);
    const uint64_t *block = (const uint64_t *)(const void *)(t->cache + at);
    blocks_origin from = t->origins[page];
    if (is_local && from.rank >= 0)
        from.rank = t->rank;
    const int writer = from.rank >= 0    ? t->names[from.rank]
                       : page < t->pages ? t->job->rank
                                         : CLEARED;
    const uint64_t offset = from.rank >= 0 ? block_offset(t, layer, plane, from.page) : at;
    const long wrong = find_wrong(block, t->block_bytes, writer, offset);
    if (wrong < 0)
        return 0;
    if (!*message) {
        describe(t, &from, page, layer, plane, block[wrong], message);
        await_late(block, t->block_bytes, writer, offset, message);
    }
    return 1;
}

uint64_t blocks_trial_check(const blocks_trial *t, int is_local, char *message)
{
    uint64_t wrong = 0;
    *message = '\0';
    for (int layer = 0; layer < (int)t->dims[0].count; layer++)
        for (int plane = 0; plane < (int)t->dims[1].count; plane++)
            for (int page = 0; page < t->cache_pages; page++)
                wrong += (uint64_t)check_block(t, is_local, layer, plane, page, message);
    return wrong;
}
