/*
 * Algorithms from kernels in files (weir_algo_from_file): creates what the kernel's
 * weir_kernel_args points to. A context contains scratch memory, with a slot for each rank followed
 * by the state words of the blocks, and a channel from each block to the block of equal index on
 * every other rank. Its key is the number of blocks, which is the same on all ranks, so ranks need
 * not vote (context.c).
 */
#include "algo/algo.h"

#include "algo/kernel.h"
#include "base/error.h"
#include "comm/gpu/gpu.h"
#include <weir/kernel.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCRATCH_BYTES = 8 << 20,     /* the most slots of a context, in bytes */
    HOST_SLOT_BYTES = 256 << 10, /* slots of all ranks fit into caches */
    GPU_SLOT_BYTES = 1 << 20,
    SLOT_UNIT_BYTES = 128,
    GPU_BLOCKS = 8,
    GPU_THREADS = 512,
    GPU_BLOCKS_MAX = 64, /* a communicator has 1024 semaphores */
    TAG = 0x616c676f,
    GPU_RANKS = 8, /* WEIR_KERNEL_RANKS_MAX in a kernel on GPUs */
};

_Static_assert(sizeof(weir_kernel_args) <= WEIR_PARAMS_BYTES &&
                   sizeof(weir_kernel_args) ==
                       offsetof(weir_kernel_args, splits) +
                           WEIR_KERNEL_RANKS_MAX * sizeof(weir_kernel_split) &&
                   (int)GPU_RANKS >= WEIRI_GPU_RANKS_MAX,
               "the GPU's parameter, for fewer ranks, is a prefix of the host's");

typedef struct file_algo {
    weir_comm *comm;
    weir_kernel *kernel;
} file_algo;

typedef struct file_context {
    weir_comm *comm;
    int blocks, npeers;
    size_t slot_bytes;
    weir_mem *scratch;
    weir_mem **all;    /* scratch of each rank; this rank's entry is scratch itself */
    weir_conn **conns; /* npeers, beginning with the next rank */
    weir_sem **sems;   /* blocks x npeers, as are chans and dev */
    weir_memchan **chans;
    weir_memchan_dev **dev; /* in host memory */
    void *kept;             /* GPUs: a copy of dev in device memory */
} file_context;

static int file_blocks(const weir_comm *comm, const weir_call *call)
{
    if (!comm->gpu)
        return 1;
    return call->blocks ? call->blocks : GPU_BLOCKS;
}

static weir_status file_key(void *opaque, weir_comm *comm, const weir_call *call,
                            weir_algo_key *key)
{
    const file_algo *state = opaque;
    if (comm != state->comm)
        return weiri_fail(WEIR_ERR_INVALID, "kernel %s was compiled for another communicator",
                          weir_kernel_name(state->kernel));
    if (file_blocks(comm, call) > GPU_BLOCKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "kernel %s: %d blocks; expected at most %d",
                          weir_kernel_name(state->kernel), file_blocks(comm, call), GPU_BLOCKS_MAX);
    key->words[0] = (uint64_t)file_blocks(comm, call);
    return WEIR_OK;
}

/* ------------------------------------------------------------------ contexts */

static void file_context_destroy(void *state, void *context)
{
    file_context *of = context;
    (void)state;
    int nchans = of->blocks * of->npeers;
    for (int i = 0; of->chans && i < nchans; i++)
        weir_memchan_free(of->chans[i]);
    for (int i = 0; of->sems && i < nchans; i++)
        weir_sem_free(of->sems[i]);
    for (int i = 0; of->conns && i < of->npeers; i++)
        weir_conn_free(of->conns[i]);
    for (int rank = 0; of->all && rank < of->comm->nranks; rank++)
        if (of->all[rank] != of->scratch)
            weir_mem_free(of->all[rank]);
    weiri_gpu_release(of->comm, of->kept);
    weir_mem_free(of->scratch);
    free(of->dev);
    free(of->chans);
    free(of->sems);
    free(of->conns);
    free(of->all);
    free(of);
}

