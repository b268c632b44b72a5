/*
 * A unique id for the ranks of one node: see one_node.h.
 *
 * Rank 0 listens at an abstract Unix socket, whose name follows from the identity of the job. The
 * kernel removes such a name with its process, so that nothing is left however rank 0 ends. The
 * other ranks look for it until they find it. Names of jobs differ, and so do those that a job uses
 * one after another. Another user who has seen one can take it: rank 0 then uses the next one, and
 * each side ignores processes of other users.
 *
 *   rank -> 0   hello: rank and number of ranks
 *   0 -> rank   ADMITTED, or TAKEN if another process has this rank: it looks at the next name
 *   0 -> rank   once all have come, READY with the unique id, or FAILED with the reason
 *
 * Connections stay open until then, so that a rank that ends is noticed at once.
 */
#define _GNU_SOURCE /* struct ucred, accept4 */
#include "boot/one_node.h"

#include "base/config.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/job_identity.h"
#include "base/open_files.h"
#include "boot/deadline.h"
#include "boot/handshake.h"
#include "boot/ranks.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { NAMES = 32, GRACE_MS = 1000, STRANGERS = 32, TEXT_BYTES = 400 };
#define MAGIC 0x3165646f6e726977u /* the last digit is the version */

typedef struct node_hello {
    uint64_t magic;
    int32_t rank, nranks;
} node_hello;

typedef enum node_state { ADMITTED = 1, TAKEN, READY, FAILED } node_state;

typedef struct node_answer {
    uint64_t magic;
    int32_t state, status; /* status: of FAILED */
    char text[TEXT_BYTES];
    weir_unique_id id;
} node_answer;

/* Hash of the id by which this process last joined its job, which no other user knows: it leads to
 * the name of the next time. */
static uint8_t last_id[WEIRI_MAC_BYTES];
static pthread_mutex_t last_id_lock = PTHREAD_MUTEX_INITIALIZER;

/* A rank's view of the job. */
typedef struct node_job {
    weiri_job_identity identity;
    int rank, nranks;
    weiri_deadline deadline;
} node_job;

static socklen_t node_name(const node_job *job, int number, struct sockaddr_un *name)
{
    char hash[WEIRI_JOB_NAME_BYTES], purpose[32];
    snprintf(purpose, sizeof purpose, "%d ranks join", job->nranks);
    weiri_job_identity_name(&job->identity, purpose, number, hash);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weir-boot-%s", hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static weir_status node_socket(const node_job *job, int *fd)
{
    *fd = weiri_fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd >= 0)
        return WEIR_OK;
    return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d of %d cannot create a socket%s",
                            job->rank, job->nranks, errno == EMFILE ? "; raise 'ulimit -n'" : "");
}

/* 1 if the process at the other end belongs to this user. */
static int node_is_own(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Waits for input; a signal may end the wait early. */
static void node_wait(struct pollfd *polls, size_t count, const weiri_deadline *deadline)
{
    if (poll(polls, count, weiri_deadline_left_ms(deadline)) <= 0)
        for (size_t i = 0; i < count; i++)
            polls[i].revents = 0;
}

/* --------------------------------------------------------------------- rank 0 */

/* Rank 0: the listening socket, then the connections. Connections without a rank come first in
 * polls. */
typedef struct node_host {
    const node_job *job;
    int listener, nstrangers, nadmitted;
    int strangers[STRANGERS]; /* accepted, no hello yet; the oldest first */
    int *ranks;               /* by rank; -1: has not come */
    struct pollfd *polls;     /* of the listener, the strangers and the ranks */
} node_host;

static weir_status host_listen(node_host *self)
{
    const node_job *job = self->job;
    weir_status status = node_socket(job, &self->listener);
    int number = 0;
    for (; status == WEIR_OK && number < NAMES; number++) {
        struct sockaddr_un name;
        const socklen_t length = node_name(job, number, &name);
        if (bind(self->listener, (const struct sockaddr *)&name, length) == 0)
            break;
        if (errno != EADDRINUSE)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                    "rank 0 of %d cannot name a Unix socket", job->nranks);
    }
    if (number == NAMES)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "rank 0 of %d: other processes hold all %d names of this job's Unix "
                          "socket (ss -xl | grep weir-boot); end them",
                          job->nranks, NAMES);
    if (status == WEIR_OK && listen(self->listener, job->nranks + STRANGERS) != 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank 0 of %d cannot listen for others",
                                  job->nranks);
    return status;
}

static void host_drop_stranger(node_host *self, int at)
{
    self->nstrangers--;
    memmove(&self->strangers[at], &self->strangers[at + 1],
            (size_t)(self->nstrangers - at) * sizeof self->strangers[0]);
}

