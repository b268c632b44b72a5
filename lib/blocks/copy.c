/*
 * Copies of a call's blocks. Mapped pools are copied by this thread. Others, whose owner's process
 * alone has them mapped, are copied by the kernel: process_vm_readv and process_vm_writev take many
 * blocks per system call, and say how many bytes they copied before an address that is not mapped,
 * from which the entry follows.
 */
#define _GNU_SOURCE
#include "blocks/blocks.h"

#include "base/error.h"
#include "compute/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/uio.h>

/* ------------------------------------------------------------- mapped pools */

static void copy_one(char *to, const char *from, size_t bytes, int streams)
{
    if (streams && bytes >= WEIRI_PEER_STREAMING_BYTES)
        weiri_copy_streaming(to, from, bytes);
    else
        weiri_copy(to, from, bytes);
}

void weiri_blocks_copy_list(const blocks_list *list, char *to, const char *from, int streams)
{
    for (uint64_t r = 0; r < list->repetitions; r++) {
        const blocks_entry shift = blocks_shift(list, r);
        for (size_t e = 0; e < list->count; e++) {
            const blocks_entry entry = blocks_entry_at(list, e);
            if (e + 1 < list->count)
                weiri_prefetch(from + blocks_entry_at(list, e + 1).source + shift.source,
                               WEIRI_PREFETCH_BYTES);
            copy_one(to + entry.destination + shift.destination, from + entry.source + shift.source,
                     (size_t)entry.bytes, streams);
        }
    }
}

/* --------------------------------------------------------------- the kernel */

enum { VECTORS = 256, VECTORS_MOST_BYTES = 1 << 26 }; /* of one system call */

typedef struct copy_vectors {
    struct iovec source[VECTORS], destination[VECTORS];
    int count;
} copy_vectors;

/* Fills in the blocks from the cursor on, with addresses in their owners' processes. */
static void vectors_fill(const blocks_call *call, blocks_cursor at, copy_vectors *v)
{
    const uint64_t source = call->blocks->peers[call->source].address;
    const uint64_t destination = call->blocks->peers[call->destination].address;
    uint64_t room = VECTORS_MOST_BYTES;
    for (v->count = 0; v->count < VECTORS && room && at.repetition < call->list.repetitions;
         v->count++) {
        const blocks_entry entry = blocks_entry_at(&call->list, at.entry);
        const blocks_entry shift = blocks_shift(&call->list, at.repetition);
        const uint64_t left = entry.bytes - at.done, bytes = left < room ? left : room;
        v->source[v->count] = (struct iovec){
            (void *)(uintptr_t)(source + entry.source + shift.source + at.done), (size_t)bytes};
        v->destination[v->count] = (struct iovec){
            (void *)(uintptr_t)(destination + entry.destination + shift.destination + at.done),
            (size_t)bytes};
        room -= bytes;
        blocks_advance(&call->list, &at, bytes);
    }
}

static weir_status copy_fail(const blocks_call *call, const blocks_cursor *at, int error)
{
    if (error == ESRCH)
        return weiri_fail(WEIR_ERR_PEER, "%s: entry %" PRIu64 ": the process of rank %d has ended",
                          call->function, at->entry, call->args.peer);
    if (error == EFAULT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: entry %" PRIu64
                          ": the source in rank %d's pool or the destination in rank "
                          "%d's is not mapped there any more; free pools after weir_blocks_free",
                          call->function, at->entry, call->source, call->destination);
    return weiri_fail_errno(WEIR_ERR_SYSTEM, error,
                            "%s: entry %" PRIu64 ": rank %d cannot access rank %d", call->function,
                            at->entry, call->blocks->comm->rank, call->args.peer);
}

static weir_status copy_by_kernel(const blocks_call *call)
{
    const weir_comm *comm = call->blocks->comm;
    const int pid =
        weiri_comm_node(call->blocks->comm)->peers[weiri_comm_node_rank(comm, call->args.peer)].pid;
    const int is_put = call->source == comm->rank;
    blocks_cursor at = {0, 0, 0};
    copy_vectors v;
    blocks_advance(&call->list, &at, 0);
    while (at.repetition < call->list.repetitions) {
        vectors_fill(call, at, &v);
        const unsigned long count = (unsigned long)v.count;
        const ssize_t copied =
            is_put ? process_vm_writev(pid, v.source, count, v.destination, count, 0)
                   : process_vm_readv(pid, v.destination, count, v.source, count, 0);
        if (copied == 0 || (copied < 0 && errno != EINTR))
            return copy_fail(call, &at, copied ? errno : EFAULT);
        if (copied > 0)
            blocks_advance(&call->list, &at, (uint64_t)copied);
    }
    return WEIR_OK;
}

weir_status weiri_blocks_copy(const blocks_call *call, uint64_t bytes)
{
    const blocks_peer *peers = call->blocks->peers;
    if (!peers[call->args.peer].pool)
        return copy_by_kernel(call);
    weiri_blocks_copy_list(&call->list, peers[call->destination].pool, peers[call->source].pool,
                           2 * bytes >= weiri_streaming_threshold_bytes());
    return WEIR_OK;
}
