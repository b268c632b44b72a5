/*
 * The built-in algorithms as algorithm objects. A launch derives the counts from the lengths of the
 * buffers and runs the collective with the object's row, for that call only.
 */
#include "algo/algo.h"

#include "base/contract.h"
#include "base/error.h"
#include "coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct builtin {
    const weiri_algo *row; /* NULL: "auto", selected by the tuning table */
} builtin;

/* -------------------------------------------------------- lengths and counts */

static weir_status builtin_refuse_lengths(const weir_comm *comm, const weir_call *call,
                                          const char *expected)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s of %d ranks with %zu bytes of input and %zu of output: expected %s, "
                      "whole elements of %zu bytes",
                      weir_collective_name(call->collective), comm->nranks, call->in_bytes,
                      call->out_bytes, expected, weir_dtype_bytes(call->dtype));
}

/* Whether whole = part * times, in whole elements. */
static int is_part_of(size_t element_bytes, size_t part, size_t whole, size_t times)
{
    return part % element_bytes == 0 && whole / times == part && whole % times == 0;
}

static int ends_within(size_t count, size_t displ, size_t elements)
{
    return !count || (displ <= elements && count <= elements - displ);
}

static weir_status builtin_check_splits(const weir_comm *comm, const weir_call *call)
{
    const weir_splits *s = call->splits;
    const size_t size = weir_dtype_bytes(call->dtype);
    if (call->device_splits)
        return WEIR_OK;
    if (!s || !s->send_counts || !s->send_displs || !s->recv_counts || !s->recv_displs)
        return weiri_fail(WEIR_ERR_INVALID,
                          "alltoallv: send_counts, send_displs, recv_counts and recv_displs are "
                          "required");
    for (int peer = 0; peer < comm->nranks; peer++)
        if (!ends_within(s->send_counts[peer], s->send_displs[peer], call->in_bytes / size) ||
            !ends_within(s->recv_counts[peer], s->recv_displs[peer], call->out_bytes / size))
            return weiri_fail(WEIR_ERR_INVALID,
                              "alltoallv: the block exchanged with rank %d extends past a buffer",
                              peer);
    return WEIR_OK;
}

/* Returns NULL if the lengths of a call belong together, else what was expected. */
static const char *builtin_expected_lengths(const weir_comm *comm, const weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t n = (size_t)comm->nranks, size = weir_dtype_bytes(call->dtype);
    size_t in = call->in_bytes, out = call->out_bytes;
    if (call->collective == WEIR_COLL_SENDRECV)
        return in % size || out % size ? "any lengths" : NULL;
    if (!weiri_contract_reads(contract, comm->rank, call->root))
        in = out;
    if (!weiri_contract_writes(contract, comm->rank, call->root))
        out = in;
    if (contract->in_has_blocks && contract->out_has_blocks)
        return in == out && in % (n * size) == 0 ? NULL : "the same length, a block for each rank";
    if (contract->in_has_blocks)
        return is_part_of(size, out, in, n) ? NULL : "input = ranks * output";
    if (contract->out_has_blocks)
        return is_part_of(size, in, out, n) ? NULL : "output = ranks * input";
    if (is_part_of(size, in, out, 1))
        return NULL;
    return contract->has_root ? "the same length on the root" : "the same length";
}

/* Whether count is derived from the output: the input is longer, or only the root has one. */
static int counts_output(const weiri_contract *contract)
{
    return contract->only_root_reads || (contract->in_has_blocks && !contract->out_has_blocks);
}

weir_status weiri_call_set_counts(const weir_comm *comm, weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t size = weir_dtype_bytes(call->dtype);
    call->recv_count = call->collective == WEIR_COLL_SENDRECV ? call->out_bytes / size : 0;
    if (call->collective == WEIR_COLL_ALLTOALLV) {
        call->count = 0;
        return builtin_check_splits(comm, call);
    }
    call->count = (counts_output(contract) ? call->out_bytes : call->in_bytes) / size;
    if (contract->in_has_blocks && contract->out_has_blocks)
        call->count /= (size_t)comm->nranks;
    const char *expected = builtin_expected_lengths(comm, call);
    return expected ? builtin_refuse_lengths(comm, call, expected) : WEIR_OK;
}

/* ---------------------------------------------------------------- execution */

/* The name by which a call selects the row, with its grid if it has one. */
static weir_status builtin_name(const weiri_algo *row, const weir_comm *comm, const weir_call *call,
                                char name[WEIR_ALGO_NAME_BYTES])
{
    const int blocks = call->blocks, threads = call->threads;
    if (row->info.backend != weir_comm_algo_backend(comm))
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "algorithm %s belongs to another backend",
                          row->info.name);
    if (!blocks != !threads)
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: give blocks and threads, or neither",
                          row->info.name);
    if (blocks && row->info.backend == WEIR_ALGO_CUDA)
        snprintf(name, WEIR_ALGO_NAME_BYTES, "%s:%dx%d", row->info.name, blocks, threads);
    else
        snprintf(name, WEIR_ALGO_NAME_BYTES, "%s", row->info.name);
    return WEIR_OK;
}

static weir_status builtin_launch(void *opaque, void *context, weir_comm *comm,
                                  const weir_call *given)
{
    const builtin *state = opaque;
    char name[WEIR_ALGO_NAME_BYTES];
    weir_call call = *given;
    (void)context;
    call.algo = NULL;
    call.algo_name = state->row ? name : NULL;
    weir_status status = weiri_call_set_counts(comm, &call);
    if (status == WEIR_OK && state->row)
        status = builtin_name(state->row, comm, &call, name);
    return status == WEIR_OK ? weir_run(comm, &call) : status;
}

static const weir_algo_ops builtin_ops = {.launch = builtin_launch, .destroy = free};

weir_status weiri_algo_builtin(weir_collective collective, int row, weir_algo **algo)
{
    size_t count = 0;
    const weir_algo_info *infos = weir_algo_list(&count);
    builtin *state = calloc(1, sizeof *state);
    if (!state)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an algorithm");
    state->row = row >= 0 ? weiri_algo_table[row] : NULL;
    weir_algo *made = NULL;
    weir_status status = weir_algo_create(row >= 0 ? infos[row].name : "auto", collective,
                                          &builtin_ops, state, &made);
    if (status != WEIR_OK) {
        free(state);
        return status;
    }
    made->is_builtin = 1;
    snprintf(made->summary, sizeof made->summary, "%s",
             row >= 0 ? infos[row].summary : "selected by the tuning table");
    *algo = made;
    return WEIR_OK;
}
