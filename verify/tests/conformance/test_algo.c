/*
 * Proves that algorithm objects work through weir_algo_execute: built-in algorithms, kernels from
 * files, custom algorithms and plans; collections and their selector; and contexts, of which all
 * ranks must choose the same one whatever their keys are; and that the built-in table is complete.
 */
#define _GNU_SOURCE
#include "verify/tests/support/algo_files.h"
#include "verify/tests/support/net_shm.h"

#include "coll/tuning.h"
#include "comm/comm.h"
#include "plan/examples/examples.h"
#include <weir/algo.h>

static const char *example; /* the file */

/* A call without a stream, a grid or extras. */
static weir_status execute(weir_algo *algo, weir_comm *comm, const void *in, void *out,
                           size_t in_bytes, size_t out_bytes)
{
    return weir_algo_execute_args(algo, comm, in, out, in_bytes, out_bytes, WEIR_INT32, WEIR_SUM,
                                  NULL, NULL, 0, 0, NULL);
}

/* ----------------------------------------------------------------- built-ins */

enum { COUNT = 999, MOST = 4 };

static int32_t value_of(int rank, size_t i)
{
    return (int32_t)(i % 1000) * 10 + rank;
}

/* What a collective leaves at element i of rank's output, COUNT elements a block. */
static int32_t expected_of(weir_collective collective, int rank, int n, size_t i)
{
    const size_t block = i / COUNT, at = i % COUNT;
    int32_t sum = 0;
    switch (collective) {
    case WEIR_COLL_ALLGATHER:
        return value_of((int)block, at);
    case WEIR_COLL_BROADCAST:
        return value_of(1, at);
    case WEIR_COLL_ALLTOALL:
    case WEIR_COLL_ALLTOALLV:
        return value_of((int)block, (size_t)rank * COUNT + at);
    case WEIR_COLL_SENDRECV:
        return value_of((rank + n - 1) % n, at);
    default:
        for (int peer = 0; peer < n; peer++)
            sum += value_of(peer,
                            collective == WEIR_COLL_REDUCE_SCATTER ? (size_t)rank * COUNT + i : i);
        return sum;
    }
}

static void blocks_of(weir_collective collective, size_t n, size_t *in, size_t *out)
{
    const int all_in = collective == WEIR_COLL_REDUCE_SCATTER || collective == WEIR_COLL_ALLTOALL ||
                       collective == WEIR_COLL_ALLTOALLV;
    const int all_out = collective == WEIR_COLL_ALLGATHER || collective == WEIR_COLL_ALLTOALL ||
                        collective == WEIR_COLL_ALLTOALLV;
    *in = all_in ? n : 1;
    *out = all_out ? n : 1;
}

static int try_one(weir_comm *comm, weir_algo *algo)
{
    static int32_t in[MOST * COUNT], out[MOST * COUNT];
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm), root = 1;
    const int destination = (rank + 1) % n, source = (rank + n - 1) % n;
    const weir_collective collective = weir_algo_collective(algo);
    size_t counts[MOST], displs[MOST], in_blocks, out_blocks;
    int failures = 0;
    for (int peer = 0; peer < n; peer++) {
        counts[peer] = COUNT;
        displs[peer] = (size_t)peer * COUNT;
    }
    const weir_algo_extra extras[] = {{"root", &root},         {"destination", &destination},
                                      {"source", &source},     {"send_counts", counts},
                                      {"send_displs", displs}, {"recv_counts", counts},
                                      {"recv_displs", displs}, {NULL, NULL}};
    blocks_of(collective, (size_t)n, &in_blocks, &out_blocks);
    for (size_t i = 0; i < in_blocks * COUNT; i++)
        in[i] = value_of(rank, i);
    memset(out, 0xff, sizeof out);
    EXPECT_OK(&failures, weir_algo_execute_args(algo, comm, in, out, in_blocks * COUNT * 4,
                                                out_blocks * COUNT * 4, WEIR_INT32, WEIR_SUM, NULL,
                                                NULL, 0, 0, extras));
    int wrong = 0, is_idle = collective == WEIR_COLL_REDUCE && rank != root;
    for (size_t i = 0; i < out_blocks * COUNT && !is_idle; i++)
        wrong += out[i] != expected_of(collective, rank, n, i);
    EXPECT(&failures, wrong == 0);
    const char *used = weir_comm_last_algo(comm), *name = weir_algo_name(algo);
    const weir_algo_info *info =
        weir_algo_info_find(weir_comm_algo_backend(comm), collective, name);
    EXPECT(&failures,
           strcmp(name, "auto") == 0 || strcmp(used, name) == 0 || (info && info->needs_mapped));
    if (failures)
        fprintf(stderr, "# %s %s: %d wrong, ran %s\n", weir_collective_name(collective), name,
                wrong, used);
    return failures;
}

