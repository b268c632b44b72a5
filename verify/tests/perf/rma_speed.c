/*
 * Prints the round trip of a one-sided call of libweir_nccl.so (ncclPutSignal, ncclWaitSignal)
 * between two processes of this node, beside the same over a memory channel. Run by hand:
 *
 *   rma_speed [LIBRARY]      build/libweir_nccl.so by default; needs a core for each rank
 *
 * Both put the same bytes from memory of the process into shared memory, signal, wait for the
 * answer, and read it. Blocks of round trips alternate (A B B A). Columns: microseconds
 * of a round trip over each in its fastest blocks, their ratio, and the median ratio of
 * neighbouring blocks. Ends with 1 if there are no figures. Takes a few seconds.
 */
#define _GNU_SOURCE
#include "nccl/weir_nccl.h"
#include "verify/tests/perf/times.h"
#include <weir/device.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 200, TRIPS = 2000, BYTES_MOST = 1 << 16, WHOLE_MS = 100000 };

#define FUNCTIONS(X)                                                                               \
    X(GetUniqueId)                                                                                 \
    X(CommInitRank)                                                                                \
    X(CommDestroy)                                                                                 \
    X(MemAlloc)                                                                                    \
    X(MemFree)                                                                                     \
    X(CommWindowRegister)                                                                          \
    X(CommWindowDeregister)                                                                        \
    X(PutSignal)                                                                                   \
    X(WaitSignal)                                                                                  \
    X(GetLastError)

typedef struct library {
#define MEMBER(name) __typeof__(nccl##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} library;

typedef struct end {
    int rank;
    size_t bytes; /* of a message */
    library nccl;
    ncclComm_t handle;
    ncclWindow_t window;
    volatile void *arrived; /* memory of the window */
    weir_comm *comm;
    weir_mem *mem, *peer_mem;
    weir_conn *conn;
    weir_sem *sem;
    weir_memchan *chan;
    char from[BYTES_MOST];
} end;

static int nccl_fails(const end *e, ncclResult_t result, const char *what)
{
    if (result != ncclSuccess)
        fprintf(stderr, "rank %d: %s: %d, %s\n", e->rank, what, (int)result,
                e->nccl.GetLastError(NULL));
    return result != ncclSuccess;
}

static int weir_fails(const end *e, weir_status status)
{
    if (status != WEIR_OK)
        fprintf(stderr, "rank %d: %s\n", e->rank, weir_last_error());
    return status != WEIR_OK;
}

/* Reads a word of each cache line, so that the data travel. */
static void read_lines(const volatile void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WEIR_LINE_BYTES)
        (void)((const volatile char *)data)[at];
}

/* ------------------------------------------------------------------ the library */

static int library_open(library *found, const char *path)
{
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *missing = opened ? NULL : dlerror();
#define FIND(name)                                                                                 \
    if (!missing && !(*(void **)&found->name = dlsym(opened, "nccl" #name)))                       \
        missing = "nccl" #name " is missing";
    FUNCTIONS(FIND)
#undef FIND
    if (missing)
        fprintf(stderr, "%s: %s\n", path, missing);
    return missing != NULL;
}

static int library_join(end *e, weir_boot *boot)
{
    ncclUniqueId ids[2];
    void *memory = NULL;
    if (nccl_fails(e, e->nccl.GetUniqueId(&ids[e->rank]), "ncclGetUniqueId") ||
        weir_fails(e, weir_boot_allgather(boot, ids, sizeof *ids)) ||
        nccl_fails(e, e->nccl.CommInitRank(&e->handle, 2, ids[0], e->rank), "ncclCommInitRank") ||
        nccl_fails(e, e->nccl.MemAlloc(&memory, BYTES_MOST), "ncclMemAlloc"))
        return 1;
    e->arrived = memory;
    return nccl_fails(e, e->nccl.CommWindowRegister(e->handle, memory, BYTES_MOST, &e->window, 1),
                      "a window");
}

static int library_trip(end *e, size_t bytes, int goes_first)
{
    ncclWaitSignalDesc_t wait = {.opCnt = 1, .peer = 1 - e->rank};
    for (int turn = 0; turn < 2; turn++) {
        ncclResult_t result = (turn == 0) == goes_first
                                  ? e->nccl.PutSignal(e->from, bytes, ncclUint8, 1 - e->rank,
                                                      e->window, 0, 0, 0, 0, e->handle, NULL)
                                  : e->nccl.WaitSignal(1, &wait, e->handle, NULL);
        if (result != ncclSuccess)
            return nccl_fails(e, result, "a round trip");
        read_lines(e->arrived, bytes);
    }
    return 0;
}

/* ---------------------------------------------------------------- a memory channel */

static int channel_open(end *e, weir_boot *boot)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    weir_mem *mems[2] = {NULL};
    config.backend = WEIR_BACKEND_HOST;
    if (weir_fails(e, weir_comm_create(boot, &config, &e->comm)) ||
        weir_fails(e, weir_mem_alloc(e->comm, BYTES_MOST, &e->mem)) ||
        weir_fails(e, weir_mem_exchange(e->comm, e->mem, mems)))
        return 1;
    e->peer_mem = mems[1 - e->rank];
    if (weir_fails(e, weir_connect(e->comm, 1 - e->rank, 0, WEIR_TRANSPORT_AUTO, &e->conn)) ||
        weir_fails(e, weir_sem_create(e->conn, &e->sem)))
        return 1;
    return weir_fails(e, weir_memchan_create(e->sem, e->peer_mem, e->mem, NULL, &e->chan));
}

static int channel_trip(end *e, size_t bytes, int goes_first)
{
    weir_memchan_dev *chan = weir_memchan_device(e->chan);
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == goes_first) {
            weir_copy_shared(chan->remote, e->from, bytes, 0, 1);
            weir_signal(chan);
        } else if (weir_wait(chan)) {
            fprintf(stderr, "rank %d: the channel's wait failed\n", e->rank);
            return 1;
        }
        read_lines(weir_mem_pointer(e->mem), bytes);
    }
    return 0;
}

