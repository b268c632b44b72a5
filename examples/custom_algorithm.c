/*
 * custom_algorithm: adds an allgather to weir's algorithms, and executes it with two forked ranks.
 *
 *     cc custom_algorithm.c -o custom_algorithm $(pkg-config --cflags --libs weir)
 *     ./custom_algorithm
 *
 * Each rank reads the peer's input in scratch memory, which a context maps once: mapping is slow.
 */
#include <weir/algo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NRANKS = 2, COUNT = 100000, LIFETIME_MS = 60000 }; /* then the ranks are killed; 0: never */

/* Ends this rank if a call failed. The waits of the other rank notice that it has ended. */
static void need(weir_status status)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "custom_algorithm: %s\n", weir_last_error());
    exit(weir_status_exit_code(status));
}

/* All calls can use the same context, so the key stays zero. */
static weir_status gather_key(void *rank, weir_comm *comm, const weir_call *call, weir_algo_key *k)
{
    (void)rank, (void)comm, (void)call, (void)k;
    return WEIR_OK;
}

/* A context: the scratch memory of both ranks, as mapped here. */
static weir_status gather_create(void *rank, weir_comm *comm, const weir_call *call, void **context)
{
    (void)rank;
    *context = calloc(NRANKS, sizeof(weir_mem *));
    need(*context ? WEIR_OK : WEIR_ERR_NO_MEMORY);
    return weir_mem_exchange(comm, call->scratch, *context);
}

static void gather_destroy(void *rank, void *context)
{
    weir_mem_free(((weir_mem **)context)[1 - *(int *)rank]); /* its own is the program's */
    free(context);
}

static weir_status gather_launch(void *rank, void *context, weir_comm *comm, const weir_call *call)
{
    (void)rank;
    memcpy(weir_mem_pointer(call->scratch), call->in, call->in_bytes);
    weir_status status = weir_comm_barrier(comm); /* both inputs can be read */
    for (int peer = 0; peer < NRANKS && status == WEIR_OK; peer++)
        memcpy((char *)call->out + (size_t)peer * call->in_bytes,
               weir_mem_pointer(((weir_mem **)context)[peer]), call->in_bytes);
    return status == WEIR_OK ? weir_comm_barrier(comm) : status; /* scratch may be overwritten */
}

static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    static const weir_algo_ops ops = {.context_key = gather_key,
                                      .context_create = gather_create,
                                      .launch = gather_launch,
                                      .context_destroy = gather_destroy,
                                      .keys_alike = 1};
    static int in[COUNT], out[NRANKS * COUNT];
    int rank = weir_boot_rank(boot), wrong = 0;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_mem *scratch = NULL;
    weir_algo_collection *all = NULL;
    weir_algo *algo = NULL;
    need(weir_comm_create(boot, &config, &comm));
    need(weir_mem_alloc(comm, sizeof in, &scratch));
    need(weir_algo_collection_create(comm, scratch, &all));
    need(weir_algo_create("mine", WEIR_COLL_ALLGATHER, &ops, &rank, &algo));
    need(weir_algo_collection_add(all, algo));
    for (int i = 0; i < COUNT; i++)
        in[i] = rank * COUNT + i;
    weir_call call = WEIR_CALL_INIT;
    call.dtype = WEIR_INT32, call.count = COUNT, call.in = in, call.out = out;
    need(weir_algo_find(all, WEIR_COLL_ALLGATHER, "mine", &algo)); /* "auto": the built-in choice */
    need(weir_algo_execute(algo, comm, &call));
    for (int i = 0; i < NRANKS * COUNT; i++)
        wrong += out[i] != i;
    printf("rank %d: gathered by \"%s\", %d wrong\n", rank, weir_comm_last_algo(comm), wrong);
    weir_algo_collection_destroy(all); /* and the algorithm */
    weir_mem_free(scratch);
    need(weir_comm_destroy(comm));
    return wrong != 0;
}

int main(void)
{
    int codes[NRANKS];
    need(weir_boot_fork_run(NRANKS, rank_main, NULL, LIFETIME_MS, codes));
    return codes[0] > codes[1] ? codes[0] : codes[1];
}