static void all_builtins(weir_comm *comm, int *failures)
{
    weir_algo_collection *collection = NULL;
    weir_algo *found = NULL;
    char before[32];
    int rows = 0;
    size_t count = 0;
    const weir_algo_info *table = weir_algo_list(&count);
    for (size_t i = 0; i < count; i++)
        rows +=
            table[i].backend == (weir_comm_nnodes(comm) > 1 ? WEIR_ALGO_INTERNODE : WEIR_ALGO_HOST);
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &collection));
    EXPECT(failures, weir_algo_collection_count(collection) == rows + WEIR_COLL_COUNT);
    EXPECT(failures, weir_algo_collection_at(collection, rows + WEIR_COLL_COUNT) == NULL);
    EXPECT_OK(failures, weir_algo_find(collection, WEIR_COLL_ALLREDUCE, "auto", &found));
    *failures += try_one(comm, found);
    snprintf(before, sizeof before, "%s", weir_comm_last_algo(comm));
    for (int i = 0; i < weir_algo_collection_count(collection); i++)
        *failures += try_one(comm, weir_algo_collection_at(collection, i));
    *failures += try_one(comm, found); /* the algorithm that was forced is no longer */
    EXPECT(failures, strcmp(before, weir_comm_last_algo(comm)) == 0);
    EXPECT_OK(failures, weir_algo_find(collection, WEIR_COLL_ALLREDUCE, "packet", &found));
    EXPECT(failures, *weir_algo_summary(found) && weir_algo_contexts(found, comm) == 0);
    found = NULL;
    EXPECT(failures,
           weir_algo_find(collection, WEIR_COLL_REDUCE, "ring", &found) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("reduce has no algorithm 'ring'; there are auto, "));
    EXPECT(failures, found == NULL);
    weir_algo_collection_destroy(collection);
    weir_algo_collection_destroy(NULL);
}

static void lengths(weir_comm *comm, int *failures)
{
    weir_algo_collection *collection = NULL;
    char buffer[256];
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &collection));
    for (int c = 0; c < WEIR_COLL_COUNT; c++) {
        weir_algo *algo = weir_algo_select(collection, (weir_collective)c, 8);
        EXPECT(failures, execute(algo, comm, buffer, buffer + 128, 10, 6) == WEIR_ERR_INVALID);
        EXPECT(failures, execute(algo, comm, NULL, buffer, 8, 8) == WEIR_ERR_INVALID);
        EXPECT(failures,
               weir_algo_execute_args(algo, comm, buffer, buffer, 8, 8, WEIR_INT32, WEIR_SUM,
                                      buffer, NULL, 0, 0, NULL) == WEIR_ERR_INVALID);
        EXPECT(failures,
               weir_algo_execute_args(algo, comm, buffer, buffer, 8, 8, (weir_dtype)99, WEIR_SUM,
                                      NULL, NULL, 0, 0, NULL) == WEIR_ERR_INVALID);
    }
    weir_algo *gather = weir_algo_select(collection, WEIR_COLL_ALLGATHER, 8);
    EXPECT(failures, execute(gather, comm, buffer, buffer, 8, 8) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("allgather of 2 ranks with 8 bytes of input and 8 of "
                                         "output: expected output = ranks * input"));
    EXPECT(failures, execute(NULL, comm, buffer, buffer, 8, 8) == WEIR_ERR_INVALID);
    weir_algo_collection_destroy(collection);
}

/* weir_run: the algorithm of one call by its name, by an object, and by neither. */
static void calls_name_algorithms(weir_comm *comm, int *failures)
{
    weir_algo_collection *collection = NULL;
    const int n = weir_comm_nranks(comm);
    int in[8], out[8];
    char before[32];
    weir_call call = WEIR_CALL_INIT;
    for (int i = 0; i < 8; i++)
        in[i] = i;
    call.dtype = WEIR_INT32;
    call.in = in;
    call.out = out;
    call.count = 8;
    EXPECT_OK(failures, weir_run(comm, &call));
    snprintf(before, sizeof before, "%s", weir_comm_last_algo(comm));
    call.algo_name = "packet2";
    for (int i = 0; i < 2; i++) {
        memset(out, 0, sizeof out);
        EXPECT_OK(failures, weir_run(comm, &call));
        EXPECT(failures, strcmp(weir_comm_last_algo(comm), "packet2") == 0 && out[7] == 7 * n);
    }
    EXPECT_OK(failures, weir_allreduce(comm, in, out, 8, WEIR_INT32, WEIR_SUM, NULL));
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), before) == 0);
    EXPECT_OK(failures, weir_comm_set_algo(comm, WEIR_COLL_ALLREDUCE, "packet2"));
    call.algo_name = "auto"; /* the tuning table, whatever the communicator is set to */
    EXPECT_OK(failures, weir_run(comm, &call));
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), before) == 0);
    EXPECT_OK(failures, weir_comm_set_algo(comm, WEIR_COLL_ALLREDUCE, "auto"));
    call.algo_name = NULL;
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &collection));
    EXPECT_OK(failures, weir_algo_find(collection, WEIR_COLL_ALLREDUCE, "packet2", &call.algo));
    memset(out, 0, sizeof out);
    EXPECT_OK(failures, weir_run(comm, &call)); /* by its count */
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), "packet2") == 0 && out[7] == 7 * n);
    call.count = 0;
    call.in_bytes = call.out_bytes = sizeof in;
    memset(out, 0, sizeof out);
    EXPECT_OK(failures, weir_run(comm, &call)); /* by its lengths */
    EXPECT(failures, out[7] == 7 * n);
    weir_algo_collection_destroy(collection);
}

