/*
 * weir_allreduce_quantized: a call is divided into chunks whose quantised data fit into staging
 * memory. Each chunk is quantised, exchanged by the communicator's own collectives, added, and
 * rounded to the caller's type:
 *
 *   2 ranks   quantise the chunk; allgather; add both packs into the output
 *   more      quantise, a pack for each rank's share; alltoall; add, and quantise the sums;
 *             allgather these; round them into the output
 *
 * Staging memory is registered:
 *
 *   packs of this rank | packs of all ranks | sums of this rank's share
 */
#include "coll/quantized.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

/* Elements of a chunk at most: on the host they stay in the caches; on GPUs three packs of a chunk
 * are 50 MiB. */
enum { CHUNK_ON_HOST = 1 << 16, CHUNK_ON_GPU = 1 << 24 };

/* A call, and the chunk that is under way. */
typedef struct quantized {
    weir_comm *comm;
    weiri_quantize_step shape; /* what all steps have in common */
    char *own, *all, *sums;    /* staging memory */
    uint64_t nranks;
    weir_stream stream;
} quantized;

const char *weir_quantization_name(weir_quantization format)
{
    static const char *const names[] = {"fp8", "int8"};
    return (unsigned)format < WEIR_QUANTIZATIONS ? names[format] : NULL;
}

/* The communicator whose GPU has the buffers: of several nodes, that of the GPUs of a node. */
static weir_comm *quantized_device(weir_comm *comm)
{
    return comm->gpu_comm ? comm->gpu_comm : comm;
}

/* Elements of each rank's share of a chunk: whole groups. */
static uint64_t quantized_part(uint64_t nranks, uint64_t count)
{
    const uint64_t parts = nranks == 2 ? 1 : nranks;
    return ((count + parts - 1) / parts + WEIR_QUANTIZED_GROUP - 1) / WEIR_QUANTIZED_GROUP *
           WEIR_QUANTIZED_GROUP;
}

/* Elements of a chunk: a multiple of groups of all ranks, so that groups begin where they would
 * without chunks. */
static uint64_t quantized_chunk(const weir_comm *comm)
{
    const uint64_t unit = (uint64_t)comm->nranks * WEIR_QUANTIZED_GROUP;
    const uint64_t most = (comm->gpu ? CHUNK_ON_GPU : CHUNK_ON_HOST) / unit * unit;
    return most ? most : unit;
}

/* Staging memory for chunks of any length: graphs that were captured use it for as long as the
 * communicator exists. Local. */
static weir_status quantized_stage(quantized *q, weiri_coll *coll)
{
    const uint64_t part = quantized_part(q->nranks, quantized_chunk(q->comm));
    const uint64_t pack = weiri_pack_bytes(part), all = q->nranks * pack;
    const uint64_t own = q->nranks == 2 ? pack : all;
    weir_comm *comm = q->comm;
    weir_status status = WEIR_OK;
    if (!coll->quantized && comm->gpu &&
        comm->gpu->ops->captures(quantized_device(comm), q->stream))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_allreduce_quantized: the communicator's first call cannot be "
                          "captured in a graph, because it allocates memory");
    if (!coll->quantized)
        status = weir_mem_alloc(comm, own + all + pack, &coll->quantized);
    if (status != WEIR_OK)
        return status;
    q->own = weir_mem_pointer(coll->quantized);
    q->all = q->own + own;
    q->sums = q->all + all;
    return WEIR_OK;
}

static weir_status quantized_step(const quantized *q, const weiri_quantize_step *step)
{
    if (!step->count)
        return WEIR_OK;
    if (q->comm->gpu)
        return weiri_quantize_gpu(quantized_device(q->comm), step, q->stream);
    weiri_quantize_host(step);
    return WEIR_OK;
}

/* The two steps that read or write a caller's buffer: a chunk into this rank's packs, and packs of
 * all ranks into a chunk. */
static weir_status quantized_take(const quantized *q, const char *in, uint64_t count)
{
    weiri_quantize_step step = q->shape;
    step.in = in;
    step.out = q->own;
    step.count = count;
    step.to_packs = 1;
    return quantized_step(q, &step);
}

static weir_status quantized_give(const quantized *q, char *out, uint64_t count)
{
    weiri_quantize_step step = q->shape;
    step.in = q->all;
    step.out = out;
    step.count = count;
    step.from_packs = 1;
    if (q->nranks == 2) {
        step.parts = 2;
    } else {
        step.parts = 1;
        step.divisor = 1;
    }
    return quantized_step(q, &step);
}

/* More than two ranks: exchanges the packs of shares, adds this rank's share, and gathers the
 * sums. */