/* ---------------------------------------------------------------------- measuring */

/* Microseconds of a round trip; negative: it failed. */
static double time_block(void *context, int is_channel)
{
    end *e = context;
    const size_t bytes = e->bytes;
    const int trips = bytes < 4096 ? TRIPS : TRIPS / 10;
    if (weir_fails(e, weir_comm_barrier(e->comm)))
        return -1;
    const uint64_t begin_ns = weir_clock_ns();
    for (int i = 0; i < trips; i++)
        if (is_channel ? channel_trip(e, bytes, e->rank == 0)
                       : library_trip(e, bytes, e->rank == 0))
            return -1;
    return (double)(weir_clock_ns() - begin_ns) / 1e3 / trips;
}

static int measure(end *e, size_t bytes)
{
    double fastest_us[2];
    times_ratio ratio;
    e->bytes = bytes;
    if (times_pair(time_block, e, PAIRS, fastest_us, &ratio))
        return 1;
    const double library_us = fastest_us[0], channel_us = fastest_us[1];
    if (e->rank == 0)
        printf("%8zu %12.4f %12.4f %8.3f %8.3f\n", bytes, library_us, channel_us,
               library_us / channel_us, ratio.median);
    fflush(stdout);
    return 0;
}

static int body(weir_boot *boot, void *path)
{
    static const size_t sizes[] = {8, 64, 1024, 8192, BYTES_MOST};
    static end e;
    e.rank = weir_boot_rank(boot);
    times_bind(e.rank);
    int failed = library_open(&e.nccl, path) || channel_open(&e, boot) || library_join(&e, boot);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++)
        failed = measure(&e, sizes[i]);
    if (failed) /* the other rank would wait for what follows */
        return 1;
    failed = nccl_fails(&e, e.nccl.CommWindowDeregister(e.handle, e.window), "a window") ||
             nccl_fails(&e, e.nccl.CommDestroy(e.handle), "ncclCommDestroy") ||
             weir_fails(&e, weir_comm_barrier(e.comm));
    e.nccl.MemFree((void *)e.arrived);
    weir_memchan_free(e.chan);
    weir_sem_free(e.sem);
    weir_conn_free(e.conn);
    weir_mem_free(e.peer_mem);
    weir_mem_free(e.mem);
    return failed || weir_fails(&e, weir_comm_destroy(e.comm));
}

int main(int argc, char **argv)
{
    int codes[2] = {1, 1};
    static char by_default[] = "build/libweir_nccl.so";
    setenv("WEIR_BACKEND", "host", 1);
    printf("%8s %12s %12s %8s %8s\n", "bytes", "put us", "channel us", "ratio", "median");
    fflush(stdout);
    if (weir_boot_fork_run(2, body, argc > 1 ? argv[1] : by_default, WHOLE_MS, codes) != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    return codes[0] || codes[1];
}
