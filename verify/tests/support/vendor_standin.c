/*
 * Test double for a vendor's collective library, implemented with MPI on host memory: the functions
 * that bench/candidate/vendor.h finds in NCCL. Reduces float and int32. With STANDIN_CRASHES it
 * crashes when it is loaded, with STANDIN_LACKS it has no AllReduce, and with STANDIN_WRONG its
 * allreduce omits a rank.
 *
 * It asks the tuner plug-in that NCCL_TUNER_PLUGIN names, in version 5 of the interface, or that of
 * STANDIN_TUNER. Its own choice is ring/simple; only ring/ll128 is possible beside it. With a
 * plug-in a collective takes 200 us, and with ring/ll128 20 us up to 4 KiB, 600 us beyond.
 */
#include <mpi.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef STANDIN_VERSION
#define STANDIN_VERSION 22803
#endif
#define EXPORT __attribute__((visibility("default")))

enum { PENDING = 64, INVALID = 4 };
static MPI_Request pending[PENDING];
static int npending;

#ifdef STANDIN_CRASHES
__attribute__((constructor)) static void crash(void)
{
    abort();
}
#endif

typedef struct id {
    char bytes[128];
} id;
EXPORT int ncclGetVersion(int *version);
EXPORT int ncclGetUniqueId(id *made);
EXPORT const char *ncclGetErrorString(int result);
EXPORT int ncclCommInitRank(void **comm, int nranks, id given, int rank);
EXPORT int ncclCommInitRankConfig(void **comm, int nranks, id given, int rank, void *config);
EXPORT int ncclCommDestroy(void *comm);
EXPORT int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm,
                         void *stream);
EXPORT int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root,
                      void *comm, void *stream);
EXPORT int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm,
                         void *stream);
EXPORT int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm,
                             void *stream);
EXPORT int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm,
                         void *stream);
EXPORT int ncclSend(const void *in, size_t count, int type, int peer, void *comm, void *stream);
EXPORT int ncclRecv(void *out, size_t count, int type, int peer, void *comm, void *stream);
EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclMemAlloc(void **memory, size_t bytes);
EXPORT int ncclMemFree(void *memory);
EXPORT int ncclCommWindowRegister(void *comm, void *memory, size_t bytes, void **window, int flags);
EXPORT int ncclCommWindowDeregister(void *comm, void *window);

#ifndef STANDIN_TUNER
#define STANDIN_TUNER 5
#endif
enum { RING = 1, ALGORITHMS = 7, LL128 = 1, SIMPLE, PROTOCOLS };

typedef struct tuner_plugin {
    const char *name;
#if STANDIN_TUNER >= 5
    int (*init)(void **, uint64_t, size_t, size_t, void *, void *, void *);
#else
    int (*init)(size_t, size_t, void *, void **);
#endif
#if STANDIN_TUNER >= 4
    int (*ask)(void *, int, size_t, int, float **, int, int, int, int *);
#else
    int (*ask)(void *, int, size_t, int, float **, int, int, int *);
#endif
    int (*end)(void *);
} tuner_plugin;
static const tuner_plugin *tuner;
static void *tuner_context;

static void load_tuner(int nranks)
{
    const char *path = getenv("NCCL_TUNER_PLUGIN");
    char symbol[32];
    void *library = path && !tuner ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", STANDIN_TUNER);
    if (library)
        *(const void **)&tuner = dlsym(library, symbol);
    if (!library || !tuner)
        return;
#if STANDIN_TUNER >= 5
    tuner->init(&tuner_context, 1, (size_t)nranks, 1, NULL, NULL, NULL);
#else
    tuner->init((size_t)nranks, 1, NULL, &tuner_context);
#endif
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The time that a collective takes by the tuner's choice; 0 without a tuner. */
static double tuned_us(int collective, size_t bytes)
{
    float costs[ALGORITHMS][PROTOCOLS];
    int channels = 0, best = -1;
    if (!tuner)
        return 0;
    for (int i = 0; i < ALGORITHMS * PROTOCOLS; i++)
        costs[i / PROTOCOLS][i % PROTOCOLS] = -1;
    costs[RING][LL128] = 20;
    costs[RING][SIMPLE] = 10;
#if STANDIN_TUNER >= 4
    tuner->ask(tuner_context, collective, bytes, 1, (float **)costs, ALGORITHMS, PROTOCOLS, 0,
               &channels);
#else
    tuner->ask(tuner_context, collective, bytes, 1, (float **)costs, ALGORITHMS, PROTOCOLS,
               &channels);
#endif
    for (int i = 0; i < ALGORITHMS * PROTOCOLS; i++)
        if (costs[i / PROTOCOLS][i % PROTOCOLS] >= 0 &&
            (best < 0 ||
             costs[i / PROTOCOLS][i % PROTOCOLS] < costs[best / PROTOCOLS][best % PROTOCOLS]))
            best = i;
    return best != RING * PROTOCOLS + LL128 ? 200 : bytes <= 4096 ? 20 : 600;
}

static int spend(double until_us, int result)
{
    while (now_us() < until_us)
        ;
    return result;
}

static MPI_Datatype type_of(int type)
{
    return type == 7 ? MPI_FLOAT : MPI_INT32_T;
}

static MPI_Op op_of(int op)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
    return ops[op & 3];
}

