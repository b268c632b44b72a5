/*
 * Proves that an invariant communicator combines contributions in rank order, whatever the count,
 * the algorithm, the root, the memory and the nodes: every element is compared, bit by bit, with a
 * sum that this file computes rank by rank. Without the promise some algorithm has other bits, so
 * the comparison can fail. And that ranks that disagree, algorithms that add in another order and
 * wrong values are refused. Nodes are emulated as in test_internode.c.
 */
#define _GNU_SOURCE
#include "verify/tests/support/internode_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 70001, ROUNDS = 5 };
static const size_t counts[ROUNDS] = {1, 5, 333, 5000, MOST};
static const weir_collective reductions[] = {WEIR_COLL_ALLREDUCE, WEIR_COLL_REDUCE_SCATTER,
                                             WEIR_COLL_REDUCE};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

typedef struct state {
    weir_comm *comm;
    int rank, nranks, wrong;
    float *in, *out;
} state;

/* Values of different sizes and signs: sums depend on their order. */
static float element(int rank, size_t i)
{
    const uint32_t hash = ((uint32_t)i * 2654435761u) ^ ((uint32_t)rank * 2246822519u);
    return ((float)(hash >> 8) / 65536.0f - 128.0f) * (hash & 1 ? 1.0f : 0.001f);
}

static float in_rank_order(int nranks, size_t i)
{
    float sum = element(0, i);
    for (int rank = 1; rank < nranks; rank++)
        sum += element(rank, i);
    return sum;
}

/* Makes a call and counts the elements with other bits than in rank order. */
static weir_status compare_call(state *s, weir_call *call)
{
    const int scatters = call->collective == WEIR_COLL_REDUCE_SCATTER;
    const size_t inputs = scatters ? call->count * (size_t)s->nranks : call->count;
    const size_t first = scatters ? call->count * (size_t)s->rank : 0;
    for (size_t i = 0; i < inputs; i++)
        s->in[i] = element(s->rank, i);
    call->in = s->in;
    call->out = s->out;
    const weir_status status = weir_run(s->comm, call);
    if (status != WEIR_OK || (call->collective == WEIR_COLL_REDUCE && call->root != s->rank))
        return status;
    for (size_t i = 0; i < call->count; i++) {
        const float expected = in_rank_order(s->nranks, first + i);
        s->wrong += memcmp(&s->out[i], &expected, sizeof expected) != 0;
    }
    return WEIR_OK;
}

static void compare_sizes(state *s, weir_collective collective, const char *algo, int *failures)
{
    for (int i = 0; i < ROUNDS; i++) {
        weir_call call = WEIR_CALL_INIT;
        call.collective = collective;
        call.dtype = WEIR_FLOAT;
        call.op = WEIR_SUM;
        call.count = collective == WEIR_COLL_REDUCE_SCATTER ? counts[i] / 4 + 1 : counts[i];
        call.root = collective == WEIR_COLL_REDUCE ? i % s->nranks : 0;
        call.algo_name = algo;
        EXPECT_OK(failures, compare_call(s, &call));
    }
}

/* Every algorithm of this communicator: those in order agree with the sum, or are all refused. */
static void compare_algorithms(state *s, int *failures)
{
    size_t rows;
    const weir_algo_info *table = weir_algo_list(&rows);
    const int invariant = weir_comm_is_invariant(s->comm);
    for (size_t i = 0; i < rows; i++)
        for (int c = 0; c < REDUCTIONS; c++) {
            if (table[i].collective != reductions[c] ||
                table[i].backend != weir_comm_algo_backend(s->comm))
                continue;
            weir_call call = WEIR_CALL_INIT;
            call.collective = reductions[c];
            call.dtype = WEIR_FLOAT;
            call.count = 1;
            call.algo_name = table[i].name;
            if (invariant && table[i].in_order)
                EXPECT(failures, compare_call(s, &call) == WEIR_ERR_INVALID &&
                                     strstr(weir_last_error(), table[i].in_order));
            else if (!table[i].in_order)
                compare_sizes(s, reductions[c], table[i].name, failures);
        }
}

