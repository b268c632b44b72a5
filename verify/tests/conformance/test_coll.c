/*
 * Proves that every algorithm of the host backend gives correct results for every collective, type,
 * operation, number of ranks, alignment, placement and kind of memory, and that it changes neither
 * the inputs nor the bytes around the outputs. Expected results are computed element by element.
 * Values are small integers, which every type holds exactly and whose sums are exact in any order,
 * so results are compared bit for bit. Invalid arguments, tuning files and absent ranks are tested,
 * too.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "verify/tests/support/cma.h"
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/long_part.h"
#include "verify/tests/support/small_numbers.h"
#include "verify/tests/support/xpmem_memory.h"

#include "base/error.h"
#include "coll/coll.h"
#include "coll/host/slot.h"
#include "compute/copy.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

enum { MARGIN_BYTES = 256, CANARY = 0xA5, COLL_LIMIT_MS = 120000, HALF_BYTES = 3 << 20 };

typedef struct test_rank {
    weir_comm *comm;
    int rank, nranks;
    unsigned char *memory; /* two halves: inputs and outputs */
} test_rank;

/* A buffer of bytes with margins, misaligned by skew. */
typedef struct buffer {
    unsigned char *base, *data;
    size_t bytes, total;
} buffer;

static int failures;

static void fail_rank(const test_rank *b, const char *what, const char *detail)
{
    if (failures++ < 3)
        fprintf(stderr, "# rank %d of %d: %s: %s\n", b->rank, b->nranks, what, detail);
}

static int check(const test_rank *b, weir_status status, const char *what)
{
    if (status != WEIR_OK)
        fail_rank(b, what, weir_last_error());
    return status == WEIR_OK;
}

static buffer buffer_make(const test_rank *b, int half, size_t bytes, size_t skew)
{
    buffer made = {.bytes = bytes, .total = bytes + 2 * MARGIN_BYTES + 64};
    made.base = b->memory + (half ? HALF_BYTES : 0);
    if (made.total > HALF_BYTES)
        exit(99);
    memset(made.base, CANARY, made.total);
    made.data = made.base + MARGIN_BYTES + skew;
    return made;
}

static int is_untouched(const unsigned char *from, const unsigned char *end)
{
    while (from < end && *from == CANARY)
        from++;
    return from == end;
}

/* Checks the margins. */
static void buffer_check(const test_rank *b, const buffer *made, const char *what)
{
    if (!is_untouched(made->base, made->data) ||
        !is_untouched(made->data + made->bytes, made->base + made->total))
        fail_rank(b, what, "a byte outside the buffer was written");
}

/* ------------------------------------------------------------- the inputs */

/* Element i of a rank's input as an integer that stays exact in the operation even in the narrowest
 * types. Wide types get values that differ from place to place. */
static unsigned input_value(weir_dtype dtype, weir_op op, int nranks, int rank, size_t i)
{
    unsigned u = (unsigned)i, r = (unsigned)rank;
    int wide = small_number_is_wide(dtype);
    switch (op) {
    case WEIR_SUM:
        return wide ? (u * 31 + r * 17) % 1009 : (u + u / 7 + r * 5) & 1;
    case WEIR_PROD:
        return u % (unsigned)nranks == r ? 1 + u % 3 : 1;
    case WEIR_AVG:
        return wide ? (u * 13) % 503 : u % 3;
    default:
        return (u * 5 + r * 3 + u / 11) % 8;
    }
}

/* The values of every rank repeat after so many elements. */
static size_t period_of(weir_dtype dtype, weir_op op, int nranks)
{
    int wide = small_number_is_wide(dtype);
    switch (op) {
    case WEIR_SUM:
        return wide ? 1009 : 14;
    case WEIR_PROD:
        return 3 * (size_t)nranks;
    case WEIR_AVG:
        return wide ? 503 : 3;
    default:
        return 88;
    }
}

static unsigned reduced_value(weir_dtype dtype, weir_op op, int nranks, size_t i)
{
    unsigned total = op == WEIR_PROD ? 1 : input_value(dtype, op, nranks, 0, i);
    for (int rank = op == WEIR_PROD ? 0 : 1; rank < nranks; rank++) {
        unsigned value = input_value(dtype, op, nranks, rank, i);
        if (op == WEIR_SUM || op == WEIR_AVG)
            total += value;
        else if (op == WEIR_PROD)
            total *= value;
        else if (op == WEIR_MAX ? value > total : value < total)
            total = value;
    }
    return op == WEIR_AVG ? total / (unsigned)nranks : total;
}

static void set_element(unsigned char *data, size_t i, weir_dtype dtype, unsigned value)
{
    small_number_encode(data + i * weir_dtype_bytes(dtype), dtype, value);
}

/* ------------------------------------------------------ one collective call */

typedef struct trial {
    weir_collective collective;
    const char *algo;
    weir_dtype dtype;
    weir_op op;
    size_t count;
    size_t skew; /* bytes of misalignment, in addition differing by rank */
    int in_place;
    int root;
} trial;

static const char *name_of(const trial *t)
{
    static char text[200];
    snprintf(text, sizeof text, "%s/%s %s %s count %zu skew %zu %s root %d",
             weir_collective_name(t->collective), t->algo, weir_dtype_name(t->dtype),
             weir_op_name(t->op), t->count, t->skew, t->in_place ? "in place" : "out of place",
             t->root);
    return text;
}

static int reduces(weir_collective collective)
{
    return collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_REDUCE_SCATTER ||
           collective == WEIR_COLL_REDUCE;
}

static size_t blocks_in(const trial *t, int nranks)
{
    return t->collective == WEIR_COLL_REDUCE_SCATTER || t->collective == WEIR_COLL_ALLTOALL
               ? (size_t)nranks
               : 1;
}

static size_t blocks_out(const trial *t, int nranks)
{
    return t->collective == WEIR_COLL_ALLGATHER || t->collective == WEIR_COLL_ALLTOALL
               ? (size_t)nranks
               : 1;
}

/* Element i of this rank's output as an integer. */
static unsigned expected_value(const test_rank *b, const trial *t, size_t i)
{
    int n = b->nranks;
    size_t block = t->count ? i / t->count : 0, within = t->count ? i % t->count : 0;
    switch (t->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        return reduced_value(t->dtype, t->op, n, (size_t)b->rank * t->count + i);
    case WEIR_COLL_ALLGATHER:
        return input_value(t->dtype, t->op, n, (int)block, within);
    case WEIR_COLL_BROADCAST:
        return input_value(t->dtype, t->op, n, t->root, i);
    case WEIR_COLL_ALLTOALL:
        return input_value(t->dtype, t->op, n, (int)block, (size_t)b->rank * t->count + within);
    case WEIR_COLL_SENDRECV:
        return input_value(t->dtype, t->op, n, (b->rank + n - 1) % n, i);
    default:
        return reduced_value(t->dtype, t->op, n, i);
    }
}

static weir_status call_collective(const test_rank *b, const trial *t, const void *in, void *out)
{
    weir_comm *c = b->comm;
    int n = b->nranks;
    switch (t->collective) {
    case WEIR_COLL_ALLREDUCE:
        return weir_allreduce(c, in, out, t->count, t->dtype, t->op, NULL);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(c, in, out, t->count, t->dtype, t->op, NULL);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(c, in, out, t->count, t->dtype, NULL);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(c, in, out, t->count, t->dtype, t->root, NULL);
    case WEIR_COLL_REDUCE:
        return weir_reduce(c, in, out, t->count, t->dtype, t->op, t->root, NULL);
    case WEIR_COLL_ALLTOALL:
        return weir_alltoall(c, in, out, t->count, t->dtype, NULL);
    default:
        return weir_sendrecv(c, in, t->count, (b->rank + 1) % n, out, t->count,
                             (b->rank + n - 1) % n, t->dtype, NULL);
    }
}

