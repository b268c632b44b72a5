/*
 * Allreduce of registered memory where ranks run on several NUMA nodes. In fused a rank reads its
 * share from all ranks, so that each byte crosses between NUMA nodes once for every rank of the
 * other ones. Here it crosses only as a partial result, once for every other NUMA node, and back:
 *
 * 1. The ranks of a NUMA node divide the buffer into shares. Each reduces its share of their inputs
 *    into its own output.
 * 2. Ranks of the same place on their NUMA nodes have the same share. Each combines a part of it
 *    out of all their outputs, in the order of the nodes, and stores it in all of them.
 * 3. Every rank copies the other shares from the outputs of its NUMA node's ranks.
 *
 * There are as many shares as the smallest NUMA node has ranks; ranks of further places only copy.
 *
 * In place: in step 1 no other rank reads the share of an input that its owner overwrites, because
 * the others of the NUMA node read other shares. In step 2 one rank accesses a part.
 *
 * Epochs. Descriptors are published in the first one. It and the next two end after steps 1 and 2,
 * and when a rank's share is complete; the last one is a barrier, after which outputs may change.
 * None but the first uses the areas' buffers, so none waits for their reuse.
 *
 * Partial results have the data's type, so types that are rounded when stored are left to fused. So
 * is memory that is attached by XPMEM, which a rank may have to access by system calls.
 */
#include "coll/algos.h"
#include "compute/numeric.h"

#include <string.h>

static const char phase[] = "allreduce (numa)";

typedef struct numa {
    weiri_coll *coll;
    const weiri_task *task;
    int ndomains, domain; /* NUMA nodes; this rank's */
    int place, nshares;   /* of this rank among the ranks of its NUMA node */
    int *first;           /* of each NUMA node in ranks, and the end of the last one */
    int *ranks;           /* in the order of NUMA nodes */
} numa;

static int numa_rank(const numa *x, int domain, int place)
{
    return x->ranks[x->first[domain] + place];
}

/* Sorts the ranks by NUMA node, and finds this rank's place. */
static void numa_sort_ranks(numa *x)
{
    const weir_comm *comm = x->coll->comm;
    int used = 0;
    x->nshares = comm->nranks;
    for (int domain = 0; domain < x->ndomains; domain++) {
        x->first[domain] = used;
        for (int rank = 0; rank < comm->nranks; rank++) {
            if (comm->domain_of[rank] != domain)
                continue;
            if (rank == comm->rank)
                x->place = used - x->first[domain];
            x->ranks[used++] = rank;
        }
        if (used - x->first[domain] < x->nshares)
            x->nshares = used - x->first[domain];
    }
    x->first[x->ndomains] = used;
}

static weiri_share numa_share(const numa *x, int place)
{
    return weiri_share_of(x->task->call->count, x->task->element_bytes, place, x->nshares);
}

/* Reduces elements of count buffers, which begin at coll->blocks, into this rank's output. */
static void numa_reduce(const numa *x, const char *const *from, int nfrom, weiri_share part,
                        weir_op op)
{
    const weiri_coll *coll = x->coll;
    const size_t size = x->task->element_bytes, step = WEIRI_BLOCK_BYTES / size;
    const weiri_reduce_fn reduce = weiri_reduce_get(x->task->call->dtype, op);
    for (size_t done = 0; done < part.count; done += step) {
        size_t length = part.count - done < step ? part.count - done : step;
        size_t at = (part.first + done) * size;
        for (int i = 0; i < nfrom; i++)
            coll->blocks[i] = from[i] + at;
        reduce(weiri_out_at(x->task, at), coll->blocks, nfrom, length, (uint64_t)coll->nranks, 0);
    }
}

/* Step 1. Only step 2 has all contributions, so it divides. */
static void numa_reduce_share(const numa *x)
{
    const int count = x->first[x->domain + 1] - x->first[x->domain];
    const char **from = WEIRI_STACK_ARRAY(const char *, count);
    for (int place = 0; place < count; place++)
        from[place] = x->coll->sources[numa_rank(x, x->domain, place)];
    numa_reduce(x, from, count, numa_share(x, x->place),
                x->task->call->op == WEIR_AVG ? WEIR_SUM : x->task->call->op);
}