static weir_status quantized_share(const quantized *q, uint64_t count)
{
    const uint64_t first = (uint64_t)q->comm->rank * q->shape.part;
    const uint64_t left = count > first ? count - first : 0;
    weiri_quantize_step step = q->shape;
    step.in = q->all;
    step.out = q->sums;
    step.count = left < step.part ? left : step.part;
    step.from_packs = step.to_packs = 1;
    step.parts = (int32_t)q->nranks;
    weir_status status =
        weir_alltoall(q->comm, q->own, q->all, q->shape.pack, WEIR_UINT8, q->stream);
    if (status == WEIR_OK)
        status = quantized_step(q, &step);
    if (status == WEIR_OK)
        status = weir_allgather(q->comm, q->sums, q->all, q->shape.pack, WEIR_UINT8, q->stream);
    return status;
}

static weir_status quantized_run_chunk(quantized *q, const char *in, char *out, uint64_t count)
{
    q->shape.part = quantized_part(q->nranks, count);
    q->shape.pack = weiri_pack_bytes(q->shape.part);
    weir_status status = quantized_take(q, in, count);
    if (status == WEIR_OK)
        status = q->nranks == 2
                     ? weir_allgather(q->comm, q->own, q->all, q->shape.pack, WEIR_UINT8, q->stream)
                     : quantized_share(q, count);
    return status == WEIR_OK ? quantized_give(q, out, count) : status;
}

static weir_status quantized_check(weir_dtype dtype, weir_op op, weir_quantization format)
{
    const char *name = weir_dtype_name(dtype);
    if (dtype != WEIR_BFLOAT16 && dtype != WEIR_HALF && dtype != WEIR_FLOAT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_quantized: data of type %s; supported are bfloat16, half "
                          "and float",
                          name ? name : "unknown");
    if (op != WEIR_SUM && op != WEIR_AVG)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_quantized: supported are the operations sum and avg");
    if (!weir_quantization_name(format))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_quantized: format %d; supported are fp8 and int8",
                          (int)format);
    return WEIR_OK;
}

/* Buffers of GPUs are checked here, as the exchanges see staging memory only. */
static weir_status quantized_check_buffers(weir_comm *comm, const void *in, const void *out,
                                           size_t bytes)
{
    if (!in || !out)
        return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_quantized: a buffer is NULL");
    if (in != out && weiri_buffers_may_overlap(in, out, bytes))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_quantized: in and out overlap; they may be equal");
    if (!comm->gpu)
        return WEIR_OK;
    const weir_comm *device = quantized_device(comm);
    const weir_status status = comm->gpu->ops->check_buffer(device, in, bytes);
    return status == WEIR_OK ? comm->gpu->ops->check_buffer(device, out, bytes) : status;
}

weir_status weir_allreduce_quantized(weir_comm *comm, const void *in, void *out, size_t count,
                                     weir_dtype dtype, weir_op op, weir_quantization format,
                                     weir_stream stream)
{
    weiri_coll *coll;
    weir_status status =
        comm ? quantized_check(dtype, op, format)
             : weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_quantized: comm is required");
    if (status != WEIR_OK)
        return status;
    if (comm->nranks == 1 || !count) /* with all checks of weir_allreduce */
        return weir_allreduce(comm, in, out, count, dtype, op, stream);
    const size_t element = weir_dtype_bytes(dtype);
    if (count > SIZE_MAX / 2 / element)
        return weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_quantized: count is too large");
    status = weiri_comm_admit(comm, "weir_allreduce_quantized");
    if (status == WEIR_OK && stream && !comm->gpu)
        status =
            weiri_fail(WEIR_ERR_INVALID, "weir_allreduce_quantized: host memory takes no stream");
    if (status == WEIR_OK)
        status = quantized_check_buffers(comm, in, out, count * element);
    if (status == WEIR_OK)
        status = weiri_coll_get(comm, &coll);
    if (status != WEIR_OK)
        return status;
    quantized q = {.comm = comm,
                   .shape = {.parts = 1,
                             .divisor = op == WEIR_AVG ? comm->nranks : 1,
                             .dtype = (int32_t)dtype,
                             .format = (int32_t)format},
                   .nranks = (uint64_t)comm->nranks,
                   .stream = stream};
    const uint64_t chunk = quantized_chunk(comm);
    status = quantized_stage(&q, coll);
    for (uint64_t at = 0; at < count && status == WEIR_OK; at += chunk)
        status =
            quantized_run_chunk(&q, (const char *)in + at * element, (char *)out + at * element,
                                count - at < chunk ? count - at : chunk);
    return status;
}
