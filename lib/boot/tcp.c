/* The TCP bootstrap's entry points: rank 0's address from a unique id or from the caller. How the
 * ranks then connect is in tcp_join.c. */
#include "boot/tcp.h"

#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "boot/mesh.h"
#include "boot/socket.h"
#include "boot/tcp_join.h"
#include "boot/tree.h"
#include "boot/unique_id.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static weir_status tcp_check_ranks(int rank, int nranks)
{
    if (nranks < 1 || nranks > WEIR_RANKS_MAX || rank < 0 || rank >= nranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d of %d; expected 1 to %d ranks and a rank below their number",
                          rank, nranks, WEIR_RANKS_MAX);
    return WEIR_OK;
}

/* Chooses the local address of connections if an interface is named. Also on rank 0, which reports
 * a missing interface although it makes no connections. */
static weir_status tcp_choose_source(weiri_tcp_joiner *self, const char *wish)
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
static weir_status tcp_learn_root(weiri_tcp_joiner *self, int *fd)
{
    weiri_deadline deadline = weiri_deadline_in(self->job.timeout_ms);
    weir_status status = weiri_tcp_call(self, 0, &self->root, 0, &deadline, fd);
    if (status == WEIR_OK)
        status = weiri_rendezvous_ask(&self->job, *fd, &deadline, &self->root);
    return status;
}

/* Rank 0 listens and registers its address at the rendezvous server; the others ask for it. */
static weir_status tcp_enter_rendezvous(weiri_tcp_joiner *self, int *fd, int *listener)
{
    weir_status status =
        self->job.rank == 0 ? weiri_tcp_join(self, fd, listener) : tcp_learn_root(self, fd);
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
    poll(&farewell, 1, WEIRI_TCP_GRACE_MS);
    close(fd);
}

static weiri_tcp_joiner tcp_entry(const weiri_rendezvous_point *point, int rank, int nranks,
                                  int timeout_ms)
{
    weiri_tcp_joiner self = {.job = {.rank = rank, .nranks = nranks, .timeout_ms = timeout_ms},
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
    weiri_tcp_joiner self = tcp_entry(&point, rank, nranks, timeout_ms);
    status = tcp_choose_source(&self, wish);
    if (status == WEIR_OK)
        status = tcp_enter_rendezvous(&self, &rendezvous, &listener);
    if (status != WEIR_OK)
        return status;
    status = weiri_tcp_connect_all(&self, listener, boot);
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
    weiri_tcp_joiner self = tcp_entry(&point, 0, 1, PATIENCE_MS);
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
    if (weir_boot_nranks(boot) > WEIRI_TREE_MESH)
        weiri_tree_shut(boot);
    else
        weiri_mesh_shut(boot);
}

/* Derives a key from the secret and the name of the job; without both, the key is the same for
 * everybody. */
static void tcp_key_of_secret(const char *secret, const char *job, uint8_t key[WEIRI_KEY_BYTES])
{
    static const uint8_t known[WEIRI_KEY_BYTES] = "weir boot secret";
    weiri_mac(known, secret ? secret : "", secret ? strlen(secret) : 0, key);
    if (*job)
        weiri_mac(key, job, strlen(job), key);
}

weir_status weir_boot_tcp_create_at(const char *interface_ip_port, int rank, int nranks,
                                    weir_boot **boot)
{
    return weiri_boot_tcp_create_at(interface_ip_port, "", rank, nranks, boot);
}

weir_status weiri_boot_tcp_create_at(const char *interface_ip_port, const char *job, int rank,
                                     int nranks, weir_boot **boot)
{
    weiri_named_address named;
    char wish[1 + sizeof named.interface];
    int listener = -1;
    weir_status status = tcp_check_ranks(rank, nranks);
    if (status == WEIR_OK)
        status = weiri_named_address_parse(interface_ip_port, &named);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_joiner self = {
        .job = {.rank = rank, .nranks = nranks, .timeout_ms = weiri_config_timeout_ms()},
        .root = named.address,
        .patient = 1};
    tcp_key_of_secret(weiri_env(WEIRI_ENV_BOOT_SECRET), job, self.job.key);
    snprintf(wish, sizeof wish, "=%s", named.interface);
    status = tcp_choose_source(&self, named.interface[0] ? wish : NULL);
    if (status == WEIR_OK && rank == 0)
        status = weiri_socket_listen(&named.address, &listener);
    return status == WEIR_OK ? weiri_tcp_connect_all(&self, listener, boot) : status;
}