/* Whether this rank's output is defined, and whether its input is read. */
static int writes_out(const test_rank *b, const trial *t)
{
    return t->collective != WEIR_COLL_REDUCE || b->rank == t->root;
}

/* Where the input lies within the output's memory when in place. */
static size_t place_of(const test_rank *b, const trial *t)
{
    return t->collective == WEIR_COLL_ALLGATHER || t->collective == WEIR_COLL_REDUCE_SCATTER
               ? (size_t)b->rank * t->count
               : 0;
}

/* A trial's input and expected output. All algorithms have the same ones, so they are computed for
 * the first of them. */
static struct {
    test_rank of_rank;
    trial of;
    unsigned char input[HALF_BYTES], expected[HALF_BYTES];
} data;

/* Copies the first period of the data to the others. */
static void repeat(unsigned char *to, size_t bytes, size_t period_bytes)
{
    for (size_t done = period_bytes; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

static void compute_data(const test_rank *b, const trial *t)
{
    const trial *of = &data.of;
    if (memcmp(&data.of_rank, b, sizeof *b) == 0 && of->collective == t->collective &&
        of->dtype == t->dtype && of->op == t->op && of->count == t->count && of->root == t->root)
        return;
    data.of_rank = *b;
    data.of = *t;
    const size_t size = weir_dtype_bytes(t->dtype), period = period_of(t->dtype, t->op, b->nranks);
    const size_t in = t->count * blocks_in(t, b->nranks), blocks = blocks_out(t, b->nranks);
    for (size_t i = 0; i < in && i < period; i++)
        set_element(data.input, i, t->dtype, input_value(t->dtype, t->op, b->nranks, b->rank, i));
    repeat(data.input, in * size, period * size);
    for (size_t block = 0; writes_out(b, t) && block < blocks; block++) {
        const size_t first = block * t->count;
        for (size_t i = first; i < first + t->count && i < first + period; i++)
            set_element(data.expected, i, t->dtype, expected_value(b, t, i));
        repeat(data.expected + first * size, t->count * size, period * size);
    }
}

static void compare(const test_rank *b, const trial *t, const unsigned char *out)
{
    const unsigned char *expected = data.expected;
    size_t elements = t->count * blocks_out(t, b->nranks), size = weir_dtype_bytes(t->dtype);
    if (memcmp(out, expected, elements * size) == 0)
        return;
    size_t i = 0;
    while (memcmp(out + i * size, expected + i * size, size) == 0)
        i++;
    char detail[80];
    snprintf(detail, sizeof detail, "element %zu of %zu is wrong (expected %u), by %s", i, elements,
             expected_value(b, t, i), weir_comm_last_algo(b->comm));
    fail_rank(b, name_of(t), detail);
}

static void run_trial(const test_rank *b, const trial *t)
{
    size_t size = weir_dtype_bytes(t->dtype);
    size_t skew = t->skew ? (t->skew + (size_t)b->rank) % 13 : 0;
    size_t in_elements = t->count * blocks_in(t, b->nranks);
    size_t out_elements = t->count * blocks_out(t, b->nranks);
    size_t larger = in_elements > out_elements ? in_elements : out_elements;
    buffer in = buffer_make(b, 0, (t->in_place ? larger : in_elements) * size, skew);
    buffer out = buffer_make(b, 1, (t->in_place ? 0 : out_elements) * size, skew ? skew + 1 : 0);
    size_t place = t->in_place ? place_of(b, t) * size : 0;
    int gathers = t->collective == WEIR_COLL_ALLGATHER;
    unsigned char *input = in.data + (gathers ? place : 0);
    unsigned char *output = !t->in_place ? out.data : in.data + (gathers ? 0 : place);
    compute_data(b, t);
    memcpy(input, data.input, in_elements * size);
    if (check(b, weir_comm_set_algo(b->comm, t->collective, t->algo), "weir_comm_set_algo") &&
        check(b, call_collective(b, t, input, output), name_of(t)) && writes_out(b, t))
        compare(b, t, output);
    if (!t->in_place && memcmp(input, data.input, in_elements * size) != 0)
        fail_rank(b, name_of(t), "the input was changed");
    weir_comm_barrier(b->comm);
    buffer_check(b, &in, name_of(t));
    buffer_check(b, &out, name_of(t));
}

/* ------------------------------------------------------------- the matrices */

static int has_in_place(weir_collective collective)
{
    return collective != WEIR_COLL_ALLTOALL && collective != WEIR_COLL_SENDRECV;
}

/* The rows of other backends are not for this communicator. */
static int on_host(const weir_algo_info *info)
{
    return info->backend == WEIR_ALGO_HOST;
}

static void each_algo(const test_rank *b, trial t)
{
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (list[i].collective != t.collective || !on_host(&list[i]))
            continue;
        t.algo = list[i].name;
        for (t.in_place = 0; t.in_place <= has_in_place(t.collective); t.in_place++)
            run_trial(b, &t);
    }
    t.algo = "auto";
    t.in_place = 0;
    run_trial(b, &t);
}

/* All collectives over counts around every threshold and all alignments. */
static void sweep_counts(const test_rank *b)
{
    static const size_t counts[] = {0,  1,  2,   3,    7,    12,    13,   14,
                                    15, 63, 257, 2047, 2049, 33333, 70001};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (int c = 0; c < WEIR_COLL_COUNT; c++) {
            if (c == WEIR_COLL_ALLTOALLV)
                continue;
            each_algo(b, (trial){.collective = (weir_collective)c,
                                 .dtype = WEIR_INT32,
                                 .op = WEIR_SUM,
                                 .count = counts[k],
                                 .skew = k % 3 * 4,
                                 .root = (int)(k % (size_t)b->nranks)});
        }
}

/* Reductions over all types and operations, misaligned too. */
static void sweep_types(const test_rank *b)
{
    static const size_t counts[] = {1, 5, 131, 9001};
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEIR_OP_COUNT; op++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                for (int c = 0; c < WEIR_COLL_COUNT; c++)
                    if (reduces((weir_collective)c))
                        each_algo(b, (trial){.collective = (weir_collective)c,
                                             .dtype = (weir_dtype)dtype,
                                             .op = (weir_op)op,
                                             .count = counts[k],
                                             .skew = k % 2 ? 3 : 0,
                                             .root = b->nranks - 1});
}

/* A deterministic number that all ranks agree on. */
static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const weir_algo_info *random_algo(unsigned *state)
{
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows), *info;
    do
        info = &list[next_random(state) % rows];
    while (!on_host(info));
    return info;
}

/* Collectives in any order, with ranks that are late. */
static void mixed_sequence(const test_rank *b)
{
    unsigned shared = 12345, own = 99u + (unsigned)b->rank;
    for (int round = 0; round < 400 && !failures; round++) {
        const weir_algo_info *info = random_algo(&shared);
        trial t = {.collective = info->collective,
                   .algo = info->name,
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = next_random(&shared) % 3000,
                   .root = (int)(next_random(&shared) % (unsigned)b->nranks)};
        if (next_random(&shared) % 8 == 0)
            t.count = 40000 + next_random(&shared) % 40000;
        if (next_random(&own) % 16 == 0)
            usleep(next_random(&own) % 300);
        if (t.collective != WEIR_COLL_ALLTOALLV)
            run_trial(b, &t);
    }
}

/* Element i of a round's data from one rank to another; `to` is 0 in collectives that send the same
 * data to all ranks. */
static int round_value(int round, int from, int to, size_t i)
{
    return round * 7919 + from * 104729 + to * 1299709 + (int)i;
}

static int sends_blocks(weir_collective collective)
{
    return collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_REDUCE_SCATTER;
}

