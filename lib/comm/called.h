/*
 * Which collectives ranks call: WEIR_CHECK. All ranks call the same collectives in the same order;
 * ranks that do not are found and named.
 *
 * Each rank publishes its latest calls in its page, and keeps the chain: a 64-bit hash of all its
 * calls so far. Flags of the host's algorithms and heads of messages between nodes carry the
 * sender's chain next to the data, so a receiver notices a difference when it receives. Ranks that
 * wait long, the GPU's ranks when they enqueue, weir_comm_check and weir_comm_destroy compare the
 * published calls. Ranks of other nodes are sent the call of a rank that waits long.
 *
 * Only what must be equal is compared: neither counts of alltoallv and sendrecv, nor calls without
 * elements, nor sends and receives of the NCCL interface. A chain of 0 is not compared: the rank
 * does not check.
 */
#ifndef WEIR_COMM_CALLED_H
#define WEIR_COMM_CALLED_H

#include "comm/comm.h"

/* Begins to compare, if WEIR_CHECK, or under the NCCL interface NCCL_CHECK_MODE, says so. Local;
 * the communicator has just been created. */
void weiri_called_open(weir_comm *comm);

/* Parts of weiri_called.what: the collective, the type and the operation, a byte each, a bit that
 * is always set, and the root. */
enum {
    WEIRI_CALLED_DTYPE = 8,
    WEIRI_CALLED_OP = 16,
    WEIRI_CALLED_IS = 1 << 24,
    WEIRI_CALLED_ROOT = 32
};

/* How many calls a rank publishes on the host, where ranks are at most 32 calls ahead of each
 * other; more would take the first-level cache from the data. */
enum { WEIRI_CALLED_ON_HOST = 64 };

/* Adds a call to a chain. Never 0. The result is part of the next flag, so it takes little time. */
static inline uint64_t weiri_called_mix(uint64_t chain, uint64_t what, uint64_t count)
{
    const uint64_t call = what ^ count * 0xff51afd7ed558ccdu;
    return (((chain >> 29 | chain << 35) ^ call) * 0xc4ceb9fe1a85ec53u) | 1;
}

/* Publishes that this rank calls a collective with count elements, as the next one. Local. */
static inline void weiri_called_enter(weir_comm *comm, const weir_call *call, size_t count)
{
    weiri_comm_page *page = comm->called_page;
    const weiri_called_word *mask = &comm->called_masks[call->collective];
    const uint64_t what =
        ((uint64_t)call->collective | (uint64_t)call->dtype << WEIRI_CALLED_DTYPE |
         (uint64_t)call->op << WEIRI_CALLED_OP | (uint64_t)WEIRI_CALLED_IS |
         (uint64_t)call->root << WEIRI_CALLED_ROOT) &
        mask->what;
    const uint64_t counted = (uint64_t)count & mask->count, number = comm->calls + 1;
    const uint64_t last =
        comm->gpu && !comm->host_comm ? WEIRI_CALLED_MOST - 1 : WEIRI_CALLED_ON_HOST - 1;
    weiri_called_word *own = &page->called[number & last];
    comm->chain = weiri_called_mix(comm->chain, what, counted);
    if (WEIRI_UNLIKELY(comm->host_comm != NULL))
        comm->host_comm->chain = comm->chain;
    weir_store_relaxed(&own->what, what);
    weir_store_relaxed(&own->count, counted);
    weir_store_relaxed(&own->chain, comm->chain);
    weir_store_release(&page->ncalled.value, number);
}

/* The latest call of this rank; what is 0 if there is none, or calls are not compared. */
weiri_called weiri_called_own(weir_comm *comm);

/* Copies it into this rank's state record, for ranks that wait long, and for reports. Local,
 * thread-safe. */
void weiri_called_note(weir_comm *comm);

/* Compares what the ranks have called, as far as this rank knows. Returns WEIR_ERR_MISMATCH, and an
 * error line with both calls, if another rank's differs. The caller ends the waits. Local,
 * non-blocking, thread-safe. */
weir_status weiri_called_compare(weir_comm *comm);

/* As weiri_called_compare, at the cost of one cache line, with one rank of the node: each call with
 * the next one, by calls that both have made a while ago. */
weir_status weiri_called_compare_next(weir_comm *comm);

/* As weiri_called_compare after an abort by another rank, whose record may yet have to arrive:
 * takes up to 100 ms across nodes. */
weir_status weiri_called_await(weir_comm *comm);

/* Sends this rank's state record, or the records of all ranks of this node, to the ranks of other
 * nodes that this one is connected to. Thread-safe. */
void weiri_called_show(weir_comm *comm, int of_node);

/* Writes "rank 3 calls allgather float 1024 as its 17th call, rank 0 allreduce float 1024 sum". */
void weiri_called_text(char *text, size_t bytes, int rank, const weiri_called *call, int other,
                       const weiri_called *other_call);

/* The latest call of a state record; what is 0 if it is unknown. */
static inline weiri_called weiri_called_of(const weiri_where *where)
{
    const uint64_t what = weir_load_acquire(&where->what);
    const weiri_called call = {.number = weir_load_relaxed(&where->call) >> 8,
                               .what = what,
                               .count = weir_load_relaxed(&where->count)};
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return weir_load_relaxed(&where->what) == what &&
                   weir_load_relaxed(&where->call) >> 8 == call.number
               ? call
               : (weiri_called){.what = 0};
}

/* Reads the calls that a rank has found to differ, with their ranks. Returns 0 if there are none.
 */
int weiri_called_found(const weiri_where *where, weiri_called calls[2], int ranks[2]);

static inline int weiri_called_differ(const weiri_called *a, const weiri_called *b)
{
    return a->what && b->what && a->number == b->number &&
           (a->what != b->what || a->count != b->count);
}

#endif
