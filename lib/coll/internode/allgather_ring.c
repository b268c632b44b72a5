/*
 * Allgather of long messages on many nodes, around rings: each node gathers its section; in step k
 * every rail passes its share of the section of node - k on to the next node, and the node gathers
 * the shares that have arrived in the step before. Every rank communicates with two others only.
 *
 * A share of a section is a rank's own block if all nodes have the same number of ranks; otherwise
 * sections are divided evenly among as many rails as the smallest node has ranks. Cost along a
 * rail: (nodes - 1) * (a + share * b) (Chan, Heimlich, Purkayastha, van de Geijn 2007).
 */
#include "coll/internode/sections.h"

typedef struct ring {
    weiri_internode_coll x;
    int nrails;
    int in_order;   /* ranks are numbered node by node: sections are parts of out */
    char *sections; /* all of them */
} ring;

static char *section_of(const ring *r, int node)
{
    return r->sections + weiri_section_at(&r->x, node) * r->x.task->count_bytes;
}

static size_t section_bytes(const ring *r, int node)
{
    return weiri_section_ranks(&r->x, node) * r->x.task->count_bytes;
}

/* Every rank of the node has its own section. */
static weir_status ring_gather_own(ring *r)
{
    const weiri_task *task = r->x.task;
    char *own = section_of(r, r->x.internode->node);
    size_t bytes = r->x.task->count_bytes;
    if (r->x.count > 1)
        return weir_allgather(r->x.host->comm, task->call->in, own, bytes, WEIR_UINT8, NULL);
    return weiri_internode_coll_copy(&r->x, own, task->call->in, bytes);
}

/* Passes this rail's share of one section on, and receives its share of another section. */
static weir_status ring_step(ring *r, int send, int receive)
{
    int n = r->x.internode->nnodes, node = r->x.internode->node;
    weiri_share to = weiri_parts_share(section_bytes(r, send), r->x.place, r->nrails);
    weiri_share from = weiri_parts_share(section_bytes(r, receive), r->x.place, r->nrails);
    const weiri_transfer t = {.to = weiri_group_rank(&r->x, weiri_next(node, n)),
                              .from = weiri_group_rank(&r->x, weiri_previous(node, n)),
                              .send = section_of(r, send) + to.first,
                              .send_bytes = to.count,
                              .receive = section_of(r, receive) + from.first,
                              .receive_bytes = from.count};
    return weiri_transfer_run(&r->x, &t);
}

static weir_status ring_run(ring *r)
{
    int n = r->x.internode->nnodes, section = r->x.internode->node;
    weir_status status = ring_gather_own(r);
    for (int step = 1; step < n && status == WEIR_OK; step++) {
        int next = weiri_previous(section, n);
        if (r->x.place < r->nrails)
            status = ring_step(r, section, next);
        if (status == WEIR_OK)
            status = weiri_parts_gather(&r->x, section_of(r, next), section_bytes(r, next), 1,
                                        r->nrails);
        section = next;
    }
    return status;
}

static weir_status allgather_ring_run(weiri_coll *coll, const weiri_task *task)
{
    ring r = {.nrails = 0};
    size_t bytes = task->count_bytes * (size_t)coll->nranks;
    weir_status status = weiri_internode_coll_begin(coll, task, &r.x);
    if (status != WEIR_OK)
        return status;
    r.nrails = r.x.internode->fewest;
    r.in_order = weiri_sections_are_ranks(&r.x);
    r.sections = task->call->out;
    if (!r.in_order)
        status = weiri_internode_coll_scratch(&r.x, bytes, &r.sections);
    if (status == WEIR_OK)
        status = ring_run(&r);
    for (int m = 0; m < r.x.internode->nnodes && status == WEIR_OK && !r.in_order; m++)
        weiri_section_unpack(&r.x, m, task->call->out, section_of(&r, m), task->count_bytes);
    return weiri_internode_coll_end(&r.x, status);
}

const weiri_algo weiri_net_allgather_ring_row = {
    .info = {WEIRI_NET_TRAITS(ALLGATHER, "ring", "rails around a ring of nodes; many nodes")},
    .run = allgather_ring_run,
    .gpu_phases_from = SIZE_MAX,
};
