/* Whether the ranks of a communicator use XPMEM: each tries to attach memory of every other one. */
#include "comm/node/xpmem_state.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const weiri_xpmem_offer *offer_of(const weiri_xpmem_offer *offers, size_t stride_bytes,
                                         int rank)
{
    return (const void *)((const char *)offers + (size_t)rank * stride_bytes);
}

/* The first rank that has no segment, or -1. */
static int offers_lack(const weir_comm *comm, const weiri_xpmem_offer *offers, size_t stride_bytes)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        if (offer_of(offers, stride_bytes, rank)->state != WEIRI_XPMEM_READY)
            return rank;
    return -1;
}

/* Gets the permit for a peer's segment. Returns 1 if the peer's word can be read. */
static int offer_take(weir_comm *comm, int rank, const weiri_xpmem_offer *offer)
{
    weiri_xpmem *xpmem = comm->xpmem;
    weiri_attached_peer *peer = &xpmem->peers[rank];
    char *word = NULL;
    uint64_t seen = ~offer->word;
    peer->is_here = comm->peers[rank].pid == (int)getpid();
    if (!peer->is_here) {
        errno = 0;
        peer->permit = xpmem->library->get(offer->segment, WEIRI_XPMEM_READ_WRITE,
                                           WEIRI_XPMEM_PERMIT_MODE, NULL);
    }
    if (!peer->is_here && peer->permit <= 0) {
        weiri_log(WEIRI_LOG_DEBUG, "rank %d has no permit for rank %d's memory (xpmem_get: %s)",
                  comm->rank, rank, strerror(errno));
        peer->permit = 0;
        return 0;
    }
    const weiri_desc desc = {1, WEIRI_GENERATION_ATTACHED, offer->address};
    if (weiri_xpmem_pointer(comm, rank, desc, &word) == WEIR_OK)
        memcpy(&seen, word, sizeof seen);
    else
        weiri_log(WEIRI_LOG_DEBUG, "%s", weir_last_error());
    return weiri_xpmem_end_access(xpmem) && seen == offer->word;
}

int weiri_xpmem_join(weir_comm *comm, const weiri_xpmem_offer *offers, size_t stride_bytes)
{
    if (!comm->xpmem || offers_lack(comm, offers, stride_bytes) >= 0)
        return 0;
    for (int rank = 0; rank < comm->nranks; rank++)
        if (rank != comm->rank && !offer_take(comm, rank, offer_of(offers, stride_bytes, rank)))
            return 0;
    return WEIRI_READS_ATTACHED;
}

static void offer_explain(const weiri_xpmem_offer *offer, char *text, size_t text_bytes)
{
    const char *why = offer->code ? strerror(offer->code) : "no reason given";
    switch ((weiri_xpmem_state)offer->state) {
    case WEIRI_XPMEM_OFF:
        snprintf(text, text_bytes, "has %s=0", weiri_env_name(WEIRI_ENV_XPMEM));
        return;
    case WEIRI_XPMEM_NO_LIBRARY:
        snprintf(text, text_bytes, "has no usable %s", WEIRI_XPMEM_LIBRARY);
        return;
    case WEIRI_XPMEM_NO_DEVICE:
        snprintf(text, text_bytes, "cannot open /dev/xpmem (%s)", why);
        return;
    case WEIRI_XPMEM_REFUSED:
        snprintf(text, text_bytes, "cannot make a segment (xpmem_make: %s)", why);
        return;
    case WEIRI_XPMEM_READY:
        break;
    }
    snprintf(text, text_bytes, "cannot attach another rank's memory; WEIR_LOG=debug shows which");
}

void weiri_xpmem_decline(weir_comm *comm, const weiri_xpmem_offer *offers, size_t stride_bytes)
{
    static int is_logged;
    char reason[128];
    int rank = offers_lack(comm, offers, stride_bytes);
    weiri_xpmem_close(comm);
    if (comm->rank != 0 || comm->nranks == 1 ||
        __atomic_exchange_n(&is_logged, 1, __ATOMIC_RELAXED))
        return;
    for (int each = 0; rank < 0; each++)
        if (!(weir_load_acquire(&comm->peers[each].page->reads.value) & WEIRI_READS_ATTACHED))
            rank = each;
    offer_explain(offer_of(offers, stride_bytes, rank), reason, sizeof reason);
    weiri_log(WEIRI_LOG_INFO, "XPMEM is not used for unregistered buffers: rank %d %s",
              weiri_comm_parent_rank(comm, rank), reason);
}
