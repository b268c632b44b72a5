/*
 * The TCP bootstrap: how ranks that know one address become a mesh.
 *
 * 1. Rank 0 listens at an address that all ranks know, or registers its address at the rendezvous
 *    server of a unique id.
 * 2. Every other rank connects to rank 0, sends its own listening address, and waits for rank 0's
 *    announcement: the table of all ranks' addresses, or the reason why the job cannot start.
 * 3. With the table each rank connects to the lower ranks, and then accepts the higher ones.
 * 4. A barrier ensures that no rank returns before all ranks are connected.
 *
 * Every connection begins with the handshake. Each step has a deadline: WEIR_TIMEOUT_MS, or the
 * timeout that the caller passes.
 */
#include "boot/tcp.h"

#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "boot/link.h"
#include "boot/mesh.h"
#include "boot/reception.h"
#include "boot/socket.h"
#include "boot/unique_id.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ranks that have joined wait longer than rank 0, so that they receive its list of missing ranks.
 * Rank 0 waits as long for the end of the rendezvous server. */
enum { GRACE_MS = 500 };

/* How a rank joins its job. */
typedef struct tcp_joiner {
    weiri_job job;
    weiri_address root;
    weiri_address source; /* local address of connections, if has_source */
    int has_source;
    int patient;          /* retry while rank 0 does not listen yet */
} tcp_joiner;

/* Rank 0's announcement to the ranks that have joined; after WEIR_OK the table follows. */
typedef struct announcement {
    int32_t status;
    char text[252];
} announcement;

static weir_status tcp_announce(const weiri_job *job, const int *fds, weiri_address *table,
                            weir_status outcome)
{
    announcement sent = {.status = outcome};
    if (outcome != WEIR_OK)
        snprintf(sent.text, sizeof sent.text, "%s", weir_last_error());
    struct iovec parts[2] = {{&sent, sizeof sent},
                             {table, (size_t)job->nranks * sizeof *table}};
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    weir_status status = WEIR_OK;
    for (int rank = 1; rank < job->nranks && status == WEIR_OK; rank++) {
        size_t done = 0;
        if (outcome == WEIR_OK)
            status = weiri_link_write(fds[rank], rank, parts, 2, &deadline, &done);
        else if (fds[rank] >= 0) /* best effort: the job has already failed */
            weiri_link_write_some(fds[rank], rank, parts, 1, &done);
    }
    return status;
}

/* Rank 0: accepts all other ranks and announces the outcome. */
static weir_status tcp_lead(const weiri_job *job, int listener, int *fds, weiri_address *table)
{
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    weir_status status = weiri_reception_run(job, listener, &deadline, fds, table);
    if (status == WEIR_OK)
        return tcp_announce(job, fds, table, WEIR_OK);
    tcp_announce(job, fds, table, status);
    return weiri_fail_context(status, "rank 0 of %d", job->nranks);
}

static weir_status tcp_call(const tcp_joiner *self, int peer, const weiri_address *to, int patient,
                            const weiri_deadline *deadline, int *fd)
{
    weiri_socket_call details = {.rank = self->job.rank,
                                 .peer = peer,
                                 .to = to,
                                 .source = self->has_source ? &self->source : NULL,
                                 .patient = patient};
    return weiri_socket_connect(&details, deadline, fd);
}

/* Connects to rank 0 or the rendezvous server, and listens at the local address of that
 * connection. */
static weir_status tcp_join(const tcp_joiner *self, int *fd, int *listener)
{
    weiri_deadline deadline = weiri_deadline_in(self->job.timeout_ms);
    weir_status status = tcp_call(self, 0, &self->root, self->patient, &deadline, fd);
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

static weir_status tcp_receive_table(const weiri_job *job, int root_fd, weiri_address *table)
{
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms + GRACE_MS);
    announcement received;
    size_t done = 0;
    weir_status status = weiri_link_read(root_fd, 0, &received, sizeof received, &deadline, &done);
    if (status == WEIR_OK && received.status != WEIR_OK) {
        weiri_text_clean(received.text, sizeof received.text);
        return weiri_fail((weir_status)received.status, "rank %d of %d, reason from rank 0: %s",
                          job->rank, job->nranks, received.text);
    }
    done = 0;
    if (status == WEIR_OK)
        status = weiri_link_read(root_fd, 0, table, (size_t)job->nranks * sizeof *table,
                                 &deadline, &done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d of %d waits for rank 0's table of ranks",
                                  job->rank, job->nranks);
    return WEIR_OK;
}

