/*
 * Sends and receives of libweir_nccl on the host: through mailboxes, and lent, so that the receiver
 * copies from the sender's memory. Lengths around the limit between the two, all kinds of memory,
 * and systems that forbid the kernel's copies; that a lent buffer is the sender's again only when
 * its receiver has the data; late ranks, dead ranks, and an abort.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "verify/tests/support/cma.h"
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/unit_test.h"
#include "verify/tests/support/xpmem_memory.h"

#include "coll/coll.h"
#include "compute/copy.h"
#include "nccl/p2p/p2p_host.h"
#include "nccl/weir_nccl.h"

#include <pthread.h>

enum { LONG_BYTES = 9 << 20, MEMORY_BYTES = 10 << 20, GUARD = 0xee };

typedef enum memory_kind { UNREGISTERED, REGISTERED, ATTACHED } memory_kind;

typedef struct job {
    int nranks;
    memory_kind kind;
    forbids cma;
} job;

typedef struct sender {
    int rank, nranks, failures;
    const job *of;
    ncclComm_t comm;
    unsigned char *out, *in; /* MEMORY_BYTES each */
    size_t limit;            /* the shortest message that is lent */
    int lends;               /* whether this rank lends at all */
    int oversubscribed;
} sender;

#define SENDS(s, condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (s)->failures++;                                                                       \
            printf("# rank %d, %s:%d: not so: %s (%s)\n", (s)->rank, __FILE__, __LINE__,           \
                   #condition, ncclGetLastError(NULL));                                            \
            fflush(stdout);                                                                        \
        }                                                                                          \
    } while (0)
#define SENDS_OK(s, call) SENDS(s, (call) == ncclSuccess)

static void fill(unsigned char *to, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(i * 7 + i / 251 + (size_t)seed * 31);
}

/* Whether the bytes are those of fill, and the one after them was not changed. */
static int holds(const unsigned char *data, size_t bytes, int seed)
{
    size_t i = 0;
    while (i < bytes && data[i] == (unsigned char)(i * 7 + i / 251 + (size_t)seed * 31))
        i++;
    return i == bytes && data[bytes] == GUARD;
}

/* Messages that this rank has lent. */
static uint64_t lent_by(const sender *s)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(s->comm);
    const uint64_t lent = comm->p2p->lent;
    weiri_nccl_leave(comm);
    return lent;
}

static int open_sender(weir_boot *boot, const job *of, sender *s)
{
    ncclUniqueId ids[8];
    weiri_coll *coll = NULL;
    weir_mem *mem = NULL;
    *s = (sender){.rank = weir_boot_rank(boot), .nranks = weir_boot_nranks(boot), .of = of};
    const int is_attached = of->kind == ATTACHED;
    if (!forbid_cma(of->cma) || (is_attached && !xpmem_load()) ||
        (!is_attached && setenv("WEIR_XPMEM", "0", 1) != 0))
        return 0;
    weiri_copy_assume_streams_to_peers(0); /* on AMD's processors ranks would lend less often */
    if (s->rank == 0)
        SENDS_OK(s, ncclGetUniqueId(&ids[0]));
    if (weir_boot_allgather(boot, ids, sizeof ids[0]) != WEIR_OK ||
        ncclCommInitRank(&s->comm, s->nranks, ids[0], s->rank) != ncclSuccess)
        return 0;
    weiri_nccl_comm *comm = weiri_nccl_enter(s->comm);
    if (weiri_coll_get(comm->p2p->node, &coll) != WEIR_OK)
        return 0;
    s->oversubscribed = coll->comm->oversubscribed;
    s->limit = (size_t)coll->cma_from_bytes[WEIR_COLL_SENDRECV];
    s->lends = of->kind != UNREGISTERED || (of->cma == CMA_ALLOWED && system_allows_cma());
    if (of->kind == REGISTERED &&
        weir_mem_alloc(comm->p2p->node, 2 * (size_t)MEMORY_BYTES, &mem) != WEIR_OK)
        return 0;
    weiri_nccl_leave(comm);
    s->out = of->kind == REGISTERED ? weir_mem_pointer(mem)
             : is_attached          ? xpmem_memory(2 * (size_t)MEMORY_BYTES)
                                    : malloc(2 * (size_t)MEMORY_BYTES);
    s->in = s->out + MEMORY_BYTES;
    return s->out && s->limit > 1000 && s->limit < 1 << 20;
}

