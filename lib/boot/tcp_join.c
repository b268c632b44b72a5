/*
 * The TCP bootstrap: how ranks that know one address become a mesh, or above WEIRI_TREE_MESH ranks
 * a tree of meshes (tree.h).
 *
 * 1. Rank 0 listens at an address that all ranks know, or registers its address at the rendezvous
 *    server of a unique id.
 * 2. Every other rank connects to rank 0, sends its own listening address, and waits for rank 0's
 *    announcement: the table of all ranks' addresses, or the reason why the job cannot start.
 * 3. With the table each rank connects to the lower ranks of its meshes, and then accepts the
 *    higher ones. Connections to rank 0 from outside its meshes are closed, so that only rank 0 has
 *    a socket to every rank, and only until here.
 * 4. In a tree, each rank keeps listening for messages (direct.h), rank 0 at a new port, so that
 *    the known one is free for another job.
 * 5. A barrier ensures that no rank returns before all ranks are connected.
 *
 * Every connection begins with the handshake. Each step has a deadline: WEIR_TIMEOUT_MS, or the
 * timeout that the caller passes.
 */
#include "boot/tcp_join.h"

#include "base/error.h"
#include "base/open_files.h"
#include "boot/link.h"
#include "boot/mesh.h"
#include "boot/reception.h"
#include "boot/socket.h"
#include "boot/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rank 0's announcement to the ranks that have joined; after WEIR_OK the table follows. */
typedef struct announcement {
    int32_t status;
    uint8_t session[WEIRI_NONCE_BYTES]; /* random; makes the key of direct messages */
    char text[252];
} announcement;

/* What a rank needs to create the bootstrap. */
typedef struct tcp_parts {
    int *fds;             /* connections to other ranks, or -1 */
    weiri_address *table; /* where ranks listen */
    uint8_t session[WEIRI_NONCE_BYTES];
    int listener; /* for direct messages, or -1 */
} tcp_parts;

static int tcp_is_tree(const weiri_job *job)
{
    return job->nranks > WEIRI_TREE_MESH;
}

static weir_status tcp_announce(const weiri_job *job, const tcp_parts *parts, weir_status outcome)
{
    announcement sent = {.status = outcome};
    memcpy(sent.session, parts->session, sizeof sent.session);
    if (outcome != WEIR_OK)
        snprintf(sent.text, sizeof sent.text, "%s", weir_last_error());
    struct iovec pieces[2] = {{&sent, sizeof sent},
                              {parts->table, (size_t)job->nranks * sizeof *parts->table}};
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    weir_status status = WEIR_OK;
    for (int rank = 1; rank < job->nranks && status == WEIR_OK; rank++) {
        const int fd = parts->fds[rank];
        size_t done = 0;
        if (outcome == WEIR_OK)
            status = weiri_link_write(fd, rank, pieces, 2, &deadline, &done);
        else if (fd >= 0) /* best effort: the job has already failed */
            weiri_link_write_some(fd, rank, pieces, 1, &done);
    }
    return status;
}

/* Closes the connections between this rank and ranks outside its meshes. */
static void tcp_close_others(const weiri_job *job, tcp_parts *parts)
{
    for (int rank = 0; rank < job->nranks; rank++)
        if (parts->fds[rank] >= 0 && !weiri_tree_neighbours(job->rank, rank, job->nranks)) {
            close(parts->fds[rank]);
            parts->fds[rank] = -1;
        }
}

/* Rank 0's listener for direct messages, at the address of the known one. Its entry of the table
 * has the port only, because each rank knows the address at which it reached rank 0. */
static weir_status tcp_listen_again(int listener, tcp_parts *parts)
{
    weiri_address here;
    weir_status status = weiri_socket_address(listener, &here);
    here.port = 0;
    if (status == WEIR_OK)
        status = weiri_socket_listen(&here, &parts->listener);
    if (status == WEIR_OK)
        status = weiri_socket_address(parts->listener, &parts->table[0]);
    if (status == WEIR_OK)
        status = weiri_random(parts->session, sizeof parts->session);
    return status;
}

