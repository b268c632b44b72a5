/*
 * Test double for a vendor's collective library, implemented with MPI on host memory: the functions
 * that bench/candidate/vendor.h finds in NCCL. Reduces float and int32. With STANDIN_CRASHES it
 * crashes when it is loaded, with STANDIN_LACKS it has no AllReduce, and with STANDIN_WRONG its
 * allreduce omits a rank.
 */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>

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

int ncclGetUniqueId(id *made)
{
    memset(made, 1, sizeof *made);
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result ? "invalid argument" : "no error";
}

int ncclCommInitRank(void **comm, int nranks, id given, int rank)
{
    int size = 0;
    (void)rank;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *comm = &pending;
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
    return comm ? 0 : INVALID;
}

#ifndef STANDIN_LACKS
int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm,
                  void *stream)
{
    (void)comm, (void)stream;
    const void *from = in == out ? MPI_IN_PLACE : in;
    int result = MPI_Allreduce(from, out, (int)count, type_of(type), op_of(op), MPI_COMM_WORLD);
#ifdef STANDIN_WRONG
    if (count)
        *(char *)out ^= 1;
#endif
    return result;
}
#endif

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *comm,
               void *stream)
{
    (void)comm, (void)stream;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return MPI_Reduce(in == out && rank == root ? MPI_IN_PLACE : in, out, (int)count, type_of(type),
                      op_of(op), root, MPI_COMM_WORLD);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm,
                  void *stream)
{
    (void)comm, (void)stream;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == root && in != out)
        memcpy(out, in, count * 4);
    return MPI_Bcast(out, (int)count, type_of(type), root, MPI_COMM_WORLD);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm,
                      void *stream)
{
    (void)comm, (void)stream;
    void *copy = malloc(count * 4 + 1);
    int result =
        MPI_Reduce_scatter_block(in, copy, (int)count, type_of(type), op_of(op), MPI_COMM_WORLD);
    memcpy(out, copy, count * 4);
    free(copy);
    return result;
}

int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm, void *stream)
{
    (void)comm, (void)stream;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if ((const char *)in == (char *)out + (size_t)rank * count * 4)
        in = MPI_IN_PLACE;
    return MPI_Allgather(in, (int)count, type_of(type), out, (int)count, type_of(type),
                         MPI_COMM_WORLD);
}

int ncclSend(const void *in, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)comm, (void)stream;
    return MPI_Isend(in, (int)count, type_of(type), peer, 0, MPI_COMM_WORLD, &pending[npending++]);
}

int ncclRecv(void *out, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)comm, (void)stream;
    return MPI_Irecv(out, (int)count, type_of(type), peer, 0, MPI_COMM_WORLD, &pending[npending++]);
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