/* Every other rank: joins rank 0, and connects to the peers of its table. */
static weir_status tcp_follow(const tcp_joiner *self, int *fds, weiri_address *table)
{
    const weiri_job *job = &self->job;
    int listener = -1;
    weir_status status = tcp_join(self, &fds[0], &listener);
    if (status == WEIR_OK)
        status = tcp_receive_table(job, fds[0], table);
    weiri_deadline deadline = weiri_deadline_in(job->timeout_ms);
    for (int peer = 1; peer < job->rank && status == WEIR_OK; peer++) {
        status = tcp_call(self, peer, &table[peer], 0, &deadline, &fds[peer]);
        if (status == WEIR_OK)
            status = weiri_handshake_call(job, fds[peer], peer, &table[peer],
                                          &table[job->rank], &deadline);
    }
    if (status == WEIR_OK)
        status = weiri_reception_run(job, listener, &deadline, fds, NULL);
    if (listener >= 0)
        close(listener);
    return status;
}

/* Creates the mesh. Takes over the listener, which is -1 on ranks other than 0. */
static weir_status tcp_connect_all(const tcp_joiner *self, int listener, weir_boot **boot)
{
    const weiri_job *job = &self->job;
    size_t nranks = (size_t)job->nranks;
    weir_boot *made = NULL;
    weir_status status;
    int *fds = malloc(nranks * sizeof *fds);
    weiri_address *table = calloc(nranks, sizeof *table);
    if (!fds || !table) {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a table of %d ranks",
                            job->rank, job->nranks);
        goto free_table;
    }
    memset(fds, 0xff, nranks * sizeof *fds); /* every entry -1 */
    status = job->rank == 0 ? tcp_lead(job, listener, fds, table) : tcp_follow(self, fds, table);
    if (status == WEIR_OK)
        status = weiri_mesh_create("tcp", job->rank, job->nranks, job->timeout_ms, fds, &made);
    if (status != WEIR_OK) {
        weiri_link_close_all(fds, job->nranks);
        goto free_table;
    }
    status = weir_boot_barrier(made);
    if (status == WEIR_OK) {
        *boot = made;
    } else {
        weiri_fail_context(status, "the last barrier of the bootstrap's creation");
        weir_boot_destroy(made);
    }

free_table:
    free(table);
    free(fds);
    if (listener >= 0)
        close(listener);
    return status;
}

static weir_status tcp_check_ranks(int rank, int nranks)
{
    enum { MOST_RANKS = 1 << 16 };
    if (nranks < 1 || nranks > MOST_RANKS || rank < 0 || rank >= nranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d of %d; expected 1 to %d ranks and a rank below their number",
                          rank, nranks, MOST_RANKS);
    return WEIR_OK;
}

/* Chooses the local address of connections if an interface is named. Also on rank 0, which reports
 * a missing interface although it makes no connections. */
static weir_status tcp_choose_source(tcp_joiner *self, const char *wish)
{
    if (!wish)
        return WEIR_OK;
    weir_status status = weiri_interface_address(wish, &self->root, &self->source);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d", self->job.rank);
    self->has_source = 1;
    return WEIR_OK;
}

/* Ranks other than 0: asks the rendezvous server for rank 0's address. */
static weir_status tcp_learn_root(tcp_joiner *self, int *fd)
{
    weiri_deadline deadline = weiri_deadline_in(self->job.timeout_ms);
    weir_status status = tcp_call(self, 0, &self->root, 0, &deadline, fd);
    if (status == WEIR_OK)
        status = weiri_rendezvous_ask(&self->job, *fd, &deadline, &self->root);
    return status;
}

/* Rank 0 listens and registers its address at the rendezvous server; the others ask for it. */
static weir_status tcp_enter_rendezvous(tcp_joiner *self, int *fd, int *listener)
{
    weir_status status =
        self->job.rank == 0 ? tcp_join(self, fd, listener) : tcp_learn_root(self, fd);
    if (status == WEIR_OK)
        return WEIR_OK;
    if (*listener >= 0)
        close(*listener);
    if (*fd >= 0)
        close(*fd);
    return weiri_fail_context(status, "rank %d of %d at the unique id's address", self->job.rank,
                              self->job.nranks);
}

