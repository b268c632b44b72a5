/* The arena, and the model of data in caches and memory. */
#include "verify/tests/sim/host/memory.h"

#include "verify/tests/sim/host/clock.h"
#include "verify/tests/sim/host/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The model follows lines; of long buffers, blocks of several lines. */
enum { LINE_BYTES = 64, LONG_BLOCK_BYTES = 512, FROM_BYTES = 16 << 20, PAGE_BYTES = 4096 };

/* Where a block is. A copy in a cache is valid if it has the block's version, and the cache has not
 * brought in more than it holds since then. */
typedef struct block {
    uint32_t version;
    int8_t writer; /* the rank whose caches have the only current copy; -1: memory has it */
    int8_t reader; /* who has loaded it since it was stored: a rank, SEVERAL or NOBODY */
} block;
typedef struct copy {
    uint32_t version, at; /* at: what the cache had brought in by then, in blocks */
} copy;
enum { NOBODY = -1, SEVERAL = -2 };

typedef struct cache {
    copy *copies; /* of every block of the arena */
    uint32_t brought, room;
} cache;

/* What serves one access after another. */
typedef struct server {
    double free_ns, gbs;
} server;

static const sim_machine *machine;
static sim_counts counts;
static char *arena;
static size_t part_bytes, block_bytes, nblocks, copies_bytes;
static block *blocks;
static cache own_caches[SIM_RANKS_MAX], last_caches[SIM_CACHES_MAX];
static server memories[SIM_NODES_MAX], links[SIM_NODES_MAX][SIM_NODES_MAX], ports[SIM_CACHES_MAX];

static void *reserve(size_t bytes)
{
    void *space = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        perror("host_sim: no address space");
        exit(3);
    }
    return space;
}

static void cache_create(cache *made, double bytes)
{
    *made =
        (cache){.copies = reserve(copies_bytes), .room = (uint32_t)(bytes / (double)block_bytes)};
}

static void release(void)
{
    if (!arena)
        return;
    munmap(arena, nblocks * block_bytes);
    munmap(blocks, nblocks * sizeof *blocks);
    for (int rank = 0; rank < SIM_RANKS_MAX && own_caches[rank].copies; rank++)
        munmap(own_caches[rank].copies, copies_bytes);
    for (int i = 0; i < SIM_CACHES_MAX && last_caches[i].copies; i++)
        munmap(last_caches[i].copies, copies_bytes);
    memset(own_caches, 0, sizeof own_caches);
    memset(last_caches, 0, sizeof last_caches);
}

static void servers_create(void)
{
    for (int node = 0; node < SIM_NODES_MAX; node++) {
        memories[node] = (server){0, machine->values.memory_gbs};
        for (int to = 0; to < SIM_NODES_MAX; to++)
            links[node][to] = (server){0, machine->values.link_gbs};
    }
    for (int i = 0; i < SIM_CACHES_MAX; i++)
        ports[i] = (server){0, machine->values.port_gbs};
}

