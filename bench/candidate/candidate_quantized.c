/* weir_allreduce_quantized as a candidate (--wire): see quantized.h. */
#include "bench/candidate/quantized.h"

#include "bench/gpu/gpu.h"

#include <stdio.h>

static const char *quantized_refuses(bench_candidate *self, const bench_operation *operation)
{
    const weir_call *call = &operation->call;
    (void)self;
    if (operation->in_place)
        return "--wire needs two buffers";
    if (call->op != WEIR_SUM && call->op != WEIR_AVG)
        return "--wire adds up; give -o sum or avg";
    if (call->dtype != WEIR_BFLOAT16 && call->dtype != WEIR_HALF && call->dtype != WEIR_FLOAT)
        return "--wire takes bfloat16, half or float";
    return NULL;
}

static weir_status quantized_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

static weir_status quantized_run(bench_candidate *self)
{
    const weir_call *call = &self->operation->call;
    const bench_quantized *own = self->state;
    return weir_allreduce_quantized(self->job->comm, call->in, call->out, call->count, call->dtype,
                                    call->op, own->format, call->stream);
}

static const char *quantized_algo(bench_candidate *self)
{
    const bench_quantized *own = self->state;
    return weir_quantization_name(own->format);
}

static const bench_candidate_ops quantized_ops = {quantized_refuses, quantized_prepare,
                                                  quantized_run,     bench_candidate_out,
                                                  quantized_algo,    bench_candidate_free};

int bench_candidate_is_quantized(const bench_candidate *candidate)
{
    return candidate->ops == &quantized_ops;
}

weir_status bench_candidate_quantized_open(bench_job *job, const bench_options *options,
                                           bench_candidate **candidate)
{
    bench_candidate *self;
    const weir_status status =
        bench_candidate_create(job, &quantized_ops, sizeof(bench_quantized), &self);
    if (status != WEIR_OK)
        return status;
    bench_quantized *own = self->state;
    own->format = options->wire == BENCH_WIRE_FP8 ? WEIR_QUANTIZED_FP8 : WEIR_QUANTIZED_INT8;
    bench_candidate_name_weir(self);
    snprintf(self->name, sizeof self->name, "weir-%s", weir_quantization_name(own->format));
    *candidate = self;
    return WEIR_OK;
}
