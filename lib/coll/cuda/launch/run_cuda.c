/*
 * From a checked call to a kernel launch: fills the kernel's argument with the buffers, selects the
 * kernel and its grid. Does not block, and exchanges nothing with the hosts of other ranks: kernels
 * send each other the descriptors of buffers.
 *
 * A kernel that failed leaves the reason in its rank's page, and the next call or weir_comm_check
 * returns it.
 */
#include "coll/cuda/launch/run_cuda.h"

#include "base/error.h"
#include "base/log.h"
#include "coll/algos.h"
#include "coll/cuda/kernels.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

_Static_assert(WEIRI_GPU_SCRATCH_BYTES <= WEIRI_CUDA_SCRATCH_BYTES, "the layout fits");

/* The bytes of a call's buffers, from their beginning to the last byte used. */
typedef struct extent {
    size_t in, out;
} extent;

static extent call_extent_of_pairs(const weiri_coll *coll, const weiri_task *task)
{
    extent reach = {0, 0};
    for (int peer = 0; peer < coll->nranks; peer++) {
        const weiri_pair *pair = &task->pairs[peer];
        size_t in =
            pair->send_bytes ? (size_t)(pair->from - weiri_in_at(task, 0)) + pair->send_bytes : 0;
        size_t out =
            pair->recv_bytes ? (size_t)(pair->to - weiri_out_at(task, 0)) + pair->recv_bytes : 0;
        reach.in = in > reach.in ? in : reach.in;
        reach.out = out > reach.out ? out : reach.out;
    }
    return reach;
}

static extent call_extent(const weiri_coll *coll, const weiri_task *task)
{
    if (task->call->device_splits)
        return (extent){task->call->in_bytes, task->call->out_bytes};
    if (weiri_is_pairwise(task))
        return call_extent_of_pairs(coll, task);
    const weiri_blocks blocks = weiri_blocks_of(coll, task);
    return (extent){blocks.in * task->count_bytes, blocks.out * task->count_bytes};
}

/* Finds the descriptor of a buffer in the region desc. Unregistered memory must be this GPU's, and
 * long enough. */
static weir_status gpu_describe_in(weir_comm *comm, weiri_desc desc, const void *pointer,
                                   size_t bytes, weiri_gpu_desc *described)
{
    *described = WEIRI_GPU_UNMAPPED;
    if (!bytes)
        return WEIR_OK;
    if (!desc.generation)
        return weiri_cuda_check_buffer(comm, pointer, bytes);
    if (weiri_region_known(comm, desc))
        *described = weiri_cuda_desc(desc);
    return WEIR_OK;
}

static weir_status gpu_describe(weir_comm *comm, const void *pointer, size_t bytes,
                                weiri_gpu_desc *described)
{
    return gpu_describe_in(comm, weiri_region_describe(comm, pointer, bytes), pointer, bytes,
                           described);
}

weir_status weiri_cuda_check_input(const weiri_coll *coll, const weiri_task *task)
{
    weiri_gpu_desc ignored;
    return gpu_describe(coll->comm, task->call->in, call_extent(coll, task).in, &ignored);
}

static void args_fill_pairs(const weiri_coll *coll, const weiri_task *task, weiri_gpu_args *args)
{
    for (int peer = 0; peer < coll->nranks; peer++) {
        const weiri_pair *pair = &task->pairs[peer];
        weiri_gpu_pair *to = &args->pairs[peer];
        *to = (weiri_gpu_pair){.send_bytes = pair->send_bytes, .recv_bytes = pair->recv_bytes};
        if (pair->send_bytes)
            to->send_at = (uint64_t)(pair->from - weiri_in_at(task, 0));
        if (pair->recv_bytes)
            to->recv_at = (uint64_t)(pair->to - weiri_out_at(task, 0));
    }
}

