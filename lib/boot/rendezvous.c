/* The thread at a unique id's address, which shares nothing with others, and who asks it. */
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

/* As many may say who they are at a time, and strangers besides. */
enum { RANKS_AT_ONCE = 4096, PAUSE_MS = 10, ROUND_MS = 1000 };

typedef struct rendezvous {
    weiri_job job;      /* it answers in rank 0's place */
    int listener;
    weiri_guests guests;
    struct pollfd *set; /* the guests, rank 0, and those that wait for it */
    int root;           /* rank 0's connection, -1 before it came */
    weiri_address root_listens;
    int *early;         /* connections of ranks that came before it, */
    int nearly;         /* so many, */
    int nwatched;       /* of which these are in the set, the first */
} rendezvous;

/* Also where a forked child of the program has the same connection. */
static void hang_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void tell(const rendezvous *self, int fd)
{
    weiri_address address = self->root_listens;
    struct iovec part = {&address, sizeof address};
    size_t done = 0;
    weiri_link_write_some(fd, -1, &part, 1, &done); /* fresh: it fits, or they hung up */
    close(fd);
}

/* Rank 0 comes once; for others that wait for it there has to be room. */
static weir_status check_rank(void *context, const weiri_job *job, const weiri_guest *who)
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

static void take(void *context, const weiri_job *job, const weiri_guest *who)
{
    rendezvous *self = context;
    (void)job;
    if (who->hello.rank == 0) {
        self->root = who->fd;
        self->root_listens = who->hello.listens;
        while (self->nearly > 0)
            tell(self, self->early[--self->nearly]);
    } else if (self->root >= 0) {
        tell(self, who->fd);
    } else {
        self->early[self->nearly++] = who->fd;
    }
}

static void end(rendezvous *self)
{
    weiri_guests_close(&self->guests);
    hang_up(self->listener);
    for (int i = 0; i < self->nearly; i++)
        hang_up(self->early[i]);
    if (self->root >= 0)
        hang_up(self->root);
    free(self->early);
    free(self->set);
    free(self);
}

/* Makes the set long enough for all who wait, if there is memory. */
static void lengthen_set(rendezvous *self)
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

/* Fills the poll set; returns how many entries are the guests'. Rank 0's is behind them. */
static int watch(rendezvous *self)
{
    lengthen_set(self);
    const int guests = weiri_guests_watch(&self->guests, self->set);
    self->set[guests] = (struct pollfd){.fd = self->root, .events = POLLRDHUP};
    for (int i = 0; i < self->nwatched; i++)
        self->set[guests + 1 + i] = (struct pollfd){.fd = self->early[i], .events = POLLRDHUP};
    return guests;
}

/* Of those that wait for rank 0, who has hung up. */
static void forget_gone(rendezvous *self, const struct pollfd *set)
{
    for (int i = self->nwatched - 1; i >= 0; i--) {
        if (!set[i].revents)
            continue;
        close(self->early[i]);
        self->early[i] = self->early[--self->nearly];
    }
}

static void *serve(void *argument)
{
    rendezvous *self = argument;
    for (;;) {
        weiri_guests_expire(&self->guests);
        const int guests = watch(self);
        const int timeout_ms = self->guests.count ? ROUND_MS : -1;
        if (poll(self->set, (nfds_t)(guests + 1 + self->nwatched), timeout_ms) < 0) {
            poll(NULL, 0, PAUSE_MS); /* too few files are allowed, which may pass */
            continue;
        }
        if (self->set[guests].revents)
            break;
        forget_gone(self, self->set + guests + 1);
        /* Who is refused has been told, and that is logged. Want of files may pass. */
        if (weiri_guests_act(&self->guests, self->set, guests) == WEIR_ERR_SYSTEM)
            poll(NULL, 0, PAUSE_MS);
    }
    end(self);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(rendezvous *self)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(&thread, NULL, serve, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error_number == 0)
        pthread_detach(thread);
    return error_number;
}

weir_status weiri_rendezvous_start(const weiri_barrier_epoch *meeting, int listener)
{
    rendezvous *self = calloc(1, sizeof *self);
    if (!self)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
    self->listener = listener;
    self->root = -1;
    memcpy(self->job.key, meeting->key, sizeof self->job.key);
    const weiri_guests_host host = {.context = self, .check = check_rank, .take = take};
    weir_status status =
        weiri_guests_open(&self->job, &host, listener, RANKS_AT_ONCE, &self->guests);
    if (status != WEIR_OK)
        goto free_self;
    self->set = calloc((size_t)weiri_guests_most_watched(&self->guests) + 1, sizeof *self->set);
    if (!self->set) {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a unique id");
        goto close_guests;
    }
    int error_number = start_thread(self);
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
        return weiri_fail_context(status, "rank 0 has not come");
    *root = answer;
    return WEIR_OK;
}
