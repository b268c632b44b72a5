/* The copies, and the order in which operations use them: see data.h. */
#include "bench/trial/data.h"

#include <stdint.h>
#include <string.h>

enum { LINE_BYTES = 64 };

static size_t stride(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Bytes of the input and the output in one copy. In place, out is the whole buffer. */
static void copy_bytes(const bench_trial *trial, size_t *in_bytes, size_t *out_bytes)
{
    const bench_shape *shape = &trial->row->shape;
    size_t element_bytes = weir_dtype_bytes(trial->row->dtype);
    *in_bytes = trial->in_place ? 0 : shape->send_elements * element_bytes;
    *out_bytes = trial->in_place ? shape->bytes : shape->recv_elements * element_bytes;
}

void bench_cold_place(bench_trial *trial)
{
    const bench_buffers *buffers = trial->buffers;
    bench_rotation *rotation = &trial->rotation;
    size_t in_bytes = 0, out_bytes = 0;
    size_t shift = (size_t)trial->options->unalign_elements * weir_dtype_bytes(trial->row->dtype);
    *rotation = (bench_rotation){.count = 0};
    copy_bytes(trial, &in_bytes, &out_bytes);
    if (!trial->options->cold || in_bytes + out_bytes == 0)
        return;
    rotation->in_stride_bytes = stride(in_bytes + shift);
    rotation->out_stride_bytes = stride(out_bytes + shift);
    size_t in_copies = in_bytes ? buffers->in.pool_bytes / rotation->in_stride_bytes : SIZE_MAX;
    size_t out_copies = out_bytes ? buffers->out.pool_bytes / rotation->out_stride_bytes : SIZE_MAX;
    rotation->count = in_copies < out_copies ? in_copies : out_copies;
    rotation->in = (char *)buffers->in.base + buffers->in.first_bytes + shift;
    rotation->out = (char *)buffers->out.base + buffers->out.first_bytes + shift;
    /* A step that reaches every copy, and that hardware prefetchers do not follow. */
    size_t step = (size_t)((double)rotation->count * 0.618);
    while (step > 1 && common_divisor(step, rotation->count) != 1)
        step--;
    rotation->step = step ? step : 1;
}

static void point_call(bench_trial *trial, const char *in, const char *out)
{
    trial->operation.call.in = bench_buffers_at(trial->buffers, trial->operands, in);
    trial->operation.call.out = bench_buffers_at(trial->buffers, trial->operands, out);
}

void bench_cold_reset(bench_trial *trial)
{
    point_call(trial, trial->layout.in, trial->layout.out);
}

/* Copies all copies to the device; does nothing on the host backend. */
static weir_status push_copies(const bench_trial *trial)
{
    const bench_rotation *rotation = &trial->rotation;
    const bench_buffers *buffers = trial->buffers;
    weir_status status = WEIR_OK;
    if (!trial->in_place && rotation->count)
        status = bench_buffers_push(buffers, trial->operands, rotation->in,
                                    rotation->count * rotation->in_stride_bytes);
    if (rotation->count && status == WEIR_OK)
        status = bench_buffers_push(buffers, trial->operands, rotation->out,
                                    rotation->count * rotation->out_stride_bytes);
    return status;
}

weir_status bench_cold_fill(bench_trial *trial)
{
    const bench_rotation *rotation = &trial->rotation;
    const bench_layout *layout = &trial->layout;
    size_t in_bytes = 0, out_bytes = 0, at = rotation->at;
    copy_bytes(trial, &in_bytes, &out_bytes);
    for (size_t i = 0; i < rotation->count; i++) {
        at = (at + rotation->step) % rotation->count;
        char *out = rotation->out + at * rotation->out_stride_bytes;
        if (trial->in_place) {
            memcpy(out, layout->whole, out_bytes);
            continue;
        }
        weirv_poison(out, out_bytes);
        memcpy(rotation->in + at * rotation->in_stride_bytes, layout->in, in_bytes);
    }
    return push_copies(trial);
}

void bench_cold_next(bench_trial *trial)
{
    bench_rotation *rotation = &trial->rotation;
    const bench_layout *layout = &trial->layout;
    if (rotation->count == 0)
        return;
    rotation->at += rotation->step;
    if (rotation->at >= rotation->count)
        rotation->at -= rotation->count;
    char *out = rotation->out + rotation->at * rotation->out_stride_bytes;
    if (trial->in_place) {
        point_call(trial, out + ((char *)layout->in - (char *)layout->whole),
                   out + ((char *)layout->out - (char *)layout->whole));
        return;
    }
    point_call(trial, rotation->in + rotation->at * rotation->in_stride_bytes, out);
}