/* Rank 0: accepts all other ranks and announces the outcome. */
static weir_status tcp_lead(const weiri_job *job, int listener, tcp_parts *parts)
{
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    weir_status status =
        weiri_reception_run(job, listener, &deadline, NULL, parts->fds, parts->table);
    if (status == WEIR_OK && tcp_is_tree(job))
        status = tcp_listen_again(listener, parts);
    if (status == WEIR_OK) {
        status = tcp_announce(job, parts, WEIR_OK);
        tcp_close_others(job, parts);
        return status;
    }
    tcp_announce(job, parts, status);
    return weiri_fail_context(status, "rank 0 of %d", job->nranks);
}

weir_status weiri_tcp_call(const weiri_tcp_joiner *self, int peer, const weiri_address *to,
                           int patient, const weiri_deadline *deadline, int *fd)
{
    weiri_socket_call details = {.rank = self->job.rank,
                                 .peer = peer,
                                 .to = to,
                                 .source = self->has_source ? &self->source : NULL,
                                 .patient = patient};
    return weiri_socket_connect(&details, deadline, fd);
}

weir_status weiri_tcp_join(const weiri_tcp_joiner *self, int *fd, int *listener)
{
    weiri_deadline deadline = weiri_deadline_in(self->job.timeout_ms);
    weir_status status = weiri_tcp_call(self, 0, &self->root, self->patient, &deadline, fd);
    weiri_address here = {0};
    if (status == WEIR_OK)
        status = weiri_socket_address(*fd, &here);
    here.port = 0;
    if (status == WEIR_OK)
        status = weiri_socket_listen(&here, listener);
    if (status == WEIR_OK)
        status = weiri_socket_address(*listener, &here);
    if (status == WEIR_OK)
        status = weiri_handshake_call(&self->job, *fd, 0, &self->root, &here, &deadline);
    return status;
}

static weir_status tcp_receive_table(const weiri_tcp_joiner *self, tcp_parts *parts)
{
    const weiri_job *job = &self->job;
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms + WEIRI_TCP_GRACE_MS);
    announcement received;
    size_t done = 0;
    weir_status status =
        weiri_link_read(parts->fds[0], 0, &received, sizeof received, &deadline, &done);
    if (status == WEIR_OK && received.status != WEIR_OK) {
        weiri_text_clean(received.text, sizeof received.text);
        return weiri_fail((weir_status)received.status, "rank %d of %d, reason from rank 0: %s",
                          job->rank, job->nranks, received.text);
    }
    done = 0;
    if (status == WEIR_OK)
        status = weiri_link_read(parts->fds[0], 0, parts->table,
                                 (size_t)job->nranks * sizeof *parts->table, &deadline, &done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d of %d waits for rank 0's table of ranks",
                                  job->rank, job->nranks);
    const uint16_t port = parts->table[0].port;
    parts->table[0] = self->root;
    parts->table[0].port = port;
    memcpy(parts->session, received.session, sizeof parts->session);
    return WEIR_OK;
}

/* Connects to the lower ranks of this rank's meshes, except rank 0. */
static weir_status tcp_call_lower(const weiri_tcp_joiner *self, const weiri_deadline *deadline,
                                  tcp_parts *parts)
{
    const weiri_job *job = &self->job;
    weir_status status = WEIR_OK;
    for (int peer = 1; peer < job->rank && status == WEIR_OK; peer++) {
        if (!weiri_tree_neighbours(job->rank, peer, job->nranks))
            continue;
        const weiri_address *to = &parts->table[peer];
        status = weiri_tcp_call(self, peer, to, 0, deadline, &parts->fds[peer]);
        if (status == WEIR_OK)
            status = weiri_handshake_call(job, parts->fds[peer], peer, to, &parts->table[job->rank],
                                          deadline);
    }
    return status;
}

/* Every other rank: joins rank 0, and connects to the peers of its table. */
static weir_status tcp_follow(const weiri_tcp_joiner *self, tcp_parts *parts)
{
    const weiri_job *job = &self->job;
    weir_status status = weiri_tcp_join(self, &parts->fds[0], &parts->listener);
    if (status == WEIR_OK)
        status = tcp_receive_table(self, parts);
    if (status != WEIR_OK)
        return status;
    tcp_close_others(job, parts);
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    status = tcp_call_lower(self, &deadline, parts);
    if (status == WEIR_OK)
        status = weiri_reception_run(job, parts->listener, &deadline, weiri_tree_neighbours,
                                     parts->fds, NULL);
    return status;
}