/* Element i of this rank's output in a round. */
static int round_expected(const test_rank *b, const trial *t, int round, size_t i)
{
    int from = (int)(i / t->count), within = (int)(i % t->count), sum = 0;
    switch (t->collective) {
    case WEIR_COLL_BROADCAST:
        return round_value(round, t->root, 0, i);
    case WEIR_COLL_SENDRECV:
        return round_value(round, (b->rank + b->nranks - 1) % b->nranks, 0, i);
    case WEIR_COLL_ALLGATHER:
        return round_value(round, from, 0, (size_t)within);
    case WEIR_COLL_ALLTOALL:
        return round_value(round, from, b->rank, (size_t)within);
    default:
        for (int rank = 0; rank < b->nranks; rank++)
            sum += round_value(round, rank, sends_blocks(t->collective) ? b->rank : 0, i);
        return sum;
    }
}

static trial random_trial(const test_rank *b, unsigned *shared)
{
    const weir_algo_info *info = random_algo(shared);
    trial t = {.collective = info->collective,
               .algo = info->name,
               .dtype = WEIR_INT32,
               .op = WEIR_SUM,
               .count = next_random(shared) % 3000 + 1,
               .root = (int)(next_random(shared) % (unsigned)b->nranks)};
    if (next_random(shared) % 3 == 0)
        t.count += 30000;
    return t;
}

/* No barrier and no allocation between calls: a rank may be one call ahead of another, and rewrites
 * its input as soon as a call returns. */
static void back_to_back(const test_rank *b)
{
    unsigned shared = 4711;
    int *in = (int *)(void *)b->memory, *out = (int *)(void *)(b->memory + HALF_BYTES);
    for (int round = 0; round < 400 && !failures; round++) {
        trial t = random_trial(b, &shared);
        int blocks = sends_blocks(t.collective) ? b->nranks : 1;
        if (t.collective == WEIR_COLL_ALLTOALLV)
            continue;
        for (int to = 0; to < blocks; to++)
            for (size_t i = 0; i < t.count; i++)
                in[(size_t)to * t.count + i] = round_value(round, b->rank, to, i);
        weir_comm_set_algo(b->comm, t.collective, t.algo);
        check(b, call_collective(b, &t, in, out), name_of(&t));
        memset(in, 0xEE, (size_t)blocks * t.count * sizeof *in);
        size_t elements = writes_out(b, &t) ? t.count * blocks_out(&t, b->nranks) : 0;
        for (size_t i = 0; i < elements; i++)
            if (out[i] != round_expected(b, &t, round, i)) {
                fail_rank(b, name_of(&t), "data of another call");
                break;
            }
    }
    weir_comm_barrier(b->comm);
}

/* Short messages in one direction while a receiver is late, more of them than a sender may be
 * ahead. */
static void bursts(const test_rank *b)
{
    int in[142], out[142];
    for (int round = 0; round < 500 && !failures; round++) {
        trial t = {.collective = round % 100 < 50 ? WEIR_COLL_BROADCAST : WEIR_COLL_REDUCE,
                   .algo = "packet",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = (size_t)(round * 7) % 142 + 1,
                   .root = round / 100 % b->nranks};
        if (round % 50 == 0 && b->rank == (t.root + round / 50) % b->nranks)
            usleep(3000);
        for (size_t i = 0; i < t.count; i++)
            in[i] = round_value(round, b->rank, 0, i);
        check(b, call_collective(b, &t, in, out), name_of(&t));
        for (size_t i = 0; writes_out(b, &t) && i < t.count; i++)
            if (out[i] != round_expected(b, &t, round, i))
                fail_rank(b, name_of(&t), "a message was overtaken");
    }
    weir_comm_barrier(b->comm);
}

/* Runs a call, with data that no call of another round has, and checks what this rank received. */
static void run_round(const test_rank *b, const trial *t, int round)
{
    int *in = (int *)(void *)b->memory, *out = (int *)(void *)(b->memory + HALF_BYTES);
    for (size_t i = 0; i < t->count; i++)
        in[i] = round_value(round, b->rank, 0, i);
    weir_comm_set_algo(b->comm, t->collective, t->algo);
    check(b, call_collective(b, t, in, out), name_of(t));
    for (size_t i = 0; writes_out(b, t) && i < t->count; i++)
        if (out[i] != round_expected(b, t, round, i)) {
            fail_rank(b, name_of(t), "data of a later call");
            return;
        }
}

/* Messages that use the parts of a slot in rotation, in one direction, more of them than a sender
 * may be ahead, while a rank is late. */
static void bursts_in_rotation(const test_rank *b)
{
    static const size_t counts[] = {150, 600, 1025, 4096, 20000};
    for (int round = 0; round < 1000 && !failures; round++) {
        int burst = round / 50;
        trial t = {.collective = burst % 2 ? WEIR_COLL_REDUCE : WEIR_COLL_BROADCAST,
                   .algo = burst % 4 == 3   ? "chain"
                           : burst % 4 == 2 ? "direct"
                                            : "packet",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = counts[burst / 4],
                   .root = burst % b->nranks};
        if (round % 50 == 25 && b->rank == (t.root + burst / 2) % b->nranks)
            usleep(3000);
        run_round(b, &t, round);
    }
    weir_comm_barrier(b->comm);
}

/* Reductions of one and of several pieces whose chunks ranks claim, with changing roots and late
 * ranks: ranks agree on what has been claimed. */
static void claimed_reductions(const test_rank *b)
{
    static const size_t counts[] = {20, 2000, 40000, 300001};
    for (int round = 0; round < 96 && !failures; round++) {
        trial t = {.collective = round % 3 ? WEIR_COLL_REDUCE : WEIR_COLL_ALLREDUCE,
                   .algo = round % 8 == 7 ? "packet2" : "dynamic",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = counts[round / 2 % 4],
                   .root = round / 5 % b->nranks};
        if (round % 6 < 2 && b->rank == round / 6 % b->nranks)
            usleep(1000);
        run_round(b, &t, round);
    }
    weir_comm_barrier(b->comm);
}

/* Messages of several lengths in turn, whose parts of a slot overlap, while a rank is late. */
static void lengths_in_rotation(const test_rank *b)
{
    static const size_t counts[] = {4000, 4000, 4000, 4000, 4000, 4000, 150, 401, 1025, 150, 401};
    for (int round = 0; round < 1100 && !failures; round++) {
        trial t = {.collective = round % 3 ? WEIR_COLL_BROADCAST : WEIR_COLL_REDUCE,
                   .algo = "packet",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = counts[round % 11]};
        if (round / 50 % 2)
            t.collective = WEIR_COLL_BROADCAST;
        if (round % 11 == 3 && b->rank == 1)
            usleep(300);
        run_round(b, &t, round);
    }
    weir_comm_barrier(b->comm);
}

/* A collective in which all ranks read a rank's slot ends the series of epochs in which that rank
 * may be ahead. */
static void end_of_a_series(const test_rank *b)
{
    trial t = {.collective = WEIR_COLL_BROADCAST,
               .algo = "packet",
               .dtype = WEIR_INT32,
               .op = WEIR_SUM,
               .count = 2000};
    run_round(b, &t, 1);
    const weiri_coll *coll = b->comm->coll;
    if (b->nranks > 1 && b->rank == t.root && !coll->ahead.part_bytes)
        fail_rank(b, name_of(&t), "no series has begun");
    t.collective = WEIR_COLL_ALLREDUCE;
    run_round(b, &t, 2);
    if (coll && coll->ahead.part_bytes)
        fail_rank(b, name_of(&t), "the series goes on");
}

/* Ranks whose memory the others cannot map publish that, and may then be ahead of a late root whose
 * memory they can map: as many calls as they keep descriptors. In the call after these their memory
 * can be mapped, too, so a descriptor that was overwritten too early would mislead the root. */
