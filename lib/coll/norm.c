/*
 * weir_allreduce_norm: checks of a call, and its host implementation, which normalises what
 * weir_allreduce returns. The sums are in out if that has the room, else in a copy.
 */
#include "coll/norm.h"

#include "base/config.h"
#include "base/error.h"
#include "comm/gpu/gpu.h"
#include "compute/norm.h"

#include <stdlib.h>

#define NORM_SUPPORTED                                                                             \
    "supported are bfloat16, half and float, and rows of a multiple of 8 elements (128 for a "     \
    "scale per block) of at most 32768 bytes"

static weir_status norm_check_shape(const weir_norm_args *args)
{
    const size_t element = weir_dtype_bytes(args->dtype);
    const size_t unit = args->output == WEIR_NORM_FP8_BLOCK ? WEIR_NORM_BLOCK : 8;
    if ((unsigned)args->kind > WEIR_NORM_LAYER || (unsigned)args->output >= WEIR_NORM_OUTPUTS)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_norm: kind %d or output %d is none of weir/norm.h",
                          (int)args->kind, (int)args->output);
    if (args->dtype != WEIR_BFLOAT16 && args->dtype != WEIR_HALF && args->dtype != WEIR_FLOAT)
        return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: data of type %s; " NORM_SUPPORTED,
                          element ? weir_dtype_name(args->dtype) : "unknown");
    if (!args->hidden || args->hidden % unit || args->hidden > WEIR_NORM_ROW_BYTES_MAX / element)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_norm: rows of %zu %s elements; " NORM_SUPPORTED,
                          args->hidden, weir_dtype_name(args->dtype));
    if (args->rows > UINT32_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: %zu rows; at most 2^32 - 1",
                          args->rows);
    return args->epsilon >= 0
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: epsilon is %g; at least 0",
                            (double)args->epsilon);
}

/* A buffer of a call. */
typedef struct norm_buffer {
    const char *name;
    const void *at;
    size_t bytes;
    int is_written, is_required;
} norm_buffer;

enum { NORM_BUFFERS = 6 };

static void norm_list_buffers(const weir_norm_args *args, norm_buffer list[NORM_BUFFERS])
{
    const size_t element = weir_dtype_bytes(args->dtype), all = args->rows * args->hidden;
    const int is_fp8 = args->output != WEIR_NORM_PLAIN;
    const size_t scales = args->output == WEIR_NORM_FP8_TOKEN   ? args->rows
                          : args->output == WEIR_NORM_FP8_BLOCK ? all / WEIR_NORM_BLOCK
                                                                : 1;
    list[0] = (norm_buffer){"in", args->in, all * element, 0, 1};
    list[1] = (norm_buffer){"residual", args->residual, all * element, 1, 0};
    list[2] = (norm_buffer){"weight", args->weight, args->hidden * element, 0, 0};
    list[3] = (norm_buffer){"bias", args->bias, args->hidden * element, 0, 0};
    list[4] = (norm_buffer){"out", args->out, is_fp8 ? all : all * element, 1, 1};
    list[5] = (norm_buffer){"scales", args->scales, scales * sizeof(float),
                            is_fp8 && args->output != WEIR_NORM_FP8_TENSOR, is_fp8};
}

static int norm_overlap(const norm_buffer *a, const norm_buffer *b)
{
    const char *at = a->at, *other = b->at;
    return at && other && at < other + b->bytes && other < at + a->bytes;
}

static weir_status norm_check_buffers(const weir_norm_args *args, const norm_buffer *list)
{
    const int in_place = args->output == WEIR_NORM_PLAIN && args->in == args->out;
    for (int i = 0; i < NORM_BUFFERS; i++) {
        const int is_scales = i == NORM_BUFFERS - 1;
        if (!list[i].at && list[i].is_required)
            return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: %s is NULL", list[i].name);
        if ((uintptr_t)list[i].at % (is_scales ? sizeof(float) : 16))
            return weiri_fail(WEIR_ERR_INVALID,
                              "weir_allreduce_norm: %s is at %p; expected a multiple of %zu",
                              list[i].name, list[i].at, is_scales ? sizeof(float) : (size_t)16);
        for (int j = 0; j < i; j++)
            if ((list[i].is_written || list[j].is_written) && norm_overlap(&list[i], &list[j]) &&
                !(in_place && j == 0 && list[i].at == args->out))
                return weiri_fail(WEIR_ERR_INVALID,
                                  "weir_allreduce_norm: %s and %s overlap; only out may be in, if "
                                  "it is not quantised",
                                  list[j].name, list[i].name);
    }
    return args->bias && args->kind == WEIR_NORM_RMS
               ? weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: only LayerNorm has a bias")
               : WEIR_OK;
}

