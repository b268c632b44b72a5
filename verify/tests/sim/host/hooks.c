/*
 * What the library's host algorithms call in this simulation. Data are moved if sim_moves_data says
 * so; short ones always, because descriptors are among them. A fault may be planted, which the
 * checks must find.
 */
#define SIM_HOOKS_THEMSELVES
#include "verify/tests/sim/host/hooks.h"

#include "verify/tests/sim/host/clock.h"
#include "verify/tests/sim/host/memory.h"
#include "verify/tests/sim/host/run.h"

#include <string.h>

/* Accesses are cut into pieces, so that those of several ranks alternate. */
enum { PIECE_BYTES = 16384, SHORT_BYTES = 568 };

sim_run sim;

/* --------------------------------------------------------------------- faults */

/* The fault of one copy in the run: the first long one from another rank's memory. */
static int fault_is_due(const char *kind, const void *from, size_t bytes)
{
    int owner = sim_memory_owner(from);
    if (!sim.fault || strcmp(sim.fault, kind) != 0 || sim.faults_made || owner < 0 ||
        owner == sim_clock_self() || bytes <= SHORT_BYTES)
        return 0;
    sim.faults_made = 1;
    return 1;
}

/* Where the copy reads: with the fault, at the same place of the reader's own part. */
static const char *source_of(const char *from, size_t bytes)
{
    if (!fault_is_due("wrong-source", from, bytes))
        return from;
    return sim_memory_of(sim_clock_self()) + (from - sim_memory_of(sim_memory_owner(from)));
}

/* --------------------------------------------------------------------- copies */

static void move_data(void *to, const void *from, size_t bytes)
{
    if (bytes && (sim.moves_data || bytes <= SHORT_BYTES))
        memcpy(to, from, bytes);
}

static void copy_as(void *to, const void *wanted, size_t bytes, sim_store_kind kind,
                    double extra_ns)
{
    const char *from = source_of(wanted, bytes);
    size_t skipped = fault_is_due("uncounted", from, bytes) ? 64 : 0;
    move_data(to, from, bytes);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t length = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        sim_access access = sim_access_begin();
        access.core_ns = at ? 0 : extra_ns;
        sim_access_load(&access, from + at, at ? length : length - skipped);
        sim_access_store(&access, (char *)to + at, length, kind);
        sim_access_end(&access);
    }
}

/* A descriptor in a variable of the algorithm shares the line of its flag. */
void *sim_memcpy(void *to, const void *from, size_t bytes)
{
    if (sim_memory_owner(to) < 0 || sim_memory_owner(from) < 0)
        memcpy(to, from, bytes);
    else
        copy_as(to, from, bytes, SIM_STORE_CACHED, 0);
    return to;
}

void sim_copy(void *to, const void *from, size_t bytes)
{
    copy_as(to, from, bytes, SIM_STORE_CACHED, 0);
}

void sim_copy_streaming(void *to, const void *from, size_t bytes)
{
    copy_as(to, from, bytes, SIM_STORE_PAST, 0);
}

/* Stores past the caches on AMD's processors where readers have other last-level caches. */
void sim_copy_to_peer(void *to, const void *from, size_t bytes)
{
    int is_slow = sim.machine.values.is_amd && sim.machine.ncaches > 1;
    copy_as(to, from, bytes,
            is_slow && bytes >= WEIRI_PEER_STREAMING_BYTES ? SIM_STORE_PAST : SIM_STORE_CACHED, 0);
}

void sim_copy_from_peer(void *to, const void *from, size_t bytes)
{
    copy_as(to, from, bytes, SIM_STORE_CACHED, 0);
}

void sim_copy_unfetched(void *to, const void *from, size_t bytes)
{
    copy_as(to, from, bytes, SIM_STORE_UNFETCHED, 0);
}

int sim_copies_unfetched(size_t total_bytes)
{
    return (double)total_bytes >= sim.machine.values.own_cache_bytes && !sim.machine.values.is_amd;
}

size_t sim_streaming_threshold_bytes(void)
{
    return sim.machine.cache_bytes > 0 ? (size_t)sim.machine.cache_bytes / 2 : 16 << 20;
}