/* Step 2. */
static void numa_combine_part(const numa *x)
{
    const weiri_coll *coll = x->coll;
    const size_t size = x->task->element_bytes;
    const weiri_share share = numa_share(x, x->place);
    weiri_share part = weiri_share_of(share.count, size, x->domain, x->ndomains);
    const char **from = WEIRI_STACK_ARRAY(const char *, x->ndomains);
    part.first += share.first;
    for (int domain = 0; domain < x->ndomains; domain++)
        from[domain] = coll->outputs[numa_rank(x, domain, x->place)];
    numa_reduce(x, from, x->ndomains, part, x->task->call->op);
    for (int domain = 0; domain < x->ndomains; domain++)
        if (domain != x->domain)
            memcpy(coll->outputs[numa_rank(x, domain, x->place)] + part.first * size,
                   weiri_out_at(x->task, part.first * size), part.count * size);
}

static weir_status numa_await(const numa *x, int rank)
{
    return weiri_comm_wait(x->coll->comm, &x->coll->areas[rank].done->value, x->coll->epoch, rank,
                           phase);
}

/* Ends an epoch, waits for the ranks that have the same share, and begins the next epoch. */
static weir_status numa_end_step(const numa *x)
{
    weir_status status = WEIR_OK;
    weiri_coll_end(x->coll);
    for (int domain = 0; domain < x->ndomains && status == WEIR_OK; domain++)
        if (domain != x->domain && x->place < x->nshares)
            status = numa_await(x, numa_rank(x, domain, x->place));
    x->coll->epoch++;
    return status;
}

/* Step 3, beginning with the successor, so that no two ranks read from the same one at once. */
static weir_status numa_copy_shares(const numa *x)
{
    const weiri_coll *coll = x->coll;
    const size_t size = x->task->element_bytes;
    for (int i = 1; i <= x->nshares; i++) {
        const int place = (x->place + i) % x->nshares, from = numa_rank(x, x->domain, place);
        const weiri_share share = numa_share(x, place);
        if (from == coll->rank)
            continue;
        weir_status status = numa_await(x, from);
        if (status != WEIR_OK)
            return status;
        weiri_move(coll, weiri_out_at(x->task, share.first * size),
                   coll->outputs[from] + share.first * size, share.count * size,
                   x->task->count_bytes);
    }
    return WEIR_OK;
}

static weir_status numa_run(numa *x)
{
    const int has_share = x->place < x->nshares;
    if (has_share)
        numa_reduce_share(x);
    weir_status status = numa_end_step(x);
    if (status == WEIR_OK && has_share)
        numa_combine_part(x);
    if (status == WEIR_OK)
        status = numa_end_step(x);
    if (status != WEIR_OK)
        return status;
    weiri_coll_end(x->coll); /* the share is complete */
    status = numa_copy_shares(x);
    x->coll->epoch++;
    return status == WEIR_OK ? weiri_coll_end_together(x->coll, phase) : status;
}

/* Whether any rank's buffer is attached by XPMEM: all ranks see the same descriptors. */
static int numa_any_attached(const weiri_coll *coll)
{
    for (int rank = 0; rank < coll->nranks; rank++) {
        const weiri_post *post = weiri_post_of(coll, rank);
        if (post->in.generation == WEIRI_GENERATION_ATTACHED ||
            post->out.generation == WEIRI_GENERATION_ATTACHED)
            return 1;
    }
    return 0;
}

static weir_status allreduce_numa_posted(weiri_coll *coll, const weiri_task *task)
{
    if (numa_any_attached(coll)) {
        coll->last_algo = weiri_host_allreduce_fused_row.info.name;
        return weiri_allreduce_fused_posted(coll, task);
    }
    weir_status status = weiri_posts_map_inputs(coll, task, 0);
    if (status == WEIR_OK)
        status = weiri_posts_map_outputs(coll, task, 0, coll->nranks);
    if (status != WEIR_OK)
        return status;
    numa x = {.coll = coll,
              .task = task,
              .ndomains = coll->comm->ndomains,
              .domain = coll->comm->domain_of[coll->rank],
              .first = WEIRI_STACK_ARRAY(int, coll->comm->ndomains + 1),
              .ranks = WEIRI_STACK_ARRAY(int, coll->nranks)};
    numa_sort_ranks(&x);
    return numa_run(&x);
}

static weir_status allreduce_numa_run(weiri_coll *coll, const weiri_task *task)
{
    if (weiri_is_rounded(task->call->dtype))
        return weiri_algo_fall_back(coll, task, &weiri_host_allreduce_fused_row);
    return weiri_allreduce_mapped(coll, task, allreduce_numa_posted);
}

const weiri_algo weiri_host_allreduce_numa_row = {
    .info = {WEIRI_HOST_TRAITS(
                 ALLREDUCE, "numa",
                 "the same within each NUMA node, partial results between them; registered memory"),
             .needs_mapped = 1, .in_order = "fused"},
    .run = allreduce_numa_run,
};