/* The arrays must be this GPU's, because a kernel that reads other memory ends with a fault. */
static weir_status args_fill_counts(const weiri_coll *coll, const weiri_task *task,
                                    weiri_gpu_args *args)
{
    const weir_device_splits *splits = task->call->device_splits;
    weir_comm *comm = coll->comm;
    const uint64_t *arrays[] = {splits->send_counts, splits->send_displs, splits->recv_counts,
                                splits->recv_displs};
    args->counts = (weiri_gpu_counts){splits->send_counts,
                                      splits->send_displs,
                                      splits->recv_counts,
                                      splits->recv_displs,
                                      task->call->in_bytes / task->element_bytes,
                                      task->call->out_bytes / task->element_bytes};
    weir_status status = WEIR_OK;
    for (int i = 0; i < 4 && status == WEIR_OK; i++) {
        weiri_gpu_desc ignored;
        status = gpu_describe(comm, arrays[i], (size_t)comm->nranks * sizeof *arrays[i], &ignored);
    }
    return status;
}

/* Kernels count the units of a message in 32 bits. Lengths in device memory are not checked. */
static weir_status check_lengths(const weiri_coll *coll, const weiri_task *task)
{
    enum { MOST_GIB = 60 };
    const uint64_t most = (uint64_t)MOST_GIB << 30;
    const int is_one = task->call->collective == WEIR_COLL_ALLGATHER ||
                       task->call->collective == WEIR_COLL_BROADCAST;
    const int npairs = weiri_is_pairwise(task) && !task->call->device_splits ? coll->nranks : 0;
    uint64_t longest = is_one ? task->count_bytes : 0;
    for (int peer = 0; peer < npairs; peer++) {
        const weiri_pair *pair = &task->pairs[peer];
        longest = pair->send_bytes > longest ? pair->send_bytes : longest;
        longest = pair->recv_bytes > longest ? pair->recv_bytes : longest;
    }
    return longest <= most ? WEIR_OK
                           : weiri_fail(WEIR_ERR_UNSUPPORTED,
                                        "rank %d: a message of %llu bytes; GPUs move up to %d GiB "
                                        "between two ranks: call in parts",
                                        coll->rank, (unsigned long long)longest, MOST_GIB);
}

static weir_status args_fill(weiri_coll *coll, const weiri_task *task, weiri_gpu_args *args)
{
    extent reach = call_extent(coll, task);
    args->view = weiri_cuda_of(coll->comm)->view;
    args->in = task->call->in ? task->call->in : (const char *)coll->sources; /* never read */
    args->out = task->call->out ? task->call->out : (char *)coll->sources;
    args->count = task->elements;
    args->bytes = task->count_bytes;
    args->dtype = (int32_t)task->call->dtype;
    args->op = (int32_t)task->call->op;
    args->element_bytes = (uint32_t)task->element_bytes;
    args->root = task->call->root;
    args->collective = (int32_t)task->call->collective;
    args->nvlink = coll->comm->gpu->nvlink;
    const weiri_desc out = weiri_region_describe(coll->comm, task->call->out, reach.out);
    args->symmetric = weiri_cuda_symmetric(coll->comm, out) != NULL;
    weir_status status = WEIR_OK;
    if (task->call->device_splits)
        status = args_fill_counts(coll, task, args);
    else if (weiri_is_pairwise(task))
        args_fill_pairs(coll, task, args);
    if (status == WEIR_OK)
        status = gpu_describe(coll->comm, task->call->in, reach.in, &args->in_desc);
    if (status == WEIR_OK)
        status = gpu_describe_in(coll->comm, out, task->call->out, reach.out, &args->out_desc);
    return status;
}

/* The algorithm that serves every call of a collective: the last row that has a kernel. */
static const weiri_algo *general_algo(weir_collective collective)
{
    size_t row = weiri_algo_table_rows;
    while (row-- > 0)
        if (weiri_algo_table[row]->info.collective == collective && weiri_algo_table[row]->gpu)
            break;
    return weiri_algo_table[row];
}

/* How many of the requested threads a block of the kernel can have, and how many such blocks are
 * resident at once. All blocks of a launch must be, because they wait for blocks of peers. */
static const weiri_cuda_fit *fit_of(weiri_cuda *cuda, const void *kernel, int asked)
{
    weiri_cuda_fit *fit =
        &cuda->fits[((uintptr_t)kernel / 16 + (uintptr_t)asked) % WEIRI_CUDA_FITS];
    if (fit->kernel == kernel && fit->asked == asked)
        return fit;
    struct cudaFuncAttributes limits;
    int threads = asked, each = 0;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    if (cudaFuncGetAttributes(&limits, kernel) == cudaSuccess)
        threads = asked < limits.maxThreadsPerBlock ? asked : limits.maxThreadsPerBlock;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0) != cudaSuccess)
        cudaGetLastError();
    weiri_cuda_restore(mode);
    int blocks = each * cuda->processors;
    blocks = blocks < WEIRI_GPU_BLOCKS_MAX ? blocks : WEIRI_GPU_BLOCKS_MAX;
    *fit = (weiri_cuda_fit){kernel, asked, threads, blocks};
    return fit;
}

