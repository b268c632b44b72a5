/*
 * The kernel of plans: each block executes its list of steps (image.h). It
 *
 *   1. loads the launch's epoch and its first page; if the plan needs it, the first block
 *      announces this rank's buffers to all peers,
 *   2. enters the launch in stream order (weiri_gpu_advance_epoch), waits for the peers'
 * announcements, and turns the operands of the page into addresses,
 *   3. executes steps until there are no more.
 *
 * All blocks of the grid must be resident, as they wait for each other and for peers.
 *
 * All threads read the same steps, from shared memory. A flag of each step says whether the block
 * synchronizes before it, so control flow never depends on data. Failed waits do not change it
 * either, except at the entry: without the peers' addresses a block ends.
 */
#ifndef WEIR_PLAN_CUDA_EXECUTE_CUH
#define WEIR_PLAN_CUDA_EXECUTE_CUH

#include "plan/cuda/kernels.h"
#include "plan/cuda/device/reduce.cuh"

/* Where a block is in its list. */
struct weiri_image_place {
    uint32_t page, step;
    uint64_t iteration, iterations, iteration_bytes; /* of the current loop */
};

/* The part of its line that a step handles in this iteration. */
template <int does>
WEIRI_GPU_FN void weiri_image_span(const weiri_image_step *step, const weiri_image_place &place,
                                   size_t *begin, size_t *end)
{
    *begin = step->begin;
    *end = step->end;
    if (!(does & WEIRI_IMAGE_DOES_OTHERS) || !(step->flags & WEIRI_IMAGE_IN_LOOP))
        return;
    const uint64_t left = *end - *begin, at = place.iteration * place.iteration_bytes;
    *begin += at < left ? at : left;
    if (*end - *begin > place.iteration_bytes)
        *end = *begin + place.iteration_bytes;
    if (*begin < step->run_begin)
        *begin = step->run_begin;
    if (*end > step->run_end)
        *end = step->run_end;
    if (*end < *begin)
        *end = *begin;
}

template <int dtype, int op, int does>
WEIRI_GPU_FN void weiri_image_reduce_by(const weiri_image_launch &run, const weiri_image_step *step,
                                        const weiri_image_operand *operands, bool packets,
                                        size_t begin, size_t end, uint64_t inverted)
{
    if (does & WEIRI_IMAGE_DOES_PACKET_REDUCES && packets)
        weiri_image_reduce_packets<dtype, op>(run, step->op, operands, step->nsrcs, step->ndsts,
                                              begin, end, step->data_end, inverted);
    else if (does & WEIRI_IMAGE_DOES_REDUCES)
        weiri_image_reduce<dtype, op>(operands, step->nsrcs, step->ndsts, begin, end, inverted);
}

template <int dtype, int does>
WEIRI_GPU_FN void
weiri_image_reduce_step(const weiri_image_launch &run, const weiri_image_step *step,
                        const weiri_image_operand *operands, bool packets, size_t begin, size_t end)
{
    if (!(does & WEIRI_IMAGE_DOES_OPS) || run.args->op == WEIR_SUM)
        weiri_image_reduce_by<dtype, WEIR_SUM, does>(run, step, operands, packets, begin, end, 0);
    else if (run.args->op == WEIR_PROD)
        weiri_image_reduce_by<dtype, WEIR_PROD, does>(run, step, operands, packets, begin, end, 0);
    else
        weiri_image_reduce_by<dtype, WEIR_MAX, does>(
            run, step, operands, packets, begin, end,
            weiri_gpu_inverted<dtype>(weiri_gpu_op_of<dtype>(*run.args)));
}

