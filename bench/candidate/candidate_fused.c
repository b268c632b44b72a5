/* Candidates of --fuse: see fused.h. */
#include "bench/candidate/fused.h"

#include "bench/gpu/gpu.h"
#include "verify/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double bench_fused_residual(size_t element)
{
    return (double)(element % 13) / 4 - 1.5;
}

double bench_fused_weight(size_t element)
{
    return 1 + (double)(element % 7) / 8;
}

static bench_fused *fused_of(const bench_candidate *self)
{
    return self->state;
}

/* ------------------------------------------------------------------- memory */

static weir_status fused_alloc(bench_job *job, size_t bytes, void **memory)
{
    if (job->gpu)
        return bench_gpu_alloc(job->gpu, bytes, memory);
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *memory
               ? WEIR_OK
               : bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for --fuse (%zu bytes)", bytes);
}

static void fused_free(bench_job *job, void *memory)
{
    if (job->gpu && memory)
        bench_gpu_free(job->gpu, memory);
    else
        free(memory);
}

/* Fills memory with numbers of the type. */
static weir_status fused_fill(bench_job *job, char *to, size_t count, weir_dtype dtype,
                              double (*value)(size_t element))
{
    const size_t width = weir_dtype_bytes(dtype);
    char *host = malloc(count * width);
    if (!host)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for --fuse");
    for (size_t i = 0; i < count; i++)
        weirv_encode(dtype, value(i), host + i * width);
    weir_status status = WEIR_OK;
    if (job->gpu)
        status = bench_gpu_push(job->gpu, to, host, count * width);
    else
        memcpy(to, host, count * width);
    free(host);
    return status;
}