/* ---------------------------------------------------------------------- host */

/* Weights and bias as float, and one row. */
typedef struct norm_floats {
    float *row, *residual, *weight, *bias;
} norm_floats;

static norm_floats norm_floats_make(const weir_norm_args *args)
{
    const size_t n = args->hidden;
    norm_floats f = {malloc(4 * n * sizeof(float)), NULL, NULL, NULL};
    if (!f.row)
        return f;
    f.residual = f.row + n;
    f.weight = args->weight ? f.row + 2 * n : NULL;
    f.bias = args->bias ? f.row + 3 * n : NULL;
    if (f.weight)
        weiri_norm_host_load(args->dtype, args->weight, n, f.weight);
    if (f.bias)
        weiri_norm_host_load(args->dtype, args->bias, n, f.bias);
    return f;
}

/* Steps after the sum, row by row. */
static void norm_host_rows(const weir_norm_args *args, const char *sums, norm_floats f)
{
    const size_t row_bytes = args->hidden * weir_dtype_bytes(args->dtype);
    for (size_t row = 0; row < args->rows; row++) {
        char *residual = (char *)args->residual + row * row_bytes;
        weiri_norm_host_load(args->dtype, sums + row * row_bytes, args->hidden, f.row);
        if (args->residual) {
            weiri_norm_host_load(args->dtype, residual, args->hidden, f.residual);
            for (size_t i = 0; i < args->hidden; i++)
                f.row[i] += f.residual[i];
            weiri_norm_host_round(args->dtype, f.row, args->hidden, residual);
            weiri_norm_host_load(args->dtype, residual, args->hidden, f.row);
        }
        weiri_norm_host(args, f.row, f.weight, f.bias);
        weiri_norm_host_store(args, row, f.row);
    }
}

static weir_status norm_host_run(weir_comm *comm, const weir_norm_args *args)
{
    const size_t count = args->rows * args->hidden;
    const int copies = args->output != WEIR_NORM_PLAIN;
    char *sums = copies ? malloc(count * weir_dtype_bytes(args->dtype)) : args->out;
    norm_floats floats = norm_floats_make(args);
    weir_status status = WEIR_OK;
    if (!sums || !floats.row)
        status = weiri_fail(WEIR_ERR_NO_MEMORY,
                            "weir_allreduce_norm: no memory for %zu sums of %zu rows", count,
                            args->rows);
    if (status == WEIR_OK)
        status = weir_allreduce(comm, args->in, sums, count, args->dtype, WEIR_SUM, NULL);
    if (status == WEIR_OK)
        norm_host_rows(args, sums, floats);
    if (copies)
        free(sums);
    free(floats.row);
    return status;
}

weir_status weir_allreduce_norm(weir_comm *comm, const weir_norm_args *given)
{
    weir_norm_args args = WEIR_NORM_ARGS_INIT;
    norm_buffer list[NORM_BUFFERS];
    weiri_coll *coll;
    if (!given || !comm)
        return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_norm: comm and args are required");
    weir_status status = weiri_config_read("weir_norm_args", given, &args, sizeof args);
    if (status == WEIR_OK)
        status = weiri_comm_admit(comm, "weir_allreduce_norm");
    if (status == WEIR_OK)
        status = norm_check_shape(&args);
    if (status != WEIR_OK || !args.rows)
        return status;
    norm_list_buffers(&args, list);
    status = norm_check_buffers(&args, list);
    if (status != WEIR_OK)
        return status;
    if (!comm->gpu)
        return args.stream ? weiri_fail(WEIR_ERR_INVALID,
                                        "weir_allreduce_norm: host memory takes no stream")
                           : norm_host_run(comm, &args);
    if (comm->nnodes > 1)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_allreduce_norm: GPUs of %d nodes; supported are those of one",
                          comm->nnodes);
    for (int i = 0; i < NORM_BUFFERS && status == WEIR_OK; i++)
        if (list[i].at)
            status = comm->gpu->ops->check_buffer(comm, list[i].at, list[i].bytes);
    if (status == WEIR_OK)
        status = weiri_coll_get(comm, &coll);
    return status == WEIR_OK ? weiri_norm_gpu_run(coll, &args) : status;
}
