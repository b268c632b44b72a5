/*
 * Copies as a peer of sendrecv: each message is one copy from the input into the receiver's mapped
 * output, on GPUs by a copy engine. The receiver allows it, and learns of its end, by weir's
 * sendrecv of one element.
 */
#include "bench/candidate/candidate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct copies_state {
    const bench_buffers *buffers;
    weir_mem **outputs; /* of each rank of the group; the rank's own is not owned */
    weir_mem *token;    /* two elements, sent and received */
} copies_state;

static const char *copies_refuses(bench_candidate *self, const bench_operation *operation)
{
    const copies_state *state = self->state;
    const int to = operation->call.destination;
    (void)self;
    if (operation->call.collective != WEIR_COLL_SENDRECV)
        return "it serves sendrecv only";
    return to >= 0 && !weir_mem_pointer(state->outputs[to]) ? "it needs ranks of one node" : NULL;
}

static weir_status copies_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return weir_comm_set_algo(self->job->comm, WEIR_COLL_SENDRECV, "auto");
}

/* Sends an element to a rank and receives one; -1: none. */
static weir_status copies_signal(const bench_candidate *self, int to, int from)
{
    const copies_state *state = self->state;
    char *token = weir_mem_pointer(state->token);
    return weir_sendrecv(self->job->comm, token, to >= 0, to, token + sizeof(float), from >= 0,
                         from, WEIR_FLOAT, self->operation->call.stream);
}

static weir_status copies_run(bench_candidate *self)
{
    const copies_state *state = self->state;
    const weir_call *call = &self->operation->call;
    const size_t bytes = call->count * weir_dtype_bytes(call->dtype);
    weir_status status = copies_signal(self, call->source, call->destination);
    if (status == WEIR_OK && call->destination >= 0 && bytes) {
        char *to = weir_mem_pointer(state->outputs[call->destination]);
        to += (char *)call->out - (char *)state->buffers->operands.out; /* as on every rank */
        if (self->job->gpu)
            status = bench_gpu_copy(self->job->gpu, to, call->in, bytes);
        else
            memcpy(to, call->in, bytes);
    }
    return status == WEIR_OK ? copies_signal(self, call->destination, call->source) : status;
}

static void copies_close(bench_candidate *self)
{
    copies_state *state = self->state;
    for (int rank = 0; state->outputs && rank < self->job->group_nranks; rank++)
        if (rank != self->job->group_rank)
            weir_mem_free(state->outputs[rank]);
    free(state->outputs);
    weir_mem_free(state->token);
    bench_candidate_free(self);
}

static const bench_candidate_ops copies_ops = {
    copies_refuses,      copies_prepare,         copies_run,
    bench_candidate_out, bench_candidate_forced, copies_close};

/* Everything but the exchange. Local. */
static weir_status copies_open_local(bench_job *job, const bench_buffers *buffers,
                                     bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    if (!buffers->out.mem)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--peer copies: it needs memory that peers map; leave --buffers "
                              "unregistered out");
    weir_status status = bench_candidate_create(job, &copies_ops, sizeof(copies_state), &self);
    if (status != WEIR_OK)
        return status;
    copies_state *state = self->state;
    *candidate = self;
    state->buffers = buffers;
    state->outputs = calloc((size_t)job->group_nranks, sizeof *state->outputs);
    if (!state->outputs)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for handles");
    return weir_mem_alloc(job->comm, 2 * sizeof(float), &state->token);
}

weir_status bench_candidate_copies_open(bench_job *job, const bench_buffers *buffers,
                                        bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_job_agree(job, copies_open_local(job, buffers, &self), "candidates");
    if (status == WEIR_OK)
        status = bench_job_agree(
            job,
            weir_mem_exchange(job->comm, buffers->out.mem, ((copies_state *)self->state)->outputs),
            "candidates");
    if (status != WEIR_OK) {
        if (self)
            copies_close(self);
        return status;
    }
    snprintf(self->name, sizeof self->name, "copies");
    self->peer = 1;
    *candidate = self;
    return WEIR_OK;
}