/* Every rank sends to the next one in a group with a receive. */
static void exchange(sender *s, size_t bytes, size_t skew)
{
    const int next = (s->rank + 1) % s->nranks, before = (s->rank + s->nranks - 1) % s->nranks;
    const uint64_t lent = lent_by(s);
    unsigned char *out = s->out + skew, *in = s->in + skew % 3;
    fill(out, bytes, s->rank);
    memset(in, GUARD, bytes + 1);
    SENDS_OK(s, ncclGroupStart());
    SENDS_OK(s, ncclSend(out, bytes, ncclUint8, next, s->comm, NULL));
    SENDS_OK(s, ncclRecv(in, bytes, ncclUint8, before, s->comm, NULL));
    SENDS_OK(s, ncclGroupEnd());
    memset(out, 0, bytes); /* it is this rank's again */
    SENDS(s, holds(in, bytes, before));
    SENDS(s, lent_by(s) - lent == (uint64_t)(s->lends && bytes >= s->limit));
}

/* Rank 0 sends to rank 1, which is late, and uses the buffer again at once. */
static void one_way(sender *s, size_t bytes, int late_us)
{
    unsigned char *out = s->out + 1;
    const uint64_t lent = lent_by(s);
    const int is_lent = s->lends && bytes >= s->limit &&
                        (bytes <= 1 << 20 || s->of->kind != UNREGISTERED || s->oversubscribed);
    if (s->rank == 0) {
        fill(out, bytes, 5);
        SENDS_OK(s, ncclSend(out, bytes, ncclUint8, 1, s->comm, NULL));
        memset(out, 0, bytes);
        SENDS(s, lent_by(s) - lent == (uint64_t)is_lent);
    } else if (s->rank == 1) {
        memset(s->in, GUARD, bytes + 1);
        usleep((unsigned)late_us);
        SENDS_OK(s, ncclRecv(s->in, bytes, ncclUint8, 0, s->comm, NULL));
        SENDS(s, holds(s->in, bytes, 5));
    }
}

/* Two ranks exchange; rank 0 stores to its buffer as soon as it may, from its end on. */
static void exchange_late(sender *s, size_t bytes)
{
    for (int round = 0; round < 4 && s->rank < 2; round++) {
        fill(s->out, bytes, round);
        memset(s->in, GUARD, bytes + 1);
        if (s->rank == round % 2)
            usleep(3000);
        SENDS_OK(s, ncclGroupStart());
        SENDS_OK(s, ncclRecv(s->in, s->rank ? bytes : 1, ncclUint8, 1 - s->rank, s->comm, NULL));
        SENDS_OK(s, ncclSend(s->out, s->rank ? 1 : bytes, ncclUint8, 1 - s->rank, s->comm, NULL));
        SENDS_OK(s, ncclGroupEnd());
        for (size_t i = bytes; i-- > 0;)
            s->out[i] = 0;
        SENDS(s, holds(s->in, s->rank ? bytes : 1, round));
    }
}