/* A partial result in bfloat16 would round 1 + 2^-8 to 1, before 2^-8 is added again; rounded once,
 * the sum is 1 + 2^-7. */
static void partial_results_round_once(weir_comm *comm, const char *algo, int *failures)
{
    enum { ONE = 0x3f80, TWO_TO_MINUS_8 = 0x3b80, ONE_AND_TWO_TO_MINUS_7 = 0x3f81 };
    static uint16_t in[COUNT], out[COUNT];
    static float wide[COUNT];
    const int rank = weir_comm_rank(comm), root = 0;
    for (size_t i = 0; i < COUNT; i++)
        in[i] = rank == root + 1 ? ONE : TWO_TO_MINUS_8;
    EXPECT_OK(failures, weir_comm_set_algo(comm, WEIR_COLL_REDUCE, algo));
    EXPECT_OK(failures, weir_reduce(comm, in, out, COUNT, WEIR_BFLOAT16, WEIR_SUM, root, NULL));
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), "packet2") == 0);
    for (size_t i = 0; i < COUNT && rank == root; i++)
        EXPECT(failures, out[i] == ONE_AND_TWO_TO_MINUS_7);
    EXPECT_OK(failures, weir_reduce(comm, wide, wide, COUNT, WEIR_FLOAT, WEIR_SUM, root, NULL));
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), algo) == 0);
}

static void a_chain_rounds_once(weir_comm *comm, int *failures)
{
    partial_results_round_once(comm, "chain", failures);
    partial_results_round_once(comm, "dynamic", failures);
}

static void wrong_calls(weir_comm *comm, int *failures)
{
    char in[8] = {0}, out[8];
    weir_call call = WEIR_CALL_INIT;
    call.in = in;
    call.out = out;
    call.count = sizeof in;
    call.algo_name = "no such";
    EXPECT(failures, weir_run(comm, &call) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("allreduce has no algorithm 'no such'; known are auto"));
    call.algo_name = "packet:4x64";
    EXPECT(failures, weir_run(comm, &call) == WEIR_ERR_INVALID);
    call.algo_name = NULL;
    call.collective = WEIR_COLL_COUNT;
    EXPECT(failures, weir_run(comm, &call) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("weir_run: unknown collective"));
    call.collective = WEIR_COLL_ALLREDUCE;
    EXPECT(failures, weir_run(comm, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("WEIR_CALL_INIT"));
    EXPECT(failures, weir_run(NULL, &call) == WEIR_ERR_INVALID);
    EXPECT_OK(failures, weir_run(comm, &call));
}

/* Calls of programs that were compiled with the header of another version: older ones lack members,
 * newer ones have more. */
static void calls_of_other_versions(weir_comm *comm, int *failures)
{
    struct {
        weir_call call;
        uint64_t added;
    } newer = {.call = WEIR_CALL_INIT};
    char in[8] = {0}, out[8];
    weir_call call = WEIR_CALL_INIT;
    weir_algo *algo = NULL;
    call.in = newer.call.in = in;
    call.out = newer.call.out = out;
    call.count = newer.call.count = sizeof in;
    newer.call.size = sizeof newer;
    weir_algo_collection *all = NULL;
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &all));
    EXPECT_OK(failures, weir_algo_find(all, WEIR_COLL_ALLREDUCE, "auto", &algo));
    static const size_t older[] = {offsetof(weir_call, scratch), offsetof(weir_call, algo_name),
                                   offsetof(weir_call, splits)};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
        memset((char *)&call + older[i], -1, sizeof call - older[i]); /* not the call's */
        call.size = older[i];
        EXPECT_OK(failures, weir_run(comm, &call));
        EXPECT_OK(failures, weir_algo_execute(algo, comm, &call));
    }
    EXPECT_OK(failures, weir_run(comm, &newer.call));
    EXPECT_OK(failures, weir_algo_execute(algo, comm, &newer.call));
    newer.added = 1;
    EXPECT(failures, weir_run(comm, &newer.call) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("the library must be newer"));
    EXPECT(failures, weir_algo_execute(algo, comm, &newer.call) == WEIR_ERR_INVALID);
    call.size = 0;
    EXPECT(failures, weir_run(comm, &call) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("weir_call: size is 0"));
    weir_algo_collection_destroy(all);
}

static void infos_agree(weir_comm *comm, int *failures)
{
    const weir_algo_backend own = weir_comm_algo_backend(comm);
    const weir_algo_info *ring =
        weir_algo_info_find(WEIR_ALGO_INTERNODE, WEIR_COLL_ALLREDUCE, "ring");
    const weir_algo_info *packet = weir_algo_info_find(own, WEIR_COLL_ALLREDUCE, "packet:4x64");
    EXPECT(failures, strcmp(weir_algo_backend_name(own), "host") == 0);
    EXPECT(failures, ring && ring->rounding == WEIR_ROUNDING_PER_NODE && ring->reproducible);
    EXPECT(failures, packet && packet->rounding == WEIR_ROUNDING_ONCE && packet->reproducible);
    EXPECT(failures, !weir_algo_info_find(own, WEIR_COLL_ALLREDUCE, "pack"));
}

