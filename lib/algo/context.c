/*
 * Contexts: what a launch needs and is dear to make, kept for calls of the same key.
 *
 * Each rank looks its own key up, and may find it where another rank does not, or find it
 * in another context: buffers that were paired before are paired differently now. Were each
 * to act on what it found, one would make a new context, which takes all ranks, while another
 * launches and waits in its kernel. So they vote. A communicator's ranks execute the same
 * algorithms in the same order, so their contexts lie in the same slots; a vote is the set
 * of slots whose key is the call's, and the slot taken is the first that all ranks have. If
 * there is none, all make one.
 *
 * A vote is one word in the rank's page, the number of the vote and the set, stored with
 * release; every rank waits until all words have that number. Words alternate by parity:
 * a rank that stores vote v + 2 has seen all votes v + 1, whose writers had read all of v.
 * A rank that cannot make its call votes so, and all refuse it.
 *
 * On a miss, which is rare, the bootstrap carries what else must be alike: which slot is
 * free or was used least recently (rank 0 says), and which ones captured graphs hold on any
 * rank.
 */
#include "algo/algo.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    VOTE_BITS = 20, /* below the vote's number: a bit a slot, and that below */
    REFUSED = 1 << WEIRI_CONTEXTS_MAX,
    ALL_SLOTS = REFUSED - 1,
};

/* What all votes say. */
typedef struct verdict {
    uint32_t common; /* slots that every rank voted for */
    int refuser;     /* a rank that cannot make its call; -1: none */
} verdict;

static void count_vote(verdict *said, int rank, uint32_t vote)
{
    said->common &= vote;
    if (vote & REFUSED && said->refuser < 0)
        said->refuser = rank;
}

static weir_status vote_through_pages(weir_comm *comm, uint32_t mine, verdict *said)
{
    const uint64_t number = ++comm->votes;
    const int parity = (int)(number & 1);
    weir_store_release(&comm->peers[comm->rank].page->votes[parity].value,
                       number << VOTE_BITS | mine);
    for (int rank = 0; rank < comm->nranks; rank++) {
        const uint64_t *word = &comm->peers[rank].page->votes[parity].value;
        weir_status status =
            weiri_comm_wait(comm, word, number << VOTE_BITS, rank, "choice of a context");
        if (status != WEIR_OK)
            return status;
        count_vote(said, rank, (uint32_t)(weir_load_acquire(word) & ((1 << VOTE_BITS) - 1)));
    }
    return WEIR_OK;
}

static weir_status vote_through_boot(weir_comm *comm, uint32_t mine, verdict *said)
{
    uint32_t *votes = calloc((size_t)comm->nranks, sizeof *votes);
    if (!votes)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for votes");
    votes[comm->rank] = mine;
    weir_status status = weir_boot_allgather(comm->boot, votes, sizeof *votes);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        count_vote(said, rank, votes[rank]);
    free(votes);
    return status;
}

/* The slots whose key is the call's. */
static uint32_t matching(const weiri_algo_place *place, const weir_algo_key *key)
{
    uint32_t slots = 0;
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++)
        if (place->contexts[i].used && memcmp(&place->contexts[i].key, key, sizeof *key) == 0)
            slots |= 1u << i;
    return slots;
}

static weir_status decide(const weir_algo *algo, weir_comm *comm, weir_status mine, uint32_t slots,
                          uint32_t *common)
{
    *common = slots;
    if (algo->ops->keys_alike || comm->nranks == 1)
        return mine;
    verdict said = {ALL_SLOTS, -1};
    const uint32_t vote = mine == WEIR_OK ? slots : REFUSED;
    char why[256]; /* a failing wait below would replace it */
    memset(why, 0, sizeof why);
    if (mine != WEIR_OK)
        strncpy(why, weir_last_error(), sizeof why - 1);
    weir_status status = comm->internode ? vote_through_boot(comm, vote, &said)
                                   : vote_through_pages(comm, vote, &said);
    if (mine != WEIR_OK)
        return weiri_fail(mine, "%s", why);
    if (status == WEIR_OK && said.refuser >= 0)
        status = weiri_fail(WEIR_ERR_MISMATCH,
                            "rank %d: rank %d cannot make its call of algorithm %s, its own "
                            "message says why; nothing was launched",
                            comm->rank, said.refuser, algo->name);
    *common = said.common;
    return status;
}

/* ------------------------------------------------------------- a new context */