/* Several messages to each rank, itself too: lent ones, short ones and empty ones. */
static void groups(sender *s)
{
    const size_t sizes[] = {s->limit + 3, 0, 17, 5000001, s->limit - 1, s->limit, 300001};
    enum { EACH = sizeof sizes / sizeof *sizes };
    const size_t room = MEMORY_BYTES / 3;
    SENDS_OK(s, ncclGroupStart());
    for (int peer = 0; peer < s->nranks && peer < 3; peer++) {
        unsigned char *in = s->in + (size_t)peer * room, *out = s->out + (size_t)peer * room;
        for (int i = 0; i < EACH; i++) {
            size_t bytes = sizes[i] < room / 2 ? sizes[i] : room / 2;
            memset(in, GUARD, bytes + 1);
            fill(out, bytes, 10 * i + s->rank);
            SENDS_OK(s, ncclRecv(in, bytes, ncclUint8, peer, s->comm, NULL));
            SENDS_OK(s, ncclSend(out, bytes, ncclUint8, peer, s->comm, NULL));
            in += bytes + 1;
            out += bytes;
        }
    }
    SENDS_OK(s, ncclGroupEnd());
    for (int peer = 0; peer < s->nranks && peer < 3; peer++) {
        const unsigned char *in = s->in + (size_t)peer * room;
        for (int i = 0; i < EACH; i++) {
            size_t bytes = sizes[i] < room / 2 ? sizes[i] : room / 2;
            SENDS(s, holds(in, bytes, 10 * i + peer));
            in += bytes + 1;
        }
    }
}

static int close_sender(sender *s)
{
    SENDS_OK(s, ncclCommDestroy(s->comm));
    return s->failures;
}

static int all_lengths(weir_boot *boot, void *argument)
{
    sender s;
    if (!open_sender(boot, argument, &s))
        return 99;
    const size_t sizes[] = {0,      1,      s.limit - 1, s.limit, s.limit + 1,    65537,
                            229376, 229377, 4 << 20,     4194305, LONG_BYTES + 77};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        exchange(&s, sizes[i], 0);
        exchange(&s, sizes[i], i % 5 + 1);
        one_way(&s, sizes[i], i % 2 ? 2000 : 0);
    }
    exchange_late(&s, LONG_BYTES);
    groups(&s);
    return close_sender(&s);
}

static void run_lengths(memory_kind kind, forbids cma)
{
    for (int nranks = 2; nranks <= 3; nranks++) {
        job j = {nranks, kind, cma};
        run_ranks(nranks, all_lengths, &j);
    }
}

TEST(unregistered_messages_arrive)
{
    run_lengths(UNREGISTERED, CMA_ALLOWED);
}
TEST(messages_arrive_where_the_system_forbids_reading)
{
    run_lengths(UNREGISTERED, CMA_FORBIDDEN_BY_SYSTEM);
}
TEST(messages_arrive_where_the_user_forbids_reading)
{
    run_lengths(UNREGISTERED, CMA_FORBIDDEN_BY_USER);
}
TEST(registered_messages_arrive)
{
    run_lengths(REGISTERED, CMA_FORBIDDEN_BY_USER);
}
TEST(attached_messages_arrive)
{
    run_lengths(ATTACHED, CMA_FORBIDDEN_BY_USER);
}

/* ------------------------------------------------------------------- faults */

static int different_lengths(weir_boot *boot, void *argument)
{
    sender s;
    if (!open_sender(boot, argument, &s))
        return 99;
    ncclResult_t result = s.rank == 0 ? ncclSend(s.out, 70000, ncclUint8, 1, s.comm, NULL)
                                      : ncclRecv(s.in, 70001, ncclUint8, 0, s.comm, NULL);
    SENDS(&s, result == (s.rank == 0 && s.lends ? ncclRemoteError
                         : s.rank == 0          ? ncclSuccess
                                                : ncclInvalidUsage));
    SENDS_OK(&s, ncclCommAbort(s.comm));
    return s.failures;
}

/* The receiver comes after the sender's deadline. */
static int too_late(weir_boot *boot, void *argument)
{
    sender s;
    setenv("WEIR_TIMEOUT_MS", "400", 1);
    if (!open_sender(boot, argument, &s))
        return 99;
    ncclResult_t result = ncclSuccess;
    if (s.rank == 0) {
        fill(s.out, 70000, 1);
        result = ncclSend(s.out, 70000, ncclUint8, 1, s.comm, NULL);
        memset(s.out, 0, 70000);
    } else {
        usleep(1500000);
        result = ncclRecv(s.in, 70000, ncclUint8, 0, s.comm, NULL);
    }
    SENDS(&s, !s.lends || result == ncclRemoteError);
    SENDS(&s, !s.lends || s.rank || strstr(ncclGetLastError(NULL), "deadline"));
    SENDS_OK(&s, ncclCommAbort(s.comm));
    return s.failures;
}