/* ------------------------------------------------------------------- custom */

enum { KEPT = 2 };

/* A custom algorithm that checks on each launch whether all ranks use the same context. */
typedef struct recorder {
    int made, destroyed, initialised, freed;
    int fail_key, fail_create; /* on this rank, in the next call */
    int unlike;                /* launches for which ranks had different contexts */
    int last;                  /* number of the context that was used */
} recorder;

static weir_status record_initialise(void *state, weir_comm *comm)
{
    ((recorder *)state)->initialised++;
    return weir_comm_barrier(comm);
}

static weir_status record_key(void *state, weir_comm *comm, const weir_call *call,
                              weir_algo_key *key)
{
    const recorder *of = state;
    const int *given = weir_call_extra(call, "key");
    (void)comm;
    if (of->fail_key)
        return WEIR_ERR_UNSUPPORTED;
    key->words[0] = (uint64_t)*given;
    return WEIR_OK;
}

static weir_status record_create(void *state, weir_comm *comm, const weir_call *call,
                                 void **context)
{
    recorder *of = state;
    (void)call;
    weir_status status =
        weir_boot_agree(weir_comm_boot(comm), of->fail_create ? WEIR_ERR_NO_MEMORY : WEIR_OK);
    if (status != WEIR_OK)
        return status;
    int *made = malloc(sizeof *made);
    *made = ++of->made;
    *context = made;
    return WEIR_OK;
}

static weir_status record_launch(void *state, void *context, weir_comm *comm, const weir_call *call)
{
    recorder *of = state;
    (void)call;
    int all[MOST] = {0}, n = weir_comm_nranks(comm);
    of->last = all[weir_comm_rank(comm)] = *(int *)context;
    weir_status status = weir_boot_allgather(weir_comm_boot(comm), all, sizeof *all);
    for (int rank = 1; rank < n; rank++)
        of->unlike += all[rank] != all[0];
    return status;
}

static void record_context_destroy(void *state, void *context)
{
    ((recorder *)state)->destroyed++;
    free(context);
}

static void record_destroy(void *state)
{
    ((recorder *)state)->freed++;
}

static const weir_algo_ops record_ops = {.initialise = record_initialise,
                                         .context_key = record_key,
                                         .context_create = record_create,
                                         .launch = record_launch,
                                         .context_destroy = record_context_destroy,
                                         .destroy = record_destroy,
                                         .contexts_max = KEPT};

static weir_status call_with(weir_algo *algo, weir_comm *comm, int key)
{
    const weir_algo_extra extras[] = {{"key", &key}, {NULL, NULL}};
    return weir_algo_execute_args(algo, comm, NULL, NULL, 0, 0, WEIR_INT8, WEIR_SUM, NULL, NULL, 0,
                                  0, extras);
}

static void keep_and_evict(weir_comm *comm, int *failures)
{
    static const int keys[] = {7, 7, 8, 7, 9, 7, 8, 9, 9};
    static const int used[] = {1, 1, 2, 1, 3, 1, 4, 5, 5}; /* 9 takes 8's place, then 8 9's, ... */
    recorder of = {0};
    weir_algo *algo = NULL;
    EXPECT_OK(failures, weir_algo_create("recorder", WEIR_COLL_ALLREDUCE, &record_ops, &of, &algo));
    for (int i = 0; i < 9; i++) {
        EXPECT_OK(failures, call_with(algo, comm, keys[i]));
        EXPECT(failures, of.last == used[i]);
        EXPECT(failures, weir_algo_contexts(algo, comm) == (i < 2 ? 1 : KEPT));
    }
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), "recorder") == 0);
    EXPECT(failures, of.initialised == 1 && of.made == 5 && of.destroyed == 3 && !of.freed);
    weir_algo_destroy(algo);
    EXPECT(failures, of.destroyed == 5 && of.freed == 1 && of.unlike == 0);
}

/* Without contexts_max 16 are kept; further calls replace the oldest. */
static void keep_16(weir_comm *comm, int *failures)
{
    weir_algo_ops ops = record_ops;
    recorder of = {0};
    weir_algo *algo = NULL;
    ops.contexts_max = 0;
    EXPECT_OK(failures, weir_algo_create("recorder", WEIR_COLL_ALLREDUCE, &ops, &of, &algo));
    for (int key = 0; key < 20; key++) {
        EXPECT_OK(failures, call_with(algo, comm, key));
        EXPECT(failures, weir_algo_contexts(algo, comm) == (key < 16 ? key + 1 : 16));
    }
    EXPECT(failures, of.made == 20 && of.destroyed == 4);
    EXPECT_OK(failures, call_with(algo, comm, 4)); /* the oldest that is kept */
    EXPECT(failures, of.made == 20 && of.last == 5);
    EXPECT_OK(failures, call_with(algo, comm, 0)); /* takes the place of 5 */
    EXPECT_OK(failures, call_with(algo, comm, 4));
    EXPECT(failures, of.made == 21 && of.last == 5);
    weir_algo_destroy(algo);
    EXPECT(failures, of.destroyed == 21 && of.freed == 1 && of.unlike == 0);
}