weir_status bench_fused_read(bench_candidate *self, void *to, const void *from, size_t bytes)
{
    if (self->job->gpu)
        return bench_gpu_pull(self->job->gpu, to, from, bytes);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

weir_status bench_fused_reset(bench_candidate *self)
{
    const bench_fused *f = fused_of(self);
    const weir_call *call = &self->operation->call;
    const size_t bytes = call->count * weir_dtype_bytes(call->dtype);
    if (self->job->gpu)
        return bench_gpu_copy(self->job->gpu, f->residual, f->first, bytes);
    memcpy(f->residual, f->first, bytes);
    return WEIR_OK;
}

/* ---------------------------------------------------------------------- ops */

static const char *fused_refuses(bench_candidate *self, const bench_operation *operation)
{
    const bench_options *options = fused_of(self)->options;
    bench_fused *f = fused_of(self);
    const weir_call *call = &operation->call;
    if (operation->in_place)
        return "--fuse needs two buffers";
    if (call->op != WEIR_SUM)
        return "--fuse adds up; give -o sum";
    if (call->count % (size_t)options->hidden)
        return "the size is not a multiple of a row (--hidden)";
    if (call->dtype != WEIR_BFLOAT16 && call->dtype != WEIR_HALF && call->dtype != WEIR_FLOAT)
        return "--fuse takes bfloat16, half or float";
    return f->inner ? f->inner->ops->refuses(f->inner, operation) : NULL;
}

static weir_status fused_prepare(bench_candidate *self, const bench_operation *operation)
{
    bench_fused *f = fused_of(self);
    self->operation = operation;
    f->operation = *operation;
    const weir_dtype dtype = operation->call.dtype;
    weir_status status =
        fused_fill(self->job, f->first, operation->call.count, dtype, bench_fused_residual);
    if (status == WEIR_OK)
        status = fused_fill(self->job, f->weight, (size_t)fused_of(self)->options->hidden, dtype,
                            bench_fused_weight);
    if (status == WEIR_OK)
        status = bench_fused_reset(self);
    if (status == WEIR_OK && self->job->gpu)
        status = bench_gpu_sync(self->job->gpu);
    return status == WEIR_OK && f->inner ? f->inner->ops->prepare(f->inner, &f->operation) : status;
}

static weir_status fused_run(bench_candidate *self)
{
    bench_fused *f = fused_of(self);
    const bench_options *options = fused_of(self)->options;
    const weir_call *call = &self->operation->call;
    weir_norm_args args = WEIR_NORM_ARGS_INIT;
    args.output = (weir_norm_output)(options->fuse == BENCH_FUSE_NORM ? WEIR_NORM_PLAIN
                                                                      : WEIR_NORM_FP8_TOKEN);
    args.dtype = call->dtype;
    args.in = f->inner ? f->sums : call->in;
    args.residual = f->residual;
    args.weight = f->weight;
    args.out = call->out;
    args.scales = options->fuse == BENCH_FUSE_NORM ? NULL : f->scales;
    args.hidden = (size_t)options->hidden;
    args.rows = call->count / args.hidden;
    args.epsilon = BENCH_FUSED_EPSILON;
    args.stream = call->stream;
    args.algo_name = *self->forced ? self->forced : NULL;
    weir_status status = WEIR_OK;
    if (f->inner) {
        f->operation.call.in = call->in;
        f->operation.call.out = f->sums;
        status = f->inner->ops->run(f->inner);
    }
    return status == WEIR_OK ? weir_allreduce_norm(f->inner ? f->alone : self->job->comm, &args)
                             : status;
}

static const char *fused_algo(bench_candidate *self)
{
    bench_fused *f = fused_of(self);
    return f->inner ? f->inner->ops->algo(f->inner) : *self->forced ? self->forced : "norm";
}

static void fused_close(bench_candidate *self)
{
    bench_fused *f = fused_of(self);
    char *memory[] = {f->weight, f->residual, f->first, f->registered ? NULL : f->sums,
                      (char *)f->scales};
    if (f->inner)
        f->inner->ops->close(f->inner);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        fused_free(self->job, memory[i]);
    weir_mem_free(f->registered);
    weir_comm_destroy(f->alone);
    bench_candidate_free(self);
}

static const bench_candidate_ops fused_ops = {fused_refuses,       fused_prepare, fused_run,
                                              bench_candidate_out, fused_algo,    fused_close};

/* -------------------------------------------------------------------- opening */

/* The sums of weir's allreduce are in memory like that of the run's buffers. */
static weir_status fused_alloc_sums(bench_job *job, const bench_options *options, bench_fused *f)
{
    if (!f->inner || f->inner->peer || options->buffers == BENCH_BUFFERS_PLAIN)
        return fused_alloc(job, f->bytes, (void **)&f->sums);
    const weir_status status = weir_mem_alloc(job->comm, f->bytes, &f->registered);
    if (status == WEIR_OK)
        f->sums = weir_mem_pointer(f->registered);
    return status;
}

static weir_status fused_alloc_all(bench_job *job, const bench_options *options, bench_fused *f)
{
    const size_t row = (size_t)options->hidden * 8;
    f->bytes = options->max_bytes;
    weir_status status = fused_alloc(job, row, (void **)&f->weight);
    if (status == WEIR_OK)
        status = fused_alloc(job, f->bytes, (void **)&f->residual);
    if (status == WEIR_OK)
        status = fused_alloc(job, f->bytes, (void **)&f->first);
    if (status == WEIR_OK)
        status = fused_alloc(job, f->bytes, (void **)&f->scales);
    return status == WEIR_OK ? fused_alloc_sums(job, options, f) : status;
}

static weir_status fused_alone(bench_job *job, bench_fused *f)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = weir_comm_backend(job->comm);
    config.device = weir_comm_device(job->comm);
    return weir_comm_split(job->comm, weir_comm_rank(job->comm), 0, &config, &f->alone);
}

weir_status bench_candidate_fused_open(bench_job *job, const bench_options *options,
                                       bench_candidate *inner, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &fused_ops, sizeof(bench_fused), &self);
    if (status == WEIR_OK) {
        fused_of(self)->inner = inner;
        fused_of(self)->options = options;
        status = fused_alloc_all(job, options, fused_of(self));
    }
    status = bench_job_agree(job, status, "--fuse");
    if (status == WEIR_OK && inner)
        status = fused_alone(job, fused_of(self));
    if (status != WEIR_OK) {
        if (self) {
            fused_of(self)->inner = NULL;
            fused_close(self);
        }
        return status;
    }
    bench_candidate_name_weir(self);
    if (inner) {
        snprintf(self->name, sizeof self->name, "%.50s+norm", inner->name);
        memcpy(self->transport, inner->transport, sizeof self->transport);
        memcpy(self->settings, inner->settings, sizeof self->settings);
        self->operands = inner->operands;
        self->has_threads = inner->has_threads;
        self->runs_weir = !inner->peer || inner->runs_weir;
        self->peer = 1; /* the ratios compare it with weir_allreduce_norm */
    }
    *candidate = self;
    return WEIR_OK;
}