static weir_status file_context_alloc(weir_comm *comm, int blocks, file_context **context)
{
    const size_t n = (size_t)comm->nranks, peers = n - 1, nchans = (size_t)blocks * peers + 1;
    file_context *made = calloc(1, sizeof *made);
    *context = made;
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel's channels");
    const size_t most = comm->gpu ? GPU_SLOT_BYTES : HOST_SLOT_BYTES;
    const size_t slot = SCRATCH_BYTES / n < most ? SCRATCH_BYTES / n : most;
    *made = (file_context){.comm = comm,
                           .blocks = blocks,
                           .npeers = (int)peers,
                           .slot_bytes = slot / SLOT_UNIT_BYTES * SLOT_UNIT_BYTES,
                           .all = calloc(n, sizeof *made->all),
                           .conns = calloc(peers + 1, sizeof *made->conns),
                           .sems = calloc(nchans, sizeof *made->sems),
                           .chans = calloc(nchans, sizeof *made->chans),
                           .dev = calloc(nchans, sizeof *made->dev)};
    if (!made->all || !made->conns || !made->sems || !made->chans || !made->dev)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel's channels");
    return weir_mem_alloc(
        comm, n * made->slot_bytes + (size_t)blocks * WEIR_KERNEL_STATE_WORDS * sizeof(uint64_t),
        &made->scratch);
}

static int file_peer_at(const file_context *of, int index)
{
    return (of->comm->rank + 1 + index) % of->comm->nranks;
}

/* Creates connections and semaphores, pair by pair in the same order on all ranks. If a pair fails,
 * it fails at both ends; the others are still created, because their peers wait for them. */
static weir_status file_connect_peers(file_context *of)
{
    weir_status status = WEIR_OK;
    for (int peer = 0; peer < of->comm->nranks; peer++) {
        const int index = (peer - of->comm->rank - 1 + of->comm->nranks) % of->comm->nranks;
        if (peer == of->comm->rank)
            continue;
        weir_status joined =
            weir_connect(of->comm, peer, TAG, WEIR_TRANSPORT_AUTO, &of->conns[index]);
        for (int block = 0; joined == WEIR_OK && block < of->blocks; block++)
            joined = weir_sem_create(of->conns[index], &of->sems[block * of->npeers + index]);
        status = status != WEIR_OK ? status : joined;
    }
    return status;
}

static weir_status file_make_channels(file_context *of)
{
    const int nchans = of->blocks * of->npeers;
    weir_status status = WEIR_OK;
    for (int i = 0; i < nchans && status == WEIR_OK; i++) {
        status = weir_memchan_create(of->sems[i], of->all[file_peer_at(of, i % of->npeers)],
                                     of->scratch, of->scratch, &of->chans[i]);
        if (status == WEIR_OK)
            of->dev[i] = weir_memchan_device(of->chans[i]);
    }
    if (status == WEIR_OK && nchans)
        status = weiri_gpu_keep(of->comm, of->dev, (size_t)nchans * sizeof *of->dev, &of->kept);
    return status;
}

static weir_status file_context_create(void *opaque, weir_comm *comm, const weir_call *call,
                                       void **context)
{
    file_context *made = NULL;
    (void)opaque;
    weir_boot *boot = comm->boot;
    weir_status status =
        weir_boot_agree(boot, file_context_alloc(comm, file_blocks(comm, call), &made));
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, weir_mem_exchange(comm, made->scratch, made->all));
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, file_connect_peers(made));
    if (status == WEIR_OK)
        status = file_make_channels(made);
    if (status == WEIR_OK)
        *context = made;
    else if (made)
        file_context_destroy(NULL, made);
    return status;
}

/* -------------------------------------------------------------------- launch */

static void file_fill_splits(const weir_comm *comm, const weir_call *call,
                             weir_kernel_split *splits)
{
    const size_t size = weir_dtype_bytes(call->dtype);
    const weir_splits *of = call->splits;
    if (call->collective == WEIR_COLL_ALLTOALLV)
        for (int peer = 0; peer < comm->nranks; peer++)
            splits[peer] =
                (weir_kernel_split){of->send_displs[peer] * size, of->send_counts[peer] * size,
                                    of->recv_displs[peer] * size, of->recv_counts[peer] * size};
    if (call->collective != WEIR_COLL_SENDRECV)
        return;
    if (call->destination >= 0)
        splits[call->destination].send_bytes = call->in_bytes;
    if (call->source >= 0)
        splits[call->source].recv_bytes = call->out_bytes;
}

static weir_status file_check_call(const weir_comm *comm, const weir_call *call)
{
    const int n = comm->nranks;
    if (call->device_splits)
        return weiri_fail(WEIR_ERR_INVALID, "%s: kernels in files support host splits only",
                          weir_collective_name(call->collective));
    if (call->root >= 0 && call->root < n && call->destination >= -1 && call->destination < n &&
        call->source >= -1 && call->source < n)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: root, destination or source is outside the "
                      "communicator",
                      weir_collective_name(call->collective));
}