static void host_accept(node_host *self)
{
    const int fd =
        weiri_fd_raise(accept4(self->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0)
        return;
    if (!node_is_own(fd)) {
        close(fd);
        return;
    }
    if (self->nstrangers == STRANGERS) {
        close(self->strangers[0]);
        host_drop_stranger(self, 0);
    }
    self->strangers[self->nstrangers++] = fd;
}

static int host_send(int fd, node_answer *answer, node_state state)
{
    answer->magic = MAGIC;
    answer->state = state;
    return send(fd, answer, sizeof *answer, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *answer;
}

/* Reads a stranger's hello; it becomes a rank, or is gone. */
static void host_hear(node_host *self, int at)
{
    node_hello hello = {0};
    node_answer answer = {0};
    const int fd = self->strangers[at], nranks = self->job->nranks;
    const ssize_t got = recv(fd, &hello, sizeof hello, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    host_drop_stranger(self, at);
    const int is_rank = got == (ssize_t)sizeof hello && hello.magic == MAGIC &&
                        hello.nranks == nranks && hello.rank > 0 && hello.rank < nranks;
    if (is_rank && self->ranks[hello.rank] < 0 && host_send(fd, &answer, ADMITTED)) {
        self->ranks[hello.rank] = fd;
        self->nadmitted++;
        return;
    }
    if (is_rank)
        host_send(fd, &answer, TAKEN);
    close(fd);
}

/* Waits for the next event. Returns the number of polls. */
static int host_poll(node_host *self)
{
    int count = 0;
    self->polls[count++] = (struct pollfd){.fd = self->listener, .events = POLLIN};
    for (int i = 0; i < self->nstrangers; i++)
        self->polls[count++] = (struct pollfd){.fd = self->strangers[i], .events = POLLIN};
    for (int rank = 0; rank < self->job->nranks; rank++)
        self->polls[count++] = (struct pollfd){.fd = self->ranks[rank], .events = POLLIN};
    node_wait(self->polls, (size_t)count, &self->job->deadline);
    return count;
}

static weir_status host_fail_missing(const node_host *self)
{
    weiri_ranks missing = {0};
    for (int rank = 1; rank < self->job->nranks; rank++)
        if (self->ranks[rank] < 0)
            weiri_ranks_add(&missing, rank);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "rank 0 of %d: %s %s %s not come within %d ms; check whether one launcher "
                      "(process %d) started them, on this node, or raise WEIR_TIMEOUT_MS",
                      self->job->nranks, weiri_ranks_noun(&missing), missing.list,
                      weiri_ranks_have(&missing), self->job->deadline.timeout_ms,
                      self->job->identity.launcher);
}

/* Admits ranks until all have come. */
static weir_status host_gather(node_host *self)
{
    const int nranks = self->job->nranks;
    while (self->nadmitted < nranks - 1) {
        if (weiri_deadline_left_ms(&self->job->deadline) == 0)
            return host_fail_missing(self);
        const int count = host_poll(self), first = count - nranks;
        for (int rank = 1; rank < nranks; rank++)
            if (self->polls[first + rank].revents)
                return weiri_fail(WEIR_ERR_PEER,
                                  "rank 0 of %d: rank %d ended while the ranks joined", nranks,
                                  rank);
        for (int i = first - 2; i >= 0; i--)
            if (self->polls[1 + i].revents)
                host_hear(self, i);
        if (self->polls[0].revents)
            host_accept(self);
    }
    return WEIR_OK;
}

/* Passes the id on, or the reason why there is none, which is this thread's error line. */
static void host_answer(const node_host *self, weir_status status, const weir_unique_id *id)
{
    node_answer answer = {.status = status};
    if (status == WEIR_OK)
        answer.id = *id;
    else
        snprintf(answer.text, sizeof answer.text, "%s", weir_last_error());
    for (int rank = 1; rank < self->job->nranks; rank++)
        if (self->ranks[rank] >= 0)
            host_send(self->ranks[rank], &answer, status == WEIR_OK ? READY : FAILED);
}

static void host_close(node_host *self)
{
    for (int i = 0; i < self->nstrangers; i++)
        close(self->strangers[i]);
    for (int rank = 0; self->ranks && rank < self->job->nranks; rank++)
        if (self->ranks[rank] >= 0)
            close(self->ranks[rank]);
    free(self->ranks);
    free(self->polls);
}

static weir_status host_allow_descriptors(const node_job *job)
{
    enum { OTHERS = 64, FEW_RANKS = 64 };
    char who[32];
    if (job->nranks <= FEW_RANKS)
        return WEIR_OK;
    snprintf(who, sizeof who, "rank 0 of %d", job->nranks);
    return weiri_open_files_allow(weiri_open_files_count() + (uint64_t)job->nranks + OTHERS, who);
}

/* Creates the id that all ranks get. The name is free before they can ask for the next one. */
static weir_status host_share_id(const node_job *job, weir_unique_id *id)
{
    const size_t nranks = (size_t)job->nranks;
    node_host self = {.job = job,
                      .listener = -1,
                      .ranks = malloc(nranks * sizeof(int)),
                      .polls = calloc(1 + STRANGERS + nranks, sizeof(struct pollfd))};
    weir_status status = host_allow_descriptors(job);
    for (size_t rank = 0; self.ranks && rank < nranks; rank++)
        self.ranks[rank] = -1;
    if (status == WEIR_OK && (!self.ranks || !self.polls))
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "rank 0: no memory to join %d ranks", job->nranks);
    if (status == WEIR_OK)
        status = host_listen(&self);
    if (status == WEIR_OK)
        status = host_gather(&self);
    if (status == WEIR_OK)
        status = weir_unique_id_create(id);
    if (self.listener >= 0)
        close(self.listener);
    if (self.ranks)
        host_answer(&self, status, id);
    host_close(&self);
    return status;
}

/* ------------------------------------------------------------------ other ranks */

typedef enum guest_result { GUEST_FOUND, GUEST_LOOKS_ON, GUEST_FAILED } guest_result;

/* Receives an answer; state 0: the connection was closed. Returns 0 at the deadline. */
static int guest_receive(const weiri_deadline *deadline, int fd, node_answer *answer)
{
    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        const ssize_t got = recv(fd, answer, sizeof *answer, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (weiri_deadline_left_ms(deadline) == 0)
                return 0;
            node_wait(&one, 1, deadline);
            continue;
        }
        if (got != (ssize_t)sizeof *answer || answer->magic != MAGIC)
            answer->state = 0;
        return 1;
    }
}

