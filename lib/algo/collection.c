/* A collection of algorithms for one communicator: creation, lookup by name, selection by size. */
#include "algo/algo.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weir_algo_collection {
    weir_comm *comm;
    weir_mem *scratch;
    weir_algo **algos;
    int count, capacity;
    weir_algo_selector selector;
    void *context; /* the selector's */
};

static weir_algo *collection_look_up(const weir_algo_collection *collection,
                                     weir_collective collective, const char *name)
{
    for (int i = 0; i < collection->count; i++)
        if (collection->algos[i]->collective == collective &&
            strcmp(collection->algos[i]->name, name) == 0)
            return collection->algos[i];
    return NULL;
}

weir_status weir_algo_collection_add(weir_algo_collection *collection, weir_algo *algo)
{
    if (!collection || !algo)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_algo_collection_add: collection and algo are required");
    if (collection_look_up(collection, algo->collective, algo->name))
        return weiri_fail(WEIR_ERR_INVALID, "the collection already has an algorithm '%s' for %s",
                          algo->name, weir_collective_name(algo->collective));
    if (collection->count == collection->capacity) {
        int capacity = collection->capacity ? 2 * collection->capacity : 64;
        weir_algo **grown = realloc(collection->algos, (size_t)capacity * sizeof *grown);
        if (!grown)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a collection");
        collection->algos = grown;
        collection->capacity = capacity;
    }
    algo->scratch = collection->scratch;
    collection->algos[collection->count++] = algo;
    return WEIR_OK;
}

static weir_status collection_add_builtin(weir_algo_collection *collection,
                                          weir_collective collective, int row)
{
    weir_algo *made = NULL;
    weir_status status = weiri_algo_builtin(collective, row, &made);
    if (status != WEIR_OK)
        return status;
    status = weir_algo_collection_add(collection, made);
    if (status != WEIR_OK)
        weir_algo_destroy(made);
    return status;
}

weir_status weir_algo_collection_create(weir_comm *comm, weir_mem *scratch,
                                        weir_algo_collection **collection)
{
    if (!comm || !collection)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_algo_collection_create: comm and collection are required");
    weir_algo_collection *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a collection");
    made->comm = comm;
    made->scratch = scratch;
    size_t rows = 0;
    const weir_algo_info *table = weir_algo_list(&rows);
    weir_status status = WEIR_OK;
    for (int c = 0; c < WEIR_COLL_COUNT && status == WEIR_OK; c++)
        status = collection_add_builtin(made, (weir_collective)c, -1);
    for (size_t row = 0; row < rows && status == WEIR_OK; row++)
        if (table[row].backend == weir_comm_algo_backend(comm) &&
            comm->nranks >= table[row].min_ranks && comm->nranks <= table[row].max_ranks)
            status = collection_add_builtin(made, table[row].collective, (int)row);
    if (status == WEIR_OK)
        *collection = made;
    else
        weir_algo_collection_destroy(made);
    return status;
}

void weir_algo_collection_destroy(weir_algo_collection *collection)
{
    if (!collection)
        return;
    for (int i = 0; i < collection->count; i++)
        weir_algo_destroy(collection->algos[i]);
    free(collection->algos);
    free(collection);
}

int weir_algo_collection_count(const weir_algo_collection *collection)
{
    return collection->count;
}

weir_algo *weir_algo_collection_at(const weir_algo_collection *collection, int index)
{
    return index >= 0 && index < collection->count ? collection->algos[index] : NULL;
}

weir_status weir_algo_find(const weir_algo_collection *collection, weir_collective collective,
                           const char *name, weir_algo **algo)
{
    if (!collection || !name || !algo || (unsigned)collective >= WEIR_COLL_COUNT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_algo_find: collection, collective, name and algo are required");
    weir_algo *found = collection_look_up(collection, collective, name);
    if (found) {
        *algo = found;
        return WEIR_OK;
    }
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < collection->count && used < sizeof known; i++)
        if (collection->algos[i]->collective == collective)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     collection->algos[i]->name);
    return weiri_fail(WEIR_ERR_INVALID, "%s has no algorithm '%s'; there are %s",
                      weir_collective_name(collective), name, known);
}

void weir_algo_collection_set_selector(weir_algo_collection *collection,
                                       weir_algo_selector selector, void *context)
{
    collection->selector = selector;
    collection->context = context;
}

weir_algo *weir_algo_select(const weir_algo_collection *collection, weir_collective collective,
                            size_t bytes)
{
    weir_algo *chosen = NULL;
    if (collection->selector)
        chosen = collection->selector(collection->context, collection, collective, bytes);
    return chosen ? chosen : collection_look_up(collection, collective, "auto");
}