static void descriptors_ahead(const test_rank *b)
{
    enum { COUNT = 100, MAPPED = WEIRI_POSTS + 1 };
    int unmapped[COUNT];
    for (int round = 0; round < 40 * MAPPED && !failures; round++) {
        trial t = {.collective = WEIR_COLL_REDUCE,
                   .algo = "direct",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = COUNT,
                   .root = round / MAPPED / 10 % b->nranks};
        const int is_mapped = b->rank == t.root || round % MAPPED == MAPPED - 1;
        int *in = is_mapped ? (int *)(void *)b->memory : unmapped;
        int *out = (int *)(void *)(b->memory + HALF_BYTES);
        if (b->rank == t.root && round % MAPPED == 0)
            usleep(1000);
        for (size_t i = 0; i < COUNT; i++)
            in[i] = round_value(round, b->rank, 0, i);
        weir_comm_set_algo(b->comm, t.collective, t.algo);
        check(b, call_collective(b, &t, in, out), name_of(&t));
        for (size_t i = 0; writes_out(b, &t) && i < COUNT; i++)
            if (out[i] != round_expected(b, &t, round, i)) {
                fail_rank(b, name_of(&t), "data of another call");
                break;
            }
    }
    weir_comm_barrier(b->comm);
}

/* A reduction of several pieces follows a broadcast that one rank reads late. */
static void pieces_after_broadcast(const test_rank *b)
{
    for (int round = 0; round < 60 && !failures; round++) {
        trial t = {.collective = WEIR_COLL_BROADCAST,
                   .algo = "packet",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = 2000,
                   .root = round % b->nranks};
        if (round % 2 && b->rank == (t.root + 1) % b->nranks)
            usleep(2000);
        run_round(b, &t, 3 * round);
        t.collective = round % 3 ? WEIR_COLL_REDUCE : WEIR_COLL_ALLREDUCE;
        t.algo = round / 2 % 2 ? "packet2" : "dynamic";
        t.count = 20000;
        run_round(b, &t, 3 * round + 1);
    }
    weir_comm_barrier(b->comm);
}

/* ---------------------------------------------------------------- alltoallv */

/* Elements from one rank to another in a round: none, few, LL packets and streams. */
static size_t v_count(int from, int to, int round)
{
    unsigned mix = (unsigned)(from * 7 + to * 13 + round * 29);
    static const size_t sizes[] = {0, 1, 11, 12, 13, 300, 4096, 20000, 0, 45001};
    return sizes[mix % 10];
}

static int v_value(int from, int to, int round, size_t i)
{
    return from * 1000003 + to * 10007 + round * 101 + (int)i;
}

static void alltoallv_round(const test_rank *b, const char *algo, int round)
{
    enum { GAP = 3 }; /* elements between blocks that must stay unchanged */
    size_t counts[4][WEIR_DTYPE_COUNT + 64];
    size_t sent = 0, received = 0;
    for (int peer = 0; peer < b->nranks; peer++) {
        counts[0][peer] = v_count(b->rank, peer, round);
        counts[1][peer] = sent;
        counts[2][peer] = v_count(peer, b->rank, round);
        counts[3][peer] = received;
        sent += counts[0][peer];
        received += counts[2][peer] + GAP;
    }
    buffer in = buffer_make(b, 0, sent * sizeof(int), 0),
           out = buffer_make(b, 1, received * sizeof(int), 0);
    for (int peer = 0; peer < b->nranks; peer++)
        for (size_t i = 0; i < counts[0][peer]; i++)
            ((int *)(void *)in.data)[counts[1][peer] + i] = v_value(b->rank, peer, round, i);
    check(b, weir_comm_set_algo(b->comm, WEIR_COLL_ALLTOALLV, algo), "weir_comm_set_algo");
    check(b,
          weir_alltoallv(b->comm, in.data, counts[0], counts[1], out.data, counts[2], counts[3],
                         WEIR_INT32, NULL),
          "weir_alltoallv");
    for (int peer = 0; peer < b->nranks; peer++) {
        const int *block = (int *)(void *)out.data + counts[3][peer];
        int gap;
        memset(&gap, CANARY, sizeof gap);
        for (size_t i = 0; i < counts[2][peer] + GAP; i++)
            if (block[i] != (i < counts[2][peer] ? v_value(peer, b->rank, round, i) : gap)) {
                fail_rank(b, "weir_alltoallv", "wrong element");
                break;
            }
    }
    weir_comm_barrier(b->comm);
    buffer_check(b, &in, "weir_alltoallv");
    buffer_check(b, &out, "weir_alltoallv");
}

static void alltoallv_matrix(const test_rank *b)
{
    for (int round = 0; round < 12; round++) {
        alltoallv_round(b, "packet", round);
        alltoallv_round(b, "direct", round);
        alltoallv_round(b, "auto", round);
    }
}

/* Even ranks only send and odd ranks only receive. */
static void sendrecv_pairs(const test_rank *b)
{
    int value = 100 + b->rank, got = -1;
    for (int round = 0; round < 200; round++) {
        int to = b->rank % 2 == 0 && b->rank + 1 < b->nranks ? b->rank + 1 : -1;
        int from = b->rank % 2 == 1 ? b->rank - 1 : -1;
        check(b, weir_sendrecv(b->comm, &value, 1, to, &got, 1, from, WEIR_INT32, NULL),
              "weir_sendrecv");
        if (got != (from < 0 ? -1 : 100 + from))
            fail_rank(b, "weir_sendrecv", "wrong element");
    }
}

/* Messages of mixed and odd lengths in one direction and in both, at odd addresses, while a rank is
 * late: a sender that has not heard from its reader must wait for it. */
static void messages_in_rotation(const test_rank *b)
{
    static const size_t counts[] = {9, 300, 601, 1025, 1999, 4097, 17001};
    unsigned shared = 77;
    int n = b->nranks, to = (b->rank + 1) % n, from = (b->rank + n - 1) % n;
    for (int round = 0; n > 1 && round < 600 && !failures; round++) {
        unsigned senders = round / 20 % 3 ? ~0u : next_random(&shared) % 2 ? 0x55u : 0xaau;
        int *in = (int *)(void *)(b->memory + round % 5 * 4);
        int *out = (int *)(void *)(b->memory + HALF_BYTES);
        size_t count = counts[next_random(&shared) % 7] + (size_t)round % 3;
        int sends = (int)(senders >> b->rank % 8 & 1), receives = (int)(senders >> from % 8 & 1);
        for (size_t i = 0; i < count; i++)
            in[i] = round_value(round, b->rank, 0, i);
        if (round % 20 == 10 && b->rank == round / 20 % n)
            usleep(2000);
        check(b,
              weir_sendrecv(b->comm, in, sends ? count : 0, sends ? to : -1, out,
                            receives ? count : 0, receives ? from : -1, WEIR_INT32, NULL),
              "weir_sendrecv");
        for (size_t i = 0; receives && i < count && !failures; i++)
            if (out[i] != round_value(round, from, 0, i))
                fail_rank(b, "weir_sendrecv", "data of another message");
    }
    weir_comm_barrier(b->comm);
}

/* Empty exchanges need no buffers. */
static void nothing_at_all(const test_rank *b)
{
    size_t none[64] = {0};
    for (int round = 0; round < 50; round++)
        check(b, weir_alltoallv(b->comm, NULL, none, none, NULL, none, none, WEIR_DOUBLE, NULL),
              "weir_alltoallv of nothing");
    check(b, weir_sendrecv(b->comm, NULL, 0, -1, NULL, 0, -1, WEIR_INT8, NULL),
          "weir_sendrecv of nothing");
    check(b, weir_allreduce(b->comm, NULL, NULL, 0, WEIR_INT8, WEIR_SUM, NULL),
          "weir_allreduce of nothing");
}

static void few_counts(const test_rank *b)
{
    for (int c = 0; c < WEIR_COLL_COUNT; c++)
        if (c != WEIR_COLL_ALLTOALLV)
            each_algo(b, (trial){.collective = (weir_collective)c,
                                 .dtype = WEIR_FLOAT,
                                 .op = WEIR_SUM,
                                 .count = 3001,
                                 .root = b->nranks / 2});
    alltoallv_round(b, "packet", 3);
}

