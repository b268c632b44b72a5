/*
 * The thread of the rendezvous server, and its client. The list of servers and each server's list
 * of ids are guarded by server_lock: any thread adds ids at the front of a list, and only the
 * server's thread removes them. The rest of a server belongs to its thread.
 */
#define _GNU_SOURCE /* POLLRDHUP */

#include "boot/rendezvous.h"

#include "base/error.h"
#include "base/log.h"
#include "boot/guests.h"
#include "boot/link.h"
#include "boot/socket.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* RANKS_AT_ONCE: ranks that may be authenticating at the same time. */
enum { RANKS_AT_ONCE = 4096, PAUSE_MS = 10, ROUND_MS = 1000 };

/* An unused id. */
typedef struct rendezvous {
    struct rendezvous *next;
    weiri_job job; /* the server answers as rank 0 */
    int root;      /* rank 0's connection; -1 before it has registered */
    weiri_address root_listens;
    int *early;   /* connections of ranks that arrived before rank 0 */
    int nearly;   /* entries of early */
    int nwatched; /* how many of them, from the first, are in the poll set */
    int at;       /* the place of root in the poll set, which they follow; 0: not in it */
} rendezvous;

typedef struct server {
    struct server *next;
    rendezvous *ids;
    weiri_address address;
    int listener;
    weiri_job job; /* rank 0; no key */
    weiri_guests guests;
    struct pollfd *set; /* guests, then of each id: rank 0, and ranks that wait for its address */
    int most_watched;   /* entries of set */
} server;

static pthread_mutex_t server_lock = PTHREAD_MUTEX_INITIALIZER;
static server *servers;
static server *servers_of_parent; /* in a forked child: not used, still reachable */

static rendezvous *rendezvous_of(const weiri_job *job)
{
    return (rendezvous *)(uintptr_t)((const char *)job - offsetof(rendezvous, job));
}

/* Closes a connection even if a forked child of the program has inherited its descriptor. */
static void rendezvous_hang_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void rendezvous_send_root(const rendezvous *id, int fd)
{
    weiri_address address = id->root_listens;
    struct iovec part = {&address, sizeof address};
    size_t done = 0;
    weiri_link_write_some(fd, -1, &part, 1, &done); /* a new connection: fits, or has been closed */
    close(fd);
}

/* Returns the first id of a server. Ids that follow it are removed only by the server's thread. */
static rendezvous *rendezvous_first(server *self)
{
    pthread_mutex_lock(&server_lock);
    rendezvous *first = self->ids;
    pthread_mutex_unlock(&server_lock);
    return first;
}

static const weiri_job *rendezvous_recognise(void *context, const weiri_guest *who)
{
    for (const rendezvous *id = rendezvous_first(context); id; id = id->next)
        if (weiri_hello_proven(&id->job, &who->challenge, &who->hello))
            return &id->job;
    return NULL;
}

/* Rank 0 may register once. Makes room for another rank that waits for it. */
static weir_status rendezvous_check_rank(void *context, const weiri_job *job,
                                         const weiri_guest *who)
{
    rendezvous *id = rendezvous_of(job);
    (void)context;
    if (who->hello.rank == 0 && id->root >= 0)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "two processes say that they are rank 0, the second at %s; a unique id "
                          "serves one job",
                          who->where);
    if (who->hello.rank == 0 || id->root >= 0)
        return WEIR_OK;
    int *early = realloc(id->early, (size_t)(id->nearly + 1) * sizeof *early);
    if (!early)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for ranks that wait for rank 0");
    id->early = early;
    return WEIR_OK;
}

static void rendezvous_take(void *context, const weiri_job *job, const weiri_guest *who)
{
    rendezvous *id = rendezvous_of(job);
    (void)context;
    if (who->hello.rank == 0) {
        id->root = who->fd;
        id->root_listens = who->hello.listens;
        while (id->nearly > 0)
            rendezvous_send_root(id, id->early[--id->nearly]);
    } else if (id->root >= 0) {
        rendezvous_send_root(id, who->fd);
    } else {
        id->early[id->nearly++] = who->fd;
    }
}

