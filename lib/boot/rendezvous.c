/* The thread of the rendezvous server, which shares no data with other threads, and its client. */
#define _GNU_SOURCE /* POLLRDHUP */

#include "boot/rendezvous.h"

#include "base/error.h"
#include "boot/guests.h"
#include "boot/link.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* RANKS_AT_ONCE: ranks that may be authenticating at the same time. */
enum { RANKS_AT_ONCE = 4096, PAUSE_MS = 10, ROUND_MS = 1000 };

typedef struct rendezvous {
    weiri_job job;      /* the server answers as rank 0 */
    int listener;
    weiri_guests guests;
    struct pollfd *set; /* guests, rank 0, and ranks that wait for its address */
    int root;           /* rank 0's connection; -1 before it has registered */
    weiri_address root_listens;
    int *early;         /* connections of ranks that arrived before rank 0 */
    int nearly;         /* entries of early */
    int nwatched;       /* how many of them, from the first, are in the poll set */
} rendezvous;

/* Closes a connection even if a forked child of the program has inherited its descriptor. */
static void rendezvous_hang_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void rendezvous_send_root(const rendezvous *self, int fd)
{
    weiri_address address = self->root_listens;
    struct iovec part = {&address, sizeof address};
    size_t done = 0;
    weiri_link_write_some(fd, -1, &part, 1, &done); /* a new connection: fits, or has been closed */
    close(fd);
}

/* Rank 0 may register once. Makes room for another rank that waits for it. */
static weir_status rendezvous_check_rank(void *context, const weiri_job *job,
                                         const weiri_guest *who)
{
    rendezvous *self = context;
    (void)job;
    if (who->hello.rank == 0 && self->root >= 0)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "two processes say that they are rank 0, the second at %s; a unique id "
                          "serves one job",
                          who->where);
    if (who->hello.rank == 0 || self->root >= 0)
        return WEIR_OK;
    int *early = realloc(self->early, (size_t)(self->nearly + 1) * sizeof *early);
    if (!early)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for ranks that wait for rank 0");
    self->early = early;
    return WEIR_OK;
}

static void rendezvous_take(void *context, const weiri_job *job, const weiri_guest *who)
{
    rendezvous *self = context;
    (void)job;
    if (who->hello.rank == 0) {
        self->root = who->fd;
        self->root_listens = who->hello.listens;
        while (self->nearly > 0)
            rendezvous_send_root(self, self->early[--self->nearly]);
    } else if (self->root >= 0) {
        rendezvous_send_root(self, who->fd);
    } else {
        self->early[self->nearly++] = who->fd;
    }
}

static void rendezvous_end(rendezvous *self)
{
    weiri_guests_close(&self->guests);
    rendezvous_hang_up(self->listener);
    for (int i = 0; i < self->nearly; i++)
        rendezvous_hang_up(self->early[i]);
    if (self->root >= 0)
        rendezvous_hang_up(self->root);
    free(self->early);
    free(self->set);
    free(self);
}

/* Extends the poll set for all waiting ranks, if there is memory. */
static void rendezvous_lengthen_set(rendezvous *self)
{
    const size_t others = (size_t)weiri_guests_most_watched(&self->guests) + 1;
    if (self->nearly > self->nwatched) {
        struct pollfd *set = realloc(self->set, (others + (size_t)self->nearly) * sizeof *set);
        if (!set)
            return;
        self->set = set;
    }
    self->nwatched = self->nearly;
}

/* Fills the poll set and returns the number of guests' entries. Rank 0's entry follows them. */
static int rendezvous_watch(rendezvous *self)
{
    rendezvous_lengthen_set(self);
    const int guests = weiri_guests_watch(&self->guests, self->set);
    self->set[guests] = (struct pollfd){.fd = self->root, .events = POLLRDHUP};
    for (int i = 0; i < self->nwatched; i++)
        self->set[guests + 1 + i] = (struct pollfd){.fd = self->early[i], .events = POLLRDHUP};
    return guests;
}

/* Removes waiting ranks that have closed their connection. */
static void rendezvous_forget_gone(rendezvous *self, const struct pollfd *set)
{
    for (int i = self->nwatched - 1; i >= 0; i--) {
        if (!set[i].revents)
            continue;
        close(self->early[i]);
        self->early[i] = self->early[--self->nearly];
    }
}

static void *rendezvous_serve(void *argument)
{
    rendezvous *self = argument;
    for (;;) {
        weiri_guests_expire(&self->guests);
        const int guests = rendezvous_watch(self);
        const int timeout_ms = self->guests.count ? ROUND_MS : -1;
        if (poll(self->set, (nfds_t)(guests + 1 + self->nwatched), timeout_ms) < 0) {
            poll(NULL, 0, PAUSE_MS); /* the limit of open files may be temporary */
            continue;
        }
        if (self->set[guests].revents)
            break;
        rendezvous_forget_gone(self, self->set + guests + 1);
        /* Rejections have been sent and logged. A lack of descriptors may be temporary. */
        if (weiri_guests_act(&self->guests, self->set, guests) == WEIR_ERR_SYSTEM)
            poll(NULL, 0, PAUSE_MS);
    }
    rendezvous_end(self);
    return NULL;
}

/* The thread blocks all signals, which are for the program's own threads. */
static int rendezvous_start_thread(rendezvous *self)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(&thread, NULL, rendezvous_serve, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error_number == 0)
        pthread_detach(thread);
    return error_number;
}

weir_status weiri_rendezvous_start(const weiri_rendezvous_point *point, int listener)
{
    rendezvous *self = calloc(1, sizeof *self);
    if (!self)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
    self->listener = listener;
    self->root = -1;
    memcpy(self->job.key, point->key, sizeof self->job.key);
    const weiri_guests_host host = {
        .context = self, .check = rendezvous_check_rank, .take = rendezvous_take};
    weir_status status =
        weiri_guests_open(&self->job, &host, listener, RANKS_AT_ONCE, &self->guests);
    if (status != WEIR_OK)
        goto free_self;
    self->set = calloc((size_t)weiri_guests_most_watched(&self->guests) + 1, sizeof *self->set);
    if (!self->set) {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
        goto close_guests;
    }
    int error_number = rendezvous_start_thread(self);
    if (error_number == 0)
        return WEIR_OK;
    status = weiri_fail_errno(WEIR_ERR_SYSTEM, error_number, "cannot start a unique id's thread");
    free(self->set);

close_guests:
    weiri_guests_close(&self->guests);
free_self:
    free(self);
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