static weir_status launch_refuse(const weir_comm *comm, const char *name, const void *kernel,
                                 int threads)
{
    struct cudaFuncAttributes limits;
    cudaError_t error = cudaFuncGetAttributes(&limits, kernel);
    if (error != cudaSuccess)
        return weiri_cuda_fail_launch(comm, error);
    return weiri_fail(WEIR_ERR_INVALID, "%s: no block of %d threads fits on the GPU", name,
                      threads);
}

weir_status weiri_cuda_launch(weir_comm *comm, weir_stream stream, const char *name,
                              const void *kernel, weiri_gpu_shape shape, void *args)
{
    const weiri_cuda_fit *fit = fit_of(weiri_cuda_of(comm), kernel, shape.threads);
    if (fit->blocks < 1)
        return launch_refuse(comm, name, kernel, shape.threads);
    shape.threads = fit->threads;
    shape.blocks = shape.blocks < fit->blocks ? shape.blocks : fit->blocks;
    comm->last_blocks = shape.blocks > comm->last_blocks ? shape.blocks : comm->last_blocks;
    void *arguments[] = {args};
    cudaError_t error =
        cudaLaunchKernel(kernel, (dim3){(unsigned)shape.blocks, 1, 1},
                         (dim3){(unsigned)shape.threads, 1, 1}, arguments, 0, (cudaStream_t)stream);
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail_launch(comm, error);
}

/* Maps what peers have allocated, and unmaps what they have freed; not while a graph is captured,
 * when CUDA does not allow it. */
static void follow_peers(weir_comm *comm, weir_stream stream)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int changed = 0;
    for (int rank = 0; rank < comm->nranks; rank++)
        changed |=
            rank != comm->rank && weir_load_acquire(&comm->peers[rank].page->changes.value) !=
                                      comm->peers[rank].changes_seen;
    if (!changed)
        return;
    cudaStreamIsCapturing((cudaStream_t)stream, &capture);
    if (capture == cudaStreamCaptureStatusNone)
        weiri_region_sweep(comm);
}

weir_status weiri_cuda_ready(weir_comm *comm, weir_stream stream, int *before)
{
    if (WEIRI_UNLIKELY(weir_load_relaxed(comm->guard.abort_word))) {
        weir_status status = weir_comm_check(comm);
        return status != WEIR_OK ? status : WEIR_ERR_ABORTED;
    }
    weir_status status = weiri_cuda_enter(comm, before);
    if (status != WEIR_OK)
        return status;
    status = weiri_cuda_check_stream(comm, stream);
    if (status == WEIR_OK)
        follow_peers(comm, stream);
    else
        weiri_cuda_leave(comm, *before);
    return status;
}

static weir_status copy_to_self(weiri_coll *coll, const weiri_task *task)
{
    return coll->comm->gpu->ops->copy_on(coll->comm, task->pairs->to, task->pairs->from,
                                         task->pairs->send_bytes, task->call->stream);
}

/* The choice for shorter calls that serves a call which the selected algorithm declines (one of a
 * type that it does not serve, for example); NULL: none, or the algorithm is not from a table. */
static const weiri_choice *choice_for_shorter(const weiri_coll *coll, const weiri_task *task,
                                              const weiri_gpu_args *args)
{
    const weiri_choice *found = NULL;
    for (const weiri_choice *at = coll->choices[args->collective]; at != task->choice; at++) {
        if (at->max_bytes == UINT64_MAX)
            return NULL;
        if (at->algo && at->algo->gpu && at->algo->gpu->serves(args))
            found = at;
    }
    return found;
}

