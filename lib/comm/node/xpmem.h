/*
 * Unregistered memory of peers through XPMEM, a kernel module that maps one process's memory into
 * another. Where every rank of a node has it, a process makes its address space available once, as
 * a segment; a communicator gets a permit for each peer's segment, and a rank attaches ranges of
 * it on first use. An attached buffer is like a peer's region: loads and stores reach it.
 *
 * Attachments are kept, because a page of one costs a page fault when it is first accessed. The
 * module removes the pages from them when the owner unmaps or replaces its memory, and brings in
 * the new ones at the next access; so an attachment stays right although buffers are freed and
 * allocated again at the same address.
 *
 * Memory that goes away during an access raises SIGBUS: its owner has ended, or the owner's buffer
 * is not mapped there. xpmem_fault.c then puts empty memory in its place, so that the loop ends,
 * and weiri_xpmem_check, which follows each access, reports it.
 */
#ifndef WEIR_COMM_NODE_XPMEM_H
#define WEIR_COMM_NODE_XPMEM_H

#include "comm/comm.h"

/* Shorter buffers are copied through shared memory, which takes less time than page faults. */
enum { WEIRI_ATTACHED_LEAST_BYTES = 4096 };
/* The unit of weiri_desc.region in descriptors of such buffers. */
enum { WEIRI_ATTACHED_UNIT_BYTES = 4096 };
/* Attachments to one peer; beyond that the least recently used one is detached. A call uses at most
 * two of them. */
enum { WEIRI_ATTACHMENTS_MAX = 32 };

/* What a rank sends to its peers when a communicator is created. */
typedef enum weiri_xpmem_state {
    WEIRI_XPMEM_READY,
    WEIRI_XPMEM_OFF,        /* WEIR_XPMEM=0 */
    WEIRI_XPMEM_NO_LIBRARY, /* no libxpmem.so.0, or one that lacks a function */
    WEIRI_XPMEM_NO_DEVICE,  /* /dev/xpmem is missing, or this user cannot open it */
    WEIRI_XPMEM_REFUSED,    /* the module made no segment */
} weiri_xpmem_state;

typedef struct weiri_xpmem_offer {
    int64_t segment;
    uint64_t address, word; /* of a word in this process, and its value: to test attaching */
    int32_t state;          /* weiri_xpmem_state */
    int32_t code;           /* errno, or 0 */
} weiri_xpmem_offer;

/* Makes this process's segment, unless another communicator has it already, and comm->xpmem; if
 * that is impossible, offer has the reason. word is what peers attach as a test. WEIR_ERR_INVALID:
 * WEIR_XPMEM has another value than 0 and 1. Local. */
weir_status weiri_xpmem_open(weir_comm *comm, const uint64_t *word, weiri_xpmem_offer *offer);

/* Gets a permit for each peer's segment and attaches its word. Returns WEIRI_READS_ATTACHED if that
 * succeeded with all peers, else 0. offers: the offers of all ranks, stride_bytes apart. Local. */
int weiri_xpmem_join(weir_comm *comm, const weiri_xpmem_offer *offers, size_t stride_bytes);

/* For when any rank got 0 there: closes, and rank 0 logs the reason, once in a process. Local. */
void weiri_xpmem_decline(weir_comm *comm, const weiri_xpmem_offer *offers, size_t stride_bytes);

/* Detaches everything, returns the permits, and with the process's last communicator removes the
 * segment. comm->xpmem becomes NULL. Local; peers need not have detached. */
void weiri_xpmem_close(weir_comm *comm);

/* Returns the descriptor of a buffer that peers map: of its region, else of unregistered memory
 * that they attach; generation 0 if they can do neither, or not faster than by copies. */
static inline weiri_desc weiri_xpmem_describe(const weir_comm *comm, const void *pointer,
                                              size_t bytes)
{
    weiri_desc desc = weiri_region_describe(comm, pointer, bytes);
    if (desc.generation || !comm->xpmem || (bytes && bytes < WEIRI_ATTACHED_LEAST_BYTES))
        return desc;
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    uint64_t units = (address % WEIRI_ATTACHED_UNIT_BYTES + bytes + WEIRI_ATTACHED_UNIT_BYTES - 1) /
                     WEIRI_ATTACHED_UNIT_BYTES;
    if (units >= UINT32_MAX)
        return desc;
    return (weiri_desc){(uint32_t)units, WEIRI_GENERATION_ATTACHED, address};
}

/* If the communicator was aborted or a rank has died, fails as a wait for the rank does. */
weir_status weiri_xpmem_report_end(weir_comm *comm, int rank);

/* Fails if memory that this thread has accessed since the last check was not there. Call it after
 * the last access to attached buffers and before their content, or that they have been read, is
 * reported to anybody. */
weir_status weiri_xpmem_report_lost(weir_comm *comm);
int weiri_xpmem_end_access(struct weiri_xpmem *xpmem);
static inline weir_status weiri_xpmem_check(weir_comm *comm)
{
    if (WEIRI_LIKELY(!comm->xpmem || weiri_xpmem_end_access(comm->xpmem)))
        return WEIR_OK;
    return weiri_xpmem_report_lost(comm);
}

#endif