static void test_contexts_are_kept_and_the_oldest_gives_way(void **state)
{
    (void)state;
    run_comm_ranks(2, keep_16);
    run_comm_ranks(3, keep_and_evict);
    run_comm_ranks(1, keep_and_evict);
}

/* One algorithm on two communicators: each communicator has its contexts. */
static void on_two(weir_comm *comm, int *failures)
{
    recorder of = {0};
    weir_algo *algo = NULL;
    weir_comm *second = NULL;
    EXPECT(failures, (second = open_comm(weir_comm_boot(comm))) != NULL);
    EXPECT_OK(failures, weir_algo_create("recorder", WEIR_COLL_ALLREDUCE, &record_ops, &of, &algo));
    for (int i = 0; i < 4 && !*failures; i++) {
        EXPECT_OK(failures, call_with(algo, i % 2 ? second : comm, 5));
        EXPECT(failures, of.last == 1 + i % 2);
    }
    EXPECT(failures, weir_algo_contexts(algo, comm) == 1 && weir_algo_contexts(algo, second) == 1 &&
                         of.initialised == 2);
    weir_algo_destroy(algo);
    EXPECT(failures, of.destroyed == 2 && of.unlike == 0);
    weir_comm_destroy(second);
}

/* Each rank has different keys, which repeat on some ranks where they do not on others. */
static void disagree(weir_comm *comm, int *failures)
{
    static const int keys[MOST][6] = {
        {1, 1, 1, 1, 1, 1}, {1, 2, 1, 2, 1, 2}, {5, 5, 5, 5, 5, 5}, {3, 3, 3, 3, 4, 4}};
    recorder of = {0};
    weir_algo *algo = NULL;
    weir_algo_ops ops = record_ops;
    ops.contexts_max = 0;
    EXPECT_OK(failures, weir_algo_create("unlike", WEIR_COLL_ALLREDUCE, &ops, &of, &algo));
    for (int i = 0; i < 6; i++)
        EXPECT_OK(failures, call_with(algo, comm, keys[weir_comm_rank(comm)][i]));
    /* (1,1,5,3) and (1,2,5,3) are one each, found again; (.., 4) are two new ones. */
    EXPECT(failures, of.made == 4 && of.unlike == 0);
    weir_algo_destroy(algo);
}

/* The same across two emulated nodes, where the ranks agree over the bootstrap. Kernels from files,
 * whose channels work on one node only, are rejected on every rank. */
static int disagree_across(weir_boot *boot, void *argument)
{
    weir_comm *comm = NULL;
    weir_algo *algo = NULL;
    int failures = 0;
    (void)argument;
    net_shm_register();
    setenv("WEIR_HOSTID", weir_boot_rank(boot) % 2 ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", "shm", 1);
    if (!(comm = open_comm(boot)))
        return NO_COMM;
    EXPECT(&failures, weir_comm_nnodes(comm) == 2);
    disagree(comm, &failures);
    EXPECT(&failures, weir_algo_from_file(comm, example, "allgather", WEIR_COLL_ALLGATHER, &algo) ==
                          WEIR_ERR_UNSUPPORTED);
    EXPECT(&failures, boot_last_error_has("between the ranks of one node"));
    all_builtins(comm, &failures);
    weir_comm_destroy(comm);
    return failures;
}

/* Ranks that promise equal keys and break the promise run into the deadline, so the agreement above
 * is what makes different keys work. */
static int break_promise(weir_boot *boot, void *argument)
{
    recorder of = {0};
    weir_algo *algo = NULL;
    weir_algo_ops ops = record_ops;
    int failures = 0;
    (void)argument;
    ops.keys_alike = 1;
    setenv("WEIR_TIMEOUT_MS", "1000", 1);
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, 1000);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures, weir_algo_create("liar", WEIR_COLL_ALLREDUCE, &ops, &of, &algo));
    EXPECT_OK(&failures, call_with(algo, comm, 1));
    weir_status status = call_with(algo, comm, 1 + weir_comm_rank(comm));
    EXPECT(&failures, status != WEIR_OK || of.unlike);
    weir_comm_abort(comm);
    weir_algo_destroy(algo);
    weir_comm_destroy(comm);
    return failures;
}

static void test_a_broken_promise_ends_at_the_deadline(void **state)
{
    (void)state;
    double started = now_s();
    run_ranks(2, break_promise, NULL);
    assert_true(now_s() - started < 30);
}