static void rendezvous_free(rendezvous *id)
{
    for (int i = 0; i < id->nearly; i++)
        rendezvous_hang_up(id->early[i]);
    if (id->root >= 0)
        rendezvous_hang_up(id->root);
    free(id->early);
    free(id);
}

/* --------------------------------------------------------------- the poll set */

/* Extends the poll set for all ids, if there is memory. Returns the first id. */
static rendezvous *server_lengthen_set(server *self)
{
    rendezvous *first = rendezvous_first(self);
    int entries = weiri_guests_most_watched(&self->guests);
    for (const rendezvous *id = first; id; id = id->next)
        entries += 1 + id->nearly;
    if (entries > self->most_watched) {
        struct pollfd *set = realloc(self->set, (size_t)entries * 2 * sizeof *set);
        if (set) {
            self->set = set;
            self->most_watched = entries * 2;
        }
    }
    return first;
}

/* Fills the poll set. Returns the number of its entries, and in *guests the number of guests. */
static int server_watch(server *self, int *guests)
{
    rendezvous *first = server_lengthen_set(self);
    int entries = *guests = weiri_guests_watch(&self->guests, self->set);
    for (rendezvous *id = first; id; id = id->next) {
        id->at = id->nwatched = 0;
        if (entries == self->most_watched)
            continue;
        id->at = entries;
        self->set[entries++] = (struct pollfd){.fd = id->root, .events = POLLRDHUP};
        while (id->nwatched < id->nearly && entries < self->most_watched)
            self->set[entries++] =
                (struct pollfd){.fd = id->early[id->nwatched++], .events = POLLRDHUP};
    }
    return entries;
}

/* Removes waiting ranks that have closed their connection. */
static void rendezvous_forget_gone(rendezvous *id, const struct pollfd *set)
{
    for (int i = id->nwatched - 1; i >= 0; i--) {
        if (!set[i].revents)
            continue;
        close(id->early[i]);
        id->early[i] = id->early[--id->nearly];
    }
}

/* Detaches the ids whose rank 0 has closed its connection; with the last one the server, which has
 * then closed its listener, before the ranks of the id learn that it is used. */
static rendezvous *server_detach_used(server *self, int *is_last)
{
    rendezvous *used = NULL;
    pthread_mutex_lock(&server_lock);
    for (rendezvous **at = &self->ids, *id; (id = *at) != NULL;) {
        if (id->at == 0 || !self->set[id->at].revents) {
            at = &id->next;
            continue;
        }
        *at = id->next;
        id->next = used;
        used = id;
    }
    *is_last = !self->ids;
    if (*is_last) {
        server **at = &servers;
        while (*at != self)
            at = &(*at)->next;
        *at = self->next;
        rendezvous_hang_up(self->listener);
    }
    pthread_mutex_unlock(&server_lock);
    return used;
}

/* Frees the used ids, and returns 1 if there are no others. */
static int server_end_used(server *self)
{
    int is_last = 0;
    rendezvous *used = server_detach_used(self, &is_last);
    if (is_last)
        weiri_guests_close(&self->guests);
    while (used) {
        rendezvous *next = used->next;
        rendezvous_free(used);
        used = next;
    }
    return is_last;
}

/* ----------------------------------------------------------------- the thread */

static void server_free(server *self)
{
    free(self->set);
    free(self);
}

static void *server_run(void *argument)
{
    server *self = argument;
    int has_warned = 0;
    for (;;) {
        int guests = 0;
        weiri_guests_expire(&self->guests);
        const int entries = server_watch(self, &guests);
        const int wait_ms = weiri_guests_wait_ms(&self->guests, self->guests.count ? ROUND_MS : -1);
        if (poll(self->set, (nfds_t)entries, wait_ms) < 0) {
            poll(NULL, 0, PAUSE_MS); /* the limit of open files may be temporary */
            continue;
        }
        if (server_end_used(self))
            break;
        for (rendezvous *id = rendezvous_first(self); id; id = id->next)
            if (id->at)
                rendezvous_forget_gone(id, self->set + id->at + 1);
        /* Rejections have been sent and logged. A lack of descriptors may be temporary. */
        if (weiri_guests_act(&self->guests, self->set, guests) == WEIR_ERR_SYSTEM) {
            if (!has_warned++)
                weiri_log(WEIRI_LOG_WARN, "unique ids: %s", weir_last_error());
            poll(NULL, 0, PAUSE_MS);
        }
    }
    server_free(self);
    return NULL;
}

