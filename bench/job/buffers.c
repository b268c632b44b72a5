/* Allocation, registration and layout of the buffers: see buffers.h. */
#include "bench/job/buffers.h"

#include "bench/job/cache.h"
#include "bench/sizes/shape.h"

#include "verify/hash.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, SPARE_PAGES = 64 };

/* The largest buffers that any type of the sweep needs for one size, without pools. */
static void needed_bytes(const bench_job *job, const bench_options *options,
                         weir_collective collective, const bench_dist *dist, size_t bytes,
                         size_t *in_bytes, size_t *out_bytes)
{
    *in_bytes = *out_bytes = 0;
    for (int type = 0; type < WEIR_DTYPE_COUNT; type++) {
        size_t element_bytes = weir_dtype_bytes((weir_dtype)type);
        size_t shift = (size_t)options->unalign_elements * element_bytes;
        if (options->dtype != BENCH_ALL && options->dtype != type)
            continue;
        bench_shape shape = bench_shape_make(collective, bytes, element_bytes, job->group_rank,
                                             job->group_nranks, dist);
        int uneven = collective == WEIR_COLL_ALLTOALLV; /* buffers have the same size on all
                                                           ranks */
        int in_place = bench_collective_in_place(collective, options->plan != NULL);
        size_t in =
            weirv_guard_bytes(uneven ? shape.bytes : shape.send_elements * element_bytes, shift);
        size_t out = weirv_guard_bytes(
            uneven || in_place ? shape.bytes : shape.recv_elements * element_bytes, shift);
        *in_bytes = in > *in_bytes ? in : *in_bytes;
        *out_bytes = out > *out_bytes ? out : *out_bytes;
    }
}