static void one_rank_fails(weir_comm *comm, int *failures)
{
    recorder of = {0};
    weir_algo *algo = NULL;
    const int last = weir_comm_rank(comm) == weir_comm_nranks(comm) - 1;
    EXPECT_OK(failures, weir_algo_create("refuser", WEIR_COLL_ALLREDUCE, &record_ops, &of, &algo));
    EXPECT_OK(failures, call_with(algo, comm, 1));
    of.fail_key = last;
    EXPECT(failures, call_with(algo, comm, 1) == (last ? WEIR_ERR_UNSUPPORTED : WEIR_ERR_MISMATCH));
    EXPECT(failures, last || boot_last_error_has("rank 2 cannot make its call of algorithm "
                                                 "refuser"));
    of.fail_key = 0;
    of.fail_create = last;
    EXPECT(failures, call_with(algo, comm, 2) != WEIR_OK);
    of.fail_create = 0;
    EXPECT_OK(failures, call_with(algo, comm, 2));
    EXPECT_OK(failures, call_with(algo, comm, 1));
    EXPECT(failures, of.unlike == 0 && weir_algo_contexts(algo, comm) == 2);
    weir_algo_destroy(algo);
}

static void bad_tables(weir_comm *comm, int *failures)
{
    weir_algo *algo = NULL;
    weir_algo_ops ops = record_ops;
    (void)comm;
    EXPECT(failures, weir_algo_create("", WEIR_COLL_REDUCE, &ops, NULL, &algo) != WEIR_OK);
    EXPECT(failures, weir_algo_create("a name that has more than 31 bytes", WEIR_COLL_REDUCE, &ops,
                                      NULL, &algo) == WEIR_ERR_INVALID);
    ops.context_destroy = NULL;
    EXPECT(failures,
           weir_algo_create("a", WEIR_COLL_REDUCE, &ops, NULL, &algo) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("all or none"));
    ops = record_ops;
    ops.contexts_max = 17;
    EXPECT(failures,
           weir_algo_create("a", WEIR_COLL_REDUCE, &ops, NULL, &algo) == WEIR_ERR_INVALID);
    EXPECT(failures, algo == NULL);
    weir_algo_destroy(NULL);
}

/* ----------------------------------------------------------------- selector */

static weir_algo *by_size(void *context, const weir_algo_collection *collection,
                          weir_collective collective, size_t bytes)
{
    weir_algo *chosen = NULL;
    if (collective != WEIR_COLL_ALLREDUCE ||
        weir_algo_find(collection, collective, bytes <= *(size_t *)context ? "recorder" : "fused",
                       &chosen) != WEIR_OK)
        return NULL;
    return chosen;
}

static void choose(weir_comm *comm, int *failures)
{
    recorder of = {0};
    weir_algo_collection *collection = NULL;
    weir_algo *algo = NULL, *twin = NULL;
    size_t limit = 1024;
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &collection));
    EXPECT_OK(failures, weir_algo_create("recorder", WEIR_COLL_ALLREDUCE, &record_ops, &of, &algo));
    EXPECT_OK(failures, weir_algo_create("recorder", WEIR_COLL_ALLREDUCE, &record_ops, &of, &twin));
    EXPECT_OK(failures, weir_algo_collection_add(collection, algo));
    EXPECT(failures, weir_algo_collection_add(collection, twin) == WEIR_ERR_INVALID);
    weir_algo_destroy(twin);
    EXPECT(failures, strcmp(weir_algo_name(weir_algo_select(collection, WEIR_COLL_ALLREDUCE, 1)),
                            "auto") == 0);
    weir_algo_collection_set_selector(collection, by_size, &limit);
    EXPECT(failures, weir_algo_select(collection, WEIR_COLL_ALLREDUCE, 1024) == algo);
    EXPECT(failures, strcmp(weir_algo_name(weir_algo_select(collection, WEIR_COLL_ALLREDUCE, 1025)),
                            "fused") == 0);
    EXPECT(failures,
           strcmp(weir_algo_name(weir_algo_select(collection, WEIR_COLL_REDUCE, 1)), "auto") == 0);
    EXPECT_OK(failures, call_with(weir_algo_select(collection, WEIR_COLL_ALLREDUCE, 4), comm, 3));
    weir_algo_collection_destroy(collection);
    EXPECT(failures, of.made == 1 && of.destroyed == 1 && of.freed == 2);
}

/* --------------------------------------------------------- the example's file */

/* One call of the example: the input lies `skew` bytes off, in place or before the output. */
static int gather(weir_comm *comm, weir_algo *algo, weir_dtype dtype, size_t bytes, int in_place,
                  size_t skew, int round)
{
    enum { EDGE = 64 };
    const size_t n = (size_t)weir_comm_nranks(comm), rank = (size_t)weir_comm_rank(comm);
    unsigned char *memory = malloc(bytes * (n + 1) + 4 * EDGE + skew);
    unsigned char *in = memory + EDGE + skew, *out = in + bytes + EDGE;
    int failures = 0;
    memset(memory, 0xA5, bytes * (n + 1) + 4 * EDGE + skew);
    if (in_place)
        in = out + rank * bytes;
    boot_fill(in, bytes, (int)rank, round);
    EXPECT_OK(&failures, weir_algo_execute_args(algo, comm, in, out, bytes, n * bytes, dtype,
                                                WEIR_SUM, NULL, NULL, 0, 0, NULL));
    for (size_t peer = 0; peer < n; peer++)
        EXPECT(&failures, boot_filled(out + peer * bytes, bytes, (int)peer, round));
    EXPECT(&failures, boot_filled(in, bytes, (int)rank, round));
    for (int i = 1; i <= EDGE; i++)
        EXPECT(&failures, out[-i] == 0xA5 && out[n * bytes + (size_t)i - 1] == 0xA5);
    free(memory);
    return failures;
}