/* The thread blocks all signals, which are for the program's own threads. */
static int server_start_thread(server *self)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(&thread, NULL, server_run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error_number == 0)
        pthread_detach(thread);
    return error_number;
}

/* ------------------------------------------------------ starting; forked children */

/* A forked child has no server threads. It closes the listeners, so that the ids end with the
 * parent. */
static void server_leave_to_parent(void)
{
    for (server *one = servers; one; one = one->next)
        close(one->listener);
    servers_of_parent = servers;
    servers = NULL;
    pthread_mutex_unlock(&server_lock);
}

static void server_lock_for_fork(void)
{
    pthread_mutex_lock(&server_lock);
}

static void server_unlock_after_fork(void)
{
    pthread_mutex_unlock(&server_lock);
}

static void server_prepare_forks(void)
{
    pthread_atfork(server_lock_for_fork, server_unlock_after_fork, server_leave_to_parent);
}

/* Listens and makes the guests and their poll set. */
static weir_status server_open(server *self, const weiri_address *address)
{
    const weiri_guests_host host = {
        .context = self,
        .recognise = rendezvous_recognise,
        .check = rendezvous_check_rank,
        .take = rendezvous_take,
        .unknown = "wrong secret, or the unique id has been used; use a new one for each job"};
    self->listener = -1;
    weir_status status = weiri_socket_listen(address, &self->listener);
    if (status == WEIR_OK)
        status = weiri_socket_address(self->listener, &self->address);
    if (status == WEIR_OK)
        status = weiri_guests_open(&self->job, &host, self->listener, RANKS_AT_ONCE, &self->guests);
    if (status != WEIR_OK)
        return status;
    self->most_watched = weiri_guests_most_watched(&self->guests);
    self->set = calloc((size_t)self->most_watched, sizeof *self->set);
    return self->set ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
}

/* Starts a server with its first id. */
static weir_status server_start(const weiri_address *address, rendezvous *id, server **started)
{
    server *self = calloc(1, sizeof *self);
    if (!self)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
    weir_status status = server_open(self, address);
    self->ids = id;
    int error_number = status == WEIR_OK ? server_start_thread(self) : 0;
    if (error_number != 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                  "cannot start the thread of unique ids");
    if (status == WEIR_OK) {
        *started = self;
        return WEIR_OK;
    }
    weiri_guests_close(&self->guests);
    if (self->listener >= 0)
        close(self->listener);
    server_free(self);
    return status;
}

static server *server_find(const weiri_address *address)
{
    server *self = servers;
    while (self &&
           (self->address.is_ipv6 != address->is_ipv6 || self->address.scope != address->scope ||
            memcmp(self->address.ip, address->ip, sizeof address->ip) != 0))
        self = self->next;
    return self;
}

weir_status weiri_rendezvous_start(weiri_rendezvous_point *point)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    rendezvous *id = calloc(1, sizeof *id);
    if (!id)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
    pthread_once(&once, server_prepare_forks);
    id->root = -1;
    memcpy(id->job.key, point->key, sizeof id->job.key);
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&server_lock);
    server *self = server_find(&point->address);
    if (self) {
        id->next = self->ids;
        self->ids = id;
    } else if ((status = server_start(&point->address, id, &self)) == WEIR_OK) {
        self->next = servers;
        servers = self;
    }
    if (self)
        point->address = self->address;
    pthread_mutex_unlock(&server_lock);
    if (status != WEIR_OK)
        free(id);
    return status;
}

weir_status weiri_rendezvous_ask(const weiri_job *job, int fd, const weiri_deadline *deadline,
                                 weiri_address *root)
{
    const weiri_address nowhere = {0};
    weiri_address answer;
    size_t done = 0;
    weir_status status = weiri_handshake_call(job, fd, 0, root, &nowhere, deadline);
    if (status != WEIR_OK)
        return status;
    status = weiri_link_read(fd, 0, &answer, sizeof answer, deadline, &done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank 0 has not joined yet");
    *root = answer;
    return WEIR_OK;
}
