/*
 * Contexts: resources that a launch needs and that are expensive to create, kept for later calls
 * with the same key.
 *
 * Each rank looks up its own key. It may find a context where another rank finds none, or a
 * different one, because buffers can be paired differently than before. If each rank acted on its
 * own result, one would create a new context, which requires all ranks, while another launches and
 * waits in its kernel. Therefore the ranks vote. They execute the same algorithms in the same
 * order, so corresponding contexts are in the same slot. A vote is the set of slots whose key
 * matches; the ranks use the first slot that is in every vote, or all create a new context.
 *
 * A vote is one word in the voting rank's page of shared memory: the vote's number and the set. The
 * rank stores it with release; every rank loads all words with acquire until they have that number.
 * Two words are used alternately: a rank that stores vote v + 2 has seen all votes v + 1, whose
 * writers had read all votes v. A rank whose call is invalid votes REFUSED, and the call
 * fails on all ranks. Ranks of several nodes exchange votes over the bootstrap.
 *
 * If no slot matches, which is rare, the ranks exchange over the bootstrap which slots are in use,
 * when they were last used, and which of them captured graphs hold. All ranks then choose the same
 * slot.
 */
#include "algo/algo.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    VOTE_BITS = 20, /* low bits of the word: one for each slot, and REFUSED; above: the number */
    REFUSED = 1 << WEIRI_CONTEXTS_MAX,
    ALL_SLOTS = REFUSED - 1,
};

/* The result of a vote. */
typedef struct vote_result {
    uint32_t common; /* slots that every rank voted for */
    int refuser;     /* the first rank whose call is invalid; -1: none */
} vote_result;

static void count_vote(vote_result *result, int rank, uint32_t vote)
{
    result->common &= vote;
    if (vote & REFUSED && result->refuser < 0)
        result->refuser = rank;
}

static weir_status vote_through_pages(weir_comm *comm, uint32_t mine, vote_result *result)
{
    const uint64_t number = ++comm->votes;
    const int parity = (int)(number & 1);
    weir_store_release(&comm->peers[comm->rank].page->votes[parity].value,
                       number << VOTE_BITS | mine);
    for (int rank = 0; rank < comm->nranks; rank++) {
        const uint64_t *word = &comm->peers[rank].page->votes[parity].value;
        weir_status status =
            weiri_comm_wait(comm, word, number << VOTE_BITS, rank, "vote on a context");
        if (status != WEIR_OK)
            return status;
        count_vote(result, rank, (uint32_t)(weir_load_acquire(word) & ((1 << VOTE_BITS) - 1)));
    }
    return WEIR_OK;
}

static weir_status vote_through_boot(weir_comm *comm, uint32_t mine, vote_result *result)
{
    uint32_t *votes = calloc((size_t)comm->nranks, sizeof *votes);
    if (!votes)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the votes of %d ranks", comm->nranks);
    votes[comm->rank] = mine;
    weir_status status = weir_boot_allgather(comm->boot, votes, sizeof *votes);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        count_vote(result, rank, votes[rank]);
    free(votes);
    return status;
}

/* The slots whose context has this key. */
static uint32_t matching_slots(const weiri_algo_instance *instance, const weir_algo_key *key)
{
    uint32_t slots = 0;
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++)
        if (instance->contexts[i].used && memcmp(&instance->contexts[i].key, key, sizeof *key) == 0)
            slots |= 1u << i;
    return slots;
}

static weir_status context_vote(const weir_algo *algo, weir_comm *comm, weir_status mine,
                                uint32_t slots, uint32_t *common)
{
    *common = slots;
    if (algo->ops->keys_alike || comm->nranks == 1)
        return mine;
    vote_result result = {ALL_SLOTS, -1};
    const uint32_t vote = mine == WEIR_OK ? slots : REFUSED;
    char why[256]; /* this rank's error line, which a failing wait below would replace */
    memset(why, 0, sizeof why);
    if (mine != WEIR_OK)
        strncpy(why, weir_last_error(), sizeof why - 1);
    weir_status status = comm->internode ? vote_through_boot(comm, vote, &result)
                                         : vote_through_pages(comm, vote, &result);
    if (mine != WEIR_OK)
        return weiri_fail(mine, "%s", why);
    if (status == WEIR_OK && result.refuser >= 0)
        status = weiri_fail(WEIR_ERR_MISMATCH,
                            "rank %d: rank %d cannot make its call of algorithm %s, see the "
                            "error of that rank; nothing was launched",
                            comm->rank, result.refuser, algo->name);
    *common = result.common;
    return status;
}

/* ------------------------------------------------------------- a new context */

/* What ranks exchange before they create a context: a bit for each slot in use, and for each slot
 * that a captured graph holds. */
typedef struct census {
    uint32_t used, held;
    uint64_t last_use[WEIRI_CONTEXTS_MAX];
} census;

static int context_limit(const weir_algo *algo)
{
    return algo->ops->contexts_max ? algo->ops->contexts_max : WEIRI_CONTEXTS_MAX;
}

