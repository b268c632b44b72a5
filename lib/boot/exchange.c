/*
 * The collective operations of the mesh: every rank sends its part to every peer and receives
 * theirs at the same time, in one poll loop. Ranks that disagree about the number of bytes still
 * complete the exchange, so that all of them notice and the streams remain usable.
 */
#include "boot/mesh.h"

#include "base/error.h"
#include "boot/link.h"
#include "boot/ranks.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* The state of the exchange with one peer. */
typedef struct transfer {
    int sent_all, received_all;
    size_t sent;            /* bytes of the header and this rank's part */
    uint64_t received;      /* bytes of the payload being received */
    weiri_message *message; /* where that payload goes, if it is a message */
} transfer;

typedef struct exchange {
    weiri_mesh *mesh;
    int is_barrier; /* for error lines */
    char *all;
    size_t bytes;
    weiri_frame frame;
    transfer *transfers;
    struct pollfd *set;
    int mismatched_rank; /* the first whose bytes differ, or -1 */
    uint64_t mismatched_bytes;
} exchange;

static weir_status exchange_send_part(exchange *ex, int peer)
{
    weiri_mesh *mesh = ex->mesh;
    transfer *to = &ex->transfers[peer];
    struct iovec parts[2] = {{&ex->frame, sizeof ex->frame}, {NULL, ex->bytes}};
    if (ex->bytes > 0)
        parts[1].iov_base = ex->all + (size_t)mesh->rank * ex->bytes;
    weir_status status = weiri_link_write_some(mesh->peers[peer].fd, weiri_mesh_number(mesh, peer),
                                               parts, 2, &to->sent);
    to->sent_all = to->sent == sizeof ex->frame + ex->bytes;
    return status;
}

/* Reads payload into data. */
static weir_status exchange_receive_into(exchange *ex, int peer, void *data, size_t bytes)
{
    transfer *from = &ex->transfers[peer];
    size_t done = (size_t)from->received;
    weir_status status = weiri_link_read_some(
        ex->mesh->peers[peer].fd, weiri_mesh_number(ex->mesh, peer), data, bytes, &done);
    from->received = done;
    return status;
}

static weir_status exchange_receive_message(exchange *ex, int peer)
{
    weiri_mesh_peer *from = &ex->mesh->peers[peer];
    transfer *arriving = &ex->transfers[peer];
    size_t bytes = (size_t)from->frame.bytes;
    if (!arriving->message) {
        arriving->message = malloc(sizeof *arriving->message + bytes);
        if (!arriving->message)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %zu bytes from rank %d", bytes,
                              weiri_mesh_number(ex->mesh, peer));
        arriving->message->tag = from->frame.tag;
        arriving->message->bytes = bytes;
    }
    weir_status status = exchange_receive_into(ex, peer, arriving->message->data, bytes);
    if (status != WEIR_OK || arriving->received < bytes)
        return status;
    weiri_mesh_keep(from, arriving->message);
    arriving->message = NULL;
    arriving->received = 0;
    from->frame_bytes = 0;
    return WEIR_OK;
}

static weir_status exchange_receive_part(exchange *ex, int peer)
{
    weiri_mesh_peer *from = &ex->mesh->peers[peer];
    transfer *arriving = &ex->transfers[peer];
    uint64_t bytes = from->frame.bytes;
    weir_status status;
    if (bytes == ex->bytes) {
        char *place = bytes ? ex->all + (size_t)peer * ex->bytes : NULL;
        status = exchange_receive_into(ex, peer, place, ex->bytes);
    } else {
        if (ex->mismatched_rank < 0) {
            ex->mismatched_rank = peer;
            ex->mismatched_bytes = bytes;
        }
        status = weiri_link_discard_some(from->fd, weiri_mesh_number(ex->mesh, peer), bytes,
                                         &arriving->received);
    }
    if (status != WEIR_OK || arriving->received < bytes)
        return status;
    arriving->received_all = 1;
    from->frame_bytes = 0;
    return WEIR_OK;
}

/* Receives frames until the peer's part is complete or nothing more has arrived. */
static weir_status exchange_receive_frames(exchange *ex, int peer)
{
    weiri_mesh_peer *from = &ex->mesh->peers[peer];
    transfer *arriving = &ex->transfers[peer];
    while (!arriving->received_all) {
        weir_status status =
            weiri_link_read_some(from->fd, weiri_mesh_number(ex->mesh, peer), &from->frame,
                                 sizeof from->frame, &from->frame_bytes);
        if (status != WEIR_OK || from->frame_bytes < sizeof from->frame)
            return status;
        uint32_t kind = from->frame.kind;
        if (kind == WEIRI_FRAME_MESSAGE)
            status = exchange_receive_message(ex, peer);
        else if (kind == WEIRI_FRAME_EXCHANGE)
            status = exchange_receive_part(ex, peer);
        else
            status = weiri_mesh_fail_frame(ex->mesh, peer);
        if (status != WEIR_OK)
            return status;
        if (!arriving->received_all && from->frame_bytes != 0)
            return WEIR_OK;
    }
    return WEIR_OK;
}

/* Returns the peer's farewell if that is its next frame, else WEIR_OK. */
static weir_status exchange_read_farewell(exchange *ex, int peer)
{
    weiri_mesh_peer *from = &ex->mesh->peers[peer];
    if (!ex->transfers[peer].received_all) {
        weir_status status = exchange_receive_frames(ex, peer);
        if (status != WEIR_OK || !ex->transfers[peer].received_all)
            return status;
    }
    weiri_link_read_some(from->fd, weiri_mesh_number(ex->mesh, peer), &from->frame,
                         sizeof from->frame, &from->frame_bytes);
    int said = from->frame_bytes == sizeof from->frame && from->frame.kind == WEIRI_FRAME_FAREWELL;
    return said ? weiri_mesh_fail_frame(ex->mesh, peer) : WEIR_OK;
}