static void *send_until_abort(void *argument)
{
    sender *s = argument;
    ncclResult_t result = ncclSend(s->out, 70000, ncclUint8, 1, s->comm, NULL);
    SENDS(s, result == (s->lends ? ncclRemoteError : ncclSuccess));
    memset(s->out, 0, 70000); /* it is this rank's again */
    return NULL;
}

/* The sender's communicator is aborted, so that its buffer may have changed. */
static int aborted_sender(weir_boot *boot, void *argument)
{
    sender s;
    if (!open_sender(boot, argument, &s))
        return 99;
    if (s.rank == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, send_until_abort, &s) != 0)
            return 98;
        usleep(50000);
        SENDS_OK(&s, ncclCommAbort(s.comm));
        pthread_join(thread, NULL);
        weir_boot_barrier(boot);
    } else {
        weir_boot_barrier(boot);
        ncclResult_t result = ncclRecv(s.in, 70000, ncclUint8, 0, s.comm, NULL);
        SENDS(&s, result == ncclRemoteError || !s.lends);
        SENDS_OK(&s, ncclCommAbort(s.comm));
    }
    weir_boot_barrier(boot); /* the sender's memory was there until now */
    return s.failures;
}

/* Rank 0 ends while it lends, before its receiver comes; or rank 1 ends instead of receiving. */
static int dying(weir_boot *boot, int dies)
{
    const job j = {2, UNREGISTERED, CMA_ALLOWED};
    sender s;
    if (!open_sender(boot, &j, &s))
        return 99;
    if (s.rank == dies && dies == 1)
        kill(getpid(), SIGKILL);
    if (s.rank == 0) {
        if (dies == 0 && fork() == 0) {
            usleep(100000);
            kill(getppid(), SIGKILL);
            _exit(0);
        }
        ncclResult_t result = ncclSend(s.out, 70000, ncclUint8, 1, s.comm, NULL);
        SENDS(&s, result == ncclRemoteError || !s.lends);
        while (dies == 0)
            pause();
    } else {
        usleep(300000);
        ncclResult_t result = ncclRecv(s.in, 70000, ncclUint8, 0, s.comm, NULL);
        SENDS(&s, result == ncclRemoteError || !s.lends);
        SENDS(&s, !s.lends || strstr(ncclGetLastError(NULL), "rank 0 has died"));
    }
    SENDS_OK(&s, ncclCommAbort(s.comm));
    return s.failures;
}

static int sender_dies(weir_boot *boot, void *unused)
{
    (void)unused;
    return dying(boot, 0);
}

static int receiver_dies(weir_boot *boot, void *unused)
{
    (void)unused;
    return dying(boot, 1);
}

TEST(lengths_of_lent_messages_are_compared)
{
    job j = {2, UNREGISTERED, CMA_ALLOWED};
    run_ranks(2, different_lengths, &j);
}

TEST(a_receiver_after_the_deadline_gets_nothing)
{
    job j = {2, UNREGISTERED, CMA_ALLOWED};
    run_ranks(2, too_late, &j);
}

TEST(a_receiver_gets_nothing_from_an_aborted_sender)
{
    job j = {2, UNREGISTERED, CMA_ALLOWED};
    run_ranks(2, aborted_sender, &j);
}

TEST(the_death_of_a_sender_is_reported)
{
    run_ranks_killed(2, 0, sender_dies, NULL);
}
TEST(the_death_of_a_receiver_is_reported)
{
    run_ranks_killed(2, 1, receiver_dies, NULL);
}

int main(void)
{
    setenv("WEIR_BACKEND", "host", 1); /* also where there are GPUs */
    return run_all_tests("nccl_sends");
}
