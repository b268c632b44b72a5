/*
 * custom_algorithm: adds an allgather to the library's algorithms, and executes it and the built-in
 * choice with four forked ranks.
 *
 *     cc custom_algorithm.c -o custom_algorithm $(pkg-config --cflags --libs weir)
 *     ./custom_algorithm
 *
 * Each rank owns scratch memory that its peers map. In rounds of at most SCRATCH_BYTES, every rank
 * copies a part of its input to its scratch memory, and then reads the parts of all ranks. Mapping
 * the peers' memory is expensive, so it is done once, in a context.
 */
#include <weir/algo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NRANKS = 4, COUNT = 100000, SCRATCH_BYTES = 64 << 10, TIMEOUT_MS = 60000 };

/* -------------------------------------------------------------- the algorithm */

/* A context: the scratch memory of every rank, as this process maps it. */
typedef struct gather {
    int rank, nranks;
    weir_mem *scratch[NRANKS];
} gather;

/* All calls can use the same context, so the key stays zero. */
static weir_status gather_key(void *state, weir_comm *comm, const weir_call *call,
                              weir_algo_key *key)
{
    (void)state, (void)comm, (void)call, (void)key;
    return WEIR_OK;
}

static weir_status gather_create(void *state, weir_comm *comm, const weir_call *call,
                                 void **context)
{
    (void)state;
    gather *all = calloc(1, sizeof *all);
    if (!all)
        abort(); /* a program would agree on the error with the other ranks: weir_boot_agree */
    all->rank = weir_comm_rank(comm);
    all->nranks = weir_comm_nranks(comm);
    weir_status status = weir_mem_exchange(comm, call->scratch, all->scratch);
    if (status == WEIR_OK)
        *context = all;
    else
        free(all);
    return status;
}

static void gather_destroy(void *state, void *context)
{
    gather *all = context;
    (void)state;
    for (int rank = 0; rank < all->nranks; rank++)
        if (rank != all->rank) /* this rank's entry belongs to the program */
            weir_mem_free(all->scratch[rank]);
    free(all);
}

static weir_status gather_launch(void *state, void *context, weir_comm *comm, const weir_call *call)
{
    const gather *all = context;
    weir_status status = WEIR_OK;
    (void)state;
    for (size_t at = 0; at < call->in_bytes && status == WEIR_OK; at += SCRATCH_BYTES) {
        const size_t left = call->in_bytes - at;
        const size_t bytes = left < SCRATCH_BYTES ? left : SCRATCH_BYTES;
        memcpy(weir_mem_pointer(call->scratch), (const char *)call->in + at, bytes);
        status = weir_comm_barrier(comm); /* all parts can be read */
        for (int rank = 0; rank < all->nranks && status == WEIR_OK; rank++)
            memcpy((char *)call->out + (size_t)rank * call->in_bytes + at,
                   weir_mem_pointer(all->scratch[rank]), bytes);
        if (status == WEIR_OK)
            status = weir_comm_barrier(comm); /* scratch memory may be overwritten */
    }
    return status;
}

static const weir_algo_ops gather_ops = {
    .context_key = gather_key,
    .context_create = gather_create,
    .launch = gather_launch,
    .context_destroy = gather_destroy,
    .keys_alike = 1, /* the key is the same on all ranks */
};

/* ---------------------------------------------------------------- the program */

/* Gathers with the named algorithm and checks every element. */
static weir_status gather_with(const weir_algo_collection *collection, weir_comm *comm,
                               const char *name)
{
    static int in[COUNT], out[NRANKS * COUNT];
    weir_algo *algo = NULL;
    for (int i = 0; i < COUNT; i++)
        in[i] = weir_comm_rank(comm) * COUNT + i;
    memset(out, 0, sizeof out);
    weir_call call = WEIR_CALL_INIT;
    call.dtype = WEIR_INT32;
    call.in = in;
    call.out = out;
    call.count = COUNT;
    weir_status status = weir_algo_find(collection, WEIR_COLL_ALLGATHER, name, &algo);
    if (status == WEIR_OK)
        status = weir_algo_execute(algo, comm, &call);
    for (int i = 0; i < NRANKS * COUNT && status == WEIR_OK; i++)
        if (out[i] != i)
            status = WEIR_ERR_INTERNAL;
    if (status == WEIR_OK)
        printf("rank %d: \"%s\" gathered %zu bytes by \"%s\"\n", weir_comm_rank(comm), name,
               sizeof out, weir_comm_last_algo(comm));
    return status;
}

/* Adds the algorithm to a collection, which then owns it, and uses both. */
static weir_status compare(weir_comm *comm, weir_mem *scratch)
{
    weir_algo_collection *collection = NULL;
    weir_algo *algo = NULL;
    weir_status status = weir_algo_collection_create(comm, scratch, &collection);
    if (status == WEIR_OK)
        status = weir_algo_create("rounds", WEIR_COLL_ALLGATHER, &gather_ops, NULL, &algo);
    if (status == WEIR_OK) {
        status = weir_algo_collection_add(collection, algo);
        if (status != WEIR_OK)
            weir_algo_destroy(algo);
    }
    if (status == WEIR_OK)
        status = gather_with(collection, comm, "rounds");
    if (status == WEIR_OK)
        status = gather_with(collection, comm, "auto");
    weir_algo_collection_destroy(collection);
    return status;
}

/* The program of one rank. */
static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_mem *scratch = NULL;
    weir_status status = weir_comm_create(boot, &config, &comm);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, SCRATCH_BYTES, &scratch);
    if (status == WEIR_OK)
        status = compare(comm, scratch);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", weir_status_name(status), weir_last_error());
        weir_comm_abort(comm); /* so that the other ranks end, too */
    }
    weir_mem_free(scratch);
    const weir_status ended = weir_comm_destroy(comm);
    return weir_status_exit_code(status == WEIR_OK ? ended : status);
}

int main(void)
{
    int codes[NRANKS], worst = 0;
    weir_status status = weir_boot_fork_run(NRANKS, rank_main, NULL, TIMEOUT_MS, codes);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_last_error());
        return weir_status_exit_code(status);
    }
    for (int rank = 0; rank < NRANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    return worst;
}