/* A free slot, or the least recently used one that no graph holds; -1 if there is none. first is
 * rank 0's census, held the union of all ranks'. */
static int census_pick_slot(const census *first, uint32_t held, int slots)
{
    int best = -1;
    for (int i = 0; i < slots; i++) {
        if (!(first->used >> i & 1))
            return i;
        if (!(held >> i & 1) && (best < 0 || first->last_use[i] < first->last_use[best]))
            best = i;
    }
    return best;
}

static void census_fill(const weiri_algo_instance *instance, census *own)
{
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++) {
        own->used |= (uint32_t)instance->contexts[i].used << i;
        own->held |= (uint32_t)instance->contexts[i].held << i;
        own->last_use[i] = instance->contexts[i].last_use;
    }
}

/* Chooses the slot for a new context, the same on all ranks. Collective. */
static weir_status context_choose_slot(const weir_algo *algo, const weiri_algo_instance *instance,
                                       int *slot)
{
    weir_comm *comm = instance->comm;
    size_t n = (size_t)comm->nranks;
    census *all = calloc(n, sizeof *all);
    weir_status status = weir_boot_agree(
        comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for contexts"));
    if (status != WEIR_OK)
        goto free_census;
    census_fill(instance, &all[comm->rank]);
    status = weir_boot_allgather(comm->boot, all, sizeof *all);
    if (status != WEIR_OK)
        goto free_census;
    uint32_t held = 0;
    for (size_t rank = 0; rank < n; rank++)
        held |= all[rank].held;
    *slot = census_pick_slot(&all[0], held, context_limit(algo));
    if (*slot < 0)
        status = weiri_fail(WEIR_ERR_NO_MEMORY,
                            "algorithm %s: captured graphs hold all %d contexts; raise "
                            "contexts_max, or capture fewer different calls",
                            algo->name, context_limit(algo));
free_census:
    free(all);
    return status;
}

/* Destroys a context once no rank uses it any more. Collective. */
static weir_status context_retire(const weir_algo *algo, weir_comm *comm, weiri_context *context)
{
    if (comm->gpu)
        comm->gpu->ops->quiesce(comm);
    weir_status status = weiri_comm_barrier(comm);
    algo->ops->context_destroy(algo->state, context->context);
    memset(context, 0, sizeof *context);
    return status;
}

static weir_status context_check_capture(const weir_algo *algo, weir_comm *comm,
                                         const weir_call *call)
{
    if (!comm->gpu || !comm->gpu->ops->captures(comm, call->stream))
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "algorithm %s needs a new context for this call, which cannot be created "
                      "while a stream is captured; make the call once before the capture",
                      algo->name);
}

/* Creates a context for a call. Collective. *slot: where it is. */
static weir_status context_create_new(weir_algo *algo, weiri_algo_instance *instance,
                                      const weir_call *call, const weir_algo_key *key,
                                      weir_status mine, int *slot)
{
    weir_comm *comm = instance->comm;
    void *made = NULL;
    if (mine == WEIR_OK)
        mine = context_check_capture(algo, comm, call);
    weir_status status = weir_boot_agree(comm->boot, mine);
    if (status == WEIR_OK)
        status = context_choose_slot(algo, instance, slot);
    if (status != WEIR_OK)
        return status;
    weiri_context *context = &instance->contexts[*slot];
    if (context->used)
        status = context_retire(algo, comm, context);
    if (status == WEIR_OK)
        status = algo->ops->context_create(algo->state, comm, call, &made);
    mine = status;
    status = weir_boot_agree(comm->boot, mine);
    if (status != WEIR_OK && mine == WEIR_OK)
        algo->ops->context_destroy(algo->state, made);
    if (status == WEIR_OK)
        *context = (weiri_context){.used = 1, .key = *key, .context = made};
    return status;
}

weir_status weiri_context_take(weir_algo *algo, weiri_algo_instance *instance,
                               const weir_call *call, weir_status mine, void **context)
{
    weir_comm *comm = instance->comm;
    weir_algo_key key;
    uint32_t common = 0;
    int slot = 0;
    memset(&key, 0, sizeof key);
    if (mine == WEIR_OK)
        mine = algo->ops->context_key(algo->state, comm, call, &key);
    weir_status status = context_vote(
        algo, comm, mine, mine == WEIR_OK ? matching_slots(instance, &key) : 0, &common);
    if (status != WEIR_OK)
        return status;
    if (common)
        slot = __builtin_ctz(common);
    else
        status = context_create_new(algo, instance, call, &key, status, &slot);
    if (status != WEIR_OK)
        return status;
    weiri_context *taken = &instance->contexts[slot];
    taken->last_use = ++instance->uses;
    if (comm->gpu && !taken->held)
        taken->held = comm->gpu->ops->captures(comm, call->stream);
    *context = taken->context;
    return WEIR_OK;
}

void weiri_contexts_destroy(weir_algo *algo, weiri_algo_instance *instance)
{
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++)
        if (instance->contexts[i].used)
            context_retire(algo, instance->comm, &instance->contexts[i]);
}