static guest_result guest_ask(const node_job *job, int fd, node_answer *answer)
{
    const node_hello hello = {MAGIC, job->rank, job->nranks};
    if (!node_is_own(fd) || send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello ||
        !guest_receive(&job->deadline, fd, answer) || answer->state != ADMITTED)
        return GUEST_LOOKS_ON;
    /* Rank 0 may have started later, and then reports later which ranks are missing. */
    const weiri_deadline last = weiri_deadline_in(job->deadline.timeout_ms + GRACE_MS);
    if (!guest_receive(&last, fd, answer))
        answer->status = weiri_fail(WEIR_ERR_TIMEOUT,
                                    "rank %d of %d: rank 0 does not answer within %d ms; is it "
                                    "stopped?",
                                    job->rank, job->nranks, last.timeout_ms);
    else if (answer->state == READY)
        return GUEST_FOUND;
    else if (answer->state != FAILED)
        answer->status =
            weiri_fail(WEIR_ERR_PEER, "rank %d of %d: rank 0 ended while the ranks joined",
                       job->rank, job->nranks);
    else {
        weiri_text_clean(answer->text, sizeof answer->text);
        weiri_fail((weir_status)answer->status, "rank %d of %d: %s", job->rank, job->nranks,
                   answer->text);
    }
    return GUEST_FAILED;
}

/* Looks at every name of rank 0's socket once. */
static weir_status guest_look(const node_job *job, guest_result *result, node_answer *answer)
{
    *result = GUEST_LOOKS_ON;
    for (int number = 0; number < NAMES && *result == GUEST_LOOKS_ON; number++) {
        struct sockaddr_un name;
        int fd;
        const socklen_t length = node_name(job, number, &name);
        weir_status status = node_socket(job, &fd);
        if (status != WEIR_OK)
            return status;
        if (connect(fd, (const struct sockaddr *)&name, length) == 0)
            *result = guest_ask(job, fd, answer);
        close(fd);
    }
    return *result == GUEST_FAILED ? (weir_status)answer->status : WEIR_OK;
}

static weir_status guest_ask_for_id(const node_job *job, weir_unique_id *id)
{
    enum { NAP_NS = 2000000 };
    node_answer answer;
    guest_result result = GUEST_LOOKS_ON;
    while (result == GUEST_LOOKS_ON) {
        weir_status status = guest_look(job, &result, &answer);
        if (status != WEIR_OK)
            return status;
        if (result == GUEST_FOUND)
            break;
        if (weiri_deadline_left_ms(&job->deadline) == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT,
                              "rank %d of %d: rank 0 has not come within %d ms; check whether one "
                              "launcher (process %d) started all ranks, on this node, or raise "
                              "WEIR_TIMEOUT_MS",
                              job->rank, job->nranks, job->deadline.timeout_ms,
                              job->identity.launcher);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    *id = answer.id;
    return WEIR_OK;
}

weir_status weiri_boot_one_node_create(const weiri_launcher_row *row, int rank, int nranks,
                                       weir_boot **boot)
{
    weir_unique_id id = {0};
    if (rank >= nranks || nranks > WEIR_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s=%d and %s=%d: expected a rank below the number of ranks, which is "
                          "at most %d",
                          row->rank, rank, row->size, nranks, WEIR_RANKS_MAX);
    node_job job = {
        .rank = rank, .nranks = nranks, .deadline = weiri_deadline_in(weiri_config_timeout_ms())};
    weiri_job_identity_find(row, &job.identity);
    pthread_mutex_lock(&last_id_lock);
    weiri_mac(job.identity.key, last_id, sizeof last_id, job.identity.key);
    pthread_mutex_unlock(&last_id_lock);
    weir_status status = rank == 0 ? host_share_id(&job, &id) : guest_ask_for_id(&job, &id);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&last_id_lock);
    weiri_mac(job.identity.key, &id, sizeof id, last_id);
    pthread_mutex_unlock(&last_id_lock);
    return weir_boot_tcp_create(&id, rank, nranks, boot);
}
