/* Opens the library, first in a child process: see vendor.h. */
#include "bench/candidate/vendor.h"

#include "base/mpi_open.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct findings {
    int version; /* 0: the library cannot be used */
    char why[600];
} findings;

static void *find_symbol(void *library, const char *symbol)
{
    static const char *const prefixes[] = {"nccl", "mccl"};
    char name[64];
    void *found = NULL;
    for (size_t i = 0; i < 2 && !found; i++) {
        snprintf(name, sizeof name, "%s%s", prefixes[i], symbol);
        found = dlsym(library, name);
    }
    return found;
}

/* Opens the library and finds its version. Writes why only on failure. */
static int load_library(const char *path, bench_vendor *vendor, char *why, size_t bytes)
{
    const char *missing = NULL;
    vendor->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!vendor->library) {
        snprintf(why, bytes, "%s", dlerror());
        return -1;
    }
    if (weiri_mpi_check_alone() != WEIR_OK) {
        snprintf(why, bytes, "%s", weir_last_error());
        return -1;
    }
#define BENCH_VENDOR_FIND(member, symbol, needed, result, arguments)                               \
    *(void **)&vendor->member = find_symbol(vendor->library, symbol);                              \
    if (needed && !vendor->member)                                                                 \
        missing = symbol;
    BENCH_VENDOR_MAP(BENCH_VENDOR_FIND)
#undef BENCH_VENDOR_FIND
    if (missing) {
        snprintf(why, bytes, "%s has no nccl%s or mccl%s", path, missing, missing);
        return -1;
    }
    if (vendor->get_version(&vendor->version) != 0 || vendor->version <= 0) {
        snprintf(why, bytes, "%s does not report its version", path);
        return -1;
    }
    return 0;
}

/* Runs in the child. The library gets no standard output, which is for results only. */
static void try_library(const char *path, int fd)
{
    enum { HANGS_S = 10 };
    findings found = {.version = 0};
    bench_vendor vendor;
    signal(SIGALRM, SIG_DFL);
    alarm(HANGS_S);
    if (!freopen("/dev/null", "w", stdout))
        _exit(1);
    if (load_library(path, &vendor, found.why, sizeof found.why) == 0)
        found.version = vendor.version;
    _exit(write(fd, &found, sizeof found) != (ssize_t)sizeof found);
}

static void read_findings(int fd, findings *found, int *whole)
{
    char *at = (char *)found;
    size_t got = 0;
    ssize_t more = 1;
    while (got < sizeof *found && more > 0) {
        more = read(fd, at + got, sizeof *found - got);
        got += more > 0 ? (size_t)more : 0;
    }
    *whole = got == sizeof *found;
}

/* 1 if a child process can open the library. */
static int child_can_open(const char *path, char *why, size_t bytes)
{
    findings found = {.version = 0};
    int ends[2], state = 0, whole = 0;
    if (pipe(ends) != 0) {
        snprintf(why, bytes, "no pipe to a process that tries %s", path);
        return 0;
    }
    fflush(NULL);
    pid_t child = fork(), got = child;
    if (child == 0) {
        close(ends[0]);
        try_library(path, ends[1]);
    }
    close(ends[1]);
    if (child > 0) {
        read_findings(ends[0], &found, &whole);
        do
            got = waitpid(child, &state, 0);
        while (got < 0 && errno == EINTR);
    }
    close(ends[0]);
    if (whole && found.version > 0)
        return 1;
    if (child < 0)
        snprintf(why, bytes, "no process to try %s in", path);
    else if (whole)
        snprintf(why, bytes, "%s", found.why);
    else if (got < 0)
        snprintf(why, bytes,
                 "%s hangs, crashes or ends the process that opens it: which of these is unknown, "
                 "because another part of this process reaped that one",
                 path);
    else if (WIFSIGNALED(state))
        snprintf(why, bytes, "%s %s", path,
                 WTERMSIG(state) == SIGALRM ? "hangs when it is opened"
                                            : "crashes when it is opened");
    else
        snprintf(why, bytes, "%s ends the process that opens it", path);
    return 0;
}

/* "nccl:2.28.3" from a version number and the library's file name. Pure. */
static void vendor_name(const char *path, int version, char *name, size_t bytes)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *word = strstr(file, "rccl") ? "rccl" : strstr(file, "mccl") ? "mccl" : "nccl";
    /* Versions before 2.9 have one digit for the minor number. */
    int base = version >= 10000 ? 10000 : 1000;
    snprintf(name, bytes, "%s:%d.%d.%d", word, version / base, version % base / 100, version % 100);
}

static weir_status open_library(const char *path, bench_vendor *vendor, char *why, size_t bytes)
{
    if (!child_can_open(path, why, bytes) || load_library(path, vendor, why, bytes) != 0)
        return WEIR_ERR_SYSTEM;
    vendor_name(path, vendor->version, vendor->name, sizeof vendor->name);
    return WEIR_OK;
}

