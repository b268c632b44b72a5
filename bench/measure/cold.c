/* Copies, their order, and the size of the cache that they must exceed. */
#include "bench/measure/cold.h"

#include "bench/measure/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 64, CACHES = 2 };

size_t bench_cold_cache_bytes(void)
{
    static const int levels[] = {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                                 _SC_LEVEL2_CACHE_SIZE};
    size_t told_kib = 0;
    /* The kernel knows one cache; sysconf may add those of a virtual machine up. */
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file && fscanf(file, "%zuK", &told_kib) != 1)
        told_kib = 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0] && !told_kib; i++) {
        long bytes = sysconf(levels[i]);
        if (bytes > 0)
            return (size_t)bytes;
    }
    return told_kib ? told_kib << 10 : (size_t)32 << 20;
}

/* Hardware threads at the last-level cache of the first one, from a list such
 * as 0-3,8; all where that cannot be read. */
static int threads_at_cache(int all)
{
    int count = 0, low = 0, high = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "r");
    if (!file)
        return all;
    while (fscanf(file, "%d", &low) == 1) {
        int next = fgetc(file);
        if (next == '-' && fscanf(file, "%d", &high) == 1) {
            count += high - low + 1;
            next = fgetc(file);
        } else {
            count++;
        }
        if (next != ',')
            break;
    }
    fclose(file);
    return count > 0 ? count : all;
}

int bench_cold_ranks_at_cache(int local_nranks, int sharing, int all)
{
    int caches = sharing > 0 && all > sharing ? all / sharing : 1;
    return (local_nranks + caches - 1) / caches;
}

size_t bench_cold_pool_bytes(int local_nranks, size_t largest)
{
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int ranks = bench_cold_ranks_at_cache(local_nranks, threads_at_cache(all), all);
    size_t share = CACHES * bench_cold_cache_bytes() / (size_t)(ranks > 0 ? ranks : 1);
    return share > largest ? share : largest;
}

size_t bench_cold_gpu_pool_bytes(size_t cache_bytes, size_t largest)
{
    return CACHES * cache_bytes > largest ? CACHES * cache_bytes : largest;
}

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

/* A step that meets all copies and leaves prefetchers behind. */
static size_t choose_step(size_t count)
{
    size_t step = (size_t)((double)count * 0.618);
    while (step > 1 && common_divisor(step, count) != 1)
        step--;
    return step ? step : 1;
}

/* Bytes of in and out in one copy. In place out is the whole buffer. */
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
    memset(rotation, 0, sizeof *rotation);
    copy_bytes(trial, &in_bytes, &out_bytes);
    if (!trial->options->cold || in_bytes + out_bytes == 0)
        return;
    rotation->in_stride_bytes = stride(in_bytes + shift);
    rotation->out_stride_bytes = stride(out_bytes + shift);
    size_t in_copies = in_bytes ? buffers->in.pool_bytes / rotation->in_stride_bytes : SIZE_MAX;
    size_t out_copies = out_bytes ? buffers->out.pool_bytes / rotation->out_stride_bytes : SIZE_MAX;
    rotation->count = in_copies < out_copies ? in_copies : out_copies;
    rotation->in = (char *)buffers->in.base + buffers->in.home_bytes + shift;
    rotation->out = (char *)buffers->out.base + buffers->out.home_bytes + shift;
    rotation->step = choose_step(rotation->count);
}

static void point_call(bench_trial *trial, const char *in, const char *out)
{
    trial->operation.call.in = bench_buffers_at(trial->buffers, trial->home, in);
    trial->operation.call.out = bench_buffers_at(trial->buffers, trial->home, out);
}

void bench_cold_home(bench_trial *trial)
{
    point_call(trial, trial->layout.in, trial->layout.out);
}

/* Brings all copies home. */
static weir_status push_copies(const bench_trial *trial)
{
    const bench_rotation *rotation = &trial->rotation;
    const bench_buffers *buffers = trial->buffers;
    weir_status status = WEIR_OK;
    if (!trial->in_place && rotation->count)
        status = bench_buffers_push(buffers, trial->home, rotation->in,
                                    rotation->count * rotation->in_stride_bytes);
    if (rotation->count && status == WEIR_OK)
        status = bench_buffers_push(buffers, trial->home, rotation->out,
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