/* As if the buffers exceeded the last-level cache. */
static void stored_past_caches(const test_rank *b)
{
    few_counts(b); /* the first call makes the state */
    weiri_coll *coll = b->comm->coll;
    coll->streaming_from_bytes = 1;
    few_counts(b);
}

/* --------------------------------------------------------------- the runner */

typedef struct job {
    int nranks; /* 0: with 1, 2, 3, 5 and 8 ranks in turn, in a short run with those of brief */
    void (*body)(const test_rank *b);
    int unregistered; /* buffers from malloc instead of weir_mem_alloc: 1, of all ranks; 2, of every
                         other rank */
    int attached;     /* unregistered buffers that peers attach by XPMEM, or its stand-in */
    int numa;         /* rank r counts as bound to NUMA node r modulo numa; 0: as it is */
    forbids cma;      /* how the kernel's copies are forbidden */
    size_t scratch_bytes;
    int timeout_ms;
    int brief[3];  /* 0 ends the list, and at its beginning means 1, 2 and 5 */
    int long_only; /* not part of a short run */
} job;

/* Which algorithm serves a long call on unregistered memory shows whether the kernel copies. */
static void expect_algo(const test_rank *b, const char *name)
{
    size_t count = HALF_BYTES / (size_t)b->nranks;
    memset(b->memory, b->rank, count);
    if (!check(b,
               weir_allgather(b->comm, b->memory, (char *)b->memory + HALF_BYTES, count, WEIR_UINT8,
                              NULL),
               "weir_allgather"))
        return;
    for (int rank = 0; rank < b->nranks; rank++)
        if (((unsigned char *)b->memory)[HALF_BYTES + ((size_t)rank + 1) * count - 1] != rank)
            fail_rank(b, "a long allgather", "wrong data");
    if (strcmp(weir_comm_last_algo(b->comm), name) != 0)
        fail_rank(b, name, weir_comm_last_algo(b->comm));
}

/* Makes this rank's stores to peers look slow, or fast, until it has made many more copies. */
static void pretend_pace(int is_slow)
{
    for (int i = 0; i < 4; i++)
        weiri_copy_note_pace(64, is_slow ? 1000000 : 1);
}

/* Of two ranks with a core each on AMD's processors, one lends its memory only if its stores are
 * slow. */
static void copied_by_kernel(const test_rank *b)
{
    weiri_copy_assume_streams_to_peers(1);
    pretend_pace(1);
    expect_algo(b, system_allows_cma() ? "cma" : "packet");
}

/* On other processors it always lends it. */
static void copied_by_kernel_elsewhere(const test_rank *b)
{
    weiri_copy_assume_streams_to_peers(0);
    pretend_pace(0);
    expect_algo(b, system_allows_cma() ? "cma" : "packet");
}

static void copied_through_slots_by_all(const test_rank *b)
{
    weiri_copy_assume_streams_to_peers(1);
    pretend_pace(b->rank == 0);
    expect_algo(b, b->comm->oversubscribed && system_allows_cma() ? "cma" : "packet");
}

/* Whether the first count integers hold this rank's input of a round. */
static int is_input_of(const test_rank *b, const int *in, size_t count, int round)
{
    size_t i = 0;
    while (i < count && in[i] == round_value(round, b->rank, 0, i))
        i++;
    return i == count;
}

/* Runs a call with one late rank, which owns its buffers until it enters the call, and gets the
 * result complete; out of place and in place. */
static void late_round(const test_rank *b, const trial *t, int late, int round)
{
    int *in = (int *)(void *)b->memory, *out = (int *)(void *)(b->memory + HALF_BYTES);
    if (t->in_place)
        out = in;
    memset(out, CANARY, t->count * sizeof *out);
    for (size_t i = 0; i < t->count; i++)
        in[i] = round_value(round, b->rank, 0, i);
    weir_comm_barrier(b->comm);
    if (b->rank == late) {
        usleep(2000);
        if (!is_input_of(b, in, t->count, round) ||
            (!t->in_place &&
             !is_untouched((unsigned char *)out, (unsigned char *)(out + t->count))))
            fail_rank(b, name_of(t), "a buffer was written before its owner entered the call");
    }
    check(b, call_collective(b, t, in, out), name_of(t));
    /* The ends of the blocks that two ranks copy first: one may be on its way. */
    for (size_t step = 16384; writes_out(b, t) && step; step = step > 1)
        for (size_t i = step - 1; i < t->count; i += step)
            if (out[i] != round_expected(b, t, round, i)) {
                fail_rank(b, name_of(t), "the result is not complete");
                return;
            }
    if (!writes_out(b, t) && !is_input_of(b, in, t->count, round))
        fail_rank(b, name_of(t), "the input was changed");
}

/* Two ranks with a core each share the kernel's copy of a long broadcast, whose blocks they claim
 * from the same counter as a reduction its chunks. */
static void copied_by_both(const test_rank *b)
{
    static const size_t counts[] = {65535, 65536, 300001};
    for (int round = 0; round < 240 && !failures; round++) {
        trial t = {.collective = WEIR_COLL_BROADCAST,
                   .algo = "cma",
                   .dtype = WEIR_INT32,
                   .op = WEIR_SUM,
                   .count = counts[round / 2 % 3],
                   .in_place = round % 2,
                   .root = round / 6 % 2};
        const int late = round % 5 < 2 ? 1 - t.root : round / 3 % 2;
        weir_comm_set_algo(b->comm, t.collective, t.algo);
        const weiri_coll *coll = b->comm->coll;
        const uint64_t before = coll->claims[0] + coll->claims[1];
        late_round(b, &t, late, round);
        const int is_shared = coll->claims[0] + coll->claims[1] != before;
        if (is_shared !=
            (b->comm->reads_unregistered && !b->comm->oversubscribed && t.count >= counts[1]))
            fail_rank(b, name_of(&t), is_shared ? "the copy is shared" : "one rank copies alone");
        t = (trial){WEIR_COLL_REDUCE, "dynamic", WEIR_INT32, WEIR_SUM, .count = 70003};
        if (round % 3 == 0)
            run_round(b, &t, round);
    }
    weir_comm_barrier(b->comm);
}

static void copied_by_both_if_allowed(const test_rank *b)
{
    if (b->comm->reads_unregistered != system_allows_cma())
        fail_rank(b, "copies by the kernel", "the ranks disagree with the system");
    copied_by_both(b);
}

static void never_copied_by_both(const test_rank *b)
{
    if (b->comm->reads_unregistered)
        fail_rank(b, "copies by the kernel", "they are forbidden");
    copied_by_both(b);
}

static void check_parts(const test_rank *b, weiri_rotation rotation, uint64_t epoch, size_t bytes)
{
    const size_t at = weiri_rotate(rotation, epoch, bytes);
    const size_t next = weiri_rotate(rotation, epoch + 2, bytes);
    if (at % WEIR_LINE_BYTES || (at && at + bytes > rotation.room_bytes))
        fail_rank(b, "a part of a buffer", "not within it");
    if (bytes >= rotation.from_bytes && bytes <= rotation.room_bytes / 2 && at < next + bytes &&
        next < at + bytes)
        fail_rank(b, "parts of a buffer", "one is used twice in succession");
}

/* Epochs of one parity that follow each other use different parts of a buffer, all within it. */
static void parts_in_rotation(const test_rank *b)
{
    const size_t room = 65536;
    const weiri_rotation all = {WEIRI_ROTATED_BYTES, room, room}, few = {569, room, 8};
    for (size_t bytes = 1; bytes <= 2 * room; bytes += bytes < 4100 ? 1 : 4097)
        for (uint64_t epoch = 1; epoch < 200; epoch++) {
            check_parts(b, all, epoch, bytes);
            check_parts(b, few, epoch, bytes);
            if (weiri_rotate(few, epoch, bytes) != weiri_rotate(few, epoch + 16, bytes))
                fail_rank(b, "parts of a buffer", "more than 8 are used");
        }
    if (weiri_rotated_parts(all, 2049) != 16 || weiri_rotated_parts(few, 2049) != 8 ||
        weiri_rotated_parts(few, 16384) != 4 || weiri_rotated_parts(few, 568) != 1)
        fail_rank(b, "parts of a buffer", "their number");
    if (weiri_rotate(few, 2 * 8, 2048) != 0 || weiri_rotate(few, 2 * 7, 2048) != 7 * 2048)
        fail_rank(b, "parts of a buffer", "more or fewer are used than there may be");
}