static weir_comm *open_invariant(weir_boot *boot, int invariant)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    weir_comm *comm = NULL;
    config.backend = WEIR_BACKEND_HOST;
    config.invariant = invariant;
    return weir_comm_create(boot, &config, &comm) == WEIR_OK ? comm : NULL;
}

static weir_status open_state(state *s, weir_comm *comm, weir_mem **memory, int registered)
{
    const size_t bytes = 2 * (MOST + 64) * 4 * sizeof(float);
    *s = (state){.comm = comm, .rank = weir_comm_rank(comm), .nranks = weir_comm_nranks(comm)};
    *memory = NULL;
    if (registered && weir_mem_alloc(comm, bytes, memory) != WEIR_OK)
        return WEIR_ERR_NO_MEMORY;
    s->in = registered ? weir_mem_pointer(*memory) : malloc(bytes);
    s->out = s->in ? s->in + (MOST + 64) * 4 : NULL;
    return s->in ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void compare_memory(weir_comm *comm, int registered, int *wrong, int *failures)
{
    state s;
    weir_mem *memory;
    EXPECT_OK(failures, open_state(&s, comm, &memory, registered));
    if (!s.in)
        return;
    for (int c = 0; c < REDUCTIONS; c++)
        compare_sizes(&s, reductions[c], NULL, failures);
    *wrong += s.wrong;
    s.wrong = 0;
    compare_algorithms(&s, failures);
    EXPECT(failures, s.wrong == 0);
    if (memory)
        weir_mem_free(memory);
    else
        free(s.in);
}

static int invariant_body(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0, wrong = 0;
    char name[2] = {where->nodes[weir_boot_rank(boot)], '\0'};
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "shm", 1);
    for (int invariant = 0; invariant < 2; invariant++) {
        weir_comm *comm = open_invariant(boot, invariant);
        if (!comm)
            return NO_COMM;
        wrong = 0;
        for (int registered = 0; registered < 2; registered++)
            compare_memory(comm, registered, &wrong, &failures);
        EXPECT(&failures, !invariant || wrong == 0);
        EXPECT(&failures, weir_comm_is_invariant(comm) == invariant);
        /* Between nodes some rank gets bits of another order if nothing is promised. */
        double others = wrong;
        EXPECT_OK(&failures,
                  weir_allreduce(comm, &others, &others, 1, WEIR_DOUBLE, WEIR_SUM, NULL));
        EXPECT(&failures, invariant || where->nnodes == 1 || others > 0);
        weir_comm_destroy(comm);
    }
    return failures;
}

static int refusals_body(weir_boot *boot, void *argument)
{
    const layout *where = argument;
    int failures = 0;
    char name[2] = {where->nodes[weir_boot_rank(boot)], '\0'};
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "shm", 1);
    EXPECT(&failures, !open_invariant(boot, weir_boot_rank(boot) == 1));
    EXPECT(&failures, strstr(weir_last_error(), "invariant differs") != NULL ||
                          strstr(weir_last_error(), "failed") != NULL);
    EXPECT(&failures, !open_invariant(boot, 2));
    setenv("WEIR_INVARIANT", "1", 1);
    weir_comm *comm = open_invariant(boot, 0);
    EXPECT(&failures, comm && weir_comm_is_invariant(comm));
    if (comm)
        weir_comm_destroy(comm);
    setenv("WEIR_INVARIANT", "yes", 1);
    EXPECT(&failures, !open_invariant(boot, 0));
    return failures;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_RANKS_TEST("4 ranks of one node", invariant_body, "aaaa", 1),
        LAYOUT_RANKS_TEST("5 ranks of one node", invariant_body, "aaaaa", 1),
        LAYOUT_RANKS_TEST("2 nodes, interleaved", invariant_body, "abab", 2),
        LAYOUT_RANKS_TEST("3 nodes of 2, 1 and 2 ranks", invariant_body, "aabcc", 3),
        LAYOUT_RANKS_TEST("refusals", refusals_body, "aab", 2),
    };
    return RUN_TESTS("invariant communicators", tests);
}
