/* What bench_blocks measures: weir's calls, and the peers. */
#define _GNU_SOURCE
#include "bench/blocks/blocks_trial.h"

#include "bench/job/mpi_comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

const char *blocks_kind_name(blocks_kind kind)
{
    static const char *const names[BLOCKS_KINDS] = {"weir put", "weir get", "memcpy",
                                                    "readv",    "mpi",      "socket"};
    return names[kind];
}

/* --------------------------------------------------------------------- weir */

static weir_blocks_args args_of(const blocks_trial *t, const blocks_route *route, int slot)
{
    weir_blocks_args args = WEIR_BLOCKS_ARGS_INIT;
    args.peer = route->from == t->rank ? route->to : route->from;
    args.slot = slot;
    args.tag = t->tag;
    args.list = route->list;
    args.count = route->count;
    args.block_bytes = t->block_bytes;
    args.ndims = t->ndims;
    args.dims = t->dims;
    return args;
}

static void swap_destinations(uint64_t *list)
{
    const uint64_t kept = list[1];
    list[1] = list[3];
    list[3] = kept;
}

/* Changes a call as the fault says. Returns 1 if it did. */
static int plant(const blocks_trial *t, const blocks_route *route, weir_blocks_args *args)
{
    const int fault = t->options->fault;
    if (fault == BLOCKS_LOST_BLOCK)
        args->count--;
    if (fault == BLOCKS_SWAPPED_PAIR && route->count > 1)
        swap_destinations(route->list);
    if (fault == BLOCKS_EXTRA_PAGE) {
        route->list[2 * route->count] = 0;
        route->list[2 * route->count + 1] = (uint64_t)route->unlisted * t->block_bytes;
        args->count++;
    }
    return fault != BLOCKS_SWAPPED_PAIR || route->count > 1;
}

/* Stores the tag long before the data. */
static weir_status put_early(blocks_trial *t, weir_blocks_args *args)
{
    weir_blocks_args early = *args;
    early.count = 0;
    weir_status status = weir_blocks_put(t->blocks, &early);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    args->tag = 0;
    return status;
}

static weir_status run_routes(blocks_trial *t, const blocks_route *routes, int count, int is_put,
                              int injects)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < count && status == WEIR_OK; i++) {
        const blocks_route *route = &routes[i];
        weir_blocks_args args = args_of(t, route, is_put ? BLOCKS_PUT : BLOCKS_GET);
        const int has_fault = injects && i == 0 && route->count;
        const int is_early = has_fault && t->options->fault == BLOCKS_EARLY_TAG;
        if (has_fault && (!is_early || is_put))
            t->planted += plant(t, route, &args);
        if (is_early && is_put)
            status = put_early(t, &args);
        if (status == WEIR_OK)
            status = is_put ? weir_blocks_put(t->blocks, &args) : weir_blocks_get(t->blocks, &args);
        if (has_fault && t->options->fault == BLOCKS_SWAPPED_PAIR && route->count > 1)
            swap_destinations(route->list);
    }
    return status;
}

static weir_status await_tags(const blocks_trial *t, const blocks_route *routes, int count,
                              int is_put)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < count && status == WEIR_OK; i++)
        status = weir_blocks_wait(t->blocks, is_put ? routes[i].from : routes[i].to,
                                  is_put ? BLOCKS_PUT : BLOCKS_GET, t->tag, 0);
    return status;
}

/* -------------------------------------------------------------------- peers */

/* Calls each for all blocks of a route. */
typedef int each_block(void *state, uint64_t source, uint64_t destination);
static int for_blocks(const blocks_trial *t, const blocks_route *route, each_block *each,
                      void *state)
{
    int error = 0;
    for (uint64_t layer = 0; layer < t->dims[0].count; layer++)
        for (uint64_t plane = 0; plane < t->dims[1].count; plane++) {
            const uint64_t shift =
                layer * t->dims[0].source_stride + plane * t->dims[1].source_stride;
            for (size_t e = 0; e < route->count && !error; e++)
                error = each(state, route->list[2 * e] + shift, route->list[2 * e + 1] + shift);
        }
    return error;
}

static int copy_block(void *state, uint64_t source, uint64_t destination)
{
    const blocks_trial *t = state;
    memcpy(t->cache + destination, t->cache + source, t->block_bytes);
    return 0;
}

enum { VECTORS = 256 };

typedef struct readv_state {
    const blocks_trial *trial;
    pid_t pid;
    uint64_t address; /* of the source's cache */
    struct iovec here[VECTORS], there[VECTORS];
    unsigned long count;
} readv_state;

static int readv_flush(readv_state *r)
{
    const size_t bytes = r->count * r->trial->block_bytes;
    const ssize_t copied =
        r->count ? process_vm_readv(r->pid, r->here, r->count, r->there, r->count, 0) : 0;
    r->count = 0;
    return copied == (ssize_t)bytes ? 0 : copied < 0 ? errno : EIO;
}