/* Two ranks that trade store in an epoch where they have read two epochs before. */
static void ranks_trade(const test_rank *b)
{
    weiri_coll *made = NULL;
    if (weiri_coll_get(b->comm, &made) != WEIR_OK)
        fail_rank(b, "state of collectives", weir_last_error());
    if (made->trades != (!b->comm->oversubscribed && !weiri_copy_streams_to_peers()))
        fail_rank(b, "ranks that trade", "the wrong ones");
    weiri_coll coll = *made;
    coll.trades = 1;
    coll.is_one_way = 0;
    coll.message_rotation = (weiri_rotation){SIZE_MAX, 0, 1};
    const int self = b->rank, peer = 1 - self;
    for (uint64_t epoch = 2; epoch < 20; epoch++) {
        coll.is_one_way = 1;
        if (weiri_area_of(&coll, epoch, self) != &coll.areas[self])
            fail_rank(b, "ranks that trade", "one does where data flow in one direction");
        coll.is_one_way = 0;
        if (weiri_area_of(&coll, epoch, self) == weiri_area_of(&coll, epoch, peer))
            fail_rank(b, "ranks that trade", "both store in one area");
        coll.epoch = epoch;
        const weiri_slot *result = weiri_result_of(&coll, peer);
        coll.epoch = epoch + 2;
        if (weiri_slot_in(&coll, epoch + 2, self) != weiri_slot_in(&coll, epoch, peer) ||
            weiri_result_of(&coll, self) != result ||
            weiri_message_of(&coll, epoch + 2, self, peer) !=
                weiri_message_of(&coll, epoch, peer, self) ||
            weiri_coll_payload(&coll, epoch + 2, self, peer, 4096) !=
                weiri_coll_payload(&coll, epoch, peer, self, 4096))
            fail_rank(b, "ranks that trade", "one stores elsewhere than it has read");
    }
    if (weiri_part_place(&coll, 4096) != 0)
        fail_rank(b, "ranks that trade", "their parts have different places");
}

/* The algorithm that an allreduce by "numa" continues with. */
static void expect_numa(const test_rank *b, weir_dtype dtype, const char *name)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = WEIR_COLL_ALLREDUCE;
    call.in = call.out = b->memory;
    call.count = HALF_BYTES / weir_dtype_bytes(dtype);
    call.dtype = dtype;
    call.algo_name = "numa";
    memset(b->memory, 0, HALF_BYTES);
    if (check(b, weir_run(b->comm, &call), "weir_run") &&
        strcmp(weir_comm_last_algo(b->comm), name) != 0)
        fail_rank(b, name, weir_comm_last_algo(b->comm));
}

/* Ranks on two NUMA nodes, which alternate. */
static void on_two_numa_nodes(const test_rank *b)
{
    if (b->comm->ndomains != 2)
        fail_rank(b, "NUMA nodes", "their number");
    for (int rank = 0; rank < b->nranks; rank++)
        if (b->comm->domain_of[rank] != rank % 2)
            fail_rank(b, "NUMA nodes", "a rank's");
    expect_numa(b, WEIR_FLOAT, "numa");
    expect_numa(b, WEIR_HALF, "fused"); /* which would be rounded more than once */
}

static void numa_in_attached_memory(const test_rank *b)
{
    expect_numa(b, WEIR_FLOAT, "fused");
}

static void numa_in_unregistered_memory(const test_rank *b)
{
    expect_numa(b, WEIR_FLOAT, "packet2");
}

/* A single core has one NUMA node where Linux describes these; a set of cores of which one does not
 * exist has none. */
static void on_real_numa_nodes(const test_rank *b)
{
    cpu_set_t here;
    unsigned char mask[WEIRI_CORES_BYTES];
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    if (sched_setaffinity(0, sizeof here, &here) != 0)
        fail_rank(b, "a core", strerror(errno));
    weiri_host_own_cores(b->rank, mask);
    int has_sysfs = access("/sys/devices/system/node/node0/cpulist", R_OK) == 0;
    if ((weiri_host_numa(b->rank, mask) >= 0) != has_sysfs)
        fail_rank(b, "the NUMA node of a core", "not known");
    mask[WEIRI_CORES_BYTES - 1] |= 0x80;
    if (weiri_host_numa(b->rank, mask) != -1)
        fail_rank(b, "a core that does not exist", "it has a NUMA node");
}

static void copied_through_slots(const test_rank *b)
{
    expect_algo(b, "packet");
}

static void attached_by_peers(const test_rank *b)
{
    expect_algo(b, "direct");
}

static int run_job_rank(weir_boot *boot, void *argument)
{
    const job *j = argument;
    test_rank b = {.rank = weir_boot_rank(boot), .nranks = weir_boot_nranks(boot)};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.scratch_bytes = j->scratch_bytes;
    config.timeout_ms = j->timeout_ms;
    config.backend = WEIR_BACKEND_HOST;
    weiri_host_assume_numa(j->numa);
    weir_mem *shared = NULL;
    if (!forbid_cma(j->cma) || (j->attached && !xpmem_load()) ||
        (!j->attached && setenv("WEIR_XPMEM", "0", 1) != 0))
        return 97;
    if (!check(&b, weir_comm_create(boot, &config, &b.comm), "weir_comm_create") ||
        !check(&b, weir_mem_alloc(b.comm, 2 * HALF_BYTES, &shared), "weir_mem_alloc"))
        return 98;
    int is_unregistered = j->unregistered == 1 || (j->unregistered == 2 && b.rank % 2);
    void *unregistered = is_unregistered ? malloc(2 * HALF_BYTES) : NULL;
    b.memory = is_unregistered ? unregistered
               : j->attached   ? xpmem_memory(2 * HALF_BYTES)
                               : weir_mem_pointer(shared);
    if (!b.memory || (j->attached && b.nranks > 1 && !b.comm->xpmem))
        return 99;
    j->body(&b);
    free(unregistered);
    weir_mem_free(shared);
    weir_comm_destroy(b.comm);
    return failures ? 1 : 0;
}

/* Whether a short run includes the job with this number of ranks. */
static int is_brief(const job *j, int nranks)
{
    static const int usual[] = {1, 2, 5};
    const int *list = j->brief[0] ? j->brief : usual;
    return list[0] == nranks || list[1] == nranks || list[2] == nranks;
}

static void run_job(job j)
{
    static const int several[] = {1, 2, 3, 5, 8};
    if (j.nranks)
        run_ranks_within(COLL_LIMIT_MS, j.nranks, run_job_rank, &j);
    else
        for (size_t i = 0; i < sizeof several / sizeof *several; i++)
            if (is_long_run() || is_brief(&j, several[i]))
                run_ranks_within(COLL_LIMIT_MS, several[i], run_job_rank, &j);
}

/* Runs a list of jobs that ends with one without a body. */
static void test_jobs(void **state)
{
    for (const job *j = *state; j->body; j++)
        if (is_long_run() || !j->long_only)
            run_job(*j);
}

/* ------------------------------------------------------------------- faults */

static int refused(weir_status status, const char *word)
{
    return status == WEIR_ERR_INVALID && strstr(weir_last_error(), word);
}

/* The end of a message about an unknown name: the host algorithms of a collective (-1: of all),
 * each once, in the order of the table. */
