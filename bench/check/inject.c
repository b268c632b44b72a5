/* The faults, and the ranks that they affect: see checks.h. */
#include "bench/check/checks.h"

#include "base/contract.h"
#include "bench/trial/data.h"
#include "verify/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of an output. */
typedef struct region {
    size_t first, count;
} region;

/* The victim: a rank whose result is not just its own input. */
static int victim_of(const weirv_case *c)
{
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    if (contract->has_root)
        return contract->only_root_reads ? (c->root + 1) % c->nranks : c->root;
    int last = c->nranks - 1;
    while (c->collective == WEIR_COLL_SENDRECV && last > 0 && weirv_sendrecv_source(c, last) < 0)
        last--;
    return last;
}

/* The rank whose contribution is missing. */
static int missing_rank(const weirv_case *c)
{
    if (weiri_contract_of((int)c->collective)->only_root_reads)
        return c->root;
    if (c->collective == WEIR_COLL_SENDRECV)
        return weirv_sendrecv_source(c, victim_of(c));
    return (victim_of(c) + 1) % c->nranks;
}

int bench_inject_skips_call(bench_fault fault, const weirv_case *c)
{
    /* A rank that others must wait for: a root whose input is needed, or a rank whose contribution
     * is. */
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    int absent = contract->only_root_reads ? c->root
                 : contract->has_root      ? (c->root + 1) % c->nranks
                                           : c->nranks - 1;
    return fault == BENCH_FAULT_SKIP_SIGNAL && c->rank == absent;
}

/* The part of the output that holds element `at`: what came from one rank, or one rank's block. */
static region part_with(const weirv_case *c, size_t at)
{
    size_t all = weirv_recv_elements(c), share = all / (size_t)c->nranks;
    region part = {at, 0};
    if (at >= all)
        return part;
    if (c->collective == WEIR_COLL_ALLTOALLV) {
        for (int r = 0; r < c->nranks; r++)
            if (at - c->recv_displs[r] < c->recv_counts[r])
                part = (region){c->recv_displs[r], c->recv_counts[r]};
        return part;
    }
    share = share ? share : 1;
    part.first = at / share * share;
    part.count = part.first + share < all ? share : all - part.first;
    return part;
}

size_t bench_inject_place(const weirv_case *c)
{
    size_t share = weirv_recv_elements(c) / (size_t)c->nranks, place = 0;
    if (c->collective != WEIR_COLL_ALLTOALLV)
        return share * (size_t)((victim_of(c) + 1) % c->nranks);
    for (int r = 1; r < c->nranks; r++) /* the longest block */
        place = c->recv_counts[r] > c->recv_counts[place] ? (size_t)r : place;
    return c->recv_displs[place];
}

/* Leaves the elements as if the missing rank had sent nothing. */
static void leave_out(const weirv_case *c, region part, unsigned char *out)
{
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t i = 0; i < part.count;) {
        weirv_source source = weirv_source_of(c, part.first + i);
        size_t count = source.count < part.count - i ? source.count : part.count - i;
        unsigned char *place = out + (part.first + i) * width;
        if (source.origin == WEIRV_FROM_ALL)
            weirv_combine(c, source.index, count, missing_rank(c), WEIRV_NO_RANK, place);
        else
            weirv_before(c, part.first + i, count, place);
        i += count;
    }
}

/* Applies leave_out to everything that the missing rank contributes to. */
static void drop_rank(const weirv_case *c, unsigned char *out)
{
    size_t all = weirv_recv_elements(c);
    for (size_t at = 0; at < all;) {
        weirv_source source = weirv_source_of(c, at);
        size_t count = source.count < all - at ? source.count : all - at;
        if (source.origin == WEIRV_FROM_ALL ||
            (source.origin == WEIRV_FROM_RANK && source.rank == missing_rank(c)))
            leave_out(c, (region){at, count}, out);
        at += count;
    }
}

static void replay(const weirv_case *c, unsigned char *out)
{
    size_t width = weir_dtype_bytes(c->dtype), all = weirv_recv_elements(c);
    weirv_case before = *c;
    before.seed = c->seed - 1;
    for (size_t at = 0; at < all;) {
        if (weirv_source_of(c, at).origin == WEIRV_FROM_NOWHERE)
            at += weirv_source_of(c, at).count;
        else
            at += weirv_expected(&before, at, all - at, out + at * width);
    }
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Swaps the part with the next one, or the first. */
static void swap_parts(const weirv_case *c, region part, unsigned char *out)
{
    size_t width = weir_dtype_bytes(c->dtype), end = part.first + part.count;
    region next = part_with(c, end);
    if (next.count == 0)
        next = part_with(c, 0);
    size_t count = next.count < part.count ? next.count : part.count;
    if (next.first != part.first)
        swap_bytes(out + part.first * width, out + next.first * width, count * width);
}

static void round_wrongly(const weirv_case *c, region part, unsigned char *out)
{
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t i = part.first; i < part.first + part.count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, out + i * width, width);
        bits++;
        memcpy(out + i * width, &bits, width);
    }
}