int sim_never(void)
{
    return 0;
}

void sim_prefetch(const void *from, size_t bytes)
{
    (void)from;
    (void)bytes;
}

void sim_request_for_writing(const void *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}

/* ----------------------------------------------------------------- reductions */

void sim_reduce(void *dst, const void *const *src, int nsrc, size_t count, weir_dtype dtype,
                weir_op op, uint64_t divisor, int streaming)
{
    const size_t bytes = count * weir_dtype_bytes(dtype);
    const void *from[WEIRI_RANKS_MAX];
    size_t skipped = 0;
    sim_access access = sim_access_begin();
    for (int i = 0; i < nsrc; i++) {
        from[i] = source_of(src[i], bytes);
        skipped = fault_is_due("uncounted", from[i], bytes) ? 64 : 0;
        sim_access_load(&access, from[i], bytes - skipped);
    }
    if (sim.moves_data || bytes <= SHORT_BYTES)
        weiri_reduce(dst, from, nsrc, count, dtype, op, divisor, 0);
    sim_access_store(&access, dst, bytes, streaming ? SIM_STORE_PAST : SIM_STORE_CACHED);
    sim_access_end(&access);
}

static void reduce_int32(void *dst, const void *const *src, int nsrc, size_t count,
                         uint64_t divisor, int streaming)
{
    sim_reduce(dst, src, nsrc, count, WEIR_INT32, WEIR_SUM, divisor, streaming);
}

/* The simulation's calls sum int32. */
weiri_reduce_fn sim_reduce_get(weir_dtype dtype, weir_op op)
{
    return dtype == WEIR_INT32 && op == WEIR_SUM ? reduce_int32 : NULL;
}

/* ---------------------------------------------------------------------- words */

uint64_t sim_load(const uint64_t *word)
{
    sim_word_load(word);
    return *word;
}

void sim_store(uint64_t *word, uint64_t value)
{
    sim_word_store(word, value);
}

uint64_t sim_add(uint64_t *word, uint64_t value)
{
    return sim_word_add(word, value);
}

weir_status sim_wait(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                     const char *phase)
{
    (void)comm;
    (void)peer;
    (void)phase;
    sim_word_wait(word, target);
    return WEIR_OK;
}

weir_status sim_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word, uint64_t target,
                     int peer, const char *phase)
{
    (void)comm;
    (void)waiter;
    (void)word;
    (void)target;
    (void)peer;
    (void)phase;
    sim_word_wait_any();
    return WEIR_OK;
}

/* -------------------------------------------------------------- peers' buffers */

static double kernel_ns(size_t bytes)
{
    return sim.machine.values.call_ns + sim.machine.values.page_ns * (double)(bytes / 4096 + 1);
}

weir_status sim_peer_copy_read(weir_comm *comm, int rank, uint64_t address, void *to, size_t bytes)
{
    (void)comm;
    (void)rank;
    copy_as(to, (const void *)(uintptr_t)address, bytes, SIM_STORE_CACHED, kernel_ns(bytes));
    return WEIR_OK;
}

weir_status sim_peer_copy_write(weir_comm *comm, int rank, uint64_t address, const void *from,
                                size_t bytes)
{
    (void)comm;
    (void)rank;
    copy_as((void *)(uintptr_t)address, from, bytes, SIM_STORE_CACHED, kernel_ns(bytes));
    return WEIR_OK;
}

/* Registered memory has its address here on every rank. */
weiri_desc sim_region_describe(const weir_comm *comm, const void *pointer, size_t bytes)
{
    (void)comm;
    (void)bytes;
    return sim.is_registered ? (weiri_desc){0, 1, (uint64_t)(uintptr_t)pointer}
                             : (weiri_desc){0, 0, 0};
}

weir_status sim_region_pointer(weir_comm *comm, int rank, weiri_desc desc, char **pointer)
{
    (void)comm;
    (void)rank;
    *pointer = (char *)(uintptr_t)desc.offset;
    return WEIR_OK;
}