static const char *known_algos(int collective)
{
    static char text[512];
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    snprintf(text, sizeof text, "known are auto");
    for (size_t i = 0; i < rows; i++) {
        int is_new = on_host(&list[i]) && (collective < 0 || (int)list[i].collective == collective);
        for (size_t j = 0; j < i && is_new; j++)
            is_new = !on_host(&list[j]) || strcmp(list[j].name, list[i].name) != 0 ||
                     (collective >= 0 && list[j].collective != list[i].collective);
        if (is_new)
            snprintf(text + strlen(text), sizeof text - strlen(text), ", %s", list[i].name);
    }
    return text;
}

/* Whether the last error ends with the names that known_algos lists. */
static int lists_known_algos(int collective)
{
    const char *known = known_algos(collective), *found = strstr(weir_last_error(), known);
    return found && !found[strlen(known)];
}

static void bad_arguments(const test_rank *b)
{
    int in[4] = {0}, out[4];
    int ok = refused(weir_allreduce(b->comm, NULL, out, 4, WEIR_INT32, WEIR_SUM, NULL), "NULL") &&
             refused(weir_allreduce(b->comm, in, out, 4, (weir_dtype)99, WEIR_SUM, NULL), "type") &&
             refused(weir_allreduce(b->comm, in, out, 4, WEIR_INT32, (weir_op)9, NULL), "oper") &&
             refused(weir_allreduce(b->comm, in, out, SIZE_MAX / 2, WEIR_INT32, WEIR_SUM, NULL),
                     "large") &&
             refused(weir_allreduce(b->comm, in, out, 4, WEIR_INT32, WEIR_SUM, in), "stream") &&
             refused(weir_broadcast(b->comm, in, out, 4, WEIR_INT32, b->nranks, NULL), "root") &&
             refused(weir_alltoall(b->comm, in, in, 1, WEIR_INT32, NULL), "same buffer") &&
             refused(weir_sendrecv(b->comm, in, 1, 77, out, 1, 0, WEIR_INT32, NULL), "outside") &&
             refused(weir_comm_set_algo(b->comm, WEIR_COLL_ALLGATHER, "fused"), "fused") &&
             lists_known_algos(WEIR_COLL_ALLGATHER) &&
             refused(weir_comm_set_algo(b->comm, WEIR_COLL_ALLGATHER, "packet:1x64"), "on GPUs");
    if (!ok)
        fail_rank(b, "bad arguments", weir_last_error());
}

static void unequal_counts(const test_rank *b)
{
    char in[512] = {0}, out[512];
    size_t four[2] = {4, 4}, displs[2] = {0, 200}, received[2] = {4, 4};
    received[0] += b->rank == 1; /* rank 1 expects 5 from rank 0 */
    weir_status status = weir_alltoallv(b->comm, in, four, displs, out,
                                        b->rank == 1 ? received : four, displs, WEIR_INT8, NULL);
    if (b->rank == 1 &&
        (status != WEIR_ERR_MISMATCH || !strstr(weir_last_error(), "rank 0 sends 4")))
        fail_rank(b, "unequal counts", weir_last_error());
}