int ncclGetVersion(int *version)
{
    *version = STANDIN_VERSION;
    return 0;
}

/* An id has the rank that made it, so that each group's ranks get their own communicator. */
int ncclGetUniqueId(id *made)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(made, 1, sizeof *made);
    memcpy(made->bytes + 1, &rank, sizeof rank);
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result ? "invalid argument" : "no error";
}

/* All ranks create their groups' communicators at the same time. */
int ncclCommInitRank(void **comm, int nranks, id given, int rank)
{
    int size = 0, maker = 0;
    MPI_Comm *made = malloc(sizeof *made);
    memcpy(&maker, given.bytes + 1, sizeof maker);
    MPI_Comm_split(MPI_COMM_WORLD, maker, rank, made);
    MPI_Comm_size(*made, &size);
    load_tuner(nranks);
    *comm = made;
    return size == nranks && given.bytes[0] == 1 ? 0 : INVALID;
}

int ncclCommInitRankConfig(void **comm, int nranks, id given, int rank, void *config)
{
    size_t bytes = 0;
    memcpy(&bytes, config, sizeof bytes);
    return bytes < 64 ? INVALID : ncclCommInitRank(comm, nranks, given, rank);
}

int ncclCommDestroy(void *comm)
{
    if (!comm)
        return INVALID;
    MPI_Comm_free(comm);
    free(comm);
    return 0;
}

static MPI_Comm comm_of(void *comm)
{
    return *(MPI_Comm *)comm;
}

#ifndef STANDIN_LACKS
int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm,
                  void *stream)
{
    (void)stream;
    const double end_us = now_us() + tuned_us(4, count * 4);
    const void *from = in == out ? MPI_IN_PLACE : in;
    int result = MPI_Allreduce(from, out, (int)count, type_of(type), op_of(op), comm_of(comm));
#ifdef STANDIN_WRONG
    if (count)
        *(char *)out ^= 1;
#endif
    return spend(end_us, result);
}
#endif

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *comm,
               void *stream)
{
    (void)stream;
    int rank = 0;
    MPI_Comm_rank(comm_of(comm), &rank);
    return MPI_Reduce(in == out && rank == root ? MPI_IN_PLACE : in, out, (int)count, type_of(type),
                      op_of(op), root, comm_of(comm));
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm,
                  void *stream)
{
    (void)stream;
    int rank = 0;
    MPI_Comm_rank(comm_of(comm), &rank);
    if (rank == root && in != out)
        memcpy(out, in, count * 4);
    return MPI_Bcast(out, (int)count, type_of(type), root, comm_of(comm));
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm,
                      void *stream)
{
    (void)stream;
    void *copy = malloc(count * 4 + 1);
    int result =
        MPI_Reduce_scatter_block(in, copy, (int)count, type_of(type), op_of(op), comm_of(comm));
    memcpy(out, copy, count * 4);
    free(copy);
    return result;
}

int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm, void *stream)
{
    (void)stream;
    int rank = 0;
    MPI_Comm_rank(comm_of(comm), &rank);
    if ((const char *)in == (char *)out + (size_t)rank * count * 4)
        in = MPI_IN_PLACE;
    return MPI_Allgather(in, (int)count, type_of(type), out, (int)count, type_of(type),
                         comm_of(comm));
}

int ncclSend(const void *in, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)stream;
    return MPI_Isend(in, (int)count, type_of(type), peer, 0, comm_of(comm), &pending[npending++]);
}

int ncclRecv(void *out, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)stream;
    return MPI_Irecv(out, (int)count, type_of(type), peer, 0, comm_of(comm), &pending[npending++]);
}

int ncclGroupStart(void)
{
    npending = 0;
    return 0;
}

int ncclGroupEnd(void)
{
    return MPI_Waitall(npending, pending, MPI_STATUSES_IGNORE);
}

int ncclMemAlloc(void **memory, size_t bytes)
{
    return posix_memalign(memory, 4096, bytes);
}

int ncclMemFree(void *memory)
{
    free(memory);
    return 0;
}

int ncclCommWindowRegister(void *comm, void *memory, size_t bytes, void **window, int flags)
{
    *window = memory;
    return comm && bytes && flags == 1 ? 0 : INVALID;
}

int ncclCommWindowDeregister(void *comm, void *window)
{
    return comm && window ? 0 : INVALID;
}