/* What ranks tell each other before they make a context. */
typedef struct census {
    uint32_t used, held;
    uint64_t last_use[WEIRI_CONTEXTS_MAX];
} census;

static int slots_of(const weir_algo *algo)
{
    return algo->ops->contexts_max ? algo->ops->contexts_max : WEIRI_CONTEXTS_MAX;
}

/* A free slot, or the least recently used one that no graph holds; -1 if there is none. */
static int pick_slot(const census *first, uint32_t held, int slots)
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

static void take_census(const weiri_algo_place *place, census *own)
{
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++) {
        own->used |= (uint32_t)place->contexts[i].used << i;
        own->held |= (uint32_t)place->contexts[i].held << i;
        own->last_use[i] = place->contexts[i].last_use;
    }
}

/* The slot for a new context, alike on all ranks. */
static weir_status choose_slot(const weir_algo *algo, const weiri_algo_place *place, int *slot)
{
    weir_comm *comm = place->comm;
    size_t n = (size_t)comm->nranks;
    census *all = calloc(n, sizeof *all);
    weir_status status = weir_boot_agree(
        comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for contexts"));
    if (status != WEIR_OK)
        goto free_census;
    take_census(place, &all[comm->rank]);
    status = weir_boot_allgather(comm->boot, all, sizeof *all);
    if (status != WEIR_OK)
        goto free_census;
    uint32_t held = 0;
    for (size_t rank = 0; rank < n; rank++)
        held |= all[rank].held;
    *slot = pick_slot(&all[0], held, slots_of(algo));
    if (*slot < 0)
        status = weiri_fail(WEIR_ERR_NO_MEMORY,
                            "algorithm %s: all %d contexts are held by captured graphs; give it "
                            "more (contexts_max), or capture fewer different calls",
                            algo->name, slots_of(algo));
free_census:
    free(all);
    return status;
}

/* No rank uses a context any more, and all destroy theirs. */
static weir_status retire(const weir_algo *algo, weir_comm *comm, weiri_context *context)
{
    if (comm->gpu)
        comm->gpu->ops->quiesce(comm);
    weir_status status = weir_comm_barrier(comm);
    algo->ops->context_destroy(algo->state, context->context);
    memset(context, 0, sizeof *context);
    return status;
}

static weir_status check_capture(const weir_algo *algo, weir_comm *comm, const weir_call *call)
{
    if (!comm->gpu || !comm->gpu->ops->captures(comm, call->stream))
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "algorithm %s needs a new context for this call, which cannot be made while "
                      "a stream is captured: make the call once before", algo->name);
}

static weir_status create(weir_algo *algo, weiri_algo_place *place, const weir_call *call,
                          const weir_algo_key *key, weir_status mine, int *slot)
{
    weir_comm *comm = place->comm;
    void *made = NULL;
    if (mine == WEIR_OK)
        mine = check_capture(algo, comm, call);
    weir_status status = weir_boot_agree(comm->boot, mine);
    if (status == WEIR_OK)
        status = choose_slot(algo, place, slot);
    if (status != WEIR_OK)
        return status;
    weiri_context *context = &place->contexts[*slot];
    if (context->used)
        status = retire(algo, comm, context);
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

weir_status weiri_context_take(weir_algo *algo, weiri_algo_place *place,
                               const weir_call *call, weir_status mine, void **context)
{
    weir_comm *comm = place->comm;
    weir_algo_key key;
    uint32_t common = 0;
    int slot = 0;
    memset(&key, 0, sizeof key);
    if (mine == WEIR_OK)
        mine = algo->ops->context_key(algo->state, comm, call, &key);
    weir_status status = decide(algo, comm, mine, mine == WEIR_OK ? matching(place, &key) : 0,
                                &common);
    if (status != WEIR_OK)
        return status;
    if (common)
        slot = __builtin_ctz(common);
    else
        status = create(algo, place, call, &key, status, &slot);
    if (status != WEIR_OK)
        return status;
    weiri_context *taken = &place->contexts[slot];
    taken->last_use = ++place->uses;
    if (comm->gpu && !taken->held)
        taken->held = comm->gpu->ops->captures(comm, call->stream);
    *context = taken->context;
    return WEIR_OK;
}

void weiri_contexts_drop(weir_algo *algo, weiri_algo_place *place)
{
    for (int i = 0; i < WEIRI_CONTEXTS_MAX; i++)
        if (place->contexts[i].used)
            retire(algo, place->comm, &place->contexts[i]);
}
