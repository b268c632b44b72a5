/* Creating, breaking and destroying a mesh, and its messages between two ranks. */
#include "boot/mesh.h"

#include "base/error.h"
#include "boot/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

weir_status weiri_mesh_break(weiri_mesh *mesh, weir_status status)
{
    mesh->broken = status;
    snprintf(mesh->reason, sizeof mesh->reason, "%s", weir_last_error());
    char *text = mesh->cause[0] ? mesh->cause : mesh->reason;
    weiri_frame frame = {.kind = WEIRI_FRAME_FAREWELL, .tag = status, .bytes = strlen(text)};
    struct iovec parts[2] = {{&frame, sizeof frame}, {text, frame.bytes}};
    for (int peer = 0; peer < mesh->nranks; peer++) {
        weiri_mesh_peer *to = &mesh->peers[peer];
        if (to->fd < 0)
            continue;
        size_t done = 0; /* best effort: the peer may have ended */
        if (!to->cut_off)
            weiri_link_write_some(to->fd, weiri_mesh_number(mesh, peer), parts, 2, &done);
        shutdown(to->fd, SHUT_WR);
    }
    weiri_fail(status, "%s", mesh->reason);
    return status;
}

void weiri_mesh_shut(weir_boot *boot)
{
    const weiri_mesh *mesh = weiri_boot_context(boot);
    for (int peer = 0; peer < mesh->nranks; peer++)
        if (mesh->peers[peer].fd >= 0)
            shutdown(mesh->peers[peer].fd, SHUT_RDWR);
}

weir_status weiri_mesh_fail_frame(weiri_mesh *mesh, int peer)
{
    enum { TEXT_MS = 1000 }; /* the text was written together with its header */
    weiri_mesh_peer *from = &mesh->peers[peer];
    weiri_frame frame = from->frame;
    char text[WEIRI_REASON_BYTES] = "";
    from->frame_bytes = 0;
    if (frame.kind != WEIRI_FRAME_FAREWELL || frame.bytes >= sizeof text || frame.tag >= 0)
        return weiri_fail(WEIR_ERR_INTERNAL, "rank %d: expected a frame, got kind %#x from rank %d",
                          weiri_mesh_number(mesh, mesh->rank), frame.kind,
                          weiri_mesh_number(mesh, peer));
    size_t done = 0;
    weiri_deadline deadline = weiri_deadline_in(TEXT_MS);
    weiri_link_read(from->fd, weiri_mesh_number(mesh, peer), text, (size_t)frame.bytes, &deadline,
                    &done);
    if (!mesh->cause[0])
        memcpy(mesh->cause, text, sizeof mesh->cause);
    return weiri_fail((weir_status)frame.tag, "rank %d gave up: %s", weiri_mesh_number(mesh, peer),
                      text);
}

weir_status weiri_mesh_usable(const weiri_mesh *mesh)
{
    if (mesh->broken == WEIR_OK)
        return WEIR_OK;
    return weiri_fail(mesh->broken, "rank %d: the %s bootstrap failed before: %s",
                      weiri_mesh_number(mesh, mesh->rank), mesh->ops.name, mesh->reason);
}

void weiri_mesh_keep(weiri_mesh_peer *from, weiri_message *message)
{
    message->next = NULL;
    *from->last = message;
    from->last = &message->next;
}

static weiri_message *mesh_take_kept(weiri_mesh_peer *from)
{
    weiri_message *message = from->first;
    if (!message)
        return NULL;
    from->first = message->next;
    if (!from->first)
        from->last = &from->first;
    return message;
}

static weir_status mesh_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    weiri_mesh *mesh = context;
    weir_status status = weiri_mesh_usable(mesh);
    if (status != WEIR_OK)
        return status;
    weiri_frame frame = {.kind = WEIRI_FRAME_MESSAGE, .tag = tag, .bytes = bytes};
    struct iovec parts[2] = {{&frame, sizeof frame}, {(void *)(uintptr_t)data, bytes}};
    weiri_deadline deadline = weiri_deadline_in(mesh->timeout_ms);
    size_t done = 0;
    status = weiri_link_write(mesh->peers[peer].fd, weiri_mesh_number(mesh, peer), parts, 2,
                              &deadline, &done);
    if (status == WEIR_OK)
        return WEIR_OK;
    weiri_fail_context(status, "rank %d sends %zu bytes with tag %d to rank %d",
                       weiri_mesh_number(mesh, mesh->rank), bytes, tag,
                       weiri_mesh_number(mesh, peer));
    mesh->peers[peer].cut_off = done > 0;
    return done > 0 || status == WEIR_ERR_PEER ? weiri_mesh_break(mesh, status) : status;
}

static weir_status mesh_check_match(const weiri_mesh *mesh, int peer, int tag, size_t bytes,
                                    int got_tag, uint64_t got_bytes)
{
    if (got_tag == tag && got_bytes == bytes)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "rank %d expected %zu bytes with tag %d from rank %d, got %llu bytes with "
                      "tag %d; sends and receives of two ranks must match in order",
                      weiri_mesh_number(mesh, mesh->rank), bytes, tag,
                      weiri_mesh_number(mesh, peer), (unsigned long long)got_bytes, got_tag);
}