/* Closes the connection to the rendezvous server. For rank 0, which thereby ends the server, waits
 * until that has closed its end. */
static void tcp_leave_rendezvous(int fd)
{
    struct pollfd farewell = {.fd = fd, .events = POLLIN};
    shutdown(fd, SHUT_WR);
    poll(&farewell, 1, GRACE_MS);
    close(fd);
}

static tcp_joiner tcp_entry(const weiri_rendezvous_point *point, int rank, int nranks,
                             int timeout_ms)
{
    tcp_joiner self = {.job = {.rank = rank, .nranks = nranks, .timeout_ms = timeout_ms},
                        .root = point->address};
    memcpy(self.job.key, point->key, sizeof self.job.key);
    return self;
}

weir_status weiri_boot_tcp_create(const weir_unique_id *id, int rank, int nranks, int timeout_ms,
                                  weir_boot **boot)
{
    weiri_rendezvous_point point;
    const char *wish = NULL;
    int listener = -1, rendezvous = -1;
    weir_status status = tcp_check_ranks(rank, nranks);
    if (status == WEIR_OK)
        status = weiri_unique_id_decode(id, &point);
    if (status == WEIR_OK)
        status = weiri_interface_wish(&wish, NULL);
    if (status != WEIR_OK)
        return status;
    tcp_joiner self = tcp_entry(&point, rank, nranks, timeout_ms);
    status = tcp_choose_source(&self, wish);
    if (status == WEIR_OK)
        status = tcp_enter_rendezvous(&self, &rendezvous, &listener);
    if (status != WEIR_OK)
        return status;
    status = tcp_connect_all(&self, listener, boot);
    tcp_leave_rendezvous(rendezvous);
    return status;
}

void weiri_boot_tcp_cancel(const weir_unique_id *id)
{
    enum { PATIENCE_MS = 1000 };
    weiri_rendezvous_point point;
    int listener = -1, rendezvous = -1;
    if (weiri_unique_id_decode(id, &point) != WEIR_OK)
        return;
    tcp_joiner self = tcp_entry(&point, 0, 1, PATIENCE_MS);
    if (tcp_enter_rendezvous(&self, &rendezvous, &listener) != WEIR_OK)
        return;
    close(listener);
    tcp_leave_rendezvous(rendezvous);
}

weir_status weir_boot_tcp_create(const weir_unique_id *id, int rank, int nranks, weir_boot **boot)
{
    return weiri_boot_tcp_create(id, rank, nranks, weiri_config_timeout_ms(), boot);
}

void weiri_boot_tcp_shut(weir_boot *boot)
{
    const weiri_mesh *mesh = weiri_boot_context(boot);
    for (int peer = 0; peer < mesh->nranks; peer++)
        if (mesh->peers[peer].fd >= 0)
            shutdown(mesh->peers[peer].fd, SHUT_RDWR);
}

/* Derives a key from any text; without a text, the key is the same for everybody. */
static void tcp_key_of_secret(const char *secret, uint8_t key[WEIRI_KEY_BYTES])
{
    static const uint8_t known[WEIRI_KEY_BYTES] = "weir boot secret";
    weiri_mac(known, secret ? secret : "", secret ? strlen(secret) : 0, key);
}

weir_status weir_boot_tcp_create_at(const char *interface_ip_port, int rank, int nranks,
                                    weir_boot **boot)
{
    weiri_named_address named;
    char wish[1 + sizeof named.interface];
    int listener = -1;
    weir_status status = tcp_check_ranks(rank, nranks);
    if (status == WEIR_OK)
        status = weiri_named_address_parse(interface_ip_port, &named);
    if (status != WEIR_OK)
        return status;
    tcp_joiner self = {
        .job = {.rank = rank, .nranks = nranks, .timeout_ms = weiri_config_timeout_ms()},
        .root = named.address,
        .patient = 1};
    tcp_key_of_secret(weiri_env(WEIRI_ENV_BOOT_SECRET), self.job.key);
    snprintf(wish, sizeof wish, "=%s", named.interface);
    status = tcp_choose_source(&self, named.interface[0] ? wish : NULL);
    if (status == WEIR_OK && rank == 0)
        status = weiri_socket_listen(&named.address, &listener);
    return status == WEIR_OK ? tcp_connect_all(&self, listener, boot) : status;
}