static weir_kernel_args file_make_args(const file_context *of, const weir_call *call)
{
    const weir_comm *comm = of->comm;
    const size_t slots_bytes = (size_t)comm->nranks * of->slot_bytes;
    weir_kernel_args args = {
        .in = call->in,
        .out = call->out,
        .in_bytes = call->in_bytes,
        .out_bytes = call->out_bytes,
        .rank = comm->rank,
        .nranks = comm->nranks,
        .collective = (int32_t)call->collective,
        .dtype = (int32_t)call->dtype,
        .op = (int32_t)call->op,
        .root = call->root,
        .element_bytes = (uint32_t)weir_dtype_bytes(call->dtype),
        .blocks = (uint32_t)of->blocks,
        .slot_bytes = of->slot_bytes,
        .chans = of->kept ? of->kept : of->dev,
        .state = (uint64_t *)(void *)((char *)weir_mem_pointer(of->scratch) + slots_bytes),
        .guard = comm->gpu ? comm->gpu->ops->guard(comm) : comm->guard,
    };
    file_fill_splits(comm, call, args.splits);
    return args;
}

static weir_status file_launch(void *opaque, void *context, weir_comm *comm, const weir_call *given)
{
    const file_algo *state = opaque;
    const file_context *of = context;
    weir_call call = *given;
    weir_params params;
    weir_status status = weiri_call_set_counts(comm, &call);
    if (status == WEIR_OK)
        status = file_check_call(comm, &call);
    if (status != WEIR_OK)
        return status;
    const weir_kernel_args args = file_make_args(of, &call);
    const size_t ranks = comm->gpu ? GPU_RANKS : WEIR_KERNEL_RANKS_MAX;
    params.used_bytes = params.alignment = 0;
    params.failed = 0;
    weir_params_bytes(&params, &args,
                      offsetof(weir_kernel_args, splits) + ranks * sizeof(weir_kernel_split),
                      _Alignof(weir_kernel_args));
    return weir_kernel_launch(state->kernel, of->blocks, call.threads ? call.threads : GPU_THREADS,
                              0, call.stream, &params);
}

static void file_destroy(void *opaque)
{
    file_algo *state = opaque;
    weir_kernel_free(state->kernel);
    free(state);
}

/* ------------------------------------------------------------------ creation */

static const weir_algo_ops file_ops = {
    .context_key = file_key,
    .context_create = file_context_create,
    .launch = file_launch,
    .context_destroy = file_context_destroy,
    .destroy = file_destroy,
    .keys_alike = 1,
    .contexts_max = 2,
};

static weir_status file_check_arguments(const weir_comm *comm, const char *file, const char *name)
{
    if (!file || !name || !*name || strlen(name) >= WEIR_ALGO_NAME_BYTES)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_algo_from_file: a file and a kernel name of 1 to %d characters "
                          "are required",
                          WEIR_ALGO_NAME_BYTES - 1);
    if (comm->internode)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s: kernels in files map the memory of their peers, so they work "
                          "between the ranks of one node only",
                          file);
    if (comm->nranks > WEIR_KERNEL_RANKS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s: %d ranks; kernels in files serve at most %d",
                          file, comm->nranks, WEIR_KERNEL_RANKS_MAX);
    return WEIR_OK;
}

weir_status weir_algo_from_file(weir_comm *comm, const char *file, const char *name,
                                weir_collective collective, weir_algo **algo)
{
    if (!comm || !algo)
        return weiri_fail(WEIR_ERR_INVALID, "weir_algo_from_file: comm and algo are required");
    weir_algo *made = NULL;
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_algo_from_file");
    if (status != WEIR_OK)
        return status;
    file_algo *state = calloc(1, sizeof *state);
    status = state ? file_check_arguments(comm, file, name)
                   : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an algorithm");
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        state->comm = comm;
        status = weir_kernel_compile(comm, file, name, &state->kernel);
    }
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot,
                                 weir_algo_create(name, collective, &file_ops, state, &made));
    status = weiri_setup_end(&setup, status);
    if (status != WEIR_OK) {
        if (made)
            weir_algo_destroy(made);
        else if (state)
            file_destroy(state);
        return status;
    }
    snprintf(made->summary, sizeof made->summary, "kernel of %s", file);
    *algo = made;
    return WEIR_OK;
}