static weir_status mesh_receive_kept(const weiri_mesh *mesh, weiri_message *message, void *data,
                                     size_t bytes, int peer, int tag)
{
    weir_status status = mesh_check_match(mesh, peer, tag, bytes, message->tag, message->bytes);
    if (status == WEIR_OK && bytes > 0)
        memcpy(data, message->data, bytes);
    free(message);
    return status;
}

/* Receives the payload of the current frame. A payload that does not match is read and discarded,
 * so that the stream remains usable. */
static weir_status mesh_receive_payload(weiri_mesh *mesh, void *data, size_t bytes, int peer,
                                        int tag, const weiri_deadline *deadline)
{
    weiri_mesh_peer *from = &mesh->peers[peer];
    weiri_frame frame = from->frame;
    if (frame.kind == WEIRI_FRAME_EXCHANGE)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d expected %zu bytes with tag %d from rank %d, which is in a "
                          "barrier or an allgather of %llu bytes",
                          weiri_mesh_number(mesh, mesh->rank), bytes, tag,
                          weiri_mesh_number(mesh, peer), (unsigned long long)frame.bytes);
    if (frame.kind != WEIRI_FRAME_MESSAGE)
        return weiri_mesh_break(mesh, weiri_mesh_fail_frame(mesh, peer));
    from->frame_bytes = 0;
    int matches = frame.tag == tag && frame.bytes == bytes;
    size_t done = 0;
    int number = weiri_mesh_number(mesh, peer);
    weir_status status = matches ? weiri_link_read(from->fd, number, data, bytes, deadline, &done)
                                 : weiri_link_discard(from->fd, number, frame.bytes, deadline);
    if (status != WEIR_OK) {
        weiri_fail_context(status, "rank %d receives %zu bytes with tag %d",
                           weiri_mesh_number(mesh, mesh->rank), bytes, tag);
        return weiri_mesh_break(mesh, status);
    }
    return mesh_check_match(mesh, peer, tag, bytes, frame.tag, frame.bytes);
}

static weir_status mesh_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    weiri_mesh *mesh = context;
    weir_status status = weiri_mesh_usable(mesh);
    if (status != WEIR_OK)
        return status;
    weiri_mesh_peer *from = &mesh->peers[peer];
    weiri_message *kept = mesh_take_kept(from);
    if (kept)
        return mesh_receive_kept(mesh, kept, data, bytes, peer, tag);
    weiri_deadline deadline = weiri_deadline_in(mesh->timeout_ms);
    status = weiri_link_read(from->fd, weiri_mesh_number(mesh, peer), &from->frame,
                             sizeof from->frame, &deadline, &from->frame_bytes);
    if (status != WEIR_OK) {
        weiri_fail_context(status, "rank %d receives %zu bytes with tag %d",
                           weiri_mesh_number(mesh, mesh->rank), bytes, tag);
        return status == WEIR_ERR_PEER ? weiri_mesh_break(mesh, status) : status;
    }
    return mesh_receive_payload(mesh, data, bytes, peer, tag, &deadline);
}

static void mesh_set_timeout(void *context, int timeout_ms)
{
    ((weiri_mesh *)context)->timeout_ms = timeout_ms;
}

static void mesh_destroy(void *context)
{
    weiri_mesh *mesh = context;
    for (int peer = 0; peer < mesh->nranks; peer++) {
        weiri_message *message;
        while ((message = mesh_take_kept(&mesh->peers[peer])) != NULL)
            free(message);
        if (mesh->peers[peer].fd >= 0)
            close(mesh->peers[peer].fd);
    }
    free(mesh);
}

weir_status weiri_mesh_create(const char *name, int rank, int nranks, int timeout_ms,
                              const int *fds, weir_boot **boot)
{
    weiri_mesh *mesh = calloc(1, sizeof *mesh + (size_t)nranks * sizeof mesh->peers[0]);
    if (!mesh)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a bootstrap of %d ranks",
                          rank, nranks);
    mesh->ops = (weir_boot_ops){.name = name,
                                .allgather = weiri_mesh_allgather,
                                .send = mesh_send,
                                .recv = mesh_recv,
                                .barrier = weiri_mesh_barrier,
                                .destroy = mesh_destroy,
                                .set_timeout = mesh_set_timeout};
    mesh->rank = rank;
    mesh->nranks = nranks;
    mesh->timeout_ms = timeout_ms;
    mesh->stride = 1;
    for (int peer = 0; peer < nranks; peer++) {
        mesh->peers[peer].fd = fds[peer];
        mesh->peers[peer].last = &mesh->peers[peer].first;
    }
    weir_status status = weir_boot_create(&mesh->ops, mesh, rank, nranks, boot);
    if (status != WEIR_OK)
        free(mesh);
    return status;
}