template <int does>
WEIRI_GPU_FN void weiri_image_copy_step(const weiri_image_launch &run, const weiri_image_step *step,
                                        const weiri_image_operand *operands, bool packets,
                                        size_t begin, size_t end)
{
    const bool from = step->flags & WEIRI_IMAGE_FROM_PACKETS;
    const bool to = step->flags & WEIRI_IMAGE_TO_PACKETS;
    if (!(does & WEIRI_IMAGE_DOES_PACKETS) || !packets)
        weiri_image_copy(operands, step->ndsts, begin, end);
    else if (from && to)
        weiri_image_copy_packets<true, true>(run, step->op, operands, step->ndsts, begin, end,
                                             step->data_end);
    else if (from)
        weiri_image_copy_packets<true, false>(run, step->op, operands, step->ndsts, begin, end,
                                              step->data_end);
    else
        weiri_image_copy_packets<false, true>(run, step->op, operands, step->ndsts, begin, end,
                                              step->data_end);
}

/* Puts through a port, by the first thread; packets are copied as they are. */
WEIRI_GPU_FN void weiri_image_port_step(const weiri_image_launch &run, const weiri_image_step *step,
                                        const weiri_image_operand *operands, size_t begin,
                                        size_t end)
{
    const int packets = (step->flags & WEIRI_IMAGE_FROM_PACKETS) != 0;
    if (threadIdx.x || begin >= end)
        return;
    weiri_image_port(run, step, weiri_image_ids(run.block)[step->nids],
                     (uintptr_t)operands[1].line + (begin << packets) - WEIRI_IMAGE_PORT_BASE,
                     (uintptr_t)operands[0].line + (begin << packets) - WEIRI_IMAGE_PORT_BASE,
                     (end - begin) << packets);
}

/* Executes a step with operands. */
template <int dtype, int does>
WEIRI_GPU_FN void weiri_image_move(const weiri_image_launch &run, const weiri_image_step *step,
                                   const weiri_image_place &place)
{
    const weiri_image_operand *operands = weiri_image_operands(run.block) + step->first;
    const bool packets = (does & (WEIRI_IMAGE_DOES_PACKETS | WEIRI_IMAGE_DOES_PACKET_REDUCES)) &&
                         (step->flags & (WEIRI_IMAGE_FROM_PACKETS | WEIRI_IMAGE_TO_PACKETS));
    size_t begin, end;
    weiri_image_span<does>(step, place, &begin, &end);
    if (!packets && end > step->data_end)
        end = step->data_end;
    if (begin >= end)
        return;
    if (step->kind == WEIRI_IMAGE_COPY)
        weiri_image_copy_step<does>(run, step, operands, packets, begin, end);
    else if (step->kind == WEIRI_IMAGE_REDUCE)
        weiri_image_reduce_step<dtype, does>(run, step, operands, packets, begin, end);
    else if (does & WEIRI_IMAGE_DOES_OTHERS)
        weiri_image_port_step(run, step, operands, begin, end);
}

/* Executes a synchronizing step. */
template <int does>
WEIRI_GPU_FN void weiri_image_order(const weiri_image_launch &run, const weiri_image_step *step)
{
    if (step->kind == WEIRI_IMAGE_SIGNAL)
        weiri_image_signal(run, step);
    else if (step->kind == WEIRI_IMAGE_WAIT)
        weiri_image_wait(run, step);
    else if (!(does & WEIRI_IMAGE_DOES_OTHERS))
        return;
    else if (step->kind == WEIRI_IMAGE_BARRIER)
        weiri_image_barrier(run, step);
    else if (step->kind == WEIRI_IMAGE_ACQUIRE)
        weiri_image_acquire(run, step);
    else if (step->kind == WEIRI_IMAGE_RELEASE)
        weiri_image_release(run, step);
    else
        weiri_image_port_ids(run, step);
}

WEIRI_GPU_FN void weiri_image_load_page(const weiri_image_launch &run, weiri_image_place *place,
                                        uint32_t page)
{
    __syncthreads();
    weiri_image_copy_page(run, page, 16 * threadIdx.x);
    __syncthreads();
    weiri_image_resolve(run);
    __syncthreads();
    place->page = page;
}