/* Adds a pool for the copies of --cold. */
static void add_pool(const bench_job *job, bench_buffer *buffer)
{
    buffer->first_bytes = (buffer->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (job->gpu) {
        bench_gpu_info gpu;
        bench_gpu_describe(job->gpu, &gpu);
        buffer->pool_bytes = bench_cache_gpu_pool_bytes(gpu.cache_bytes, buffer->first_bytes);
    } else {
        buffer->pool_bytes = bench_cache_pool_bytes(job->local_nranks, buffer->first_bytes);
    }
    buffer->bytes = buffer->first_bytes + buffer->pool_bytes;
}

/* Sets the sizes of a buffer that holds room_bytes. */
static void size_buffer(const bench_job *job, const bench_options *options, size_t room_bytes,
                        bench_buffer *buffer)
{
    buffer->room_bytes = room_bytes;
    buffer->bytes = room_bytes + (size_t)SPARE_PAGES * PAGE_BYTES;
    if (options->cold)
        add_pool(job, buffer);
}

bench_need bench_buffers_need(const bench_job *job, const bench_options *options,
                              weir_collective collective, const bench_dist *dist, size_t bytes)
{
    const size_t most = SIZE_MAX / 64; /* beyond it, sums could overflow */
    bench_buffer in = {.base = NULL}, out = in;
    size_t in_bytes, out_bytes;
    if (bytes > most)
        return (bench_need){most, job->gpu ? most : 0};
    needed_bytes(job, options, collective, dist, bytes, &in_bytes, &out_bytes);
    size_buffer(job, options, in_bytes, &in);
    size_buffer(job, options, out_bytes, &out);
    bench_need need = {in.bytes + out.bytes, 0};
    if (job->gpu) /* the host has a copy of the GPU's buffers; a vendor's library may add its own */
        need.gpu_bytes = need.host_bytes * (options->npeers ? 2 : 1);
    if (options->determinism)
        need.host_bytes += out_bytes;
    if (options->inject)
        need.host_bytes += out_bytes;
    return need;
}

/* Allocates unregistered memory: of the process, or of the device. */
static weir_status allocate_plain(bench_job *job, size_t bytes, void **operands)
{
    if (job->gpu)
        return bench_gpu_alloc(job->gpu, bytes, operands);
    if (posix_memalign(operands, PAGE_BYTES, bytes) == 0)
        return WEIR_OK;
    return bench_job_note(job, WEIR_ERR_NO_MEMORY,
                          "no memory for a buffer of %zu bytes; give a smaller -e", bytes);
}

static weir_status allocate(bench_job *job, int plain, bench_buffer *buffer, void **operands)
{
    weir_status status = WEIR_OK;
    if (plain)
        status = allocate_plain(job, buffer->bytes, operands);
    else
        status = weir_mem_alloc(job->comm, buffer->bytes, &buffer->mem);
    if (buffer->mem)
        *operands = weir_mem_pointer(buffer->mem);
    buffer->base = *operands;
    if (job->gpu) {
        buffer->base = NULL;
        if (status == WEIR_OK)
            status = bench_gpu_mirror_alloc(job->gpu, buffer->bytes, &buffer->base);
    }
    return bench_job_agree(job, status, "buffers");
}

/* Declares that offsets in the buffer are the same on every rank: layouts and sizes are. */
static weir_status promise_symmetry(bench_job *job, bench_buffer *buffer)
{
    if (!job->gpu || !buffer->mem)
        return WEIR_OK;
    return bench_job_agree(job, weir_mem_symmetric(buffer->mem), "symmetric buffers");
}

static weir_status register_buffer(bench_job *job, int level, bench_buffer *buffer, void *operands)
{
    weir_status status = weir_mem_register(job->comm, operands, buffer->bytes, &buffer->registered);
    status = bench_job_agree(job, status, "registration");
    if (status != WEIR_OK || level < 2)
        return status;
    buffer->peers = calloc((size_t)job->group_nranks, sizeof *buffer->peers);
    if (!buffer->peers)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for handles");
    status = bench_job_agree(job, status, "handles");
    if (status != WEIR_OK)
        return status;
    status = weir_mem_exchange(job->comm, buffer->registered, buffer->peers);
    return bench_job_agree(job, status, "exchange of handles");
}

weir_status bench_buffers_open(bench_job *job, const bench_options *options,
                               weir_collective collective, const bench_dist *dist,
                               bench_buffers *buffers)
{
    int plain = options->buffers == BENCH_BUFFERS_PLAIN;
    bench_buffer *both[] = {&buffers->in, &buffers->out};
    void **operands[] = {&buffers->operands.in, &buffers->operands.out};
    memset(buffers, 0, sizeof *buffers);
    buffers->gpu = job->gpu;
    size_t room_bytes[2]; /* sizes only grow, so the last one decides */
    needed_bytes(job, options, collective, dist, bench_sizes_last(options), &room_bytes[0],
                 &room_bytes[1]);
    for (int i = 0; i < 2; i++) {
        size_buffer(job, options, room_bytes[i], both[i]);
        weir_status status = allocate(job, plain, both[i], operands[i]);
        if (status == WEIR_OK)
            status = promise_symmetry(job, both[i]);
        if (status == WEIR_OK && options->registration)
            status = register_buffer(job, options->registration, both[i], *operands[i]);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static void free_buffer(const bench_job *job, bench_buffer *buffer, void *operands)
{
    for (int peer = 0; buffer->peers && peer < job->group_nranks; peer++)
        if (peer != job->group_rank)
            weir_mem_free(buffer->peers[peer]);
    free(buffer->peers);
    weir_mem_free(buffer->registered);
    if (job->gpu && buffer->base)
        bench_gpu_mirror_free(job->gpu, buffer->base);
    if (buffer->mem)
        weir_mem_free(buffer->mem);
    else if (job->gpu && operands)
        bench_gpu_free(job->gpu, operands);
    else
        free(operands);
}

void bench_buffers_close(bench_job *job, bench_buffers *buffers)
{
    bench_job_barrier(job);
    free_buffer(job, &buffers->in, buffers->operands.in);
    free_buffer(job, &buffers->out, buffers->operands.out);
    memset(buffers, 0, sizeof *buffers);
}

/* The start of the part of the buffer that a round uses. */
static void *place_of(const bench_buffer *buffer, int round, uint64_t side)
{
    uint64_t page = weirv_mix64((uint64_t)round << 1 | side) % SPARE_PAGES;
    return (char *)buffer->base + (round ? page * PAGE_BYTES : 0);
}

int bench_buffers_hold(const bench_buffers *buffers, const bench_shape *shape, size_t element_bytes,
                       size_t unalign_elements, int has_in_place)
{
    size_t shift = unalign_elements * element_bytes;
    size_t in = shape->send_elements * element_bytes;
    size_t out = has_in_place ? shape->bytes : shape->recv_elements * element_bytes;
    return weirv_guard_bytes(in, shift) <= buffers->in.room_bytes &&
           weirv_guard_bytes(out, shift) <= buffers->out.room_bytes;
}

void bench_buffers_place(const bench_buffers *buffers, const bench_shape *shape,
                         size_t element_bytes, size_t unalign_elements, int rank, int in_place,
                         int round, bench_layout *layout)
{
    size_t shift = unalign_elements * element_bytes;
    void *in = place_of(&buffers->in, round, 0), *out = place_of(&buffers->out, round, 1);
    memset(layout, 0, sizeof *layout);
    if (!in_place) {
        layout->in =
            weirv_guard_place(&layout->guards[0], in, shape->send_elements * element_bytes, shift);
        layout->out =
            weirv_guard_place(&layout->guards[1], out, shape->recv_elements * element_bytes, shift);
        layout->nguards = 2;
        return;
    }
    char *user = weirv_guard_place(&layout->guards[0], out, shape->bytes, shift);
    layout->nguards = 1;
    layout->whole = user;
    layout->whole_bytes = shape->bytes;
    layout->in = user + shape->send_stride_elements * element_bytes * (size_t)rank;
    layout->out = user + shape->recv_stride_elements * element_bytes * (size_t)rank;
}

void *bench_buffers_at(const bench_buffers *buffers, const bench_operands *operands,
                       const void *address)
{
    /* The buffer that an address in host memory belongs to. */
    uintptr_t at = (uintptr_t)address - (uintptr_t)buffers->in.base;
    const bench_buffer *buffer = at < buffers->in.bytes ? &buffers->in : &buffers->out;
    char *base = buffer == &buffers->in ? operands->in : operands->out;
    return base + ((const char *)address - (const char *)buffer->base);
}

void *bench_buffers_mirror(const bench_buffers *buffers, const bench_operands *operands,
                           const void *address)
{
    uintptr_t at = (uintptr_t)address - (uintptr_t)operands->in;
    if (at < buffers->in.bytes)
        return (char *)buffers->in.base + at;
    return (char *)buffers->out.base + ((const char *)address - (const char *)operands->out);
}

weir_status bench_buffers_push(const bench_buffers *buffers, const bench_operands *operands,
                               const void *address, size_t bytes)
{
    if (!buffers->gpu)
        return WEIR_OK;
    return bench_gpu_push(buffers->gpu, bench_buffers_at(buffers, operands, address), address,
                          bytes);
}

weir_status bench_buffers_pull(const bench_buffers *buffers, const bench_operands *operands,
                               void *address, size_t bytes)
{
    if (!buffers->gpu)
        return WEIR_OK;
    return bench_gpu_pull(buffers->gpu, address, bench_buffers_at(buffers, operands, address),
                          bytes);
}

weir_status bench_layout_push(const bench_buffers *buffers, const bench_operands *operands,
                              const bench_layout *layout)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < layout->nguards && status == WEIR_OK; i++)
        status = bench_buffers_push(buffers, operands, layout->guards[i].base,
                                    layout->guards[i].total_bytes);
    return status;
}

weir_status bench_layout_pull(const bench_buffers *buffers, const bench_operands *operands,
                              const bench_layout *layout)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < layout->nguards && status == WEIR_OK; i++)
        status = bench_buffers_pull(buffers, operands, layout->guards[i].base,
                                    layout->guards[i].total_bytes);
    return status;
}