static int readv_block(void *state, uint64_t source, uint64_t destination)
{
    readv_state *r = state;
    const size_t bytes = r->trial->block_bytes;
    r->here[r->count] = (struct iovec){r->trial->cache + destination, bytes};
    r->there[r->count++] = (struct iovec){(void *)(uintptr_t)(r->address + source), bytes};
    return r->count == VECTORS ? readv_flush(r) : 0;
}

static weir_status run_readv(const blocks_trial *t, const blocks_route *route)
{
    readv_state r = {.trial = t,
                     .pid = (pid_t)t->processes[t->names[route->from]].pid,
                     .address = t->processes[t->names[route->from]].address};
    int error = for_blocks(t, route, readv_block, &r);
    if (!error)
        error = readv_flush(&r);
    return error ? bench_job_note(t->job, WEIR_ERR_SYSTEM, "--peer readv: rank %d: %s",
                                  t->names[route->from], strerror(error))
                 : WEIR_OK;
}

/* ---------------------------------------------------------------------- MPI */

typedef struct mpi_places {
    intptr_t *offsets;
    int count, is_source;
} mpi_places;

static int mpi_place(void *state, uint64_t source, uint64_t destination)
{
    mpi_places *places = state;
    places->offsets[places->count++] = (intptr_t)(places->is_source ? source : destination);
    return 0;
}

static weir_status mpi_make_type(const blocks_trial *t, blocks_route *route)
{
    mpi_places places = {.is_source = route->from == t->rank};
    const size_t most = route->count * t->dims[0].count * t->dims[1].count;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    places.offsets = malloc((most + 1) * sizeof *places.offsets);
    if (!places.offsets)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for MPI's types");
    for_blocks(t, route, mpi_place, &places);
    const int error = MPI_Type_create_hindexed_block(places.count, (int)t->block_bytes,
                                                     places.offsets, MPI_BYTE, &type);
    free(places.offsets);
    if (error != MPI_SUCCESS || MPI_Type_commit(&type) != MPI_SUCCESS)
        return bench_job_note(t->job, WEIR_ERR_SYSTEM, "--peer mpi: no type of %zu blocks", most);
    route->type = type;
    return WEIR_OK;
}

weir_status blocks_mpi_open(blocks_trial *t)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < t->nsends && status == WEIR_OK; i++)
        status = mpi_make_type(t, &t->sends[i]);
    for (int i = 0; i < t->nreceives && status == WEIR_OK; i++)
        status = mpi_make_type(t, &t->receives[i]);
    return status;
}

static void mpi_free_types(blocks_route *routes, int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Datatype type = routes[i].type;
        if (type)
            MPI_Type_free(&type);
    }
}

void blocks_mpi_close(blocks_trial *t)
{
    mpi_free_types(t->sends, t->nsends);
    mpi_free_types(t->receives, t->nreceives);
}

static weir_status run_mpi(const blocks_trial *t)
{
    const int count = t->nsends + t->nreceives;
    const MPI_Comm comm = t->job->mpi->group;
    MPI_Request *requests = calloc((size_t)count, sizeof *requests);
    int error = requests ? MPI_SUCCESS : !MPI_SUCCESS;
    for (int i = 0; i < count && error == MPI_SUCCESS; i++) {
        const int is_receive = i < t->nreceives;
        const blocks_route *r = is_receive ? &t->receives[i] : &t->sends[i - t->nreceives];
        error = is_receive ? MPI_Irecv(t->cache, 1, r->type, r->from, 0, comm, &requests[i])
                           : MPI_Isend(t->cache, 1, r->type, r->to, 0, comm, &requests[i]);
    }
    for (int i = 0; i < count && error == MPI_SUCCESS; i++)
        error = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    free(requests);
    return error == MPI_SUCCESS
               ? WEIR_OK
               : bench_job_note(t->job, WEIR_ERR_SYSTEM, "--peer mpi: a transfer failed");
}

/* ---------------------------------------------------------------------- all */

weir_status blocks_transfer(blocks_trial *t, blocks_kind kind, int injects)
{
    weir_status status = WEIR_OK;
    t->tag++;
    if (kind == BLOCKS_PUT) {
        status = run_routes(t, t->sends, t->nsends, 1, injects);
        return status == WEIR_OK ? await_tags(t, t->receives, t->nreceives, 1) : status;
    }
    if (kind == BLOCKS_GET) {
        status = run_routes(t, t->receives, t->nreceives, 0, injects);
        return status == WEIR_OK ? await_tags(t, t->sends, t->nsends, 0) : status;
    }
    if (kind == BLOCKS_MPI)
        return run_mpi(t);
    if (kind == BLOCKS_SOCKET)
        return blocks_socket_run(t);
    for (int i = 0; i < t->nreceives && status == WEIR_OK; i++)
        if (kind == BLOCKS_READV)
            status = run_readv(t, &t->receives[i]);
        else
            for_blocks(t, &t->receives[i], copy_block, t);
    return status;
}