/* Advances to the next step. */
template <int does>
WEIRI_GPU_FN void weiri_image_advance(const weiri_image_launch &run, const weiri_image_step *step,
                                      weiri_image_place *place)
{
    place->step++;
    if (!(does & WEIRI_IMAGE_DOES_OTHERS))
        return;
    if (step->kind == WEIRI_IMAGE_LOOP) {
        place->iteration = 0;
        place->iterations = step->iterations;
        place->iteration_bytes = step->iteration_bytes;
    }
    if (step->kind != WEIRI_IMAGE_LOOP_END || ++place->iteration >= place->iterations)
        return;
    const uint32_t page = step->page;
    place->step = step->step;
    if (page != place->page)
        weiri_image_load_page(run, place, page);
}

/* Executes the block's steps, beginning with its first page, which is loaded. */
template <int dtype, int does> WEIRI_GPU_FN void weiri_image_run(const weiri_image_launch &run)
{
    weiri_image_place place = {blockIdx.x, 0, 0, 0, 0};
#pragma unroll 1
    for (;;) {
        const weiri_image_page *page = weiri_image_page_of(run.block);
        if (place.step == page->nsteps) {
            const uint32_t next = page->next;
            if (!next)
                return;
            weiri_image_load_page(run, &place, next);
            place.step = 0;
        }
        const weiri_image_step *step = weiri_image_steps(run.block) + place.step;
        if (step->flags & WEIRI_IMAGE_SYNC)
            __syncthreads();
        if (step->kind <= WEIRI_IMAGE_REDUCE || step->kind == WEIRI_IMAGE_PORT_PUT)
            weiri_image_move<dtype, does>(run, step, place);
        else if (does & (WEIRI_IMAGE_DOES_SIGNALS | WEIRI_IMAGE_DOES_OTHERS) &&
                 step->kind < WEIRI_IMAGE_LOOP)
            weiri_image_order<does>(run, step);
        weiri_image_advance<does>(run, step, &place);
    }
}

template <int dtype, int does>
static __global__ void __launch_bounds__(WEIRI_IMAGE_THREADS_MAX, 1)
    weiri_image_execute(const __grid_constant__ weiri_image_args args)
{
    WEIRI_GPU_SHARED(weiri_image_block, block);
    weiri_image_launch run = {&args, &block, 0, 0};
    const bool announces = does & WEIRI_IMAGE_DOES_ANNOUNCES && args.announces;
    if (!threadIdx.x)
        block.failed = 0;
    weiri_image_begin(&run);
    if (announces && !blockIdx.x)
        weiri_image_announce(run);
    weiri_gpu_advance_epoch(args.view, run.epoch);
    if (does & WEIRI_IMAGE_DOES_OTHERS && !blockIdx.x)
        weiri_image_reset_next(run);
    if (announces) {
        weiri_image_await_peers(run);
        if (__syncthreads_or(weiri_image_has_failed(run)))
            return;
    }
    weiri_image_resolve(run);
    __syncthreads();
    weiri_image_run<dtype, does>(run);
}

/* Chooses one of a type's kernels: for packets only, for what most other plans need, and for
 * everything. */
template <int dtype> static const void *weiri_image_kernel_for(uint32_t does)
{
    enum {
        PACKETS =
            WEIRI_IMAGE_DOES_COPIES | WEIRI_IMAGE_DOES_PACKETS | WEIRI_IMAGE_DOES_PACKET_REDUCES,
        DIRECT = WEIRI_IMAGE_DOES_COPIES | WEIRI_IMAGE_DOES_REDUCES | WEIRI_IMAGE_DOES_SIGNALS |
                 WEIRI_IMAGE_DOES_ANNOUNCES,
    };
#if !WEIR_FEW_KERNELS
    if (!(does & ~(uint32_t)PACKETS))
        return (const void *)&weiri_image_execute<dtype, PACKETS>;
    if (!(does & ~(uint32_t)DIRECT))
        return (const void *)&weiri_image_execute<dtype, DIRECT>;
#endif
    return (const void *)&weiri_image_execute<dtype, WEIRI_IMAGE_DOES_ALL>;
}

#endif