/* ------------------------------------------------------- mesh, or tree of meshes */

/* Creates the tree. Takes over the connections and the listener on success. */
static weir_status tcp_create_tree(const weiri_tcp_joiner *self, tcp_parts *parts, weir_boot **boot)
{
    const weiri_job *job = &self->job;
    weiri_direct_job own = {
        .rank = job->rank, .nranks = job->nranks, .timeout_ms = job->timeout_ms};
    int sockets[WEIRI_TREE_DEPTH][WEIRI_TREE_GROUP];
    int *fds[WEIRI_TREE_DEPTH];
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    weiri_direct *direct;
    const int count = weiri_tree_levels(job->rank, job->nranks, levels);
    for (int level = 0; level < count; level++) {
        fds[level] = sockets[level];
        for (int i = 0; i < levels[level].count; i++)
            sockets[level][i] = parts->fds[weiri_tree_member(&levels[level], i)];
    }
    weiri_mac(job->key, parts->session, sizeof parts->session, own.key);
    weir_status status = weiri_direct_create_tcp(&own, parts->listener, parts->table,
                                                 self->has_source ? &self->source : NULL, &direct);
    if (status == WEIR_OK) {
        status =
            weiri_tree_create("tcp", job->rank, job->nranks, job->timeout_ms, fds, direct, boot);
        parts->listener = -1;
        memset(parts->fds, 0xff, (size_t)job->nranks * sizeof *parts->fds);
    }
    return status;
}

static weir_status tcp_create_mesh(const weiri_tcp_joiner *self, tcp_parts *parts, weir_boot **boot)
{
    const weiri_job *job = &self->job;
    weir_boot *made = NULL;
    weir_status status =
        weiri_mesh_create("tcp", job->rank, job->nranks, job->timeout_ms, parts->fds, &made);
    if (status != WEIR_OK)
        return status;
    memset(parts->fds, 0xff, (size_t)job->nranks * sizeof *parts->fds); /* the mesh owns them */
    status = weir_boot_barrier(made);
    if (status == WEIR_OK)
        *boot = made;
    else
        weir_boot_destroy(made);
    return status;
}

/* The sockets of a rank in a tree, and other files. Sockets of direct messages are made on first
 * use. */
static weir_status tcp_allow_descriptors(const weiri_job *job)
{
    enum { OTHERS = 64, OF_TREE = WEIRI_TREE_DEPTH * WEIRI_TREE_GROUP };
    char who[64];
    const int sockets = job->rank == 0 ? job->nranks : OF_TREE;
    if (!tcp_is_tree(job))
        return WEIR_OK;
    snprintf(who, sizeof who, "rank %d of %d", job->rank, job->nranks);
    return weiri_open_files_allow(weiri_open_files_count() + (uint64_t)sockets + OTHERS, who);
}

weir_status weiri_tcp_connect_all(const weiri_tcp_joiner *self, int listener, weir_boot **boot)
{
    const weiri_job *job = &self->job;
    size_t nranks = (size_t)job->nranks;
    tcp_parts parts = {.fds = malloc(nranks * sizeof *parts.fds),
                       .table = calloc(nranks, sizeof *parts.table),
                       .listener = -1};
    weir_status status;
    if (!parts.fds || !parts.table) {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a table of %d ranks",
                            job->rank, job->nranks);
        goto free_table;
    }
    memset(parts.fds, 0xff, nranks * sizeof *parts.fds); /* every entry -1 */
    status = tcp_allow_descriptors(job);
    if (status == WEIR_OK)
        status = job->rank == 0 ? tcp_lead(job, listener, &parts) : tcp_follow(self, &parts);
    if (status == WEIR_OK) {
        status = tcp_is_tree(job) ? tcp_create_tree(self, &parts, boot)
                                  : tcp_create_mesh(self, &parts, boot);
        if (status != WEIR_OK)
            weiri_fail_context(status, "the last barrier of the bootstrap's creation");
    }
    weiri_link_close_all(parts.fds, job->nranks);

free_table:
    free(parts.table);
    free(parts.fds);
    if (parts.listener >= 0)
        close(parts.listener);
    if (listener >= 0)
        close(listener);
    return status;
}