/* Sets NaN or subnormal numbers of the part to 0. */
static void lose(bench_fault fault, const weirv_case *c, region part, unsigned char *out)
{
    const weirv_format *format = weirv_format_of(c->dtype);
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t i = part.first; format && i < part.first + part.count; i++) {
        double value, normal = ldexp(1.0, 1 - format->bias);
        weirv_decode(c->dtype, out + i * width, 1, &value);
        if (fault == BENCH_FAULT_LOSE_NAN ? isnan(value) : fabs(value) < normal)
            memset(out + i * width, 0, width);
    }
}

/* Reverses the bytes of each element. */
static void reverse_elements(const weirv_case *c, region part, unsigned char *out)
{
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t i = part.first; i < part.first + part.count; i++)
        for (size_t low = 0, high = width - 1; low < high; low++, high--)
            swap_bytes(out + i * width + low, out + i * width + high, 1);
}

static void change_output(bench_fault fault, const weirv_case *c, unsigned char *out, size_t at)
{
    region part = part_with(c, at);
    size_t width = weir_dtype_bytes(c->dtype);
    if (part.count == 0)
        return;
    switch (fault) {
    case BENCH_FAULT_FLIP_BIT:
        out[at * width + width / 2] ^= 0x20;
        break;
    case BENCH_FAULT_UNSTABLE_BIT:
    case BENCH_FAULT_RANK_BIT:
    case BENCH_FAULT_SIZE_BIT:
        out[at * width] ^= 1;
        break;
    case BENCH_FAULT_DROP_CHUNK:
        leave_out(c, part, out);
        break;
    case BENCH_FAULT_SWAP_CHUNKS:
        swap_parts(c, part, out);
        break;
    case BENCH_FAULT_BAD_ROUND:
        round_wrongly(c, part, out);
        break;
    case BENCH_FAULT_SWAP_BYTES:
        reverse_elements(c, part, out);
        break;
    case BENCH_FAULT_LOSE_NAN:
    case BENCH_FAULT_LOSE_SUBNORMAL:
        lose(fault, c, part, out);
        break;
    default:
        replay(c, out);
        break;
    }
}

/* 1 if the fault changed the output. */
static int change_seen(bench_fault fault, const weirv_case *c, unsigned char *out, size_t at)
{
    size_t bytes = weirv_recv_elements(c) * weir_dtype_bytes(c->dtype);
    unsigned char *before = malloc(bytes ? bytes : 1);
    if (!before)
        return 0;
    memcpy(before, out, bytes);
    if (fault == BENCH_FAULT_DROP_RANK)
        drop_rank(c, out);
    else
        change_output(fault, c, out, at);
    int seen = memcmp(before, out, bytes) != 0;
    free(before);
    return seen;
}

/* Changes what the call described by c left in out and layout; `at` selects the part of out.
 * Returns 1 if anything on this rank is different afterwards. */
static int inject_output(bench_fault fault, const weirv_case *c, const bench_layout *layout,
                         void *out, size_t at)
{
    if (fault == BENCH_FAULT_NONE || fault == BENCH_FAULT_SKIP_SIGNAL)
        return bench_inject_skips_call(fault, c);
    if (fault == BENCH_FAULT_DROP_RANK)
        return c->nranks > 1 && change_seen(fault, c, out, at);
    if (c->rank != victim_of(c))
        return 0;
    if (fault == BENCH_FAULT_OVERRUN) {
        const weirv_guard *guard = &layout->guards[layout->nguards - 1];
        ((unsigned char *)guard->user)[guard->user_bytes] ^= 0x55;
        return 1;
    }
    if (fault == BENCH_FAULT_MODIFY_INPUT) {
        size_t bytes = weirv_send_elements(c) * weir_dtype_bytes(c->dtype);
        if (c->in_place || bytes == 0)
            return 0;
        ((unsigned char *)layout->in)[bytes - 1] ^= 0x55;
        return 1;
    }
    int alone = c->nranks == 1 && fault == BENCH_FAULT_DROP_CHUNK;
    return !alone && change_seen(fault, c, out, at);
}

weir_status bench_inject_trial(bench_trial *trial, bench_candidate *candidate, bench_fault fault,
                               const weirv_case *c, size_t at)
{
    if (fault == BENCH_FAULT_NONE)
        return WEIR_OK;
    weir_status status = bench_trial_pull(trial, candidate);
    if (status != WEIR_OK)
        return status;
    void *out = bench_buffers_mirror(trial->buffers, trial->operands, trial->operation.call.out);
    trial->planted += inject_output(fault, c, &trial->layout, out, at);
    return bench_trial_push(trial);
}