weir_status bench_vendor_open(const char *path, bench_vendor *vendor, char *why, size_t bytes)
{
    static const char *const others[] = {"librccl.so.1", "libmccl.so.2", "libmccl.so"};
    const char *named = getenv("WEIR_NCCL_SO");
    char unread[200];
    memset(vendor, 0, sizeof *vendor);
    if (!path && named && *named)
        path = named;
    if (path)
        return open_library(path, vendor, why, bytes);
    weir_status status = open_library("libnccl.so.2", vendor, why, bytes);
    for (size_t i = 0; i < sizeof others / sizeof others[0] && status != WEIR_OK; i++)
        status = open_library(others[i], vendor, unread, sizeof unread);
    return status;
}

int bench_vendor_type(weir_dtype dtype)
{
    static const int types[WEIR_DTYPE_COUNT] = {
        [WEIR_INT8] = 0,   [WEIR_UINT8] = 1,    [WEIR_INT32] = 2,     [WEIR_UINT32] = 3,
        [WEIR_INT64] = 4,  [WEIR_UINT64] = 5,   [WEIR_HALF] = 6,      [WEIR_FLOAT] = 7,
        [WEIR_DOUBLE] = 8, [WEIR_BFLOAT16] = 9, [WEIR_FP8_E4M3] = 10, [WEIR_FP8_E5M2] = 11};
    return types[dtype];
}

int bench_vendor_op(weir_op op)
{
    static const int ops[WEIR_OP_COUNT] = {
        [WEIR_SUM] = 0, [WEIR_PROD] = 1, [WEIR_MAX] = 2, [WEIR_MIN] = 3, [WEIR_AVG] = 4};
    return ops[op];
}

/* Sends a block to a rank, and receives one from it; nothing for an empty block. */
static vendor_result vendor_swap(const bench_vendor *v, vendor_comm comm, const weir_call *c,
                                 int rank, const size_t counts[2], const size_t displs[2],
                                 void *stream)
{
    const size_t width = weir_dtype_bytes(c->dtype);
    const int type = bench_vendor_type(c->dtype);
    const vendor_result result = counts[0] ? v->send((const char *)c->in + displs[0] * width,
                                                     counts[0], type, rank, comm, stream)
                                           : 0;
    return result || !counts[1]
               ? result
               : v->recv((char *)c->out + displs[1] * width, counts[1], type, rank, comm, stream);
}

static vendor_result vendor_exchange_with(const bench_vendor *v, vendor_comm comm,
                                          const weir_call *c, int rank, void *stream)
{
    const size_t to = (size_t)rank, block = c->count;
    size_t counts[2] = {block, block}, displs[2] = {to * block, to * block};
    if (c->collective == WEIR_COLL_ALLTOALLV) {
        counts[0] = c->splits->send_counts[to];
        counts[1] = c->splits->recv_counts[to];
        displs[0] = c->splits->send_displs[to];
        displs[1] = c->splits->recv_displs[to];
    } else if (c->collective == WEIR_COLL_SENDRECV) {
        counts[0] = rank == c->destination ? block : 0;
        counts[1] = rank == c->source ? block : 0;
        displs[0] = displs[1] = 0;
    }
    return vendor_swap(v, comm, c, rank, counts, displs, stream);
}

static vendor_result vendor_run_group(const bench_vendor *v, vendor_comm comm, int nranks,
                                      const weir_call *c, void *stream)
{
    vendor_result result = v->group_start();
    for (int rank = 0; rank < nranks && result == 0; rank++)
        result = vendor_exchange_with(v, comm, c, rank, stream);
    const vendor_result ended = v->group_end();
    return result ? result : ended;
}

vendor_result bench_vendor_run(const bench_vendor *v, vendor_comm comm, int nranks,
                               const weir_call *c, void *stream)
{
    const int type = bench_vendor_type(c->dtype), op = bench_vendor_op(c->op);
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return v->allreduce(c->in, c->out, c->count, type, op, comm, stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return v->reduce_scatter(c->in, c->out, c->count, type, op, comm, stream);
    case WEIR_COLL_ALLGATHER:
        return v->allgather(c->in, c->out, c->count, type, comm, stream);
    case WEIR_COLL_BROADCAST:
        return v->broadcast(c->in, c->out, c->count, type, c->root, comm, stream);
    case WEIR_COLL_REDUCE:
        return v->reduce(c->in, c->out, c->count, type, op, c->root, comm, stream);
    case WEIR_COLL_ALLTOALL:
        if (v->alltoall)
            return v->alltoall(c->in, c->out, c->count, type, comm, stream);
        break;
    default:
        break;
    }
    return vendor_run_group(v, comm, nranks, c, stream);
}