static void gather_all(weir_comm *comm, int *failures)
{
    static const size_t sizes[] = {0, 1, 3, 127, 128, 129, 4099, (1 << 20) - 1, (2 << 20) + 5};
    weir_algo *algo = NULL;
    int round = 0;
    EXPECT_OK(failures,
              weir_algo_from_file(comm, example, "allgather", WEIR_COLL_ALLGATHER, &algo));
    if (*failures)
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !*failures; i++)
        for (int in_place = 0; in_place < 2; in_place++)
            *failures += gather(comm, algo, WEIR_INT8, sizes[i], in_place, i % 4, ++round);
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT && !*failures; dtype++)
        *failures += gather(comm, algo, (weir_dtype)dtype, 37 * weir_dtype_bytes((weir_dtype)dtype),
                            0, 0, ++round);
    for (int replay = 0; replay < 100 && !*failures; replay++)
        *failures += gather(comm, algo, WEIR_FLOAT, 1004, replay % 2, 0, ++round);
    EXPECT(failures, weir_algo_contexts(algo, comm) == 1);
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), "allgather") == 0);
    EXPECT(failures, strstr(weir_algo_summary(algo), "allgather.cu") != NULL);
    EXPECT(failures, gather(comm, algo, WEIR_FLOAT, 1004, 0, 0, 1) == 0);
    EXPECT(failures, execute(algo, comm, &round, &round, 4, 0) == WEIR_ERR_INVALID);
    weir_algo_destroy(algo);
}

static void test_the_example_gathers(void **state)
{
    (void)state;
    for (int nranks = 1; nranks <= 4; nranks++)
        run_comm_ranks(nranks, gather_all);
    run_comm_ranks(8, gather_all);
}

/* If a rank never calls, the kernels of the others end at their deadline and name that rank. */
static int absent(weir_boot *boot, void *argument)
{
    weir_algo *algo = NULL;
    int failures = 0, value = 1, all[2] = {0, 0};
    (void)argument;
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_HOST, 1000);
    if (!comm)
        return NO_COMM;
    EXPECT_OK(&failures,
              weir_algo_from_file(comm, example, "allgather", WEIR_COLL_ALLGATHER, &algo));
    EXPECT_OK(&failures, execute(algo, comm, &value, all, 4, 8));
    if (weir_comm_rank(comm) == 0) {
        EXPECT(&failures, execute(algo, comm, &value, all, 4, 8) == WEIR_ERR_TIMEOUT);
        EXPECT(&failures, boot_last_error_has("deadline of 1000 ms passed in kernel allgather; it "
                                              "waits for rank 1"));
    }
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_ABORTED);
    weir_algo_destroy(algo);
    weir_comm_destroy(comm);
    return failures;
}

/* ---------------------------------------------------------------------- plans */

/* A plan is found and executed as any other algorithm; without an executor the call is rejected. */
static void execute_plan(weir_comm *comm, int *failures)
{
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm);
    const weiri_plan_example_options options = {.nranks = n};
    int32_t in[COUNT], out[COUNT];
    weir_plan *plan = NULL;
    weir_executor *executor = NULL;
    weir_algo_collection *all = NULL;
    weir_algo *made = NULL, *found = NULL;
    EXPECT_OK(failures,
              weiri_plan_example_make(weiri_plan_example_find("allreduce_ring"), &options, &plan));
    EXPECT_OK(failures, weir_executor_create(comm, &executor));
    EXPECT_OK(failures, weir_algo_collection_create(comm, NULL, &all));
    EXPECT_OK(failures, weir_algo_from_plan(plan, &made));
    EXPECT_OK(failures, weir_algo_collection_add(all, made));
    EXPECT_OK(failures, weir_algo_find(all, WEIR_COLL_ALLREDUCE, "allreduce_ring", &found));
    EXPECT(failures, found == made && strstr(weir_algo_summary(found), "plan of 3 ranks"));
    for (size_t i = 0; i < COUNT; i++)
        in[i] = value_of(rank, i);
    for (int call = 0; call < 20 && !*failures; call++) {
        memset(out, 0xff, sizeof out);
        EXPECT_OK(failures,
                  weir_algo_execute_args(found, comm, in, out, sizeof in, sizeof out, WEIR_INT32,
                                         WEIR_SUM, NULL, executor, 0, 0, NULL));
        for (size_t i = 0; i < COUNT; i++)
            EXPECT(failures, out[i] == expected_of(WEIR_COLL_ALLREDUCE, rank, n, i));
    }
    EXPECT(failures, strcmp(weir_comm_last_algo(comm), "allreduce_ring") == 0);
    EXPECT(failures, execute(found, comm, in, out, sizeof in, sizeof out) == WEIR_ERR_INVALID);
    EXPECT(failures, boot_last_error_has("an executor is required"));
    weir_algo_collection_destroy(all);
    weir_executor_destroy(executor);
    weir_plan_free(plan);
}