static void absent_rank(const test_rank *b)
{
    float value = 1, sum = 0;
    if (b->rank == 1)
        usleep(600000); /* calls after the others' deadline */
    weir_status status = weir_allreduce(b->comm, &value, &sum, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    /* The deadline of one of the others passes first, and it aborts the rest. */
    if (b->rank != 1 && ((status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_ABORTED) ||
                         !strstr(weir_last_error(), "waiting for rank 1")))
        fail_rank(b, "absent rank", weir_last_error());
}

/* A file for WEIR_TUNING, and the error of the first collective. */
typedef struct tuning_file {
    const char *text;    /* NULL: a folder instead of a file */
    const char *problem; /* NULL: no error, and algorithm packet2 is used */
} tuning_file;

static tuning_file tuning;

static void with_tuning(const test_rank *b)
{
    char path[] = "/tmp/weir-tuning-XXXXXX";
    int fd = tuning.text ? mkstemp(path) : -1;
    if (tuning.text && (fd < 0 || write(fd, tuning.text, strlen(tuning.text)) < 0))
        exit(97);
    if (fd >= 0)
        close(fd);
    setenv("WEIR_TUNING", tuning.text ? path : "/tmp", 1);
    float value = 1, sum = 0;
    weir_status status = weir_allreduce(b->comm, &value, &sum, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    if (tuning.text)
        unlink(path);
    const char *algo = weir_comm_last_algo(b->comm);
    if (tuning.problem ? !refused(status, tuning.problem)
                       : status != WEIR_OK || strcmp(algo, "packet2"))
        fail_rank(b, tuning.text ? tuning.text : "a folder",
                  status == WEIR_OK ? algo : weir_last_error());
}

#define GOOD_ROW "allreduce 64 any - packet2"
#define BLANKS_60 "                                                            "
#define BLANKS_240 BLANKS_60 BLANKS_60 BLANKS_60 BLANKS_60

static void test_tuning_files(void **state)
{
    (void)state;
    static char many_rows[257 * sizeof GOOD_ROW + 1];
    for (size_t i = 0; i < 257; i++)
        memcpy(many_rows + i * sizeof GOOD_ROW, GOOD_ROW "\n", sizeof GOOD_ROW);
    char sizes[48 * 32] = "", plain_sizes[48 * 32] = "";
    for (int i = 1; i <= 48; i++) {
        snprintf(sizes + strlen(sizes), 32, "allreduce 64 any %d packet2\n", 8 * i);
        snprintf(plain_sizes + strlen(plain_sizes), 32, "allreduce 64 plain %d packet\n", 8 * i);
    }
    char broadcasts[512];
    snprintf(broadcasts, sizeof broadcasts, "%s", known_algos(WEIR_COLL_BROADCAST));
    const tuning_file files[] = {
        {"# good\nallreduce 64 any 1K packet2 # small\nallreduce 64 any - packet\n", NULL},
        {"# unknown collective\nallreduse 64 any - packet2\n", ":2: "},
        {"# unknown algorithm\nallreduce 64 any - rings\n", ":2: "},
        {"# the known ones\nbroadcast 64 any - rings\n", broadcasts},
        {"# unknown cores\nallreduce 64 some - packet2\n", ":2: "},
        {"allreduce 64 plain - fused\n", ":1: fused needs memory that peers can map"},
        {"allreduce 64 plain-shared 1K packet\nallreduce 64 any - packet2\n", NULL},
        {"# bad size\nallreduce 64 any 1X packet2\n", ":2: "},
        {"# negative size\nallreduce 64 any -5 packet2\n", ":2: "},
        {"# size beyond 64 bits\nallreduce 64 any 20000000000G packet2\n", ":2: "},
        {"# too short\nallreduce 64 any packet2\n", ":2: "},
        {"allreduce 64 cuda - packet 0x64\n", ":1: grid is '0x64'"},
        {"allreduce 64 cuda - packet 1x64\n" GOOD_ROW "\n", NULL},
        {"broadcast 2 any - packet\n" GOOD_ROW "\n", NULL},
        {many_rows, ": more than 256 rows"},
        {sizes, ":48: more than 47 rows of allreduce"},
        {plain_sizes, ":48: more than 47 rows of allreduce"},
        {NULL, "cannot read the tuning file /tmp: Is a directory"},
        {"# long " BLANKS_240 BLANKS_240 "allreduse 64 any - packet2\n" GOOD_ROW "\n", NULL},
        {GOOD_ROW " # " BLANKS_240 BLANKS_240 "remark", NULL},
        {GOOD_ROW " #\n# " BLANKS_240 BLANKS_240 "\nallreduse\n", ":3: "},
        {"\n" GOOD_ROW BLANKS_240 "word\n", ":2: expected text of at most 255 characters"},
        /* 255 characters and the end of the file. */
        {BLANKS_240 "   allreduce 64", ":1: expected 'coll"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tuning = files[i];
        run_job((job){.nranks = 2, .body = with_tuning});
    }
}

static void with_unknown_algo(const test_rank *b)
{
    setenv("WEIR_ALGO", "nope", 1);
    float value = 1, sum = 0;
    weir_status status = weir_allreduce(b->comm, &value, &sum, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    if (!refused(status, "WEIR_ALGO=nope") || !lists_known_algos(-1))
        fail_rank(b, "an unknown algorithm", weir_last_error());
}

#define JOBS(name, ...) AT(name, test_jobs, ((job[]){__VA_ARGS__, {.body = NULL}}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOBS("all counts in registered memory", {.body = sweep_counts, .brief = {3, 8}}),
        JOBS("all counts in unregistered memory", {.body = sweep_counts, .unregistered = 1}),
        JOBS("all types and operations", {.body = sweep_types, .brief = {1, 3}}),
        JOBS("all types and operations in unregistered memory",
             {4, .body = sweep_types, .unregistered = 1}),
        JOBS("collectives in any order", {.body = mixed_sequence, .brief = {2, 8}},
             {5, .body = mixed_sequence, .unregistered = 1}),
        JOBS("calls back to back", {.body = back_to_back, .brief = {2, 8}},
             {4, .body = back_to_back, .unregistered = 1}),
        JOBS("some ranks' memory registered", {3, .body = sweep_counts, .unregistered = 2},
             {4, .body = back_to_back, .unregistered = 2},
             {2, .body = mixed_sequence, .unregistered = 2}),
        JOBS("ranks on several NUMA nodes", {4, .body = sweep_counts, .numa = 2},
             {5, .body = sweep_counts, .numa = 3}, {5, .body = sweep_counts, .numa = 5},
             {4, .body = sweep_types, .numa = 2},
             {3, .body = sweep_types, .numa = 2, .long_only = 1},
             {5, .body = mixed_sequence, .numa = 2}, {4, .body = back_to_back, .numa = 2},
             {5, .body = claimed_reductions, .numa = 2, .long_only = 1},
             {3, .body = alltoallv_matrix, .numa = 2, .long_only = 1},
             {4, .body = bursts_in_rotation, .numa = 2, .long_only = 1},
             {33, .body = few_counts, .numa = 4}),
        JOBS("ranks on several NUMA nodes, unregistered memory",
             {4, .body = sweep_counts, .numa = 2, .unregistered = 1},
             {3, .body = mixed_sequence, .numa = 2, .unregistered = 2}),
        JOBS("what serves ranks on several NUMA nodes", {4, .body = on_two_numa_nodes, .numa = 2},
             {5, .body = on_two_numa_nodes, .numa = 2}, {2, .body = on_real_numa_nodes},
             {4, .body = numa_in_unregistered_memory, .numa = 2, .unregistered = 1}),
        JOBS("bursts of short messages", {.body = bursts}),
        JOBS("bursts of messages in rotation", {.body = bursts_in_rotation},
             {3, .body = bursts_in_rotation, .unregistered = 1, .scratch_bytes = 64 << 10},
             {2, .body = bursts_in_rotation, .unregistered = 1}, {3, .body = end_of_a_series},
             {3, .body = lengths_in_rotation}, {2, .body = lengths_in_rotation}),
        JOBS("descriptors of ranks that are ahead", {2, .body = descriptors_ahead},
             {3, .body = descriptors_ahead}),
        JOBS("a long reduction after a broadcast with a late reader",
             {3, .body = pieces_after_broadcast, .scratch_bytes = 64 << 10},
             {2, .body = pieces_after_broadcast, .scratch_bytes = 64 << 10}),
        JOBS("reductions whose chunks are claimed", {3, .body = claimed_reductions},
             {2, .body = claimed_reductions, .unregistered = 1},
             {5, .body = claimed_reductions, .scratch_bytes = 64 << 10}),
        JOBS("alltoallv", {.body = alltoallv_matrix},
             {.body = alltoallv_matrix, .unregistered = 1}),
        JOBS("sendrecv between pairs", {.body = sendrecv_pairs}),
        JOBS("messages of mixed lengths in rotation",
             {2, .body = messages_in_rotation, .unregistered = 1},
             {3, .body = messages_in_rotation, .unregistered = 1}),
        JOBS("empty exchanges", {.body = nothing_at_all}),
        JOBS("outputs that are stored past the caches",
             {3, .body = stored_past_caches, .unregistered = 1},
             {2, .body = stored_past_caches, .unregistered = 1}, {3, .body = stored_past_caches}),
        JOBS("64 and 33 ranks", {64, .body = few_counts, .long_only = 1},
             {33, .body = few_counts, .unregistered = 1}),
        JOBS("the least scratch memory",
             {3, .body = sweep_counts, .unregistered = 1, .scratch_bytes = 64 << 10}),
        JOBS("the kernel copies unregistered memory if it may",
             {2, .body = copied_by_kernel, .unregistered = 1},
             {2, .body = copied_by_kernel_elsewhere, .unregistered = 1},
             {2, .body = copied_through_slots_by_all, .unregistered = 1},
             {2, .body = parts_in_rotation}, {2, .body = ranks_trade},
             {2, .body = copied_through_slots, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM},
             {2, .body = copied_through_slots, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_USER}),
        JOBS("two ranks share the kernel's copy of a broadcast",
             {2, .body = copied_by_both_if_allowed, .unregistered = 1},
             {2, .body = never_copied_by_both, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM},
             {2, .body = never_copied_by_both, .unregistered = 1, .cma = CMA_FORBIDDEN_TO_WRITE},
             {2, .body = never_copied_by_both, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_USER,
              .long_only = 1}),
        JOBS("all counts in unregistered memory without copies by the kernel",
             {2, .body = sweep_counts, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM},
             {5, .body = mixed_sequence, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM},
             {3, .body = alltoallv_matrix, .unregistered = 1, .cma = CMA_FORBIDDEN_BY_USER}),
        JOBS("invalid arguments are rejected", {2, .body = bad_arguments}),
        JOBS("unequal counts are reported", {2, .body = unequal_counts}),
        JOBS("an absent rank is named at the deadline",
             {3, .body = absent_rank, .timeout_ms = 200}),
        AT("tuning files", test_tuning_files, NULL),
        JOBS("an unknown algorithm is rejected, and each known one named once",
             {2, .body = with_unknown_algo}),
        JOBS("long calls on unregistered memory that peers attach",
             {2, .body = attached_by_peers, .attached = 1},
             {3, .body = attached_by_peers, .attached = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM}),
        JOBS("all counts in attached memory", {.body = sweep_counts, .attached = 1},
             {3, .body = sweep_counts, .attached = 1, .cma = CMA_FORBIDDEN_BY_SYSTEM}),
        JOBS("all types and operations in attached memory",
             {4, .body = sweep_types, .attached = 1}),
        JOBS("calls in any order and back to back in attached memory",
             {5, .body = mixed_sequence, .attached = 1}, {4, .body = back_to_back, .attached = 1}),
        JOBS("messages between pairs in attached memory", {.body = alltoallv_matrix, .attached = 1},
             {3, .body = sendrecv_pairs, .attached = 1}),
        JOBS("ranks on several NUMA nodes, attached memory",
             {4, .body = sweep_counts, .numa = 2, .attached = 1},
             {4, .body = numa_in_attached_memory, .numa = 2, .attached = 1}),
        JOBS("64 and 33 ranks in attached memory",
             {64, .body = few_counts, .attached = 1, .long_only = 1},
             {33, .body = few_counts, .attached = 1}),
    };
    (void)long_part("2 or 3 of the 5 numbers of ranks (1, 2, 3, 5, 8) of each sweep, 64 ranks, "
                    "and some sweeps of ranks on several NUMA nodes");
    const size_t count = sizeof tests / sizeof *tests, attached = 7; /* the last ones */
    return RUN_SOME_TESTS("collectives", tests, xpmem_is_real() ? count - attached : 0, count);
}