/* Transfers what is possible now to and from one peer. If the peer has closed its socket, it may
 * have sent a farewell before, which is the better reason. */
static weir_status exchange_move(exchange *ex, int peer)
{
    transfer *with = &ex->transfers[peer];
    weir_status status = with->received_all ? WEIR_OK : exchange_receive_frames(ex, peer);
    if (status != WEIR_OK || with->sent_all)
        return status;
    status = exchange_send_part(ex, peer);
    if (status != WEIR_ERR_PEER)
        return status;
    char reason[WEIRI_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", weir_last_error());
    weir_status said = exchange_read_farewell(ex, peer);
    return said != WEIR_OK ? said : weiri_fail(status, "%s", reason);
}

/* One step with every peer; *left counts the peers that are not complete. */
static weir_status exchange_step(exchange *ex, int *left)
{
    int nranks = ex->mesh->nranks;
    *left = 0;
    /* Each rank starts with its successor, which spreads the first writes over the peers. */
    for (int i = 1; i < nranks; i++) {
        int peer = (ex->mesh->rank + i) % nranks;
        transfer *with = &ex->transfers[peer];
        short ready = ex->set[peer].revents;
        weir_status status = ready ? exchange_move(ex, peer) : WEIR_OK;
        if (status != WEIR_OK)
            return status;
        int open = !with->sent_all || !with->received_all;
        ex->set[peer].fd = open ? ex->mesh->peers[peer].fd : -1;
        ex->set[peer].events =
            (short)((with->sent_all ? 0 : POLLOUT) | (with->received_all ? 0 : POLLIN));
        *left += open;
    }
    return WEIR_OK;
}

static weir_status exchange_fail_late(exchange *ex, const weiri_deadline *deadline)
{
    weiri_ranks late = {0};
    for (int peer = 0; peer < ex->mesh->nranks; peer++)
        if (ex->set[peer].fd >= 0)
            weiri_ranks_add(&late, weiri_mesh_number(ex->mesh, peer));
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "%s %s %s not arrived after %d ms; check whether they run, or raise "
                      "WEIR_TIMEOUT_MS",
                      weiri_ranks_noun(&late), late.list, weiri_ranks_have(&late),
                      deadline->timeout_ms);
}

static weir_status exchange_run(exchange *ex)
{
    weiri_deadline deadline = weiri_deadline_in(ex->mesh->timeout_ms);
    for (;;) {
        int left;
        weir_status status = exchange_step(ex, &left);
        if (status != WEIR_OK || left == 0)
            return status;
        int left_ms = weiri_deadline_left_ms(&deadline);
        int ready = poll(ex->set, (nfds_t)ex->mesh->nranks, left_ms);
        if (ready < 0 && errno != EINTR)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "poll");
        if (ready == 0 && left_ms == 0)
            return exchange_fail_late(ex, &deadline);
        for (int peer = 0; ready < 0 && peer < ex->mesh->nranks; peer++)
            ex->set[peer].revents = 0;
    }
}

static weir_status exchange_finish(exchange *ex, weir_status status)
{
    weiri_mesh *mesh = ex->mesh;
    char what[64] = "barrier";
    if (!ex->is_barrier)
        snprintf(what, sizeof what, "allgather of %zu bytes", ex->bytes / (size_t)mesh->stride);
    if (status != WEIR_OK) {
        for (int peer = 0; ex->transfers && peer < mesh->nranks; peer++)
            mesh->peers[peer].cut_off =
                ex->transfers[peer].sent > 0 && !ex->transfers[peer].sent_all;
        weiri_fail_context(status, "rank %d, %s", weiri_mesh_number(mesh, mesh->rank), what);
        return weiri_mesh_break(mesh, status);
    }
    if (ex->mismatched_rank < 0)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "rank %d, %s: rank %d takes part with %llu bytes; all ranks must pass the "
                      "same number",
                      weiri_mesh_number(mesh, mesh->rank), what,
                      weiri_mesh_number(mesh, ex->mismatched_rank),
                      (unsigned long long)ex->mismatched_bytes / (unsigned)mesh->stride);
}

static weir_status exchange_all(weiri_mesh *mesh, int is_barrier, void *all, size_t bytes)
{
    weir_status status = weiri_mesh_usable(mesh);
    if (status != WEIR_OK)
        return status;
    size_t nranks = (size_t)mesh->nranks;
    exchange ex = {.mesh = mesh,
                   .is_barrier = is_barrier,
                   .all = all,
                   .bytes = bytes,
                   .frame = {.kind = WEIRI_FRAME_EXCHANGE, .bytes = bytes},
                   .transfers = calloc(nranks, sizeof *ex.transfers),
                   .set = calloc(nranks, sizeof *ex.set),
                   .mismatched_rank = -1};
    if (ex.transfers && ex.set) {
        /* The first step tries every peer before it waits. */
        for (size_t peer = 0; peer < nranks; peer++)
            ex.set[peer] = (struct pollfd){.fd = -1, .revents = POLLIN | POLLOUT};
        status = exchange_run(&ex);
    } else {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d transfers", mesh->nranks);
    }
    status = exchange_finish(&ex, status);
    for (size_t peer = 0; ex.transfers && peer < nranks; peer++)
        free(ex.transfers[peer].message);
    free(ex.transfers);
    free(ex.set);
    return status;
}

weir_status weiri_mesh_allgather(void *context, void *all, size_t bytes)
{
    return exchange_all(context, 0, all, bytes);
}

weir_status weiri_mesh_barrier(void *context)
{
    return exchange_all(context, 1, NULL, 0);
}