/* ------------------------------------------------------------------- the built-in table */

/* "-" is no limit. */
static uint64_t tuning_limit(const char *text)
{
    char *end;
    if (strcmp(text, "-") == 0)
        return UINT64_MAX;
    const uint64_t number = strtoull(text, &end, 10);
    assert_true(end > text && number > 0);
    if (*end)
        assert_true((*end == 'K' || *end == 'M') && !end[1]);
    return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

/* The next row of the same collective and kind of ranks; NULL: none. */
static const weiri_tuning_row *tuning_next(const weiri_tuning_row *row)
{
    const weiri_tuning_row *end = weiri_tuning_rows + weiri_tuning_row_count;
    for (const weiri_tuning_row *next = row + 1; next < end; next++)
        if (strcmp(next->collective, row->collective) == 0 && strcmp(next->cores, row->cores) == 0)
            return next;
    return NULL;
}

/* Sizes grow up to a row without a limit, then numbers of ranks do; the last rows are for the most
 * ranks of their kind. */
static void test_the_built_in_rows_have_every_size_and_number_of_ranks(void **state)
{
    const int has_cuda = weir_algo_info_find(WEIR_ALGO_CUDA, WEIR_COLL_ALLREDUCE, "packet") != NULL;
    (void)state;
    for (size_t i = 0; i < weiri_tuning_row_count; i++) {
        const weiri_tuning_row *row = &weiri_tuning_rows[i], *next = tuning_next(row);
        const uint64_t limit = tuning_limit(row->max_bytes);
        const int is_cuda = strcmp(row->cores, "cuda") == 0;
        const int most = strcmp(row->cores, "own-traded") == 0 ? 2 : is_cuda ? 8 : WEIRI_RANKS_MAX;
        int collective = 0;
        while (collective < WEIR_COLL_COUNT &&
               strcmp(weir_collective_name((weir_collective)collective), row->collective) != 0)
            collective++;
        assert_true(collective < WEIR_COLL_COUNT);
        const weir_algo_backend backend = is_cuda                              ? WEIR_ALGO_CUDA
                                          : strncmp(row->cores, "net", 3) == 0 ? WEIR_ALGO_INTERNODE
                                                                               : WEIR_ALGO_HOST;
        const weir_algo_info *info =
            weir_algo_info_find(backend, (weir_collective)collective, row->algo);
        if (!info && (!is_cuda || has_cuda))
            fail_msg("row %zu: there is no %s %s", i, row->collective, row->algo);
        assert_in_range(row->max_ranks, 2, most);
        if (limit < UINT64_MAX)
            assert_true(next && next->max_ranks == row->max_ranks &&
                        tuning_limit(next->max_bytes) > limit);
        else if (next)
            assert_true(next->max_ranks > row->max_ranks);
        else
            assert_int_equal(row->max_ranks, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("a call names its algorithm", 3, calls_name_algorithms),
        COMM_TEST("wrong calls are rejected", 2, wrong_calls),
        COMM_TEST("calls of programs with another version's header", 2, calls_of_other_versions),
        COMM_TEST("the algorithm table says how algorithms round", 2, infos_agree),
        COMM_TEST("built-in algorithms run through weir_algo_execute", 3, all_builtins),
        COMM_TEST("algorithms with partial results leave types that are rounded to packet2", 3,
                  a_chain_rounds_once),
        COMM_TEST("lengths that do not belong together are rejected", 2, lengths),
        cmocka_unit_test(test_the_built_in_rows_have_every_size_and_number_of_ranks),
        cmocka_unit_test(test_contexts_are_kept_and_the_oldest_gives_way),
        COMM_TEST("each communicator has its contexts", 2, on_two),
        COMM_TEST("one rank's cache hit and another's miss agree", 4, disagree),
        RANKS_TEST("ranks of two nodes agree", 4, disagree_across, NULL),
        cmocka_unit_test(test_a_broken_promise_ends_at_the_deadline),
        COMM_TEST("one rank's error reaches all ranks", 3, one_rank_fails),
        COMM_TEST("incomplete ops tables are rejected", 1, bad_tables),
        COMM_TEST("a selector chooses by size", 2, choose),
        cmocka_unit_test(test_the_example_gathers),
        RANKS_TEST("a kernel whose peer is absent ends at its deadline", 2, absent, NULL),
        COMM_TEST("a plan is an algorithm", 3, execute_plan),
    };
    static char path[4200];
    char folder[WEIR_PARAMS_BYTES];
    if (!getcwd(folder, sizeof folder))
        return 1;
    snprintf(path, sizeof path, "%s/lib/algo/examples/allgather.cu", folder);
    example = path;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("algorithms", tests, algo_folder_open, algo_folder_close);
}