/* Replaces an algorithm that declines the call. */
static void replace_algo(weiri_coll *coll, const weiri_task *task, const weiri_gpu_args *args,
                         const weiri_algo **algo, weiri_gpu_shape *shape)
{
    const weiri_choice *shorter = args->nvlink ? choice_for_shorter(coll, task, args) : NULL;
    *algo = shorter ? shorter->algo : general_algo((weir_collective)args->collective);
    *shape = (weiri_gpu_shape){shorter ? shorter->blocks : 0, shorter ? shorter->threads : 0};
    coll->last_algo = shorter ? shorter->name : (*algo)->info.name;
}

weir_status weiri_cuda_run_kernel(weiri_coll *coll, const weiri_task *task)
{
    const weiri_algo *algo = task->choice->algo;
    weiri_gpu_shape shape = {task->choice->blocks, task->choice->threads};
    weiri_gpu_args args;
    int before;
    if (coll->nranks == 1 && !task->call->device_splits)
        return copy_to_self(coll, task);
    weir_status status = check_lengths(coll, task);
    if (status == WEIR_OK)
        status = weiri_cuda_ready(coll->comm, task->call->stream, &before);
    if (status != WEIR_OK)
        return status;
    memset(&args, 0, sizeof args);
    status = args_fill(coll, task, &args);
    if (status == WEIR_OK && (!algo->gpu || !algo->gpu->serves(&args)))
        replace_algo(coll, task, &args, &algo, &shape);
    if (status == WEIR_OK)
        status = weiri_cuda_launch(
            coll->comm, task->call->stream, algo->info.name,
            algo->gpu->kernel(task->call->dtype, coll->nranks),
            weiri_gpu_shape_within(algo->gpu, &args, weiri_cuda_of(coll->comm)->processors, shape,
                                   weiri_budget_of_call(coll->comm->budget, task->call)),
            &args);
    weiri_cuda_leave(coll->comm, before);
    return status;
}

/* Whether the user names the algorithm: in the call, or for all calls of the collective. */
static int is_named(const weiri_coll *coll, const weiri_task *task)
{
    const weir_collective which = task->call->collective;
    return task->call->algo_name ||
           (task->choice == coll->choices[which] && task->choice->max_bytes == UINT64_MAX &&
            coll->tuned[which][0].max_bytes != UINT64_MAX);
}

/* The algorithm by which copy engines only move a call's data; NULL: none, or the output is not in
 * symmetric memory. Logged once for each collective. */
static const weiri_algo *engines_for(weiri_coll *coll, const weiri_task *task)
{
    const weir_collective which = task->call->collective;
    const weiri_desc out =
        weiri_region_describe(coll->comm, task->call->out, call_extent(coll, task).out);
    const weiri_algo *found = NULL;
    for (size_t row = 0; row < weiri_algo_table_rows; row++)
        if (weiri_algo_table[row]->run == weiri_cuda_copy_engine &&
            weiri_algo_table[row]->info.collective == which)
            found = weiri_algo_table[row];
    if (found && weiri_cuda_symmetric(coll->comm, out))
        return found;
    if (!(coll->without_engines & 1u << which) && coll->rank == 0)
        weiri_log(WEIRI_LOG_WARN,
                  "block policy zero: %s runs a kernel of at most %d thread blocks, because %s",
                  weir_collective_name(which), WEIRI_BLOCKS_EFFICIENT,
                  found ? "its output is not symmetric memory (weir_mem_symmetric)"
                        : "copy engines do not serve it");
    coll->without_engines |= 1u << which;
    return NULL;
}

weir_status weiri_cuda_run(weiri_coll *coll, const weiri_task *task)
{
    const weiri_budget budget = weiri_budget_of_call(coll->comm->budget, task->call);
    const weiri_algo *engines =
        budget.policy == WEIR_BLOCKS_ZERO && coll->nranks > 1 && !is_named(coll, task)
            ? engines_for(coll, task)
            : NULL;
    return engines ? weiri_algo_fall_back(coll, task, engines) : weiri_cuda_run_kernel(coll, task);
}

weir_status weiri_cuda_run_general(weiri_coll *coll, const weiri_task *task)
{
    const weiri_choice general = {.algo = general_algo(task->call->collective)};
    weiri_task own = *task;
    own.choice = &general;
    coll->last_algo = general.algo->info.name;
    return weiri_cuda_run_kernel(coll, &own);
}