void sim_memory_create(const sim_machine *of, size_t bytes_each)
{
    release();
    machine = of;
    part_bytes = (bytes_each + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    block_bytes = part_bytes < FROM_BYTES ? LINE_BYTES : LONG_BLOCK_BYTES;
    nblocks = part_bytes / block_bytes * (size_t)machine->nranks;
    copies_bytes = nblocks * sizeof(copy);
    arena = reserve(nblocks * block_bytes);
    blocks = reserve(nblocks * sizeof *blocks);
    for (int rank = 0; rank < machine->nranks; rank++)
        cache_create(&own_caches[rank], machine->cache_bytes ? machine->values.own_cache_bytes : 0);
    for (int i = 0; i < machine->ncaches; i++)
        cache_create(&last_caches[i], machine->cache_bytes);
    servers_create();
    sim_words_create(machine, nblocks * block_bytes / LINE_BYTES);
    sim_memory_clear_counts();
}

char *sim_memory_of(int rank)
{
    return arena + (size_t)rank * part_bytes;
}

int sim_memory_owner(const void *address)
{
    const char *at = address;
    if (at < arena || at >= arena + nblocks * block_bytes)
        return -1;
    return (int)((size_t)(at - arena) / part_bytes);
}

size_t sim_memory_line(const void *address)
{
    return (size_t)((const char *)address - arena) / LINE_BYTES;
}

sim_counts *sim_memory_counts(void)
{
    return &counts;
}

void sim_memory_clear_counts(void)
{
    memset(&counts, 0, sizeof counts);
}

/* -------------------------------------------------------------------- caches */

static int cache_has(const cache *in, size_t index)
{
    const copy *held = &in->copies[index];
    return held->at && held->version == blocks[index].version + 1 &&
           in->brought - held->at < in->room;
}

/* Returns whether the cache had no room left, so that something else has left it. */
static int cache_bring(cache *into, size_t index)
{
    if (!cache_has(into, index))
        into->brought++;
    into->copies[index] = (copy){blocks[index].version + 1, into->brought};
    return into->brought > into->room;
}

static cache *last_cache(int rank)
{
    return &last_caches[machine->cache_of[rank]];
}

/* --------------------------------------------------------------------- times */

static void serve(sim_access *access, server *by, size_t bytes)
{
    if (by->gbs <= 0)
        return;
    double begin_ns = by->free_ns > access->begin_ns ? by->free_ns : access->begin_ns;
    by->free_ns = begin_ns + (double)bytes / by->gbs;
    if (by->free_ns > access->end_ns)
        access->end_ns = by->free_ns;
}

static void cross(sim_access *access, int from, int to, size_t bytes)
{
    if (from == to)
        return;
    counts.link[from][to] += bytes;
    serve(access, &links[from][to], bytes);
}

static void use_memory(sim_access *access, int node, size_t bytes)
{
    counts.memory[node] += bytes;
    serve(access, &memories[node], bytes);
}

static int home_of(size_t index)
{
    return machine->node_of[index * block_bytes / part_bytes];
}

/* Brings a block to the rank's last-level cache. Returns how far it was. */
static sim_distance fetch(sim_access *access, size_t index, size_t bytes)
{
    const block *wanted = &blocks[index];
    const int rank = access->rank, node = machine->node_of[rank];
    if (cache_has(&own_caches[rank], index))
        return SIM_OWN;
    if (cache_has(last_cache(rank), index))
        return SIM_CACHE;
    int from = home_of(index);
    if (wanted->version && wanted->writer >= 0 && cache_has(last_cache(wanted->writer), index))
        from = machine->node_of[wanted->writer];
    else
        use_memory(access, from, bytes);
    cross(access, from, node, bytes);
    serve(access, &ports[machine->cache_of[rank]], bytes);
    return from == node ? SIM_NODE : SIM_FAR;
}

static void bring(sim_access *access, size_t index, int is_written, size_t bytes)
{
    const int rank = access->rank;
    int is_full = cache_bring(last_cache(rank), index);
    cache_bring(&own_caches[rank], index);
    if (is_full && is_written) { /* as many bytes that were stored earlier leave the cache */
        use_memory(access, home_of(index), bytes);
        cross(access, machine->node_of[rank], home_of(index), bytes);
    }
}

static void load_block(sim_access *access, size_t index, size_t bytes)
{
    block *loaded = &blocks[index];
    sim_distance distance = fetch(access, index, bytes);
    access->core_ns += machine->values.load_ns[distance] * (double)bytes / LINE_BYTES;
    bring(access, index, 0, bytes);
    if (access->rank != loaded->writer && loaded->version)
        loaded->reader = loaded->reader == NOBODY || loaded->reader == access->rank
                             ? (int8_t)access->rank
                             : SEVERAL;
}

/* How far the farthest copy of a block is that a store removes. */
static sim_distance sharers_of(const block *stored, int rank)
{
    sim_distance far = SIM_OWN;
    if (!stored->version)
        return far;
    if (stored->writer >= 0)
        far = sim_machine_distance(machine, rank, stored->writer);
    if (stored->reader == SEVERAL)
        return machine->nnodes > 1 ? SIM_FAR : machine->ncaches > 1 ? SIM_NODE : SIM_CACHE;
    if (stored->reader >= 0) {
        sim_distance reader = sim_machine_distance(machine, rank, stored->reader);
        far = reader > far ? reader : far;
    }
    return far;
}

static void store_past(sim_access *access, size_t index, size_t bytes)
{
    const int node = machine->node_of[access->rank], home = home_of(index);
    use_memory(access, home, bytes);
    cross(access, node, home, bytes);
    access->core_ns +=
        machine->values.load_ns[home == node ? SIM_NODE : SIM_FAR] * (double)bytes / LINE_BYTES;
    blocks[index] = (block){blocks[index].version + 1, -1, NOBODY};
}

static void store_block(sim_access *access, size_t index, size_t bytes, sim_store_kind kind)
{
    block *stored = &blocks[index];
    if (kind == SIM_STORE_PAST) {
        store_past(access, index, bytes);
        return;
    }
    sim_distance distance = sharers_of(stored, access->rank);
    if (kind == SIM_STORE_CACHED) {
        sim_distance from = fetch(access, index, bytes);
        distance = from > distance ? from : distance;
    }
    access->core_ns += machine->values.store_ns[distance] * (double)bytes / LINE_BYTES;
    *stored = (block){stored->version + 1, (int8_t)access->rank, NOBODY};
    bring(access, index, 1, bytes);
}

/* ------------------------------------------------------------------ accesses */

sim_access sim_access_begin(void)
{
    double now_ns = sim_clock_now_ns();
    return (sim_access){sim_clock_self(), now_ns, 0, now_ns};
}

/* Calls load_block or store_block for each block that [at, at + bytes) touches. */
static void access_blocks(sim_access *access, const char *at, size_t bytes, int stores,
                          sim_store_kind kind)
{
    while (bytes) {
        size_t offset = (size_t)(at - arena), left = block_bytes - offset % block_bytes;
        size_t length = bytes < left ? bytes : left;
        if (stores)
            store_block(access, offset / block_bytes, length, kind);
        else
            load_block(access, offset / block_bytes, length);
        at += length;
        bytes -= length;
    }
}

void sim_access_load(sim_access *access, const void *from, size_t bytes)
{
    int owner = sim_memory_owner(from);
    if (owner < 0) {
        access->core_ns += machine->values.load_ns[SIM_OWN] * (double)bytes / LINE_BYTES;
        return;
    }
    counts.loaded[access->rank][owner] += bytes;
    access_blocks(access, from, bytes, 0, SIM_STORE_CACHED);
}

void sim_access_store(sim_access *access, void *to, size_t bytes, sim_store_kind kind)
{
    int owner = sim_memory_owner(to);
    if (owner < 0) {
        access->core_ns += machine->values.store_ns[SIM_OWN] * (double)bytes / LINE_BYTES;
        return;
    }
    counts.stored[access->rank][owner] += bytes;
    access_blocks(access, to, bytes, 1, kind);
}

void sim_access_end(const sim_access *access)
{
    double core_ns = access->begin_ns + access->core_ns;
    sim_clock_advance_to(core_ns > access->end_ns ? core_ns : access->end_ns);
}
